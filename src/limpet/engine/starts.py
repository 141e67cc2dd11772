"""What is recorded with the next outcome: reads of the storage, starts of calls inside which nothing had happened, and
timers that fired."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec

from limpet.engine.scope import Scope
from limpet.journal.history import History
from limpet.model import Details, EventRecord, ExecutionStatus, ReadRecord, StorageRecord, TimerRecord

Found = tuple[str, bool, str, int, int]
"""What reads have found: where they were made, whether of one of ``set_artifact``, the key, the number of the record
with the change, and the newest start inside the call by then. A call that is begun because of them starts later."""

Reads = tuple[Scope, int, int]
"""Where the last of the reads that found it was made, the how-manieth that was, and how many were in a row."""


class Before:
    """The records that go before one of something in a scope (None: outside of every call), with their numbers."""

    __slots__ = ("_fired", "_history", "_now", "_opened", "next_seq", "records")

    def __init__(
        self,
        history: History,
        now: float,
        reads: Iterable[tuple[Found, Reads]],
        scope: Scope | None,
        fired: Sequence[Scope],
    ) -> None:
        self._history = history
        self._now = now
        self._opened: list[Scope] = []
        self._fired = fired
        self.records: list[EventRecord | ReadRecord | StorageRecord | TimerRecord] = []
        self.next_seq = history.position + 1
        for found, made in reads:
            self._add_read(found, made)
        if scope is not None:
            self._add_starts(scope)
        for each in fired:
            self._add_timers(each)

    def note_recorded(self) -> None:
        """Take note that all of it is taken up."""
        for scope in self._opened:
            scope.pending_start = None
        for scope in self._fired:
            assert scope.order is not None
            scope.order.fired.clear()

    def _add(self, record: EventRecord | ReadRecord | TimerRecord) -> None:
        self.records.append(record)
        self.next_seq += 1

    def _add_read(self, found: Found, made: Reads) -> None:
        place, is_artifact, key, saw, newest = found
        scope, number, count = made
        if scope.event.is_closed and scope.event.pending_start is not None:
            return  # Nothing is recorded inside: only the outcome depends on it, which is given as a whole.
        self._add_starts(scope)
        behind = self.next_seq - newest
        self._add(ReadRecord(self.next_seq, self._now, place, key, is_artifact, number, saw, behind, count))

    def _add_timers(self, scope: Scope) -> None:
        """Record the timers that fired inside a call since the last outcome, by what had started when they did."""
        assert scope.order is not None
        path = scope.prefix.removesuffix("::")
        for newest, fired in groupby(scope.order.fired, itemgetter(1)):
            numbers = tuple(number for number, _ in fired)
            self._add(TimerRecord(self.next_seq, self._now, path, numbers, self.next_seq - newest))

    def _add_starts(self, scope: Scope) -> None:
        for each in not_started(scope):
            if each not in self._opened:
                self._opened.append(each)
                self._add(start_of(each, self.next_seq, self._history.changes.newest))


def newest_start(history: History, scope: Scope | None) -> int:
    """The newest start of the call that this is the inside of, and of all that it encloses."""
    if scope is None or scope.event.begun is None:
        return history.next_order - 1
    return scope.event.newest


def not_started(scope: Scope) -> list[Scope]:
    """The insides of the calls that enclose what happens there and have no record yet, from the outermost.

    One that has ended is none of them: its outcome carries its start, and what it left behind does not start it again.
    """
    found: list[Scope] = []
    above: Scope | None = scope.event
    while above is not None and above.pending_start is not None:
        if not above.is_closed:
            found.append(above)
        above = above.parent.event if above.parent is not None else None
    found.reverse()
    return found


def start_of(scope: Scope, seq: int, newest_change: int) -> EventRecord:
    """The record of a start, under its number. It says how much came after the call had begun, where the storage has
    changed in that."""
    assert scope.pending_start is not None
    address, at, order, version, fingerprint, input_, named, attempt, details, _ = scope.pending_start
    if scope.begun is not None:
        began = scope.begun[0] if scope.view is None else scope.view.began
        if newest_change > began:
            details = msgspec.structs.replace(details or Details(), unseen=seq - 1 - began)
    started = ExecutionStatus.STARTED
    return EventRecord(
        *(seq, address, started, at, seq - order, attempt, 0.0, version, fingerprint, input_),
        artifacts=named,
        details=details,
    )


def with_fired(scope: Scope, inside: Scope | None = None) -> Sequence[Scope]:
    """Those of the calls around and inside which timers have fired that are not recorded yet."""
    found: Sequence[Scope] = ()
    if scope.event.order is not None and scope.event.order.fired:
        found = (scope.event,)
    if inside is None or inside.order is None or not inside.order.fired:
        return found
    # Inside a call of which nothing is recorded nobody asks for them.
    return (*found, inside) if inside.counts and inside.pending_start is None else found
