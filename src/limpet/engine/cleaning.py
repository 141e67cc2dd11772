"""Deletes the states that a retention lets go: looks at all, decides, and deletes a few at a time.

The store is read page by page, and what is kept of a state meanwhile is small. What was decided is not carried out on
anything that has changed since: each few states are claimed first, with leases that last no time. Whoever takes one of
them up then has a newer lease, and so the state stays. If a process dies on the way, states are there whole or not at
all, and the next cleanup goes on.

Between two of its short transactions it leaves the store to others for longer than it had it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from limpet.backends.contract import Claim, Grant, StateBackend
from limpet.engine.lease import LeaseKeeper, new_holder, takeover
from limpet.engine.progress import Told
from limpet.engine.writer import Writer
from limpet.journal.retention import BEING_RUN, Candidate, Decision, Reduction, candidate, decide, reductions
from limpet.model import Holder, Lease, Removed, Retention, StateHeader, StateStatus

_PAGE = 500
_MOST_AT_ONCE = 40
_MOST_BYTES_AT_ONCE = 1 << 20
_SHORTEST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.2

CHANGED = "changed meanwhile"
TAKEN_UP = BEING_RUN


class Plan(msgspec.Struct, frozen=True):
    """What becomes of each state, the oldest first."""

    decisions: list[Decision]
    reductions: list[Reduction]
    """Of those that stay, the ones that may lose records."""
    left_whole: Counter[str]
    """How many others are old enough for that, by why they do not."""

    @property
    def going(self) -> list[Decision]:
        return [decision for decision in self.decisions if decision.goes]

    def kept(self) -> Counter[str]:
        """How many states stay, by reason."""
        return Counter(decision.reason for decision in self.decisions if not decision.goes)


class Cleaning:
    """One cleanup of one store."""

    def __init__(self, writer: Writer, on_progress: Told | None = None) -> None:
        self._backend = writer.backend
        self._keeper = writer.keeper
        self._on_progress = on_progress

    def plan(self, retention: Retention, now: datetime) -> Plan:
        """Look at all states, and decide. Changes nothing."""
        found: dict[str, Candidate] = {}
        for page in pages(self._backend):
            rooms = self._backend.measure([header.state_id for header in page])
            for header, room in zip(page, rooms, strict=True):
                # A page may begin with states of the one before it, and what was just deleted takes no room.
                if room is not None and header.state_id not in found:
                    is_held = self._keeper.may_write(header.holder)
                    found[header.state_id] = candidate(header, room, retention, is_held=is_held)
        decisions = decide(list(found.values()), retention, now)
        return Plan(decisions, *reductions(decisions, retention, now))

    def carry_out(self, plan: Plan) -> tuple[list[Removed], Counter[str]]:
        """Delete what is to go and has not changed since. Gives what went, and how many states stay, by reason."""
        going = plan.going
        removed: list[Removed] = []
        kept = plan.kept()
        done = 0
        for batch in _batches(going):
            candidates = [decision.candidate for decision in batch]
            grants = claimed(self._backend, self._keeper, candidates)
            began = time.monotonic()
            why = self._delete(candidates, grants)
            for decision, reason in zip(batch, why, strict=True):
                done += 1
                state_id = decision.candidate.state_id
                if reason is None:
                    removed.append(Removed(state_id, decision.reason, decision.bytes))
                else:
                    kept[reason] += 1
                if self._on_progress is not None:
                    self._on_progress(done, len(going), state_id)
            if done < len(going):
                leave_to_others(began)
        return removed, kept

    def _delete(self, batch: Sequence[Candidate], grants: Iterable[tuple[int, Grant]]) -> list[str | None]:
        """Delete a few states that were claimed, and give for each why it stays; None if it went."""
        why: list[str | None] = [CHANGED] * len(batch)
        leases: dict[int, Lease] = {}
        for place, grant in grants:
            if grant.held_by is not None:
                why[place] = TAKEN_UP
            elif grant.lease is not None and batch[place].is_still(grant.header):
                leases[place] = grant.lease
        if leases:
            for place, is_deleted in zip(leases, self._backend.delete_states(list(leases.values())), strict=True):
                why[place] = None if is_deleted else TAKEN_UP
        return why

    def is_in_use(self) -> bool:
        """Whether somebody runs a state of the store, or may."""
        return any(self._keeper.may_write(header.holder) for page in pages(self._backend) for header in page)


def pages(backend: StateBackend, status: StateStatus | None = None) -> Iterator[list[StateHeader]]:
    """All states of a store, or those of a status, the newest first, some at a time."""
    last: StateHeader | None = None
    while page := backend.list_states(status=status, before=last, limit=_PAGE):
        yield page
        last = page[-1]


def claimed(backend: StateBackend, keeper: LeaseKeeper, batch: Sequence[Candidate]) -> list[tuple[int, Grant]]:
    """The answers to claims on states, by their places, once the leases of the dead are taken over."""
    # Leases that last no time take the right to write from whoever had it, and keep it from nobody.
    holder = new_holder()
    claims = {place: _claim(each, holder) for place, each in enumerate(batch)}
    answered: list[tuple[int, Grant]] = []
    while claims:
        began = time.monotonic()
        answers = zip(claims, backend.acquire(list(claims.values())), strict=True)
        again: dict[int, Claim] = {}
        for place, grant in answers:
            if grant is None:
                continue
            if grant.held_by is not None and not keeper.may_write(grant.held_by):
                again[place] = takeover(claims[place], grant)
            else:
                answered.append((place, grant))
        claims = again
        leave_to_others(began)
    return answered


def leave_to_others(began: float) -> None:
    """Let others write for several times as long as a transaction took: who waits for a lock asks now and then only."""
    time.sleep(min(max(_SHORTEST_PAUSE_S, 4 * (time.monotonic() - began)), _LONGEST_PAUSE_S))


def _claim(each: Candidate, holder: Holder) -> Claim:
    header = StateHeader(
        state_id=each.state_id, status=each.status, created_at=each.created_at, updated_at=each.updated_at
    )
    return Claim(header=header, holder=holder, ttl_s=0.0, create=False, reopen=True)


def _batches(going: Sequence[Decision]) -> Iterator[list[Decision]]:
    """A few at a time: what is large is deleted by itself."""
    batch: list[Decision] = []
    size = 0
    for decision in going:
        taken = decision.candidate.room.bytes
        if batch and (len(batch) == _MOST_AT_ONCE or size + taken > _MOST_BYTES_AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(decision)
        size += taken
    if batch:
        yield batch
