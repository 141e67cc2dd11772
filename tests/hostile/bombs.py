"""Small files that would take a great deal of memory or time if nobody counted: each is imported, or refused."""

from __future__ import annotations

import gzip
import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
from backports import zstd
from hostile.forged_exports import line_of

from limpet.engine.portable.form import Manifest

MB = 1 << 20
Files = dict[str, bytes | int]
"""By name; a number stands for so many zeros."""


def _pieces(data: bytes | int) -> Iterable[bytes]:
    if isinstance(data, bytes):
        return (data[at : at + MB] for at in range(0, len(data), MB))
    return (bytes(min(MB, data - at)) for at in range(0, data, MB))


def _size(data: bytes | int) -> int:
    return data if isinstance(data, int) else len(data)


def _sum_of(data: bytes | int) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(data):
        digest.update(piece)
    return digest.hexdigest()


def zipped(path: Path, files: Files, honest: bytes, **state: Any) -> Path:
    """An export whose manifest tells the truth about its files, and whatever of its state."""
    manifest = json.loads(honest)
    manifest["state"].update(state)
    manifest["version"] = 2
    manifest["files"] = {name: {"size": _size(data), "sha256": _sum_of(data)} for name, data in files.items()}
    return packed(path, files, signed(manifest))


def signed(manifest: dict[str, Any]) -> bytes:
    said = msgspec.json.decode(json.dumps({**manifest, "sha256": ""}), type=Manifest)
    return json.dumps({**manifest, "sha256": _sum_of(msgspec.json.encode(said))}).encode()


def packed(path: Path, files: Files, manifest: bytes | int) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in {**files, "limpet.json": manifest}.items():
            with file.open(name, "w") as member:
                for piece in _pieces(data):
                    member.write(piece)
    return path


def _journal_of(content: bytes) -> bytes:
    """A journal of one line, with a checksum that fits."""
    line, _ = line_of({"record": "@"}, "explicit", 0)
    rest = line[len(b'{"sum":"xxxxxxxx",') : -1].replace(b'"@"', content)
    return b'{"sum":"%08x",%b\n' % (zlib.crc32(rest, zlib.crc32(b"explicit")), rest)


def _many_names(path: Path, count: int) -> Path:
    """A zip whose list of files has nothing but entries that are as short as they can be."""
    entry = b"PK\1\2" + bytes(42)
    listed = entry * count
    end = b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, count & 0xFFFF, count & 0xFFFF, len(listed), 0, 0)
    path.write_bytes(listed + end)
    return path


def _snapshot(path: Path, **changes: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"state_id": "x", "status": "completed", "execution_state": {}, **changes}))
    return path


def _calls(count: int) -> list[dict[str, Any]]:
    return [
        {"address": "a::tool_call", "datetime": f"2024-05-01T10:00:00.{number:06}", "execution_status": "completed"}
        for number in range(count)
    ]


TOO_LARGE, REFUSED, TAKEN = "ImportTooLarge", "NotImported", "taken"


