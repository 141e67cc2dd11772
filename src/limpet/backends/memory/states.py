"""States in the memory of the process: for tests, and for runs that need not outlive it. Touches no file.

Everything is under one lock. Metadata is kept as JSON text, as other backends keep it, so that a list or dict which the
caller changes later does not change what is stored.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from limpet.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate, bases_of_fork, first_fence
from limpet.backends.holders import tell_deleted, writes_no_more
from limpet.backends.memory.artifacts import MemoryArtifactBackend
from limpet.backends.memory.journals import Journal, Span
from limpet.errors import BackendError, LeaseHeld, LeaseLost, PositionTaken, UsageError
from limpet.model import (
    Base,
    Holder,
    Lease,
    Letter,
    Room,
    SharedRoom,
    StateHeader,
    StateMetadata,
    StateStatus,
    checked_letter_name,
    checked_note,
    checked_note_name,
)
from limpet.model.header import utc
from limpet.processes import new_lock


class _Shared(msgspec.Struct, frozen=True):
    """What a new state begins with: as its header says, and where it is."""

    bases: tuple[Base, ...] = ()
    spans: tuple[Span, ...] = ()


class _StoredState:
    """One state: the header without what is filled in when it is read, its lease, the records, the inbox."""

    __slots__ = ("fence", "header", "holder", "inbox", "journal", "key", "lease_until", "metadata", "wish")

    def __init__(self, key: int, claim: Claim, shared: _Shared) -> None:
        self.key = key
        self.header = msgspec.structs.replace(claim.header, bases=shared.bases)
        self.metadata = claim.header.metadata.to_json()
        self.journal = Journal(key, shared.spans, claim.bodies)
        self.fence = first_fence(key) - 1
        self.holder: Holder | None = None
        self.lease_until = 0.0
        self.wish: str | None = None
        self.inbox: dict[str, Letter] = {}

    def lease_to(self, holder: Holder, until: float) -> Lease:
        self.fence += 1
        self.holder = holder
        self.lease_until = until
        self.wish = None
        return Lease(self.header.state_id, self.key, self.fence)

    def holder_at(self, now: float) -> Holder | None:
        return self.holder if self.lease_until > now else None

    def header_at(self, now: float) -> StateHeader:
        metadata = StateMetadata.from_json(self.metadata)
        return msgspec.structs.replace(
            self.header, metadata=metadata, position=self.journal.position, holder=self.holder_at(now)
        )

    def room(self) -> Room:
        shared = (SharedRoom(str(each.written.key), each.last, each.size) for each in self.journal.shared)
        own = self.journal.own
        letters = sum(len(letter.body) for letter in self.inbox.values())
        return Room(str(own.key), len(self.metadata.encode()) + sum(map(len, own.bodies)) + letters, tuple(shared))

    def refusal(self, append: Append) -> BackendError | None:
        first = append.first_seq
        if append.bodies and not 1 <= first <= self.journal.position + 1:
            return PositionTaken(self.header.state_id, first)
        standing = self.journal.between(first - 1, first - 1 + len(append.bodies))
        for (seq, body), wanted in zip(standing, append.bodies, strict=False):
            if body != wanted:
                return PositionTaken(self.header.state_id, seq)
        return None

    def change(self, update: StateUpdate) -> None:
        if update.header is not None:
            self.header = msgspec.structs.replace(
                update.header, state_id=self.header.state_id, bases=self.header.bases, damage=None
            )
            self.metadata = update.header.metadata.to_json()
        if update.status is not None or update.metadata is not None:
            status = update.status or self.header.status
            self.header = msgspec.structs.replace(self.header, status=status, updated_at=utc(update.at))
        if update.metadata is not None:
            self.metadata = update.metadata.to_json()
        if update.timeline is not None:
            self.header = msgspec.structs.replace(self.header, timeline=update.timeline)
        if update.end is not None:
            self.header = msgspec.structs.replace(self.header, end=update.end)
        if update.releases:
            self.holder = None
            self.wish = None


class MemoryStateBackend(StateBackend):
    """States in the memory of the process; they are gone with it, or when the backend is closed."""

    outlives_process = False

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.name = "memory://"
        self.commit_waits = False
        self._clock = clock
        self._lock = new_lock(is_awaited=True)
        self._is_closed = False
        self._keys = itertools.count(1)
        self._by_id: dict[str, _StoredState] = {}
        self._by_key: dict[int, _StoredState] = {}
        self._letter_numbers = itertools.count(1)
        self._arrivals: dict[int, str] = {}
        """The letters of all states, in the order of their numbers."""
        self._notes: dict[str, str] = {}
        self._store_id = secrets.token_hex(16)
        self.own_artifacts = self._artifacts = MemoryArtifactBackend(clock)

    @property
    def store_id(self) -> str:
        return self._store_id

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        with self._lock:
            self._require_open()
            return [self._answer(claim, self._clock()) for claim in claims]

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        with self._lock:
            self._require_open()
            return [self._append_one(append) for append in appends]

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        with self._lock:
            self._require_open()
            return [self._renew_one(lease, self._clock() + ttl_s) for lease in leases]

    def leave_wish(self, state_id: str, wish: str) -> Holder | None:
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            holder = None if stored is None else stored.holder_at(self._clock())
            if stored is not None and holder is not None:
                stored.wish = wish
            return holder

    def wishes(self, leases: Sequence[Lease]) -> list[str | None]:
        with self._lock:
            self._require_open()
            standing = map(self._leased, leases)
            return [None if stored is None else stored.wish for stored in standing]

    def deliver(self, state_id: str, name: str, body: bytes) -> Letter | None:
        checked_letter_name(name)
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            if stored is None:
                return None
            if name not in stored.inbox:
                letter = Letter(next(self._letter_numbers), state_id, name, bytes(body), self._clock())
                stored.inbox[name] = letter
                self._arrivals[letter.number] = state_id
            return stored.inbox[name]

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            # From the newest on, so that it costs what is new, however many there are.
            inbox = () if stored is None else reversed(stored.inbox.values())
            return list(itertools.takewhile(lambda letter: letter.number > after, inbox))[::-1]

    def arrivals(self, after: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        with self._lock:
            self._require_open()
            # From the newest on, so that it costs what is new, however many there are.
            behind = list(itertools.takewhile(lambda arrival: arrival[0] > after, reversed(self._arrivals.items())))
            return behind[::-1][: max(limit, 0)]

    def discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        with self._lock:
            self._require_open()
            stored = self._leased(lease)
            if stored is None:
                raise LeaseLost(lease.state_id, lease.fence)
            self._discard(stored, names)

    def note(self, name: str) -> str | None:
        checked_note_name(name)
        with self._lock:
            self._require_open()
            return self._notes.get(name)

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        checked_note_name(name)
        checked_note(after)
        with self._lock:
            self._require_open()
            is_as_before = self._notes.get(name) == before
            if is_as_before:
                self._notes[name] = after
            return is_as_before

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            if stored is None:
                return []
            start = max(after, 0)
            stop = stored.journal.position if limit is None else start + max(limit, 0)
            return list(stored.journal.between(start, stop))

    def rewrite(self, appends: Sequence[Append]) -> None:
        with self._lock:
            self._require_open()
            for append in appends:
                stored = self._leased(append.lease)
                if stored is None:
                    raise LeaseLost(append.lease.state_id, append.lease.fence)
                if not stored.journal.owns(append.first_seq, len(append.bodies)):
                    raise PositionTaken(append.lease.state_id, append.first_seq)
            journals = {append.lease.key: self._by_key[append.lease.key].journal for append in appends}
            for append in appends:
                if append.bodies and journals[append.lease.key].is_shared_by_others(
                    append.first_seq, journals.values()
                ):
                    raise PositionTaken(append.lease.state_id, append.first_seq)
            for append in appends:
                self._by_key[append.lease.key].journal.rewrite(append.first_seq, append.bodies)
                if append.update is not None:
                    self._by_key[append.lease.key].change(append.update)

    def find_state(self, state_id: str) -> StateHeader | None:
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            return None if stored is None else stored.header_at(self._clock())

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
        def fits(header: StateHeader) -> bool:
            return (
                set(tags or ()) <= set(header.metadata.tags)
                and (status is None or header.status is status)
                and (pipeline_name is None or header.metadata.pipeline_name == pipeline_name)
                and (parent_state_id is None or header.metadata.parent_state_id == parent_state_id)
            )

        with self._lock:
            self._require_open()
            now = self._clock()
            newest_first = sorted(self._by_key.values(), key=_place, reverse=True)
            if before is not None:
                end = self._place_of(before)
                newest_first = [stored for stored in newest_first if _place(stored) < end]
            fitting = filter(fits, (stored.header_at(now) for stored in newest_first))
            return list(itertools.islice(fitting, max(limit, 0)))

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        with self._lock:
            self._require_open()
            stored = self._by_id.get(state_id)
            if stored is None:
                return False
            now = self._clock()
            if lease is not None and self._leased(lease) is not stored:
                raise LeaseLost(state_id, lease.fence)
            holder = stored.holder_at(now)
            if lease is None and holder is not None and not writes_no_more(holder):
                raise LeaseHeld(state_id, str(holder), stored.lease_until - now)
            del self._by_id[state_id], self._by_key[stored.key]
            stored.journal.delete()
            self._discard(stored, list(stored.inbox))
        if lease is None:
            tell_deleted(state_id, holder)
        return True

    def measure(self, state_ids: Sequence[str]) -> list[Room | None]:
        with self._lock:
            self._require_open()
            found = (self._by_id.get(state_id) for state_id in state_ids)
            return [None if stored is None else stored.room() for stored in found]

    def close(self) -> None:
        self._artifacts.close()
        with self._lock:
            self._is_closed = True
            self._by_id.clear()
            self._by_key.clear()
            self._arrivals.clear()
            self._notes.clear()

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"The store {self.name} is closed, and its states are gone.", "Close it after the last use."
            )

    def _answer(self, claim: Claim, now: float) -> Grant | None:
        stored = self._by_id.get(claim.header.state_id)
        if stored is None:
            return self._create(claim, now) if claim.create else None
        header = stored.header_at(now)
        if header.status is StateStatus.COMPLETED and not claim.reopen:
            return Grant(header=header)
        if header.holder is not None and claim.supersede != stored.fence:
            held_for_s = stored.lease_until - now
            return Grant(header=header, held_by=header.holder, held_fence=stored.fence, held_for_s=held_for_s)
        return Grant(header=header, lease=stored.lease_to(claim.holder, now + claim.ttl_s))

    def _create(self, claim: Claim, now: float) -> Grant | None:
        shared = _Shared() if claim.base is None else self._shared_by(claim.base)
        if shared is None:
            return None
        stored = _StoredState(next(self._keys), claim, shared)
        self._by_id[claim.header.state_id] = self._by_key[stored.key] = stored
        lease = stored.lease_to(claim.holder, now + claim.ttl_s)
        return Grant(header=stored.header_at(now), is_new=True, lease=lease)

    def _shared_by(self, base: Base) -> _Shared | None:
        """What a fork begins with, or None if it is not there."""
        parent = self._by_id.get(base.state_id)
        if parent is None or not 1 <= base.last <= parent.journal.position:
            return None
        bases = bases_of_fork(parent.header_at(self._clock()), base.last)
        written = zip(bases, parent.journal.sources(), strict=False)
        return _Shared(bases, tuple(Span(source, each.last) for each, source in written))

    def _place_of(self, header: StateHeader) -> tuple[datetime, int]:
        """Where a state stands in a listing; behind no other of its moment where it is gone."""
        stored = self._by_id.get(header.state_id)
        is_there = stored is not None and stored.header.created_at == header.created_at
        return (header.created_at, stored.key if stored is not None and is_there else 1 << 62)

    def _leased(self, lease: Lease) -> _StoredState | None:
        """The state of a lease, if the lease is its newest."""
        stored = self._by_key.get(lease.key)
        return stored if stored is not None and stored.fence == lease.fence else None

    def _discard(self, stored: _StoredState, names: Sequence[str]) -> None:
        for name in names:
            letter = stored.inbox.pop(name, None)
            if letter is not None:
                del self._arrivals[letter.number]

    def _append_one(self, append: Append) -> BackendError | None:
        stored = self._leased(append.lease)
        if stored is None:
            return LeaseLost(append.lease.state_id, append.lease.fence)
        refusal = stored.refusal(append)
        if refusal is None:
            missing = append.bodies[stored.journal.position + 1 - append.first_seq :] if append.bodies else ()
            stored.journal.extend(missing)
            if append.update is not None:
                stored.change(append.update)
        return refusal

    def _renew_one(self, lease: Lease, until: float) -> bool:
        stored = self._leased(lease)
        if stored is None or stored.holder is None:
            return False
        stored.lease_until = until
        return True


def _place(stored: _StoredState) -> tuple[datetime, int]:
    return stored.header.created_at, stored.key
