"""Appends records, and changes headers with them, on the one connection that writes. Takes no lock; the store does.

What can simply be written is written in one go. Where anything of it does not fit (a lost lease, a repeated append, a
position that is taken or left out) all of it is rolled back and each append is answered by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import apsw
import msgspec

from limpet.backends.contract import Append, StateUpdate
from limpet.backends.sqlite.driver import Bindings, Connection, Cursor
from limpet.backends.sqlite.queries import QUERIES
from limpet.backends.sqlite.rows import Columns, columns_changed
from limpet.backends.sqlite.spans import read_journal
from limpet.errors import BackendError, LeaseLost, PositionTaken
from limpet.model import Lease, StateMetadata

_BEGIN = QUERIES["begin"]
_COMMIT = QUERIES["commit"]
_APPEND_RECORD = QUERIES["append_record"]

_Row = tuple[int, bytes, int, int]


class Appender:
    """The verb ``append`` of the store."""

    _connection: Connection
    _cursor: Cursor

    def __init__(self) -> None:
        # Of states leased here: a position that is known to be committed. Records never vanish while their key lasts,
        # so an append that begins right behind it leaves no gap. A state that is missing here costs a query, no more.
        self._reached: dict[int, int] = {}

    def use(self, connection: Connection, cursor: Cursor) -> None:
        """Write on this connection from now on."""
        self._connection, self._cursor = connection, cursor

    def expect(self, key: int, position: int) -> None:
        """Take note of the committed position of a state that is going to be written."""
        self._reached[key] = position

    def forget(self, key: int) -> None:
        self._reached.pop(key, None)

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        """Write all in one transaction. An error of SQLite leaves it open: the store rolls it back."""
        if len(appends) == 1 and self._append_record(appends[0]):
            return [None]
        if self._append_unhindered(appends):
            return [None] * len(appends)
        return self._append_each(appends)

    def _append_record(self, append: Append) -> bool:
        """Write what is a single record that follows upon the last one; False, with nothing written, otherwise.

        Every event of every run that is alone waits for this, so it is written for speed.
        """
        bodies, seq = append.bodies, append.first_seq
        if len(bodies) != 1 or append.update is not None:
            return False
        key = append.lease.key
        if self._reached.get(key) != seq - 1:
            return False
        # A single statement is a transaction by itself. It waits for the write lock just as BEGIN IMMEDIATE does.
        try:
            self._cursor.execute(_APPEND_RECORD, (seq, bodies[0], key, append.lease.fence))
        except apsw.ConstraintError:
            return False
        if self._connection.changes() != 1:
            return False
        self._reached[key] = seq
        return True

    def _append_unhindered(self, appends: Sequence[Append]) -> bool:
        """Write everything in one go; False, with nothing written, where an append has to be looked into."""
        rows: list[_Row] = []
        unproven: list[Lease] = []
        updates: list[tuple[int, StateUpdate]] = []
        reached: dict[int, int] = {}
        for append in appends:
            lease, bodies, update = append.lease, append.bodies, append.update
            key = lease.key
            if bodies:
                seq, fence = append.first_seq, lease.fence
                before = reached.get(key) or self._reached.get(key)
                if before != seq - 1:
                    return False
                for body in bodies:
                    rows.append((seq, body, key, fence))
                    seq += 1
                reached[key] = seq - 1
            else:
                unproven.append(lease)
            if update is not None:
                updates.append((key, update))
        is_written = self._write_together(rows, unproven, updates)
        if is_written:
            self._reached.update(reached)
            for key, update in updates:
                if update.releases:
                    self.forget(key)
        return is_written

    def _write_together(self, rows: list[_Row], unproven: list[Lease], updates: list[tuple[int, StateUpdate]]) -> bool:
        cursor, connection = self._cursor, self._connection
        cursor.execute(_BEGIN)
        before = connection.total_changes()
        try:
            cursor.executemany(_APPEND_RECORD, rows)
            is_whole = connection.total_changes() - before == len(rows)
        except apsw.ConstraintError:
            is_whole = False
        # Inserting a record has shown that a lease is good; without records it has yet to be shown.
        if not is_whole or not all(map(self._is_newest, unproven)):
            cursor.execute(QUERIES["rollback"])
            return False
        for key, update in updates:
            self._apply(key, update)
        cursor.execute(_COMMIT)
        return True

    def _append_each(self, appends: Sequence[Append]) -> list[BackendError | None]:
        self._cursor.execute(_BEGIN)
        answers = [self._append_one(append) for append in appends]
        positions = {append.lease.key: self._position(append.lease.key) for append in appends}
        self._cursor.execute(_COMMIT)
        self._reached.update(positions)
        return answers

    def _append_one(self, append: Append) -> BackendError | None:
        """Decide on one append by what stands in the store, then write what is missing of it."""
        lease, first, bodies = append.lease, append.first_seq, append.bodies
        if not self._is_newest(lease):
            return LeaseLost(lease.state_id, lease.fence)
        if bodies and not 1 <= first <= self._position(lease.key) + 1:
            return PositionTaken(lease.state_id, first)
        standing = read_journal(self._fetch, lease.state_id, first - 1, len(bodies))
        for (seq, body), wanted in zip(standing, bodies, strict=False):
            if body != wanted:
                return PositionTaken(lease.state_id, seq)
        missing = enumerate(bodies[len(standing) :], first + len(standing))
        self._cursor.executemany(QUERIES["insert_record"], [(lease.key, seq, body) for seq, body in missing])
        if append.update is not None:
            self._apply(lease.key, append.update)
        return None

    def _is_newest(self, lease: Lease) -> bool:
        return self._cursor.execute(QUERIES["find_fence"], (lease.key,)).get == lease.fence

    def _position(self, key: int) -> int:
        return self._cursor.execute(QUERIES["find_position"], {"key": key}).get

    def _fetch(self, query: str, bindings: Bindings) -> list[tuple[Any, ...]]:
        return self._cursor.execute(QUERIES[query], bindings).fetchall()

    def _apply(self, key: int, update: StateUpdate) -> None:
        """Change a header under a lease that has been checked."""
        ((*before, checksum),) = self._cursor.execute(QUERIES["find_columns"], (key,)).fetchall()
        columns = Columns(*before)
        new = columns_changed(columns, update)
        # A header that is damaged must not be made good by writing to it.
        if checksum is None or update.header is not None or checksum == columns.checksum:
            checksum = new.checksum
        if (metadata := update.metadata or (update.header and update.header.metadata)) is not None:
            self._replace_metadata(key, new, metadata)
        row = (new.status, new.updated_at, new.timeline, new.end_seq, new.end_link, checksum, key)
        self._cursor.execute(QUERIES["update_header"], row)
        if update.releases:
            self._cursor.execute(QUERIES["release_lease"], (key,))

    def _replace_metadata(self, key: int, new: Columns, metadata: StateMetadata) -> None:
        self._cursor.execute(QUERIES["delete_tags"], (key,))
        row = (new.metadata, new.pipeline_name, new.parent, new.agent, new.version, new.created_at, key)
        self._cursor.execute(QUERIES["update_metadata"], row)
        insert_tags(self._cursor, key, metadata)

    def rewrite(self, appends: Sequence[Append]) -> None:
        """Put other bytes in the place of records, inside a transaction that the store ends."""
        keys = msgspec.json.encode([append.lease.key for append in appends]).decode()
        for append in appends:
            lease = append.lease
            if not self._is_newest(lease):
                raise LeaseLost(lease.state_id, lease.fence)
            for seq, body in enumerate(append.bodies, append.first_seq):
                self._cursor.execute(QUERIES["rewrite_record"], (body, lease.key, seq))
                if self._connection.changes() != 1:
                    raise PositionTaken(lease.state_id, seq)
            if append.update is not None:
                self._apply(lease.key, append.update)
        for append in appends:
            shared = {"key": append.lease.key, "first": append.first_seq, "known": keys}
            if append.bodies and self._fetch("find_other_sharer", shared):
                raise PositionTaken(append.lease.state_id, append.first_seq)


def insert_tags(cursor: Cursor, key: int, metadata: StateMetadata) -> None:
    cursor.executemany(QUERIES["insert_tag"], [(tag, key) for tag in metadata.tags])
