"""States in one SQLite file. The format, its invariants and what is true after a crash open ``schema.sql``.

One connection writes and checkpoints, under a lock; another only reads, under a lock of its own, so that reading a long
journal holds up no commit. Several backends, in one process or in many, may have the same file open. Nothing here
decides what a record means.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn, cast

import apsw
import msgspec

from holdfast.backends.contract import Append, Claim, Grant, StateBackend
from holdfast.backends.sqlite.appends import Appender, insert_tags
from holdfast.backends.sqlite.connection import locate, open_reader, open_writer
from holdfast.backends.sqlite.driver import Bindings, Connection, Cursor
from holdfast.backends.sqlite.faults import translated
from holdfast.backends.sqlite.queries import QUERIES
from holdfast.backends.sqlite.rows import Standing, holder_to_json, row_of_claim, standing_from_row
from holdfast.errors import BackendError, LeaseHeld, LeaseLost, UsageError
from holdfast.model import Lease, StateHeader, StateStatus


class SQLiteStateBackend(StateBackend):
    """States in one SQLite file, which is made where it is missing: readable by its owner alone, with its folders.

    ``synchronous="full"`` waits for the disk at every commit and loses nothing when the machine dies; ``"normal"`` does
    not wait, and loses nothing when the process dies. Raises NotAStore, UnsupportedVersion or StoreNotWritable.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        synchronous: Literal["full", "normal"] = "full",
        clock: Callable[[], float] = time.time,
        busy_timeout_s: float = 30.0,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise UsageError(
                f"synchronous={synchronous!r} is no setting of an SQLite store.", "Use 'full' or 'normal'."
            )
        self._location = locate(path, busy_timeout_s)
        self.name = self._location.name
        self.commit_waits = synchronous == "full"
        self.inline_when_quick = True
        self._clock = clock
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._is_closed = False
        self._writer = open_writer(self._location, synchronous)
        self._cursor = self._writer.cursor()
        self._appender = Appender(self._writer, self._cursor)
        self._reader: Connection | None = None

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        with self._transaction() as cursor:
            # Asked for under the lock: waiting for it must not eat up the leases.
            now = self._clock()
            grants = [self._answer(cursor, claim, now) for claim in claims]
        for grant in grants:
            if grant is not None and grant.lease is not None:
                self._appender.expect(grant.lease.key, grant.header.position)
        return grants

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        with self._writing:
            if self._is_closed:
                self._refuse_closed()
            try:
                return self._appender.append(appends)
            except BaseException as error:
                self._give_up(error)

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        with self._transaction() as cursor:
            until = self._clock() + ttl_s
            answers: list[bool] = []
            for lease in leases:
                cursor.execute(QUERIES["renew_lease"], (until, lease.key, lease.fence))
                answers.append(self._writer.changes() == 1)
        return answers

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        rows = self._fetch("read_records", (state_id, after, -1 if limit is None else max(limit, 0)))
        return cast("list[tuple[int, bytes]]", rows)

    def find_state(self, state_id: str) -> StateHeader | None:
        rows = self._fetch("find_header", (state_id,))
        return standing_from_row(rows[0], self._clock()).header if rows else None

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        wanted = {"status": status and status.value, "pipeline_name": pipeline_name, "limit": max(limit, 0)}
        if tags:
            rows = self._fetch(
                "list_by_tag", {**wanted, "tag": tags[0], "tags": msgspec.json.encode(tags[1:]).decode()}
            )
        elif pipeline_name is not None:
            rows = self._fetch("list_by_pipeline", wanted)
        elif status is not None:
            rows = self._fetch("list_by_status", wanted)
        else:
            rows = self._fetch("list_newest", wanted)
        now = self._clock()
        return [standing_from_row(row, now).header for row in rows]

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        with self._transaction() as cursor:
            now = self._clock()
            standing = self._standing(cursor, state_id, now)
            if standing is None:
                return False
            if lease is not None and (lease.key, lease.fence) != (standing.key, standing.fence):
                raise LeaseLost(state_id, lease.fence)
            holder = standing.header.holder
            if lease is None and holder is not None:
                raise LeaseHeld(state_id, str(holder), standing.lease_until - now)
            for query in ("delete_records", "delete_tags", "delete_header"):
                cursor.execute(QUERIES[query], (standing.key,))
        self._appender.forget(standing.key)
        return True

    def close(self) -> None:
        with self._writing, self._reading:
            self._is_closed = True
            # The writer last: the one that closes last is the one that checkpoints.
            if self._reader is not None:
                self._reader.close()
            self._writer.close()

    def _answer(self, cursor: Cursor, claim: Claim, now: float) -> Grant | None:
        standing = self._standing(cursor, claim.header.state_id, now)
        if standing is None:
            return self._create(cursor, claim, now) if claim.create else None
        header = standing.header
        if header.status is StateStatus.COMPLETED and not claim.reopen:
            return Grant(header=header)
        if header.holder is not None and claim.supersede != standing.fence:
            return Grant(
                header=header,
                held_by=header.holder,
                held_fence=standing.fence,
                held_for_s=standing.lease_until - now,
            )
        fence = standing.fence + 1
        holder = holder_to_json(claim.holder)
        cursor.execute(QUERIES["grant_lease"], (fence, holder, now + claim.ttl_s, standing.key))
        return Grant(header=header, lease=Lease(header.state_id, standing.key, fence))

    def _create(self, cursor: Cursor, claim: Claim, now: float) -> Grant:
        cursor.execute(QUERIES["insert_state"], row_of_claim(claim, now))
        key = self._writer.last_insert_rowid()
        insert_tags(cursor, key, claim.header.metadata)
        cursor.executemany(QUERIES["insert_record"], [(key, seq, body) for seq, body in enumerate(claim.bodies, 1)])
        header = msgspec.structs.replace(claim.header, position=len(claim.bodies), holder=claim.holder)
        return Grant(header=header, is_new=True, lease=Lease(header.state_id, key, 1))

    def _standing(self, cursor: Cursor, state_id: str, now: float) -> Standing | None:
        rows = cursor.execute(QUERIES["find_header"], (state_id,)).fetchall()
        return standing_from_row(rows[0], now) if rows else None

    @contextmanager
    def _transaction(self) -> Generator[Cursor]:
        with self._writing:
            if self._is_closed:
                self._refuse_closed()
            try:
                self._cursor.execute(QUERIES["begin"])
                yield self._cursor
                self._cursor.execute(QUERIES["commit"])
            except BaseException as error:
                self._give_up(error)

    def _give_up(self, error: BaseException) -> NoReturn:
        """Roll back whatever was going on, so that the connection serves the next call, and raise what it means."""
        system_errno = self._writer.system_errno
        # SQLite has rolled back by itself after some errors, and refuses to do it twice.
        if self._writer.in_transaction:
            self._cursor.execute(QUERIES["rollback"])
        if isinstance(error, apsw.Error):
            raise translated(error, self.name, self._location.path, system_errno) from error
        raise error

    def _fetch(self, query: str, bindings: Bindings) -> list[tuple[Any, ...]]:
        with self._reading:
            if self._is_closed:
                self._refuse_closed()
            if self._reader is None:
                self._reader = open_reader(self._location)
            try:
                return self._reader.execute(QUERIES[query], bindings).fetchall()
            except apsw.Error as error:
                system_errno = self._reader.system_errno
                raise translated(error, self.name, self._location.path, system_errno) from error

    def _refuse_closed(self) -> NoReturn:
        raise UsageError(f"The store {self.name} is closed.", "Open it again, and close it when everything is done.")
