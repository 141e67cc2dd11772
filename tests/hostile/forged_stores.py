"""Stores that somebody has forged, to be copied from: an SQLite file, a folder, and snapshots of the seeds."""

from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from backports import zstd
from hostile.forged_exports import Kept, changed_records, framed, line_of
from hostile.forged_parts import Chance, json_text

from limpet.backends.sqlite.rows import Columns

_IN_CHECKSUM = ", ".join(Columns.__struct_fields__)
_HEAD = 9
_ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT "
ATTACKS = (
    f"ALTER TABLE records RENAME TO r; CREATE VIEW records AS {_ENDLESS} 1 AS state, i AS seq, x'00' AS body FROM n",
    f"ALTER TABLE states RENAME TO s; CREATE VIEW states AS SELECT * FROM s WHERE ({_ENDLESS} count(*) FROM n) > 0",
    "ALTER TABLE notes RENAME TO n; CREATE VIEW notes AS SELECT 'x' AS name, zeroblob(900000000) AS body",
    f"CREATE TRIGGER t AFTER UPDATE ON states BEGIN INSERT INTO notes {_ENDLESS} i, i FROM n; END",
    "DROP VIEW headers; CREATE VIEW headers AS SELECT hex(zeroblob(400000000)) AS key, * FROM states",
    "DROP TABLE records; CREATE TABLE records (state, seq, body AS (zeroblob(900000000)))",
    "DROP TABLE spans; CREATE VIRTUAL TABLE spans USING fts5(state, first, last, source)",
    "DROP TABLE records; CREATE TABLE records (state ANY, seq ANY, body ANY); INSERT INTO records VALUES (1, 'x', 1)",
    "DROP TABLE letters",
    "DROP INDEX states_by_age",
    "CREATE INDEX more ON states (hex(metadata))",
    "DELETE FROM identity",
    "INSERT INTO identity SELECT '../../outside/x', 1.0 FROM identity",
    "UPDATE records SET seq = seq + 1000000000000000",
    "UPDATE spans SET last = 9000000000000000000",
    "UPDATE states SET timeline = 9000000000000000000, checksum = NULL",
    "UPDATE states SET end_seq = 9000000000000000000, end_link = 1, checksum = NULL",
    "UPDATE states SET created_at = 1e300, updated_at = -1e300, checksum = NULL",
    "UPDATE states SET state_id = state_id || char(10) || char(27) || '[31m', checksum = NULL",
    "PRAGMA user_version = 1",
    "PRAGMA user_version = 4",
    "PRAGMA user_version = 99",
    "PRAGMA encoding = 'UTF-16le'",
)


def forged_sqlite(chance: Chance, honest: bytes, folder: Path) -> Path:
    """A forged SQLite store."""
    path = folder / "source.db"
    path.write_bytes(chance.bytes(honest) if chance.is_so(0.15) else honest)
    try:
        connection = apsw.Connection(str(path))
        try:
            _forge(chance, connection)
        finally:
            connection.close()
    except (apsw.Error, OverflowError, UnicodeEncodeError, UnicodeDecodeError):
        pass  # What cannot be changed so stays as it was.
    return path


def _forge(chance: Chance, connection: Any) -> None:
    match chance.random.randrange(6):
        case 0:
            connection.execute(chance.random.choice(ATTACKS))
        case 1 | 2:
            _change_records(chance, connection)
        case _:
            for _ in range(chance.random.randint(1, 3)):
                _change_cell(chance, connection)


def _change_cell(chance: Chance, connection: Any) -> None:
    tables = ("states", "states", "tags", "records", "spans", "letters", "notes", "identity", "artifacts", "pins")
    table = chance.random.choice((*tables, "artifact_bodies", "stores"))
    rows = connection.execute(f"SELECT * FROM {table}").fetchall()
    if not rows:
        return
    columns = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
    row, at = chance.random.choice(rows), chance.random.randrange(len(columns))
    value = _other(chance, row[at])
    same = " AND ".join(f"{name} IS ?" for name in columns)
    connection.execute(f"UPDATE {table} SET {columns[at]} = ? WHERE {same}", (value, *row))
    if table == "states" and chance.is_so(0.8):
        _sum_up_headers(connection)


def _other(chance: Chance, value: Any) -> Any:
    match value:
        case str() if value[:1] in ("{", "["):
            try:
                return json_text(chance.changed(msgspec.json.decode(value))).decode("utf-8", "replace")
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return chance.word()
        case str():
            return chance.word()
        case bytes():
            return chance.bytes(value or b"x")
        case float():
            return float(chance.one_of(-1, 0, 1e18, 1e300, float("inf"), value + 1))
        case _:
            return chance.one_of(chance.number(), chance.number(), None, 1)


