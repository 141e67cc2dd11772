"""Opens the connections to a store: makes the file, recognises it, sets it up. Knows nothing of states and records.

A connection must not be carried over a fork. A child does not have the locks of its parent, but its copy of SQLite's
memory says that it has: also a connection that the child opens anew would go without locks then, and the log be deleted
under it. So all connections to a file are closed before a fork (``database.py``); where one could not be, the child
refuses to open that file.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

import apsw
import msgspec

from limpet.backends.sqlite.driver import Connection, connect
from limpet.backends.sqlite.faults import translated, translated_os
from limpet.backends.sqlite.file_identity import Identity, identity_of
from limpet.backends.sqlite.queries import MIGRATIONS, QUERIES, SCHEMA, VIEW
from limpet.errors import NotAStore, StoreNotWritable, UnsupportedVersion, UsageError
from limpet.processes import keep_for_good, new_lock

APPLICATION_ID = 0x484F4C44
"""``HOLD``: marks an SQLite file as a store."""

SCHEMA_VERSION = 6
"""The version that ``schema.sql`` makes and this code knows. An older file is brought here by ``_migrate``."""

_PAUSE_S = 0.002

# Closing any handle of a file drops all locks that the process has on it. The handle that makes a file is therefore
# closed before another thread can go on to open that file.
_making_file = new_lock()

_carried_over: set[Identity] = set()
"""The files to which this process has inherited open connections. Nothing can be done with them here."""


class Location(msgspec.Struct, frozen=True):
    """Where a store is and how long to wait for its other writers."""

    path: str
    """Absolute, with symbolic links followed: a later change of the working folder does not matter."""
    name: str
    busy_timeout_s: float


def locate(path: str | os.PathLike[str], busy_timeout_s: float) -> Location:
    absolute = os.path.realpath(path)
    return Location(absolute, f"sqlite:///{absolute}", busy_timeout_s)


def carry_over(files: Identity | None, *connections: object) -> None:
    """Take note, in a forked child, of connections of the parent, which must neither be used nor closed here."""
    keep_for_good(*connections)
    if files is not None:
        _carried_over.add(files)


def require_not_carried_over(location: Location) -> None:
    """Raises UsageError where this process cannot use the file."""
    if _carried_over and identity_of(location.path) in _carried_over:
        raise UsageError(
            f"The store {location.name} was being written when this process was forked, and did not come to rest in "
            "time. SQLite cannot be used here for that file.",
            "Fork while nothing is written to the store, or close it before, or start a new program in the child.",
        )


def open_writer(location: Location, synchronous: str) -> Connection:
    """The connection that writes and checkpoints. Makes the file a store if it is missing or empty.

    Raises NotAStore or UnsupportedVersion for a file that is something else, and leaves its bytes alone.
    """
    connection: Connection | None = None
    require_not_carried_over(location)
    try:
        _make_file(location)
        _peek(location)
        connection = _connect(location)
        if connection.readonly("main"):
            raise StoreNotWritable(location.name, "the file may only be read")
        _bring_up_to_date(connection, location)
        connection.pragma("synchronous", synchronous)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        return connection
    except BaseException as error:
        system_errno = 0
        if connection is not None:
            system_errno = connection.system_errno
            connection.close()
        if isinstance(error, apsw.Error):
            raise translated(error, location.name, location.path, system_errno) from error
        if isinstance(error, OSError):
            raise translated_os(error, location.name) from error
        raise


def open_reader(location: Location) -> Connection:
    """A connection that reads only, for a store that the writer has opened.

    It never checkpoints: one file must have one connection of a process that does.
    """
    try:
        connection = _connect(location)
        connection.pragma("wal_autocheckpoint", 0)
        connection.pragma("query_only", True)
    except apsw.Error as error:
        raise translated(error, location.name, location.path) from error
    return connection


def _make_file(location: Location) -> None:
    path = location.path
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        _make_folder(os.path.dirname(path))
        with _making_file:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
            except FileExistsError:
                return  # Another one has just made it.
        return
    if stat.S_ISDIR(mode):
        raise NotAStore(location.name, "it is a folder")
    if not stat.S_ISREG(mode):
        raise NotAStore(location.name, "it is not an ordinary file")


def _make_folder(folder: str) -> None:
    if os.path.isdir(folder):
        return
    parent = os.path.dirname(folder)
    _make_folder(parent)
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        return  # Made meanwhile by another process; a file of that name shows itself when the store is opened.
    # SQLite makes its own files durable in their folder, but not the folder in its parent. Some systems have no way to
    # ask for that; a disk that fails shows itself when the store is written.
    with suppress(OSError):
        handle = os.open(parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _peek(location: Location) -> None:
    """Refuse a file that is something else before SQLite could so much as roll its journal back.

    An immutable connection takes no lock and writes nothing, not even beside the file. The mark of a store is in the
    file itself, never only in its log, so it is seen.
    """
    if os.path.getsize(location.path) == 0:
        return
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = connect(Path(location.path).as_uri() + "?immutable=1", flags)
    try:
        _require_store(connection, location)
    except apsw.CorruptError:
        return  # Damaged, or just being made by another process: a look under the lock will tell.
    finally:
        connection.close()


def _connect(location: Location) -> Connection:
    connection = connect(location.path, apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Otherwise SQLite plans some statements again whenever another value is bound, which takes longer than running
    # them. The plans here depend on no value.
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    connection.set_busy_timeout(int(location.busy_timeout_s * 1000))
    connection.pragma("trusted_schema", False)
    return connection


def _bring_up_to_date(connection: Connection, location: Location) -> None:
    """Make the schema where there is none, and the newest one of an older one."""
    connection.pragma("page_size", 4096)
    connection.pragma("synchronous", "full")
    if connection.pragma("page_count") == 0:
        _create_schema(connection)
    _require_store(connection, location)
    _use_wal(connection, location)
    # Reading opens the log, so that this connection, which closes last, is also the one that clears it away.
    if connection.pragma("user_version") < SCHEMA_VERSION:
        _migrate(connection)
        _require_store(connection, location)


def _create_schema(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute(QUERIES["begin"])
    # Whoever had the lock before may have done it.
    if cursor.execute(QUERIES["count_tables"]).get == 0:
        cursor.execute(SCHEMA)
    cursor.execute(QUERIES["commit"])


def _migrate(connection: Connection) -> None:
    """All steps in one transaction: a file is of one version or of another, never in between."""
    cursor = connection.cursor()
    cursor.execute(QUERIES["begin"])
    # Whoever had the lock before may have done it.
    found: int = connection.pragma("user_version")
    for version in range(found + 1, SCHEMA_VERSION + 1):
        cursor.execute(MIGRATIONS[version])
    cursor.execute(QUERIES["commit"])


def _require_store(connection: Connection, location: Location) -> None:
    if connection.pragma("application_id") != APPLICATION_ID:
        raise NotAStore(location.name, "it was made by another program")
    version = connection.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise UnsupportedVersion(f"The store {location.name}", version, SCHEMA_VERSION)
    if connection.pragma("page_count"):
        _require_own_schema(connection, location, is_newest=version == SCHEMA_VERSION)


def _require_own_schema(connection: Connection, location: Location, *, is_newest: bool) -> None:
    """Raises NotAStore for a schema that runs more than reading the tables takes: the file may come from anybody.

    A view in the place of a table can have rows without end, and a computed column any size. Tables, views and indexes
    of other names are never used here, and may be there.
    """
    cursor = connection.cursor()
    for kind, name in cursor.execute(QUERIES["find_odd_schema"], (VIEW if is_newest else None,)).fetchall():
        raise NotAStore(location.name, f"it has {kind} {name[:100]!r} that Limpet did not make")


def _use_wal(connection: Connection, location: Location) -> None:
    # The busy timeout does not cover this switch, which needs the file for itself for a moment. It is made only once.
    deadline = time.monotonic() + location.busy_timeout_s
    while True:
        try:
            connection.pragma("journal_mode", "wal")
        except apsw.BusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
        else:
            return
