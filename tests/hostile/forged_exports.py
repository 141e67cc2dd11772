"""Exports that somebody has forged who knows the format: what was changed has checksums that fit, mostly."""

from __future__ import annotations

import hashlib
import io
import stat
import struct
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import Any

import msgspec
from hostile.forged_parts import Chance, json_text
from hostile.fuzzing import pack, parse

from limpet.codec.frames import first_link, forked_link
from limpet.engine.portable.form import Manifest
from limpet.errors import LimpetError
from limpet.lines import content_of, frame_of, from_line

Tree = dict[str, bytes]
Kept = tuple[str, bytes]
"""Who wrote a record, and its frame without checksums: the version and the body."""

_HEAD = 9


def kept_in(journal: bytes, state_id: str) -> list[Kept]:
    """The records of an exported journal."""
    found: list[Kept] = []
    for line in journal.splitlines(keepends=True):
        owner = msgspec.json.decode(line).get("owner", state_id)
        content = {key: part for key, part in from_line(line, owner).content.items() if key != "owner"}
        frame = frame_of(content, owner)
        found.append((owner, frame[4:5] + frame[_HEAD:]))
    return found


def framed(records: list[Kept]) -> tuple[list[tuple[str, bytes]], int]:
    """The frames of records, with checksums that fit, each with its owner, and the chain of the last one."""
    link = first_link(records[0][0]) if records else 0
    before = records[0][0] if records else ""
    frames: list[tuple[str, bytes]] = []
    for owner, kept in records:
        if owner != before:
            link = forked_link(owner, link)
            before = owner
        own = zlib.crc32(kept, first_link(owner)).to_bytes(4, "big")
        link = zlib.crc32(own, link)
        frames.append((owner, link.to_bytes(4, "big") + kept[:1] + own + kept[1:]))
    return frames, link


def changed_records(chance: Chance, records: list[Kept]) -> list[Kept]:
    """Records of which some are changed, spliced or moved."""
    records = list(records)
    if not records:
        return records
    at = chance.random.randrange(len(records))
    owner, kept = records[at]
    match chance.random.randrange(8):
        case 0:
            del records[at]
        case 1:
            records.insert(at, records[chance.random.randrange(len(records))])
        case 2:
            records[at] = (owner, chance.bytes(kept))
        case 3:
            records[at] = (owner, bytes([chance.random.randrange(8)]) + kept[1:])
        case 4:
            records[at] = (owner, kept[:1] + chance.fuzzer.next())
        case _:
            records[at] = (owner, kept[:1] + changed_body(chance, kept[1:]))
    return records


def changed_body(chance: Chance, body: bytes) -> bytes:
    """The body of a record with a part of it changed; where that is a value, a part of that."""
    try:
        fields = parse(body)
        for _ in range(chance.random.randint(1, 3)):
            at = chance.random.randrange(len(fields))
            field = fields[at]
            if isinstance(field, bytes) and field and chance.is_so(0.5):
                fields[at] = chance.one_of(chance.bytes(field), chance.fuzzer.next())
            elif chance.is_so(0.5):
                fields[at] = chance.word()
            else:
                fields[at] = chance.fuzzer.changed(field)
        return pack(fields)
    except (ValueError, TypeError):
        return chance.bytes(body)


def line_of(content: dict[str, Any], owner: str, after: int) -> tuple[bytes, int]:
    """A line with a checksum that fits, whatever is on it."""
    rest = json_text({"after": f"{after:08x}", **content})[1:]
    checksum = zlib.crc32(rest, zlib.crc32(owner.encode("utf-8", "replace")))
    return b'{"sum":"%08x",%b\n' % (checksum, rest), checksum


def forged_tree(chance: Chance, honest: Tree) -> Tree:
    """The files of an export, changed and with checksums that fit again."""
    tree = dict(honest)
    manifest: dict[str, Any] = msgspec.json.decode(tree["limpet.json"])
    state_id = manifest["state"]["state_id"]
    records = kept_in(tree["journal.jsonl"], state_id)
    which = chance.random.randrange(6)
    if which in (0, 1):
        records = changed_records(chance, records)
        manifest["records"] = len(records)
    frames, link = framed(records)
    manifest["end"] = f"{link:08x}"
    tree["journal.jsonl"] = _journal(chance, frames, state_id, changes_lines=which == 2)
    if which == 3:
        name = chance.random.choice(sorted(set(tree) - {"limpet.json"}))
        tree[name] = chance.one_of(chance.bytes(tree[name] or b"x"), tree[name] * 3, b"", tree["journal.jsonl"])
    if which == 4 or chance.is_so(0.1):
        tree["letters.jsonl"] = _letters(chance)
    if which == 5 or chance.is_so(0.2):
        manifest["state"] = chance.changed(manifest["state"])
    _sum_up(chance, tree, manifest)
    return tree


