"""Opening an SQLite store: what is made, what is recognised, what is refused and left alone."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import apsw
import pytest
from backends.bounds import NOBODY, as_ordinary_user

from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.connection import SCHEMA_VERSION, locate, open_reader
from limpet.backends.sqlite.driver import Connection, connect
from limpet.errors import (
    BackendUnavailable,
    NotAStore,
    StoreDamaged,
    StoreNotWritable,
    UnsupportedVersion,
    UsageError,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that an ordinary user can reach, and owns."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, -1)
    yield folder
    folder.chmod(0o700)
    shutil.rmtree(folder)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def _other_database(path: Path, *statements: str) -> Connection:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    for statement in statements:
        connection.execute(statement)
    return connection


def test_the_file_its_log_and_its_folders_are_for_their_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "states.db"
    before = os.umask(0)
    try:
        with SQLiteStateBackend(path):
            files = sorted(path.parent.iterdir())
            assert ["states.db", "states.db-shm", "states.db-wal"] == [file.name for file in files]
            assert [0o600] * 3 == [_mode(file) for file in files]
    finally:
        os.umask(before)
    assert (0o700, 0o700) == (_mode(tmp_path / "a"), _mode(tmp_path / "a" / "b"))


def test_a_closed_store_is_one_file(path: Path) -> None:
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()
    assert [path] == list(path.parent.iterdir())


def test_the_mode_of_a_file_that_exists_is_left(path: Path) -> None:
    path.touch(0o640)
    path.chmod(0o640)
    SQLiteStateBackend(path).close()
    assert 0o640 == _mode(path)


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.touch()
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()


def test_a_store_is_marked_in_the_header_of_its_file(path: Path) -> None:
    SQLiteStateBackend(path).close()
    header = path.read_bytes()[:100]
    assert b"SQLite format 3\0" == header[:16]
    assert (4096, b"HOLD", SCHEMA_VERSION) == (
        int.from_bytes(header[16:18]),
        header[68:72],
        int.from_bytes(header[60:64]),
    )


def test_the_mark_is_in_the_file_itself_while_everything_else_is_in_the_log(path: Path, tmp_path: Path) -> None:
    with SQLiteStateBackend(path):
        shutil.copy(path, tmp_path / "copy.db")
    assert b"HOLD" == (tmp_path / "copy.db").read_bytes()[68:72]


def test_the_log_is_a_write_ahead_log_and_every_table_is_strict(path: Path) -> None:
    SQLiteStateBackend(path).close()
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    tables = connection.execute(
        "SELECT strict FROM pragma_table_list WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    assert ("wal", [(1,)] * 11) == (connection.pragma("journal_mode"), tables)
    connection.close()


def test_a_relative_path_is_settled_when_the_store_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with SQLiteStateBackend("states.db") as backend:
        monkeypatch.chdir(tmp_path / "elsewhere")
        assert [] == backend.list_states()
        assert f"sqlite:///{tmp_path.resolve()}/states.db" == backend.name
    assert [] == list((tmp_path / "elsewhere").iterdir())


def test_a_path_may_hold_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "a ?b#c%20'd\"é" / ":memory:"
    SQLiteStateBackend(path).close()
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()


def test_a_link_to_a_file_that_is_missing_makes_that_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    SQLiteStateBackend(tmp_path / "link.db").close()
    assert (True, 0o600) == ((tmp_path / "link.db").is_symlink(), _mode(tmp_path / "real.db"))


@pytest.mark.parametrize("content", [b"hello\n" * 100, b"\0" * 5000, b"SQLite format 3\0", os.urandom(10_000)])
def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(NotAStore, match=r"states\.db is not a Limpet store: it is not an SQLite database"):
        SQLiteStateBackend(path)
    assert {path.name: content} == _contents(path.parent)


def test_a_file_of_one_byte_is_refused_and_left_as_it_is(path: Path) -> None:
    path.write_bytes(b"x")
    with pytest.raises(NotAStore):
        SQLiteStateBackend(path)
    assert {path.name: b"x"} == _contents(path.parent)


def test_the_database_of_another_program_is_refused_and_left_as_it_is(path: Path) -> None:
    _other_database(path, "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)").close()
    before = _contents(path.parent)
    with pytest.raises(NotAStore, match="it was made by another program"):
        SQLiteStateBackend(path)
    assert before == _contents(path.parent)


def test_the_log_of_another_programs_database_is_left_as_it_is(tmp_path: Path) -> None:
    statements = ("PRAGMA journal_mode = wal", "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)")
    connection = _other_database(tmp_path / "mine.db", *statements)
    folder = tmp_path / "crashed"
    folder.mkdir()
    shutil.copy(tmp_path / "mine.db", folder)
    shutil.copy(tmp_path / "mine.db-wal", folder)
    connection.close()
    before = _contents(folder)
    with pytest.raises(NotAStore):
        SQLiteStateBackend(folder / "mine.db")
    assert before == _contents(folder)


def test_a_store_of_a_newer_version_is_refused_and_left_as_it_is(path: Path) -> None:
    SQLiteStateBackend(path).close()
    _other_database(path, f"PRAGMA user_version = {SCHEMA_VERSION + 1}").close()
    before = _contents(path.parent)
    with pytest.raises(UnsupportedVersion) as caught:
        SQLiteStateBackend(path)
    assert (SCHEMA_VERSION + 1, SCHEMA_VERSION) == (caught.value.found, caught.value.known)
    assert before == _contents(path.parent)


def test_a_newer_version_that_is_only_in_the_log_yet_is_refused_too(tmp_path: Path) -> None:
    SQLiteStateBackend(tmp_path / "states.db").close()
    connection = _other_database(tmp_path / "states.db", f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    folder = tmp_path / "crashed"
    folder.mkdir()
    shutil.copy(tmp_path / "states.db", folder)
    shutil.copy(tmp_path / "states.db-wal", folder)
    connection.close()
    before = (folder / "states.db").read_bytes()
    with pytest.raises(UnsupportedVersion):
        SQLiteStateBackend(folder / "states.db")
    assert before == (folder / "states.db").read_bytes()


def test_a_store_cut_short_is_called_damaged(path: Path) -> None:
    SQLiteStateBackend(path).close()
    os.truncate(path, 4096)
    before = path.read_bytes()
    with pytest.raises(StoreDamaged, match=r"states\.db is damaged: .* Restore it from a backup"):
        SQLiteStateBackend(path)
    assert before == path.read_bytes()


def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStore, match="it is a folder"):
        SQLiteStateBackend(tmp_path)


def test_a_pipe_is_not_a_store(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(NotAStore, match="not an ordinary file"):
        SQLiteStateBackend(path)


@pytest.mark.parametrize("below", ["states.db", "folder/states.db"])
def test_a_file_where_a_folder_should_be_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreNotWritable, match="Not a directory"):
        SQLiteStateBackend(tmp_path / "file" / below)


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreNotWritable, match="File name too long"):
        SQLiteStateBackend(tmp_path / ("x" * 300))


def test_a_file_that_may_only_be_read_is_refused(open_folder: Path) -> None:
    path = open_folder / "states.db"
    with as_ordinary_user():
        SQLiteStateBackend(path).close()
        path.chmod(0o400)
        with pytest.raises(StoreNotWritable, match="the file may only be read"):
            SQLiteStateBackend(path)


def test_a_file_that_may_not_be_read_is_refused(open_folder: Path) -> None:
    path = open_folder / "states.db"
    with as_ordinary_user():
        SQLiteStateBackend(path).close()
        path.chmod(0)
        with pytest.raises(StoreNotWritable, match="the file may not be read and written"):
            SQLiteStateBackend(path)


def test_a_folder_that_may_not_be_written_is_named(open_folder: Path) -> None:
    path = open_folder / "states.db"
    with as_ordinary_user():
        SQLiteStateBackend(path).close()
        open_folder.chmod(0o500)
        with pytest.raises(StoreNotWritable, match=rf"the folder {open_folder} may not be written"):
            SQLiteStateBackend(path)


@pytest.mark.parametrize("below", ["new.db", "new/states.db"])
def test_a_store_cannot_be_made_where_nothing_may_be_written(open_folder: Path, below: str) -> None:
    with as_ordinary_user():
        open_folder.chmod(0o500)
        with pytest.raises(StoreNotWritable, match="Permission denied"):
            SQLiteStateBackend(open_folder / below)


def test_a_folder_that_may_be_written_and_not_listed_is_good_enough(open_folder: Path) -> None:
    with as_ordinary_user():
        open_folder.chmod(0o300)
        SQLiteStateBackend(open_folder / "new" / "states.db").close()
        assert 0o700 == _mode(open_folder / "new")


def test_a_file_that_vanished_before_it_was_first_read_is_missed(path: Path) -> None:
    with SQLiteStateBackend(path) as backend:
        path.unlink()
        with pytest.raises(StoreNotWritable, match="may not be read and written"):
            backend.list_states()


def test_a_process_without_file_handles_left_is_told_to_try_again(path: Path) -> None:
    SQLiteStateBackend(path).close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    next_handle = os.open(path.parent, os.O_RDONLY)
    os.close(next_handle)
    resource.setrlimit(resource.RLIMIT_NOFILE, (next_handle, hard))
    try:
        with pytest.raises(BackendUnavailable, match="unable to open database file"):
            SQLiteStateBackend(path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    SQLiteStateBackend(path).close()


def test_a_store_that_another_process_keeps_locked_does_not_answer(path: Path) -> None:
    SQLiteStateBackend(path).close()
    other = _other_database(path, "PRAGMA journal_mode = delete", "BEGIN IMMEDIATE")
    with pytest.raises(BackendUnavailable, match="another process has been writing to it for too long"):
        SQLiteStateBackend(path, busy_timeout_s=0.01)
    other.execute("ROLLBACK")
    SQLiteStateBackend(path).close()
    other.close()


def test_a_setting_that_does_not_exist_is_refused(path: Path) -> None:
    with pytest.raises(UsageError, match="synchronous='off' is no setting"):
        SQLiteStateBackend(path, cast(Any, "off"))
    assert not path.exists()


def test_a_commit_waits_in_the_full_setting_only(tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "a.db") as full, SQLiteStateBackend(tmp_path / "b.db", "normal") as normal:
        assert (True, False) == (full.commit_waits, normal.commit_waits)


def test_the_connection_that_reads_can_not_write(path: Path) -> None:
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()
        reader = open_reader(locate(path, 1.0))
        with pytest.raises(apsw.ReadOnlyError):
            reader.execute("DELETE FROM records")
        reader.close()


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, i, x'00' FROM n"


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (f"DROP TABLE records; CREATE VIEW records (state, seq, body) AS {ENDLESS}", "the view 'records'"),
        ("DROP TABLE notes; CREATE VIEW notes AS SELECT 1 AS name, zeroblob(900000000) AS body", "the view 'notes'"),
        ("DROP TABLE spans; CREATE VIRTUAL TABLE spans USING fts5(state, first, last)", "the virtual 'spans'"),
        ("DROP TABLE tags; CREATE TABLE tags (tag, created_at, state)", "the table 'tags'"),
        (
            "ALTER TABLE records ADD COLUMN more TEXT AS (hex(zeroblob(400000000)))",
            "the computed column more in 'records'",
        ),
        ("DROP VIEW headers; CREATE VIEW headers AS SELECT hex(zeroblob(400000000)) AS key", "the view 'headers'"),
        ("CREATE TRIGGER more AFTER UPDATE ON states BEGIN DELETE FROM records; END", "the trigger 'more'"),
    ],
)
def test_a_file_whose_schema_would_run_more_than_reading_takes_is_refused(path: Path, change: str, what: str) -> None:
    with SQLiteStateBackend(path):
        pass
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "delete")
        connection.execute(change)
    before = path.read_bytes()
    with pytest.raises(NotAStore, match=f"it has {what} that Limpet did not make"):
        SQLiteStateBackend(path).list_states()
    assert before == path.read_bytes()


def test_a_file_to_which_its_user_has_added_tables_views_and_indexes_is_opened(path: Path) -> None:
    with SQLiteStateBackend(path):
        pass
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE mine (x); CREATE VIEW failed AS SELECT * FROM headers WHERE status = 'failed'")
        connection.execute("CREATE INDEX by_agent ON states (agent)")
    with SQLiteStateBackend(path) as backend:
        assert [] == backend.list_states()


@pytest.mark.parametrize(
    "change", ["DELETE FROM identity", "INSERT INTO identity VALUES ('x', 0.0)", "DROP TABLE notes"]
)
def test_a_file_that_is_not_as_it_was_made_is_a_damaged_store(path: Path, change: str) -> None:
    with SQLiteStateBackend(path):
        pass
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(change)
    with SQLiteStateBackend(path) as backend, pytest.raises(StoreDamaged):
        assert (backend.note("x"), backend.store_id) is None