def bombs(folder: Path, tree: dict[str, bytes]) -> dict[str, tuple[str, Callable[[], Path]]]:
    """By name: what becomes of each, and what makes it. ``tree`` are the files of an honest export of 'explicit'."""
    honest = tree["limpet.json"]
    journal: Files = {"journal.jsonl": tree["journal.jsonl"]}
    zeros = "artifacts/" + _sum_of(100 * MB)
    path = folder / "bomb.zip"
    lists = b"[" + b"[]," * (4 * MB) + b"1]"
    return {
        "a journal of zeros": (TOO_LARGE, lambda: zipped(path, {"journal.jsonl": 130 * MB}, honest)),
        "a line of zeros": (TOO_LARGE, lambda: zipped(path, {"journal.jsonl": 100 * MB}, honest)),
        "a line that is nested deeply": (
            REFUSED,
            lambda: zipped(path, {"journal.jsonl": _journal_of(b"[" * 400_000 + b"]" * 400_000)}, honest),
        ),
        "a line of many lists": (TOO_LARGE, lambda: zipped(path, {"journal.jsonl": _journal_of(lists)}, honest)),
        "a line of digits": (
            REFUSED,
            lambda: zipped(path, {"journal.jsonl": _journal_of(b"9" * 20 * MB)}, honest),
        ),
        "a line of quotes": (
            REFUSED,
            lambda: zipped(path, {"journal.jsonl": _journal_of(b'"\\' * 10 * MB)}, honest),
        ),
        "many letters": (
            TOO_LARGE,
            lambda: zipped(path, {**journal, "letters.jsonl": b'{"name":"a","body":""}\n' * 1_000_000}, honest),
        ),
        "a manifest of spaces": (TOO_LARGE, lambda: packed(path, journal, b" " * 70 * MB)),
        "a manifest of zeros": (TOO_LARGE, lambda: packed(path, journal, 100 * MB)),
        "a manifest of many lists": (TOO_LARGE, lambda: packed(path, journal, b'{"state":%b}' % lists)),
        "a manifest that is nested deeply": (REFUSED, lambda: packed(path, journal, b"[" * 500_000)),
        "a manifest of digits": (REFUSED, lambda: packed(path, journal, b'{"version":%b}' % (b"9" * 20 * MB))),
        "metadata under a long key": (
            TAKEN,
            lambda: zipped(
                path,
                {**journal, "artifacts/" + _sum_of(tree[_artifact(tree)]): tree[_artifact(tree)]},
                honest,
                metadata={"custom_data": {"k" * MB: [0] * 200_000}},
            ),
        ),
        "metadata that is nested deeply": (
            REFUSED,
            lambda: packed(path, journal, _with_metadata(honest, b"[" * 500 + b"]" * 500)),
        ),
        "an artifact of more than it says": (
            REFUSED,
            lambda: packed(path, {**journal, zeros: 100 * MB}, _lying(honest, tree, zeros)),
        ),
        "a long list of files": (TOO_LARGE, lambda: _many_names(path, 500_000)),
        "a list of files of any length": (
            REFUSED,
            lambda: _written(path, b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, 0xFFFFFFF0, 0, 0)),
        ),
        "a long snapshot": (TOO_LARGE, lambda: _snapshot(folder / "long.json", description="x" * 40 * MB)),
        "a snapshot of many lists": (
            TOO_LARGE,
            lambda: _written(folder / "lists.json", b'{"state_id":"x","execution_state":{},"x":%b}' % lists),
        ),
        "a snapshot that is nested deeply": (
            REFUSED,
            lambda: _written(
                folder / "deep.json", b'{"state_id":"x","execution_state":{},"custom":%b}' % (b"[" * 500_000)
            ),
        ),
        "a snapshot of calls in one place": (
            TAKEN,
            lambda: _snapshot(folder / "calls.json", execution_state={"history": {"events": _calls(20_000)}}),
        ),
    }


def segments(folder: Path, honest: Path) -> dict[str, Callable[[], Path]]:
    """Folders of states with a segment that is small, and none that anybody wrote."""

    def segment(name: str, text: bytes) -> Callable[[], Path]:
        def made() -> Path:
            [found] = honest.glob("states/explicit/journal-*")
            found.unlink()
            (found.parent / name).write_bytes(text)
            return honest

        return made

    name = "journal-000000001.jsonl"
    return {
        "packed zeros": segment(f"{name}.zst", zstd.compress(bytes(200 * MB))),
        "packed line ends": segment(f"{name}.zst", zstd.compress(b"\n" * 200 * MB)),
        "packed zeros, by gzip": segment(f"{name}.gz", gzip.compress(bytes(60 * MB), 1)),
        "plain line ends": segment(name, b"\n" * 2 * MB),
        "a line of many lists": segment(f"{name}.zst", zstd.compress(_journal_of(b"[" + b"[]," * (5 * MB) + b"1]"))),
        "a number far ahead": segment("journal-900000000000000.jsonl", b"{}\n"),
    }


def _artifact(tree: dict[str, bytes]) -> str:
    return next(name for name in tree if name.startswith("artifacts/"))


def _with_metadata(honest: bytes, data: bytes) -> bytes:
    manifest = json.loads(honest)
    manifest["state"]["metadata"]["custom_data"] = {"x": "@"}
    return json.dumps(manifest).encode().replace(b'"@"', data)


def _lying(honest: bytes, tree: dict[str, bytes], name: str) -> bytes:
    manifest = json.loads(honest)
    journal = tree["journal.jsonl"]
    manifest["files"] = {
        "journal.jsonl": {"size": len(journal), "sha256": _sum_of(journal)},
        name: {"size": 10, "sha256": name.removeprefix("artifacts/")},
    }
    return signed(manifest)


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
