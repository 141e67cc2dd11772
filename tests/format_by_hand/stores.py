"""Whole stores by hand: reads the SQLite file and the folder, and writes a folder with one state in it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from format_by_hand.frames import Base, make_frame
from format_by_hand.lines import Line, body_of, chain_of, frame_of, read_line, write_line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COLUMNS = (
    "state_id, status, created_at, updated_at, metadata, agent, version, timeline, bases, pipeline_name, parent, "
    "end_seq, end_link"
)
NO_METADATA = {
    "tags": [],
    "description": "",
    "pipeline_name": "",
    "parent_state_id": None,
    "custom_data": {},
    "environment": {},
    "settings": {},
    "stopped": {},
    "replayed": {},
    "waiting": {},
    "origin": {},
}


class State(NamedTuple):
    """A state as it is stored."""

    state_id: str
    status: str
    created_at: datetime
    updated_at: datetime
    metadata: dict[str, Any]
    agent: str | None
    version: int
    timeline: int
    bases: list[Base]
    end: tuple[int, int] | None
    frames: list[bytes]


def read_sqlite(path: Path) -> dict[str, State]:
    """Every state in an SQLite file, by its id. Fails where a checksum does not fit."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    assert (0x484F4C44, 6) == (connection.pragma("application_id"), connection.pragma("user_version"))
    states: dict[str, State] = {}
    for row in connection.execute(f"SELECT {COLUMNS}, checksum, key FROM states").fetchall():
        *columns, checksum, key = row
        text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
        assert checksum == zlib.crc32(text.encode())
        named: dict[str, Any] = dict(zip(COLUMNS.split(", "), columns, strict=True))
        bases = [Base(**each) for each in json.loads(named["bases"] or "[]")]
        metadata = json.loads(named["metadata"])
        assert (metadata["pipeline_name"], metadata["parent_state_id"]) == (named["pipeline_name"], named["parent"])
        states[named["state_id"]] = State(
            named["state_id"],
            named["status"],
            datetime.fromtimestamp(named["created_at"], UTC),
            datetime.fromtimestamp(named["updated_at"], UTC),
            NO_METADATA | metadata,
            named["agent"],
            named["version"],
            named["timeline"],
            bases,
            None if named["end_seq"] is None else (named["end_seq"], named["end_link"]),
            _rows_of(connection, key),
        )
    connection.close()
    return states


def _rows_of(connection: apsw.Connection, key: Any) -> list[bytes]:
    query = "SELECT first, last, source FROM spans WHERE state = ? ORDER BY first"
    spans: list[Any] = connection.execute(query, (key,)).fetchall() or [(1, 2**63 - 1, key)]
    found: list[Any] = []
    for first, last, source in spans:
        query = "SELECT seq, body FROM records WHERE state = ? AND seq BETWEEN ? AND ? ORDER BY seq"
        found += connection.execute(query, (source, first, last)).fetchall()
    assert list(range(1, len(found) + 1)) == [seq for seq, _ in found]
    return [body for _, body in found]


class Letter(NamedTuple):
    """What lies in an inbox."""

    number: int
    state_id: str
    name: str
    body: bytes
    at: float


def read_sqlite_letters(path: Path) -> list[Letter]:
    """Every letter in an SQLite file."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    columns = "number, state_id, name, body, at"
    query = f"SELECT {columns} FROM letters JOIN states ON states.key = letters.state ORDER BY number"
    rows: list[Any] = connection.execute(query).fetchall()
    connection.close()
    return [Letter(*row) for row in rows]


def read_folder_letters(folder: Path) -> list[Letter]:
    """Every letter in a folder. Fails where its names do not fit what it says."""
    letters: list[Letter] = []
    for notice in folder.glob("letters/*/*"):
        number, digest, state_id = notice.name.split(".", 2)
        assert (str(int(number) // 1000), b"") == (notice.parent.name, notice.read_bytes())
        file = folder / "states" / state_id / "letters" / f"{number}.{digest}.json"
        if file.exists():
            said = read_line(file.read_bytes(), state_id).content
            assert digest == hashlib.sha256(said["name"].encode()).hexdigest()[:32]
            body = base64.b64decode(said["body"], validate=True)
            letters.append(Letter(said["number"], state_id, said["name"], body, said["at"]))
    assert (folder / "letters" / "count").stat().st_size >= max(letter.number for letter in letters)
    return sorted(letters)


def read_sqlite_notes(path: Path) -> dict[str, str]:
    """Every note in an SQLite file, by its name."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    rows: list[Any] = connection.execute("SELECT name, body FROM notes").fetchall()
    connection.close()
    return dict(rows)


