"""The connections to one SQLite file, their locks and transactions, and the translation of what goes wrong on them.

One connection writes and checkpoints, under a lock; another only reads, under a lock of its own, so that reading a long
journal holds up no commit. Knows nothing of states, records or artifacts: those run their statements here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, NoReturn

import apsw

from limpet.backends.sqlite.connection import Location, open_reader, open_writer
from limpet.backends.sqlite.driver import Bindings, Connection, Cursor
from limpet.backends.sqlite.faults import translated
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import UsageError
from limpet.model import DiskUse


class Database:
    """An open file. Every append of every run takes the way over ``writing``, so what it needs lies open here."""

    def __init__(self, location: Location, synchronous: str) -> None:
        self.name = location.name
        self.waits = synchronous == "full"
        self.is_closed = False
        self.writing = threading.Lock()
        """Held by whoever uses ``writer`` or ``cursor``."""
        self.writer = open_writer(location, synchronous)
        self.cursor = self.writer.cursor()
        self._location = location
        self._reading = threading.Lock()
        self._reader: Connection | None = None

    @contextmanager
    def transaction(self) -> Generator[Cursor]:
        """One transaction that writes, and the lock for it. An error inside rolls it back, and is translated."""
        with self.writing:
            if self.is_closed:
                self.refuse_closed()
            try:
                self.cursor.execute(QUERIES["begin"])
                yield self.cursor
                self.cursor.execute(QUERIES["commit"])
            except BaseException as error:
                self.give_up(error)

    def give_up(self, error: BaseException) -> NoReturn:
        """Roll back whatever was going on, so that the connection serves the next call, and raise what it means."""
        system_errno = self.writer.system_errno
        # SQLite has rolled back by itself after some errors, and refuses to do it twice.
        if self.writer.in_transaction:
            self.cursor.execute(QUERIES["rollback"])
        if isinstance(error, apsw.Error):
            raise translated(error, self.name, self._location.path, system_errno) from error
        raise error

    def fetch(self, query: str, bindings: Bindings) -> list[tuple[Any, ...]]:
        """All rows of a query that only reads."""
        with self._reading:
            if self.is_closed:
                self.refuse_closed()
            if self._reader is None:
                self._reader = open_reader(self._location)
            try:
                return self._reader.execute(QUERIES[query], bindings).fetchall()
            except apsw.Error as error:
                system_errno = self._reader.system_errno
                raise translated(error, self.name, self._location.path, system_errno) from error

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
            if self.is_closed:
                self.refuse_closed()
            try:
                yield
            except BaseException as error:
                self.give_up(error)

    def refuse_closed(self) -> NoReturn:
        raise UsageError(f"The store {self.name} is closed.", "Open it again, and close it when everything is done.")

    def close(self) -> None:
        """Closing twice is harmless."""
        with self.writing, self._reading:
            self.is_closed = True
            # The writer last: the one that closes last is the one that checkpoints.
            if self._reader is not None:
                self._reader.close()
            self.writer.close()
