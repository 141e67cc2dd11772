"""The SQLite store in use: no room, locks, damage, closing, the plans of its queries."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import apsw
import msgspec
import pytest
from backends.bounds import files_limited_to

from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.driver import Connection, connect
from limpet.backends.sqlite.faults import translated, translated_os
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import (
    BackendError,
    BackendUnavailable,
    NotAStore,
    StoreDamaged,
    StoreFull,
    StoreNotWritable,
    UsageError,
)
from limpet.model import Holder, Lease, StateHeader, StateMetadata, StateStatus

BODY = b"x" * 250


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


@pytest.fixture
def backend(path: Path) -> Iterator[SQLiteStateBackend]:
    with SQLiteStateBackend(path, busy_timeout_s=0.01) as backend:
        yield backend


def _claim(state_id: str = "kelp") -> Claim:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    metadata = StateMetadata(tags=["x"], pipeline_name="p")
    header = StateHeader(
        state_id=state_id, status=StateStatus.RUNNING, created_at=now, updated_at=now, metadata=metadata
    )
    return Claim(header=header, holder=Holder("here", "", "", 1, "", ""), ttl_s=600.0)


def _lease(backend: SQLiteStateBackend, state_id: str = "kelp") -> Lease:
    (grant,) = backend.acquire([_claim(state_id)])
    assert grant is not None
    assert grant.lease is not None
    return grant.lease


def _other(path: Path, *statements: str) -> Connection:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    for statement in statements:
        connection.execute(statement)
    return connection


def test_a_single_append_without_room_writes_nothing_and_can_be_repeated(backend: SQLiteStateBackend) -> None:
    lease = _lease(backend)
    append = Append(lease, 1, (BODY * 1000,))
    with files_limited_to(200_000), pytest.raises(StoreFull, match="File too large"):
        backend.append([append])
    assert [] == backend.read("kelp")
    assert [None] == backend.append([append])
    assert [(1, BODY * 1000)] == backend.read("kelp")


def test_appends_of_many_states_without_room_write_nothing_and_can_be_repeated(backend: SQLiteStateBackend) -> None:
    update = StateUpdate(at=0.0, status=StateStatus.PAUSED)
    appends = [Append(_lease(backend, f"kelp-{number}"), 1, [BODY] * 100, update) for number in range(20)]
    with files_limited_to(200_000), pytest.raises(StoreFull):
        backend.append(appends)
    assert {(StateStatus.RUNNING, 0)} == {(header.status, header.position) for header in backend.list_states()}
    assert [None] * 20 == backend.append(appends)
    assert {(StateStatus.PAUSED, 100)} == {(header.status, header.position) for header in backend.list_states()}


def test_what_was_acknowledged_before_the_room_ran_out_is_there(backend: SQLiteStateBackend) -> None:
    lease = _lease(backend)
    acknowledged: list[int] = []

    def fill_up() -> None:
        for seq in range(1, 1000):
            backend.append([Append(lease, seq, (BODY * 10,))])
            acknowledged.append(seq)

    with files_limited_to(300_000), pytest.raises(StoreFull):
        fill_up()
    assert acknowledged == [seq for seq, _ in backend.read("kelp")]
    assert [None] == backend.append([Append(lease, len(acknowledged) + 1, (BODY,))])


def test_states_are_not_half_made_without_room(backend: SQLiteStateBackend) -> None:
    claims = [_claim(f"kelp-{number}") for number in range(500)]
    with files_limited_to(120_000), pytest.raises(StoreFull):
        backend.acquire(claims)
    assert [] == backend.list_states()
    grants = backend.acquire(claims)
    assert 500 == sum(grant is not None and grant.is_new for grant in grants)


def test_a_store_cannot_be_made_without_room(path: Path) -> None:
    with files_limited_to(5000), pytest.raises(StoreFull):
        SQLiteStateBackend(path)
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()


def test_a_database_at_its_greatest_size_is_full(path: Path) -> None:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    connection.pragma("max_page_count", 2)
    connection.execute("CREATE TABLE mine (x)")
    with pytest.raises(apsw.FullError) as caught:
        connection.execute("INSERT INTO mine VALUES (zeroblob(100000))")
    connection.close()
    assert isinstance(translated(caught.value, "s", str(path)), StoreFull)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (apsw.IOError("disk I/O error"), BackendUnavailable),
        (apsw.ReadOnlyError("attempt to write a readonly database"), StoreNotWritable),
        (apsw.NotADBError("file is not a database"), NotAStore),
        (apsw.LockedError("database table is locked"), BackendUnavailable),
        (apsw.NoMemError("out of memory"), BackendUnavailable),
        (apsw.CorruptError("database disk image is malformed"), StoreDamaged),
    ],
)
def test_every_error_of_sqlite_says_what_it_means_for_the_store(
    error: apsw.Error, expected: type[BackendError], tmp_path: Path
) -> None:
    ours = translated(error, "sqlite:////a.db", str(tmp_path / "a.db"))
    assert expected is type(ours)
    assert "sqlite:////a.db" in str(ours)


def test_a_quota_is_no_room_too() -> None:
    quota = OSError(errno.EDQUOT, "Disk quota exceeded", "/a")
    assert isinstance(translated_os(quota, "s"), StoreFull)
    assert isinstance(translated(apsw.IOError("disk I/O error"), "s", "/a", errno.EDQUOT), StoreFull)


def test_a_store_that_stays_locked_does_not_answer_and_serves_again_afterwards(
    backend: SQLiteStateBackend, path: Path
) -> None:
    lease = _lease(backend)
    other = _other(path, "BEGIN IMMEDIATE")
    with pytest.raises(BackendUnavailable, match="another process has been writing to it for too long"):
        backend.append([Append(lease, 1, (BODY,))])
    with pytest.raises(BackendUnavailable):
        backend.append([Append(lease, 1, (BODY, BODY))])
    with pytest.raises(BackendUnavailable):
        backend.acquire([_claim("wrack")])
    assert [] == backend.read("kelp")
    other.execute("ROLLBACK")
    other.close()
    assert [None] == backend.append([Append(lease, 1, (BODY,))])


def test_a_verb_that_fails_half_way_leaves_nothing_behind(path: Path) -> None:
    moments = iter([1.0])

    with SQLiteStateBackend(path, clock=lambda: next(moments)) as backend:
        lease = _lease(backend)
        with pytest.raises(StopIteration):
            backend.delete_state("kelp")
        moments = iter([2.0, 3.0])
        assert ["kelp"] == [header.state_id for header in backend.list_states()]
        with pytest.raises(UnicodeEncodeError):
            backend.append([Append(lease, 1, (), StateUpdate(at=0.0, metadata=_unwritable()))])
        assert _claim().header.metadata == backend.list_states()[0].metadata


def _unwritable() -> StateMetadata:
    metadata = StateMetadata(tags=["changed behind its back"])
    metadata.tags[0] = "\ud800"
    return metadata


def test_damage_in_the_pages_is_reported(path: Path) -> None:
    with SQLiteStateBackend(path) as backend:
        lease = _lease(backend)
        backend.append([Append(lease, 1, [BODY] * 1000)])
    pages = path.stat().st_size // 4096
    with path.open("r+b") as file:
        for page in range(pages // 2, pages):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with (
        SQLiteStateBackend(path) as backend,
        pytest.raises(StoreDamaged, match=r"is damaged: .*\. Restore it from a backup"),
    ):
        backend.read("kelp")


@pytest.mark.parametrize(
    "damage",
    [
        "metadata = '{'",
        "metadata = '[]'",
        "status = 'runninh'",
        "status = 'failed'",
        "agent = 'other:agent'",
        "timeline = 3",
        "end_seq = 1",
        "checksum = 0",
        "pipeline_name = 'other'",
        "created_at = 1e300",
        "updated_at = 9e18",
    ],
)
def test_a_damaged_header_is_named_and_not_leased_and_can_be_mended(
    backend: SQLiteStateBackend, path: Path, damage: str
) -> None:
    lease = _lease(backend)
    _lease(backend, "wrack")
    header = backend.find_state("kelp")
    assert header is not None
    _other(path, f"UPDATE states SET {damage} WHERE state_id = 'kelp'").close()
    found = backend.find_state("kelp")
    assert found is not None
    assert found.damage is not None
    assert {"kelp": found.damage, "wrack": None} == {each.state_id: each.damage for each in backend.list_states()}
    (grant,) = backend.acquire([_claim()])
    assert grant is not None
    assert (None, None, found.damage) == (grant.lease, grant.held_by, grant.header.damage)
    claim = msgspec.structs.replace(_claim(), mend=True, reopen=True, supersede=lease.fence)
    (grant,) = backend.acquire([claim])
    assert grant is not None
    assert grant.lease is not None
    assert [None] == backend.append([Append(grant.lease, 1, (), StateUpdate(at=1.0, status=StateStatus.FAILED))])
    found = backend.find_state("kelp")
    assert found is not None
    assert found.damage is not None, "writing to a damaged header does not make it good"
    mend = StateUpdate(at=0.0, header=header, releases=True)
    assert [None] == backend.append([Append(grant.lease, 1, (), mend)])
    assert msgspec.structs.replace(header, holder=None) == backend.find_state("kelp")


def test_a_holder_that_cannot_be_read_leaves_the_state_free(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    _other(path, "UPDATE states SET holder = '{\"host\": 1}'").close()
    found = backend.find_state("kelp")
    assert found is not None
    assert (None, None) == (found.holder, found.damage)
    (grant,) = backend.acquire([_claim()])
    assert grant is not None
    assert grant.lease is not None
    assert grant.lease.fence > lease.fence


def test_the_checksum_of_a_header_is_that_of_its_columns(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend)
    columns = (
        *("state_id", "status", "created_at", "updated_at", "metadata", "agent", "version", "timeline", "bases"),
        *("pipeline_name", "parent", "end_seq", "end_link"),
    )
    connection = _other(path, "SELECT 1")
    ((*values, checksum),) = connection.execute(f"SELECT {', '.join(columns)}, checksum FROM states").fetchall()
    connection.close()
    assert zlib.crc32(json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()) == checksum


def test_what_sqlite_finds_wrong_and_records_of_nobody_are_told(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend)
    assert [] == backend.examine_store()
    _other(path, "INSERT INTO records VALUES (99, 1, x'00')").close()
    (flaw,) = backend.examine_store()
    assert ("1 records belong to no state.", True) == (flaw.what, flaw.is_harmless)


def test_a_closed_store_says_that_it_is_closed(path: Path) -> None:
    backend = SQLiteStateBackend(path)
    lease = _lease(backend)
    backend.close()
    for use in (
        lambda: backend.append([Append(lease, 1, (BODY,))]),
        lambda: backend.acquire([_claim()]),
        lambda: backend.read("kelp"),
    ):
        with pytest.raises(UsageError, match=r"states\.db is closed"):
            use()


def test_backends_of_one_process_on_one_file_take_turns(path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        backends = list(threads.map(SQLiteStateBackend, [path] * 8))

        def work(number: int) -> set[object]:
            lease = _lease(backends[number], f"kelp-{number}")
            answers = [backends[number].append([Append(lease, seq, (BODY,))]) for seq in range(1, 51)]
            return {answer for (answer,) in answers}

        assert [{None}] * 8 == list(threads.map(work, range(8)))
    assert [50] * 8 == [header.position for header in backends[0].list_states()]
    for backend in backends:
        backend.close()


def test_reading_leaves_the_log_to_the_connection_that_writes(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    backend.append([Append(lease, 1, [BODY] * 1000)])
    before = path.stat()
    assert 1000 == len(backend.read("kelp"))
    assert (before.st_size, before.st_mtime_ns) == (path.stat().st_size, path.stat().st_mtime_ns)


def test_a_key_is_not_used_twice_also_after_the_store_was_opened_again(path: Path) -> None:
    with SQLiteStateBackend(path) as backend:
        lease = _lease(backend)
        backend.delete_state("kelp", lease)
    with SQLiteStateBackend(path) as backend:
        assert _lease(backend).key > lease.key


def test_nothing_of_a_deleted_state_is_left_in_any_table(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    backend.append([Append(lease, 1, [BODY] * 10)])
    backend.delete_state("kelp", lease)
    other = _other(path)
    for table in ("states", "tags", "records", "spans"):
        assert 0 == other.execute(f"SELECT count(*) FROM {table}").get
    other.close()


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("list_newest", "SEARCH states USING INDEX states_by_age (created_at<?)"),
        ("list_by_status", "SEARCH states USING INDEX states_by_status (status=? AND created_at<?)"),
        ("list_by_pipeline", "SEARCH states USING INDEX states_by_pipeline (pipeline_name=? AND created_at<?)"),
        ("list_by_tag", "SEARCH first USING PRIMARY KEY (tag=? AND (created_at,state)<(?,?))"),
        ("find_header", "SEARCH states USING INDEX sqlite_autoindex_states_1 (state_id=?)"),
        ("list_by_parent", "SEARCH states USING INDEX states_by_parent (parent=? AND created_at<?)"),
        ("read_unforked", "SEARCH records USING INDEX sqlite_autoindex_records_1 (state=? AND seq>?)"),
        ("read_unforked", "SEARCH states USING COVERING INDEX sqlite_autoindex_states_1 (state_id=?)"),
        ("read_fork", "SEARCH spans USING PRIMARY KEY (state=?)"),
        ("read_fork", "SEARCH records USING INDEX sqlite_autoindex_records_1 (state=? AND seq>? AND seq<?)"),
        ("find_position", "SEARCH records USING COVERING INDEX sqlite_autoindex_records_1 (state=?)"),
        ("find_position", "SEARCH spans USING PRIMARY KEY (state=?)"),
        ("find_header", "SEARCH spans USING PRIMARY KEY (state=?)"),
        ("find_sources", "SEARCH spans USING PRIMARY KEY (state=?)"),
        ("delete_spans", "SEARCH spans USING PRIMARY KEY (state=?)"),
        ("delete_unshared", "SEARCH records USING COVERING INDEX sqlite_autoindex_records_1 (state=? AND seq>?)"),
        ("delete_unshared", "SEARCH spans USING COVERING INDEX spans_by_source (source=?)"),
        ("append_record", "SEARCH states USING INTEGER PRIMARY KEY (rowid=?)"),
        ("delete_tags", "SEARCH tags USING COVERING INDEX tags_by_state (state=?)"),
        ("find_standing", "SEARCH artifacts USING PRIMARY KEY (id=?)"),
        ("read_artifact", "SEARCH artifact_bodies USING INTEGER PRIMARY KEY (rowid=?)"),
        ("list_artifacts", "SEARCH artifacts USING PRIMARY KEY (id>?)"),
        ("delete_pin", "SEARCH pins USING PRIMARY KEY (store_id=? AND state_id=? AND fence=?)"),
    ],
)
def test_a_query_walks_an_index_and_sorts_nothing(
    backend: SQLiteStateBackend, path: Path, query: str, index: str
) -> None:
    other = _other(path)
    other.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    sql = QUERIES[query]
    asked = {"status": None, "pipeline_name": None, "parent": "kelp", "tag": "x", "tags": "[]"}
    named = {**asked, "state_id": "kelp", "key": 1, "after": 0, "limit": 1, "created_at": 0.0}
    bindings = named if ":" in sql else (None,) * sql.count("?")
    plan = [str(row[3]) for row in other.execute(f"EXPLAIN QUERY PLAN {sql}", bindings).fetchall()]
    other.close()
    assert index in plan
    assert [] == [line for line in plan if "TEMP B-TREE" in line or (line.startswith("SCAN states") and line != index)]


def test_every_query_is_described() -> None:
    lines = files("limpet.backends.sqlite").joinpath("queries.sql").read_text().splitlines()
    names = [number for number, line in enumerate(lines) if line.startswith("-- name: ")]
    assert len(QUERIES) == len(names)
    assert all(lines[number + 1].startswith("-- ") for number in names)


def test_the_process_that_only_reads_sees_what_is_in_the_log(path: Path) -> None:
    with SQLiteStateBackend(path) as writing, SQLiteStateBackend(path) as reading:
        lease = _lease(writing)
        writing.append([Append(lease, 1, (BODY, os.urandom(5000)))])
        assert writing.read("kelp") == reading.read("kelp")
