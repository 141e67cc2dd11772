"""Stores of an older version are brought to the newest one, with everything that stands in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import apsw
import pytest

from limpet.backends.contract import Append, Claim
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.connection import SCHEMA_VERSION
from limpet.backends.sqlite.driver import Connection, connect
from limpet.backends.sqlite.queries import MIGRATIONS
from limpet.errors import StoreDamaged
from limpet.model import Base, Holder, StateHeader, StateMetadata, StateStatus

SCHEMAS = {
    version: Path(__file__).with_name(f"schema_version_{version}.sql").read_text(encoding="utf-8")
    for version in (1, 2, 3, 4, 5)
}

CREATED = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)

OPENING = """
import sys
from limpet.backends.sqlite import SQLiteStateBackend
print("ready", flush=True)
sys.stdin.readline()
with SQLiteStateBackend(sys.argv[1]) as backend:
    print(backend.store_id, len(backend.read("kelp")), flush=True)
"""


@contextmanager
def _opened(path: Path) -> Generator[Connection]:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        yield connection
    finally:
        connection.close()


@pytest.fixture(params=SCHEMAS)
def version(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def old(tmp_path: Path, version: int) -> Path:
    """A store of an older version with two states, as that version left them."""
    path = tmp_path / "old.db"
    with _opened(path) as file:
        file.execute(SCHEMAS[version])
        file.pragma("journal_mode", "wal")
        for key, (state_id, status) in enumerate((("kelp", "running"), ("wrack", "completed")), 1):
            file.execute(
                "INSERT INTO states (key, fence, lease_until, status, created_at, updated_at, version, state_id, "
                "pipeline_name, agent, holder, metadata) VALUES (?, 3, 9e9, ?, ?, ?, 1, ?, 'p', 'm:a', NULL, ?)",
                (key, status, CREATED.timestamp(), CREATED.timestamp(), state_id, '{"tags":["x"],"pipeline_name":"p"}'),
            )
            file.execute("INSERT INTO tags VALUES ('x', ?, ?)", (CREATED.timestamp(), key))
            for seq in range(1, 101):
                file.execute("INSERT INTO records VALUES (?, ?, ?)", (key, seq, b"%d:%d" % (key, seq)))
        file.execute("DELETE FROM records WHERE state = 2 AND seq > 50")
    return path


def _schema(path: Path) -> set[tuple[str, ...]]:
    """What is in a file; where columns were added, SQLite does not write the text of the table as we do."""
    with _opened(path) as file:
        rows = file.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall()
    return {(*names, " ".join(re.sub(r"--.*|([(),])", r" \1 ", sql).split())) for *names, sql in rows}


def _version(path: Path) -> int:
    with _opened(path) as file:
        return file.pragma("user_version")


def test_everything_in_an_older_store_is_still_there(old: Path) -> None:
    with SQLiteStateBackend(old) as backend:
        expected = StateHeader(
            state_id="kelp",
            status=StateStatus.RUNNING,
            created_at=CREATED,
            updated_at=CREATED,
            metadata=StateMetadata(tags=["x"], pipeline_name="p"),
            agent="m:a",
            version=1,
            position=100,
        )
        assert expected == backend.find_state("kelp")
        assert {"kelp", "wrack"} == {header.state_id for header in backend.list_states(tags=["x"])}
        assert [(seq, b"1:%d" % seq) for seq in range(1, 101)] == backend.read("kelp")
        assert [(seq, b"2:%d" % seq) for seq in range(1, 51)] == backend.read("wrack")
    assert SCHEMA_VERSION == _version(old)


def test_an_older_store_can_be_written_with_the_next_fence(old: Path) -> None:
    with SQLiteStateBackend(old) as backend:
        header = StateHeader(state_id="kelp", status=StateStatus.RUNNING, created_at=CREATED, updated_at=CREATED)
        (grant,) = backend.acquire([Claim(header=header, holder=Holder("h", "", "", 1, "", ""), ttl_s=60.0)])
        assert grant is not None
        assert grant.lease is not None
        assert 4 == grant.lease.fence
        assert [None] == backend.append([Append(grant.lease, 101, (b"more",))])


def test_a_migrated_store_has_the_same_tables_as_a_new_one(old: Path, tmp_path: Path) -> None:
    SQLiteStateBackend(old).close()
    SQLiteStateBackend(tmp_path / "new.db").close()
    assert _schema(tmp_path / "new.db") == _schema(old)


def test_states_of_an_older_store_are_found_by_their_parent_also_beside_a_damaged_one(old: Path, version: int) -> None:
    with _opened(old) as file:
        for state_id, metadata in (("kelp", '{"parent_state_id":"wrack"}'), ("wrack", '{"parent_state_id":null}')):
            file.execute("UPDATE states SET metadata = ? WHERE state_id = ?", (metadata, state_id))
        columns = "fence, lease_until, status, created_at, updated_at, version, pipeline_name, state_id, metadata"
        for state_id, metadata in (("cut", '{"parent_state_id":"wrack'), ("number", '{"parent_state_id":7}')):
            row = f"3, 9e9, 'running', 0.0, 0.0, 1, '', '{state_id}', '{metadata}'"
            file.execute(f"INSERT INTO states ({columns}) VALUES ({row})")
        if version >= 3:
            file.execute("UPDATE states SET parent = 'wrack' WHERE state_id = 'kelp'")
    with SQLiteStateBackend(old) as backend:
        assert ["kelp"] == [header.state_id for header in backend.list_states(parent_state_id="wrack")]
        assert [] == backend.list_states(parent_state_id="7")
    with _opened(old) as file:
        assert [("wrack",), (None,), (None,), (None,)] == file.execute(
            "SELECT parent FROM states ORDER BY key"
        ).fetchall()


def test_states_of_an_older_store_can_be_forked(old: Path) -> None:
    with SQLiteStateBackend(old) as backend:
        header = StateHeader(state_id="fork", status=StateStatus.RUNNING, created_at=CREATED, updated_at=CREATED)
        holder = Holder("h", "", "", 1, "", "")
        claim = Claim(header=header, bodies=(b"own",), holder=holder, ttl_s=60.0, base=Base("wrack", 50))
        (grant,) = backend.acquire([claim])
        assert grant is not None
        assert [*backend.read("wrack"), (51, b"own")] == backend.read("fork")


def test_an_older_store_takes_notes(old: Path) -> None:
    with SQLiteStateBackend(old) as backend:
        assert backend.swap_note("cleanup", None, "first")
        assert "first" == backend.note("cleanup")


def test_a_migrated_store_keeps_its_artifacts_and_its_id(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    with _opened(path) as file:
        file.execute(SCHEMAS[2])
        store_id = file.execute("SELECT store_id FROM identity").get
        file.execute("INSERT INTO pins VALUES ('s', 'kelp', 1, x'00')")
    with SQLiteStateBackend(path) as backend:
        assert store_id == backend.store_id
        assert backend.own_artifacts is not None
        assert 1 == len(backend.own_artifacts.pins())


def test_a_migrated_store_has_an_id_that_stays_and_differs_from_others(old: Path, tmp_path: Path) -> None:
    with SQLiteStateBackend(old) as first, SQLiteStateBackend(tmp_path / "new.db") as other:
        store_id = first.store_id
        assert re.fullmatch("[0-9a-f]{32}", store_id)
        assert store_id != other.store_id
    with SQLiteStateBackend(old) as again:
        assert store_id == again.store_id


def test_a_migration_that_fails_half_way_leaves_the_store_as_it_was(
    old: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _schema(old)
    with monkeypatch.context() as patched:
        last = MIGRATIONS[SCHEMA_VERSION]
        broken = last.replace("PRAGMA user_version", "SELECT * FROM nowhere; PRAGMA user_version")
        patched.setitem(MIGRATIONS, SCHEMA_VERSION, broken)
        with pytest.raises(StoreDamaged, match="no such table: nowhere"):
            SQLiteStateBackend(old)
    assert (before, version) == (_schema(old), _version(old))
    with SQLiteStateBackend(old) as backend:
        assert 100 == len(backend.read("kelp"))


def test_processes_that_open_an_older_store_at_the_same_time_find_it_migrated_once(old: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", OPENING, str(old)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(4)
    ]
    try:
        for worker in workers:
            assert worker.stdout is not None
            assert "ready\n" == worker.stdout.readline()
        said = [worker.communicate("go\n", timeout=60)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    with SQLiteStateBackend(old) as backend:
        assert {f"{backend.store_id} 100\n"} == set(said)


def test_there_is_a_step_to_every_version_after_the_first() -> None:
    assert list(range(2, SCHEMA_VERSION + 1)) == list(MIGRATIONS)
