"""The SQLite file of the index: makes, recognises, connects and removes it, and says what its errors mean.

The types that apsw ships name a buffer type that Python 3.11 does not have, so the part of it that is used has its own.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Protocol, cast

import apsw

from limpet.backends.files.states.layout import INDEX_FILE
from limpet.backends.files.tree import FILE_MODE
from limpet.errors import BackendError, BackendUnavailable, StoreFull

Value = int | float | str | None
Bindings = Sequence[Value] | Mapping[str, Value]

_APPLICATION_ID = 0x484F4C49
_VERSION = 1
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_BESIDE = ("", "-wal", "-shm", "-journal")


class Broken(Exception):
    """The index is missing, foreign or damaged, and has to be made anew."""


class Missing(Broken):
    """There is no index."""


class Cursor(Protocol):
    """``apsw.Cursor``."""

    @property
    def get(self) -> Any: ...
    def fetchall(self) -> list[tuple[Any, ...]]: ...


class Connection(Protocol):
    """``apsw.Connection``."""

    @property
    def in_transaction(self) -> bool: ...
    @property
    def system_errno(self) -> int: ...
    def changes(self) -> int: ...
    def execute(self, statements: str, bindings: Bindings | None = None) -> Cursor: ...
    def executemany(self, statements: str, sequenceofbindings: Iterable[Bindings]) -> Cursor: ...
    def pragma(self, name: str, value: Value = None) -> Any: ...
    def config(self, op: int, *args: int) -> int: ...
    def set_busy_timeout(self, milliseconds: int) -> None: ...
    def close(self) -> None: ...


def _text(name: str) -> str:
    return files("limpet.backends.files.states").joinpath(name).read_text(encoding="utf-8")


def _queries() -> dict[str, str]:
    _, *parts = _NAME.split(_text("index_queries.sql"))
    return {
        name: "\n".join(line for line in sql.splitlines() if not line.startswith("--")).strip().removesuffix(";")
        for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


QUERIES = _queries()
"""The statements of ``index_queries.sql`` by their names."""


def connect(folder: str, is_synced: bool, timeout_s: float) -> tuple[Connection, int]:
    """A connection to an index that is whole as far as can be seen, and its inode. Raises Broken."""
    path = os.path.join(folder, INDEX_FILE)
    if not os.path.lexists(path):
        raise Missing
    if os.path.islink(path) or not os.path.isfile(path):
        raise Broken
    connection = _opened(path, timeout_s)
    try:
        is_ours = connection.pragma("application_id") == _APPLICATION_ID
        if not is_ours or connection.pragma("user_version") != _VERSION:
            raise Broken
        connection.pragma("synchronous", "full" if is_synced else "normal")
        return connection, os.stat(path).st_ino
    except BaseException:
        connection.close()
        raise


def create(folder: str, timeout_s: float, *, is_whole: bool) -> None:
    """Make an index without states, in place of whatever is there. It is whole if there are no states."""
    remove(folder)
    path = os.path.join(folder, INDEX_FILE)
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
    connection = _opened(path, timeout_s)
    try:
        connection.pragma("journal_mode", "wal")
        made = QUERIES["make_whole"] if is_whole else ""
        connection.execute(f"BEGIN IMMEDIATE; {_text('index.sql')} {made}; COMMIT;")
    finally:
        connection.close()


def remove(folder: str) -> None:
    for ending in _BESIDE:
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, INDEX_FILE + ending))


def inode(folder: str) -> int | None:
    try:
        return os.stat(os.path.join(folder, INDEX_FILE), follow_symlinks=False).st_ino
    except OSError:
        return None


def translated(error: apsw.Error, store: str, system_errno: int) -> BackendError | Broken:
    """Our error for one of SQLite's: what making the index anew would mend is Broken."""
    if isinstance(error, apsw.FullError):
        return StoreFull(store, str(error))
    if isinstance(error, apsw.IOError) and system_errno in _NO_ROOM:
        return StoreFull(store, os.strerror(system_errno))
    if isinstance(error, apsw.BusyError):
        return BackendUnavailable(store, f"another process has been writing to its index for too long ({error})")
    return Broken(str(error))


def _opened(path: str, timeout_s: float) -> Connection:
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_NOFOLLOW
    connection = cast("Connection", apsw.Connection(path, flags=flags))
    # Closing removes the log by its name, and where the index was made anew that is the log of another file.
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(int(timeout_s * 1000))
    connection.pragma("trusted_schema", False)
    return connection