def _journal(chance: Chance, frames: list[tuple[str, bytes]], state_id: str, *, changes_lines: bool) -> bytes:
    lines: list[bytes] = []
    after = 0
    at = chance.random.randrange(len(frames)) if changes_lines and frames else -1
    for number, (owner, frame) in enumerate(frames):
        content: dict[str, Any] = {**({} if owner == state_id else {"owner": owner}), **content_of(frame, owner)}
        if number == at:
            content = chance.changed(content)
            content = content if isinstance(content, dict) else {"record": content}
        line, after = line_of(content, owner, after)
        lines.append(line)
    return b"".join(lines)


def _letters(chance: Chance) -> bytes:
    letters = [chance.changed({"name": f"answer {number}", "body": "a2VscA=="}) for number in range(3)]
    return b"".join(json_text(letter) + b"\n" for letter in letters)


def _sum_up(chance: Chance, tree: Tree, manifest: dict[str, Any]) -> None:
    manifest["version"] = 2
    files = {name: {"size": len(data), "sha256": _sha256(data)} for name, data in tree.items() if name != "limpet.json"}
    if chance.is_so(0.1):
        files = chance.changed(files)
    manifest["files"] = files
    if chance.is_so(0.1):
        manifest = chance.changed(manifest)
    text = json_text(manifest)
    try:
        said = msgspec.json.decode(text, type=Manifest)
    except (ValueError, RecursionError, msgspec.MsgspecError, LimpetError):
        tree["limpet.json"] = text
        return
    kept = msgspec.json.encode(msgspec.structs.replace(said, sha256=""))
    tree["limpet.json"] = json_text({**manifest, "sha256": _sha256(kept)})


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def write_export(chance: Chance, tree: Tree, folder: Path) -> Path:
    """Write the files of an export in one of its forms, which may be forged as well."""
    if chance.is_so(0.3):
        return _written_folder(chance, tree, folder / "export")
    path = folder / "export.zip"
    data = zipped(chance, tree)
    match chance.random.randrange(6):
        case 0:
            data = chance.bytes(data)
        case 1:
            data = _with_other_numbers(chance, data)
        case _:
            pass
    path.write_bytes(data)
    return path


def zipped(chance: Chance, tree: Tree) -> bytes:
    """A zip of files, of which some may have other names, be there twice, or be links."""
    members = list(tree.items())
    if chance.is_so(0.25):
        at = chance.random.randrange(len(members))
        name, data = members[at]
        members[at : at + chance.random.randint(0, 1)] = [(chance.one_of(chance.word(), name.upper(), name), data)]
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        warnings.simplefilter("ignore")
        for name, data in members:
            info = zipfile.ZipInfo("x")
            info.filename = info.orig_filename = name.encode("utf-8", "replace").decode()[:60_000]
            info.compress_type = zipfile.ZIP_DEFLATED if chance.is_so(0.9) else zipfile.ZIP_STORED
            if chance.is_so(0.05):
                info.external_attr = (chance.one_of(stat.S_IFLNK, stat.S_IFIFO, stat.S_IFDIR) | 0o777) << 16
            file.writestr(info, data)
    return buffer.getvalue()


def _with_other_numbers(chance: Chance, data: bytes) -> bytes:
    """A zip in which a number of its headers says something else."""
    heads = [at for mark in (b"PK\1\2", b"PK\3\4", b"PK\5\6") for at in _places(data, mark)]
    at = chance.random.choice(heads) + chance.random.randrange(4, 40)
    number = struct.pack("<I", chance.number() & 0xFFFFFFFF)[: chance.one_of(1, 2, 4)]
    return data[:at] + number + data[at + len(number) :]


def _places(data: bytes, mark: bytes) -> list[int]:
    found = [data.find(mark)]
    while found[-1] >= 0:
        found.append(data.find(mark, found[-1] + 1))
    return found[:-1]


def _written_folder(chance: Chance, tree: Tree, folder: Path) -> Path:
    (folder / "artifacts").mkdir(parents=True)
    for name, data in tree.items():
        (folder / name).write_bytes(chance.bytes(data or b"x") if chance.is_so(0.03) else data)
    if chance.is_so(0.1):
        name = chance.random.choice(sorted(tree))
        (folder / name).unlink()
        if chance.is_so(0.5):
            (folder / name).symlink_to(chance.one_of("/dev/zero", "../../outside/canary.py", name))
    return folder
