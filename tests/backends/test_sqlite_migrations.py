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

from holdfast.backends.contract import Append, Claim
from holdfast.backends.sqlite import SQLiteStateBackend
from holdfast.backends.sqlite.connection import SCHEMA_VERSION
from holdfast.backends.sqlite.driver import Connection, connect
from holdfast.backends.sqlite.queries import MIGRATIONS
from holdfast.errors import BackendUnavailable
from holdfast.model import Holder, StateHeader, StateMetadata, StateStatus

VERSION_1 = Path(__file__).with_name("schema_version_1.sql").read_text(encoding="utf-8")

CREATED = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)

OPENING = """
import sys
from holdfast.backends.sqlite import SQLiteStateBackend
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


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of version 1 with two states, as that version left them."""
    path = tmp_path / "old.db"
    with _opened(path) as file:
        file.execute(VERSION_1)
        file.pragma("journal_mode", "wal")
        for key, (state_id, status) in enumerate((("kelp", "running"), ("wrack", "completed")), 1):
            file.execute(
                "INSERT INTO states VALUES (?, 3, 9e9, ?, ?, ?, 1, ?, 'p', 'm:a', NULL, ?)",
                (key, status, CREATED.timestamp(), CREATED.timestamp(), state_id, '{"tags":["x"],"pipeline_name":"p"}'),
            )
            file.execute("INSERT INTO tags VALUES ('x', ?, ?)", (CREATED.timestamp(), key))
            for seq in range(1, 101):
                file.execute("INSERT INTO records VALUES (?, ?, ?)", (key, seq, b"%d:%d" % (key, seq)))
        file.execute("DELETE FROM records WHERE state = 2 AND seq > 50")
    return path


def _schema(path: Path) -> set[tuple[str, ...]]:
    with _opened(path) as file:
        return set(file.execute("SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema").fetchall())


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
    assert 2 == _version(old)


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


def test_a_migrated_store_has_an_id_that_stays_and_differs_from_others(old: Path, tmp_path: Path) -> None:
    with SQLiteStateBackend(old) as first, SQLiteStateBackend(tmp_path / "new.db") as other:
        store_id = first.store_id
        assert re.fullmatch("[0-9a-f]{32}", store_id)
        assert store_id != other.store_id
    with SQLiteStateBackend(old) as again:
        assert store_id == again.store_id


def test_a_migration_that_fails_half_way_leaves_the_store_as_it_was(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _schema(old)
    with monkeypatch.context() as patched:
        broken = MIGRATIONS[2].replace("PRAGMA user_version", "SELECT * FROM nowhere; PRAGMA user_version")
        patched.setitem(MIGRATIONS, 2, broken)
        with pytest.raises(BackendUnavailable, match="no such table: nowhere"):
            SQLiteStateBackend(old)
    assert (before, 1) == (_schema(old), _version(old))
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
