"""The connections to one SQLite file, their locks and transactions, and the translation of what goes wrong on them.

One connection writes and checkpoints, under a lock; another only reads, under a lock of its own, so that reading a long
journal holds up no commit. Both are closed before a fork, and opened again, by the parent and by the child, when they
are next needed. Whoever has both locks took that of the writer first. Knows nothing of states, records or artifacts:
those run their statements here.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn
from weakref import WeakSet

import apsw

from limpet import processes
from limpet.backends.sqlite.connection import (
    Location,
    carry_over,
    open_reader,
    open_writer,
    require_not_carried_over,
)
from limpet.backends.sqlite.driver import Bindings, Connection, Cursor
from limpet.backends.sqlite.faults import translated
from limpet.backends.sqlite.file_identity import identity_of
from limpet.backends.sqlite.open_files import CONFIRM_EVERY_S, LOOK_EVERY_S, OpenFiles
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import StoreDamaged, StoreReplaced, UsageError
from limpet.model import DiskUse

_databases: WeakSet[Database] = WeakSet()
"""Those of this process: connections to one file share what SQLite knows of it."""


class Database:
    """An open file. Every append of every run takes the way over ``writing``, so what it needs lies open here."""

    writer: Connection
    cursor: Cursor

    def __init__(
        self, location: Location, synchronous: str, opened: Callable[[Connection, Cursor], None] | None = None
    ) -> None:
        self.name = location.name
        self.waits = synchronous == "full"
        self.is_open = False
        """Whether there are connections that can be used. False: ``make_ready`` opens them, or says why not."""
        self.look_at_s = 0.0
        """When ``begin`` has to be called before something is written, on the clock that never goes back."""
        self.confirm_at_s = 0.0
        """From when on ``confirm`` has to be called behind an append, on the same clock."""
        self.writing = threading.Lock()
        """Held by whoever uses ``writer`` or ``cursor``."""
        self._opened = opened
        """Given the connection that writes whenever there is a new one."""
        self._location = location
        self._synchronous = synchronous
        self._is_closed = False
        self._reading = threading.Lock()
        self._reader: Connection | None = None
        self._files: OpenFiles | None = None
        self._lost: str | None = None
        """What has become of the files, once that was noticed: this is never used again then."""
        self._paused: list[threading.Lock] = []
        """The locks that are held for a fork."""
        processes.pause_for_forks(self)
        with self.writing:
            self.make_ready()
        _databases.add(self)

    def make_ready(self) -> None:
        """Open the connections that are not open, and see that the files are still those of the store.

        Needs the lock for writing, and may let go of it for a moment. Raises StoreReplaced, UsageError, and what
        opening raises.
        """
        while not self.is_open:
            if self._is_closed:
                raise UsageError(
                    f"The store {self.name} is closed.", "Open it again, and close it when everything is done."
                )
            if self._lost is not None:
                raise StoreReplaced(self.name, self._lost)
            # Opened in the middle of a fork, it would be carried over.
            if processes.hold_off_forks():
                try:
                    self._open()
                finally:
                    processes.let_fork()
            else:
                self.writing.release()
                try:
                    processes.wait_for_fork()
                finally:
                    self.writing.acquire()

    def _open(self) -> None:
        _close_what_is_lost(self._location.path)
        known = None if self._files is None else self._files.database
        if known is not None:
            require_not_carried_over(self._location)
            found = identity_of(self._location.path)
            if found != known:
                self._lost = "its file was " + ("deleted or moved away" if found is None else "replaced by another one")
                raise StoreReplaced(self.name, self._lost)
        self.writer = open_writer(self._location, self._synchronous)
        self.cursor = self.writer.cursor()
        self._files = OpenFiles(self._location.path)
        self.is_open = True
        if self._opened is not None:
            self._opened(self.writer, self.cursor)

    def begin(self) -> None:
        """What comes before everything that is written: the store is open, and its files were looked at lately. Needs
        the lock for writing."""
        if not self.is_open:
            self.make_ready()
        if time.monotonic() > self.look_at_s:
            assert self._files is not None, "an open store has files"
            if (why := self._files.look()) is not None:
                self._lose(why)
            self.look_at_s = time.monotonic() + LOOK_EVERY_S

    def confirm(self) -> None:
        """What comes behind everything that was written, before anybody is told. Raises StoreReplaced."""
        assert self._files is not None, "an open store has files"
        if (why := self._files.look()) is not None:
            self._lose(why)
        now = time.monotonic()
        self.look_at_s, self.confirm_at_s = now + LOOK_EVERY_S, now + CONFIRM_EVERY_S

    def look_again(self, path: str) -> None:
        """Close the connections if the files were lost unnoticed, and nobody is just using them."""
        files = self._files
        if path != self._location.path or not self.is_open or files is None or files.look() is None:
            return
        if self.writing.acquire(blocking=False):
            try:
                if self.is_open and (why := files.look()) is not None:
                    with suppress(StoreReplaced):
                        self._lose(why)
            finally:
                self.writing.release()

    def _lose(self, why: str) -> NoReturn:
        """Never use the files again. The connections are closed without writing anything back: it would overwrite what
        others have written since. Needs the lock for writing."""
        self._lost = why
        with self._reading:
            self._disconnect(writes_back=False)
        raise StoreReplaced(self.name, why)

    @contextmanager
    def transaction(self) -> Generator[Cursor]:
        """One transaction that writes, and the lock for it. An error inside rolls it back, and is translated."""
        with self.writing:
            self.begin()
            try:
                self.cursor.execute(QUERIES["begin"])
                yield self.cursor
                self.cursor.execute(QUERIES["commit"])
            except BaseException as error:
                self.give_up(error)
            self.confirm()

    def give_up(self, error: BaseException) -> NoReturn:
        """Roll back whatever was going on, so that the connection serves the next call, and raise what it means."""
        system_errno = self.writer.system_errno
        # SQLite has rolled back by itself after some errors, and refuses to do it twice.
        if self.writer.in_transaction:
            self.cursor.execute(QUERIES["rollback"])
        if isinstance(error, apsw.Error):
            if self._files is not None and (why := self._files.look()) is not None:
                self._lose(why)
            raise translated(error, self.name, self._location.path, system_errno) from error
        raise error

    def fetch(self, query: str, bindings: Bindings) -> list[tuple[Any, ...]]:
        """All rows of a query that only reads."""
        while True:
            with self._reading:
                if self.is_open:
                    rows, why = self._fetched(query, bindings)
                    if why is None:
                        return rows
            with self.writing:
                self.begin()

    def _fetched(self, query: str, bindings: Bindings) -> tuple[list[tuple[Any, ...]], str | None]:
        """The rows, and what has become of the files, if anything."""
        assert self._files is not None, "an open store has files"
        try:
            if self._reader is None:
                self._reader = open_reader(self._location)
            rows = self._reader.execute(QUERIES[query], bindings).fetchall()
        except apsw.Error as error:
            if (why := self._files.look()) is not None:
                return [], why
            system_errno = 0 if self._reader is None else self._reader.system_errno
            raise translated(error, self.name, self._location.path, system_errno) from error
        except UnicodeDecodeError as error:
            raise StoreDamaged(self.name, f"a text in it is none ({error})") from error
        return rows, self._files.look()

    def disk_use(self) -> DiskUse:
        """What the file takes, once what others let be written back from its log is."""
        with self._using_writer():
            self.cursor.execute(QUERIES["write_back"]).fetchall()
            free: int = self.writer.pragma("freelist_count") * self.writer.pragma("page_size")
            return DiskUse(os.path.getsize(self._location.path), free)

    def compact(self) -> None:
        """Write the file anew without its free pages."""
        with self._using_writer():
            self.cursor.execute(QUERIES["compact"])
            # The file becomes shorter when the log is written back; where somebody reads, whoever is next does that.
            self.cursor.execute(QUERIES["write_back_wholly"]).fetchall()

    @contextmanager
    def _using_writer(self) -> Generator[None]:
        """The lock of the connection that writes, without a transaction. An error is translated."""
        with self.writing:
            self.begin()
            try:
                yield
            except BaseException as error:
                self.give_up(error)
            self.confirm()

    def close(self) -> None:
        """Closing twice is harmless."""
        with self.writing, self._reading:
            self._is_closed = True
            self._disconnect(writes_back=self._files is not None and self._files.look() is None)

    def _disconnect(self, *, writes_back: bool) -> None:
        """Close the connections, if there are any. Needs both locks."""
        self.look_at_s = self.confirm_at_s = 0.0
        if self.is_open:
            self.is_open = False
            self.writer.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(not writes_back))
            # The writer last: the one that closes last is the one that checkpoints.
            if self._reader is not None:
                self._reader.close()
            self.writer.close()
        self._reader = None

    def before_fork(self) -> None:
        """Close the connections, and keep the locks until the fork is over."""
        # First, so that whoever writes in a loop does not take the lock again before it is had here.
        was_open, self.is_open, self.look_at_s = self.is_open, False, 0.0
        deadline = time.monotonic() + processes.PATIENCE_S
        locks = (self.writing, self._reading)
        self._paused = [lock for lock in locks if lock.acquire(timeout=max(0.0, deadline - time.monotonic()))]
        self.is_open = was_open
        if len(self._paused) == len(locks):
            self._disconnect(writes_back=False)

    def after_fork_in_parent(self) -> None:
        for lock in self._paused:
            lock.release()
        self._paused = []

    def after_fork(self) -> None:
        self.writing, self._reading = threading.Lock(), threading.Lock()
        self._paused = []
        if self.is_open:
            # Somebody was writing all the time. What the parent has open is neither used nor closed here.
            self.is_open = False
            self.look_at_s = 0.0
            carry_over(None if self._files is None else self._files.database, self.writer, self.cursor, self._reader)
            self._reader = None
            del self.writer, self.cursor


def _close_what_is_lost(path: str) -> None:
    """Let the other stores of this process that have lost a file of this name close it: what SQLite knows of a log that
    is gone would be shared with a new connection."""
    for other in list(_databases):
        other.look_again(path)
