"""States in one SQLite file. The format, its invariants and what is true after a crash open ``schema.sql``.

Several backends, in one process or in many, may have the same file open. Nothing here decides what a record means.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from limpet.backends.contract import Append, Claim, Flaw, Grant, StateBackend, first_fence
from limpet.backends.holders import tell_deleted, writes_no_more
from limpet.backends.sqlite.appends import Appender, insert_tags
from limpet.backends.sqlite.artifacts import SQLiteArtifactBackend
from limpet.backends.sqlite.connection import locate
from limpet.backends.sqlite.database import Database
from limpet.backends.sqlite.driver import Cursor, Value
from limpet.backends.sqlite.letters import arrivals, deliver, discard_letters, letters_of
from limpet.backends.sqlite.measuring import measured
from limpet.backends.sqlite.queries import QUERIES
from limpet.backends.sqlite.rows import Standing, holder_to_json, row_of_claim, standing_from_row, wish_for
from limpet.backends.sqlite.spans import Shared, delete_journal, insert_spans, read_journal, shared_up_to
from limpet.errors import BackendError, LeaseHeld, LeaseLost, StoreDamaged, UsageError
from limpet.model import (
    Base,
    DiskUse,
    Holder,
    Lease,
    Letter,
    Room,
    StateHeader,
    StateStatus,
    checked_letter_name,
    checked_note,
    checked_note_name,
)

LAST_KEY = 2**63 - 1
"""The greatest number that SQLite has."""


class SQLiteStateBackend(StateBackend):
    """States in one SQLite file, which is made where it is missing: readable by its owner alone, with its folders.

    ``synchronous="full"`` waits for the disk at every commit and loses nothing when the machine dies; ``"normal"`` does
    not wait, and loses nothing when the process dies. Raises NotAStore, UnsupportedVersion or StoreNotWritable.

    Small artifacts are in the file too; those that are too large for that belong into the folder beside it.
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
        location = locate(path, busy_timeout_s)
        self.name = location.name
        self.artifacts_folder = f"{location.path}-artifacts"
        self.commit_waits = synchronous == "full"
        self.inline_when_quick = True
        self._clock = clock
        self._appender = Appender()
        self._database = Database(location, synchronous, self._appender.use)
        self._store_id = ""
        self.own_artifacts = self._artifacts = SQLiteArtifactBackend(self._database, clock)

    @property
    def store_id(self) -> str:
        if not self._store_id:
            rows = self._database.fetch("find_store_id", ())
            if len(rows) != 1:
                raise StoreDamaged(self.name, f"it has {len(rows)} ids instead of one")
            ((self._store_id,),) = rows
        return self._store_id

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        with self._database.transaction() as cursor:
            # Asked for under the lock: waiting for it must not eat up the leases.
            now = self._clock()
            grants = [self._answer(cursor, claim, now) for claim in claims]
        for grant in grants:
            if grant is not None and grant.lease is not None:
                self._appender.expect(grant.lease.key, grant.header.position)
        return grants

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        database = self._database
        with database.writing:
            # Every event of every run takes this way, so what there is to do mostly is decided here.
            now = time.monotonic()
            if now > database.look_at_s:
                database.begin()
            try:
                answers = self._appender.append(appends)
            except BaseException as error:
                database.give_up(error)
            if now > database.confirm_at_s or len(appends) != 1 or appends[0].update is not None:
                database.confirm()
            return answers

    def rewrite(self, appends: Sequence[Append]) -> None:
        with self._database.transaction():
            self._appender.rewrite(appends)

    def examine_store(self, *, repair: bool = False) -> list[Flaw]:
        found = [text for (text,) in self._database.fetch("check_integrity", ()) if text != "ok"]
        flaws = [Flaw(f"SQLite finds the file damaged: {text}.") for text in found]
        ((orphans,),) = self._database.fetch("count_orphans", ())
        if orphans:
            flaws.append(Flaw(f"{orphans} records belong to no state.", is_harmless=True))
        return flaws

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        with self._database.transaction() as cursor:
            until = self._clock() + ttl_s
            answers: list[bool] = []
            for lease in leases:
                cursor.execute(QUERIES["renew_lease"], (until, lease.key, lease.fence))
                answers.append(self._database.writer.changes() == 1)
        return answers

    def leave_wish(self, state_id: str, wish: str) -> Holder | None:
        with self._database.transaction() as cursor:
            standing = self._standing(cursor, state_id, self._clock())
            holder = None if standing is None else standing.header.holder
            if standing is not None and holder is not None:
                cursor.execute(QUERIES["leave_wish"], (holder_to_json(holder, wish), standing.key))
        return holder

    def wishes(self, leases: Sequence[Lease]) -> list[str | None]:
        rows = self._database.fetch("find_wishes", (_json_list([lease.key for lease in leases]),))
        found = {(key, fence): wish_for(holder) for key, fence, holder in rows}
        return [found.get((lease.key, lease.fence)) for lease in leases]

    def deliver(self, state_id: str, name: str, body: bytes) -> Letter | None:
        checked_letter_name(name)
        with self._database.transaction() as cursor:
            return deliver(cursor, state_id, name, body, self._clock())

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        return letters_of(self._database.fetch, state_id, after)

    def arrivals(self, after: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        return arrivals(self._database.fetch, after, limit)

    def discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        with self._database.transaction() as cursor:
            discard_letters(cursor, lease, names)

    def note(self, name: str) -> str | None:
        rows = self._database.fetch("find_note", (checked_note_name(name),))
        return rows[0][0] if rows else None

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        checked_note_name(name)
        checked_note(after)
        with self._database.transaction() as cursor:
            is_as_before = cursor.execute(QUERIES["find_note"], (name,)).get == before
            if is_as_before:
                cursor.execute(QUERIES["put_note"], (name, after))
        return is_as_before

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        return read_journal(self._database.fetch, state_id, after, -1 if limit is None else max(limit, 0))

    def find_state(self, state_id: str) -> StateHeader | None:
        rows = self._database.fetch("find_header", (state_id,))
        return standing_from_row(rows[0], self._clock()).header if rows else None

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        parent_state_id: str | None = None,
        before: StateHeader | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        wanted = self._place_of(before)
        wanted |= {"status": status and status.value, "pipeline_name": pipeline_name, "limit": max(limit, 0)}
        if parent_state_id is not None:
            every = {"parent": parent_state_id, "tags": _json_list(tags or ())}
            rows = self._database.fetch("list_by_parent", {**wanted, **every})
        elif tags:
            rows = self._database.fetch("list_by_tag", {**wanted, "tag": tags[0], "tags": _json_list(tags[1:])})
        elif pipeline_name is not None:
            rows = self._database.fetch("list_by_pipeline", wanted)
        elif status is not None:
            rows = self._database.fetch("list_by_status", wanted)
        else:
            rows = self._database.fetch("list_newest", wanted)
        now = self._clock()
        return [standing_from_row(row, now).header for row in rows]

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        with self._database.transaction() as cursor:
            now = self._clock()
            standing = self._standing(cursor, state_id, now)
            if standing is None:
                return False
            if lease is not None and (lease.key, lease.fence) != (standing.key, standing.fence):
                raise LeaseLost(state_id, lease.fence)
            holder = standing.header.holder
            if lease is None and holder is not None and not writes_no_more(holder):
                raise LeaseHeld(state_id, str(holder), standing.lease_until - now)
            self._delete(cursor, standing.key)
        self._appender.forget(standing.key)
        if lease is None:
            tell_deleted(state_id, holder)
        return True

    def delete_states(self, leases: Sequence[Lease]) -> list[bool]:
        answers: list[bool] = []
        with self._database.transaction() as cursor:
            for lease in leases:
                rows = cursor.execute(QUERIES["find_fence"], (lease.key,)).fetchall()
                answers.append(rows == [(lease.fence,)])
                if answers[-1]:
                    self._delete(cursor, lease.key)
        for lease in leases:
            self._appender.forget(lease.key)
        return answers

    def measure(self, state_ids: Sequence[str]) -> list[Room | None]:
        return measured(self._database.fetch, state_ids)

    def disk_use(self) -> DiskUse | None:
        return self._database.disk_use()

    def compact(self) -> bool:
        self._database.compact()
        return True

    def close(self) -> None:
        self._artifacts.close()
        self._database.close()

    def _delete(self, cursor: Cursor, key: int) -> None:
        for query in ("delete_tags", "delete_letters", "delete_header"):
            cursor.execute(QUERIES[query], (key,))
        delete_journal(cursor, key)

    def _place_of(self, before: StateHeader | None) -> dict[str, Value]:
        """What a listing binds to begin behind a state; behind no other of its moment where it is gone."""
        if before is None:
            return {"created_at": 1e300, "key": LAST_KEY}
        created_at = before.created_at.timestamp()
        rows = self._database.fetch("find_place", (before.state_id, created_at))
        return {"created_at": created_at, "key": rows[0][0] if rows else LAST_KEY}

    def _answer(self, cursor: Cursor, claim: Claim, now: float) -> Grant | None:
        standing = self._standing(cursor, claim.header.state_id, now)
        if standing is None:
            return self._create(cursor, claim, now) if claim.create else None
        header = standing.header
        if header.damage is not None and not claim.mend:
            return Grant(header=header)
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

    def _create(self, cursor: Cursor, claim: Claim, now: float) -> Grant | None:
        shared = Shared() if claim.base is None else self._shared_by(cursor, claim.base, now)
        if shared is None:
            return None
        cursor.execute(QUERIES["insert_state"], row_of_claim(claim, shared.bases, now))
        key = self._database.writer.last_insert_rowid()
        fence = first_fence(key)
        cursor.execute(QUERIES["set_first_fence"], (fence, key))
        insert_tags(cursor, key, claim.header.metadata)
        insert_spans(cursor, key, shared)
        rows = [(key, seq, body) for seq, body in enumerate(claim.bodies, shared.last + 1)]
        cursor.executemany(QUERIES["insert_record"], rows)
        position = shared.last + len(rows)
        header = msgspec.structs.replace(claim.header, position=position, holder=claim.holder, bases=shared.bases)
        return Grant(header=header, is_new=True, lease=Lease(header.state_id, key, fence))

    def _shared_by(self, cursor: Cursor, base: Base, now: float) -> Shared | None:
        """What a fork begins with, or None if it is not there."""
        parent = self._standing(cursor, base.state_id, now)
        if parent is None or not 1 <= base.last <= parent.header.position:
            return None
        return shared_up_to(cursor, parent, base.last)

    def _standing(self, cursor: Cursor, state_id: str, now: float) -> Standing | None:
        rows = cursor.execute(QUERIES["find_header"], (state_id,)).fetchall()
        return standing_from_row(rows[0], now) if rows else None


def _json_list(values: Sequence[str] | Sequence[int]) -> str:
    return msgspec.json.encode(values).decode()