def read_folder_notes(folder: Path) -> dict[str, str]:
    """Every note in a folder, by its name. Fails where a name does not fit its file."""
    notes: dict[str, str] = {}
    for file in folder.glob("notes/*.json"):
        said = read_line(file.read_bytes(), "store").content
        assert file.stem == hashlib.sha256(said["name"].encode()).hexdigest()[:32]
        notes[said["name"]] = said["body"]
    return notes


class Journal(NamedTuple):
    """What the lines of a state's folder say."""

    header: dict[str, Any]
    own: dict[int, bytes]
    """The frames of its own records, by their numbers."""


def read_folder(folder: Path) -> dict[str, State]:
    """Every state in a folder, by its id. Fails where a sum or a checksum does not fit."""
    assert "limpet states 1\n" == (folder / "format").read_text()
    store = read_line((folder / "store.json").read_bytes(), "store").content
    assert 32 == len(store["store_id"])
    return {path.name: _state_in(folder, path) for path in (folder / "states").iterdir()}


def read_journal_of(path: Path, state_id: str, *, is_deleted: bool = False) -> Journal:
    """The lines of all segments of one state. What is left of a deleted one may end inside a commit."""
    header: dict[str, Any] = {}
    own: dict[int, bytes] = {}
    after = 0
    for text in _segments(path):
        lines = [read_line(raw, state_id) for raw in text.splitlines(keepends=True)]
        assert "header" in lines[0].content
        for line in lines if is_deleted else _committed(lines):
            assert after == line.after
            after = line.sum
            if "seq" in line.content:
                own[line.content["seq"]] = frame_of(line.content, state_id)
            else:
                header = _changed(header, line.content)
    return Journal(header, own)


def _segments(path: Path) -> list[bytes]:
    texts: dict[str, bytes] = {}
    for file in sorted(path.glob("journal-*.jsonl*"), reverse=True):
        unpack = {".zst": zstd.decompress, ".gz": gzip.decompress}.get(file.suffix, bytes)
        # A plain one comes last here, and counts.
        texts[file.name.partition(".")[0]] = unpack(file.read_bytes())
    return [texts[name] for name in sorted(texts)]


def _committed(lines: list[Line]) -> list[Line]:
    while lines and lines[-1].left:
        lines = lines[:-1]
    return lines


def _changed(header: dict[str, Any], content: dict[str, Any]) -> dict[str, Any]:
    [(kind, said)] = content.items()
    if kind == "header":
        return said
    if kind == "lease":
        return header | said
    update = dict(said)
    at, releases = update.pop("at"), update.pop("releases", False)
    changed = header | update
    if "status" in update or "metadata" in update:
        changed["updated_at"] = at
    if releases:
        changed.pop("holder", None)
    return changed


def _state_in(folder: Path, path: Path) -> State:
    journal = read_journal_of(path, path.name)
    header = journal.header
    frames: list[bytes] = []
    for base in header.get("bases", ()):
        shared = _owner_of(folder, base)
        frames += [shared.own[seq] for seq in range(len(frames) + 1, base["last"] + 1)]
    frames += [journal.own[seq] for seq in sorted(journal.own)]
    end = header.get("end")
    return State(
        header["state_id"],
        header["status"],
        datetime.fromisoformat(header["created_at"]),
        datetime.fromisoformat(header["updated_at"]),
        NO_METADATA | header.get("metadata", {}),
        header.get("agent"),
        header["version"],
        header.get("timeline", 0),
        [Base(base["state_id"], base["last"]) for base in header.get("bases", ())],
        None if end is None else (end["position"], end["link"]),
        frames,
    )


def _owner_of(folder: Path, base: dict[str, Any]) -> Journal:
    path = folder / "states" / base["state_id"]
    if path.exists():
        journal = read_journal_of(path, base["state_id"])
        if journal.header["key"] == base["key"]:
            return journal
    return read_journal_of(folder / "deleted" / str(base["key"]), base["state_id"], is_deleted=True)


def write_folder(folder: Path, header: dict[str, Any], records: list[dict[str, Any]]) -> None:
    """A store with one state that nobody holds. The records are given as lines have them, without their frames."""
    state_id = header["state_id"]
    path = folder / "states" / state_id
    path.mkdir(parents=True)
    (folder / "format").write_text("limpet states 1\n")
    store, _ = write_line({"store_id": "0123456789abcdef" * 2, "keys_below": header["key"] + 1}, "store")
    (folder / "store.json").write_bytes(store)
    text, after = write_line({"header": header}, state_id)
    chain = zlib.crc32(state_id.encode())
    for seq, record in enumerate(records, 1):
        frame, chain = make_frame(body_of(record), state_id, chain)
        content = {"seq": seq, "record": record, "chain": f"{chain_of(frame):08x}", "version": 3}
        line, after = write_line(content, state_id, after, left=len(records) - seq)
        text += line
    (path / "journal-000000001.jsonl").write_bytes(text)