def _sum_up_headers(connection: Any) -> None:
    for key, *columns in connection.execute(f"SELECT key, {_IN_CHECKSUM} FROM states").fetchall():
        connection.execute("UPDATE states SET checksum = ? WHERE key = ?", (Columns(*columns).checksum, key))


def _change_records(chance: Chance, connection: Any) -> None:
    ids = connection.execute("SELECT key, state_id FROM states WHERE bases IS NULL").fetchall()
    key, state_id = chance.random.choice(ids)
    bodies = connection.execute("SELECT body FROM records WHERE state = ? ORDER BY seq", (key,)).fetchall()
    kept: list[Kept] = [(state_id, body[4:5] + body[_HEAD:]) for (body,) in bodies]
    frames, link = framed(changed_records(chance, kept))
    connection.execute("DELETE FROM records WHERE state = ?", (key,))
    rows = [(key, seq, frame) for seq, (_, frame) in enumerate(frames, 1)]
    connection.executemany("INSERT INTO records (state, seq, body) VALUES (?, ?, ?)", rows)
    connection.execute("UPDATE states SET end_seq = ?, end_link = ? WHERE key = ?", (len(rows), link, key))
    _sum_up_headers(connection)


def forged_folder(chance: Chance, honest: Path, folder: Path) -> Path:
    """A forged folder of states."""
    path = folder / "source"
    shutil.copytree(honest, path, symlinks=True)
    files = sorted(found for found in path.rglob("*") if found.is_file() and found.suffix != ".db")
    for _ in range(chance.random.randint(1, 2)):
        _change_file(chance, path, chance.random.choice(files))
    return path


def _change_file(chance: Chance, root: Path, file: Path) -> None:
    if not file.is_file() or file.is_symlink():
        return
    data = file.read_bytes()
    match chance.random.randrange(9):
        case 0:
            file.write_bytes(chance.bytes(data or b"x"))
        case 1:
            file.unlink()
            file.symlink_to(chance.one_of("/dev/zero", "../../outside/canary.py", file.name, root))
        case 2:
            named = file.with_name(chance.one_of("journal-900000000000.jsonl", "journal-000000002.jsonl", "x", "lock"))
            if not named.is_dir():
                file.rename(named)
        case 3 if file.suffix == ".jsonl":
            _pack(chance, file, data)
        case 4:
            file.unlink()
            chance.one_of(os.mkfifo, os.mkdir)(file)
        case 5:
            other = chance.random.choice(sorted(root.rglob("*.json*")))
            file.write_bytes(other.read_bytes() if other.is_file() else b"")
        case _:
            if file.suffix in (".json", ".jsonl"):
                file.write_bytes(_changed_lines(chance, data, _owner_of(root, file)))


def _owner_of(root: Path, file: Path) -> str:
    parts = file.relative_to(root).parts
    return parts[1] if parts[0] == "states" and len(parts) > 2 else "store"


def _changed_lines(chance: Chance, data: bytes, owner: str) -> bytes:
    """Lines of which one is changed, with checksums that fit again."""
    contents: list[dict[str, Any]] = []
    try:
        for line in data.splitlines():
            said = msgspec.json.decode(line)
            contents.append({key: part for key, part in said.items() if key not in ("sum", "after")})
    except (msgspec.MsgspecError, ValueError, AttributeError, RecursionError):
        return chance.bytes(data or b"x")
    if not contents:
        return data
    at = chance.random.randrange(len(contents))
    changed = chance.changed(contents[at])
    contents[at] = changed if isinstance(changed, dict) else {"seq": changed}
    lines: list[bytes] = []
    after = 0
    for content in contents:
        line, after = line_of(content, owner, after)
        lines.append(line)
    return b"".join(lines)


def _pack(chance: Chance, file: Path, data: bytes) -> None:
    data = chance.one_of(data, data + bytes(20_000_000), _changed_lines(chance, data, file.parent.name))
    packed, suffix = chance.one_of((zstd.compress(data), ".zst"), (gzip.compress(data, 1), ".gz"))
    file.unlink()
    file.with_name(file.name + suffix).write_bytes(chance.bytes(packed) if chance.is_so(0.3) else packed)


def forged_snapshots(chance: Chance, honest: Sequence[dict[str, Any]], folder: Path) -> Path:
    """A forged `.state_store`, or one of its files."""
    path = folder / ".state_store" / "states"
    path.mkdir(parents=True)
    name = "x.json"
    for number, snapshot in enumerate(honest):
        name = f"{number}.json"
        for _ in range(chance.random.randint(0, 2)):
            snapshot = chance.changed(snapshot)
        text = json_text(snapshot)
        (path / name).write_bytes(chance.bytes(text) if chance.is_so(0.1) else text)
    return path / name if chance.is_so(0.3) else path.parent
