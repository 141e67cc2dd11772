"""The order in which the code inside each call was given its results, read off the journal.

The journal's order is that order. Inside one call it is made of the last outcomes of the calls made there, from
whatever task, of those that the code cancelled, and of its timers that fired.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import cast

from limpet.journal.address import SEPARATOR
from limpet.journal.history import History
from limpet.journal.pages import PagedJournal
from limpet.journal.timeline import Sieve, Verdict
from limpet.model import EventRecord, EventType, ExecutionStatus, Record, Settled, TimerRecord
from limpet.model.words import WaitType

Entry = EventRecord | int
"""What the code was given: the outcome of a call, or the firing of the timer with that number. In a journal that is
read in pages, a result that has nothing more to say is the number of its record, made negative."""

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_CANCELLED = ExecutionStatus.CANCELLED
_SUFFIXES = tuple(f"{SEPARATOR}{kind}" for kind in (*EventType, *WaitType))


class RecordedOrder:
    """The entries of every call of one timeline. Records are sorted by the call that encloses them, once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._records: list[Record] = []
        self._sorted = 0
        """So many of the records are sorted."""
        self._inside: dict[str, list[Record | int]] = {}
        self._enclosing: dict[str, str] = {}
        """By the scope of a call: the path of the call that encloses it."""
        self._cuts: dict[str, dict[int, int]] = {}
        """By the path of a call: where stretches of the journal end, and the first records of the call in them that the
        timeline does not have."""

    def entries(self, path: str) -> list[Entry]:
        """What the code inside the call with this path was given, in order, as far as that still counts.

        A failure that will be retried does not count, nor what only followed from it: later cancellations and timers.
        Neither does a cancellation behind something that the timeline does not have.
        """
        self._sort()
        cuts = self._cuts.get(path, {})
        latest, to_retry = self.history.latest, self.history.to_retry
        entries: list[Entry] = []
        is_behind_retried = has_just_fired = False
        for record in self._inside.get(path, ()):
            if type(record) is int:
                entries.append(record)
            elif type(record) is TimerRecord:
                if not is_behind_retried:
                    entries += record.numbers
                has_just_fired = not is_behind_retried
                continue
            if type(record) is EventRecord:
                if record.details is not None and record.details.at_once:
                    continue
                is_newest, is_retried = latest.get(record.address) is record, record.address in to_retry
                is_behind_retried = is_behind_retried or (is_newest and is_retried)
                if record.status is not _CANCELLED:
                    if is_newest and not is_retried:
                        entries.append(record)
                elif is_newest and not is_behind_retried and not _is_said(record) and not _is_in(cuts, record):
                    entries.append(record)
                else:
                    if has_just_fired:
                        entries.pop()  # It was a timer that cancelled it.
            has_just_fired = False
        return _in_their_places(_fired_last(entries))

    def outcomes(self, path: str) -> Iterator[EventRecord]:
        """The last outcomes of the calls made inside the call with this path, from whatever task."""
        self._sort()
        latest = self.history.latest
        for record in self._inside.get(path, ()):
            if type(record) is int:
                yield cast("EventRecord", self._records[-record - 1])
            elif type(record) is EventRecord and latest.get(record.address) is record:
                yield record

    def _sort(self) -> None:
        records = self.history.records
        if records is not self._records:
            self._records, self._sorted = records, 0
            self._inside, self._enclosing = {}, {}
            self._cuts = self._found_cuts() if self.history.cut_parts else {}
        inside, enclosing, is_paged = self._inside, self._enclosing, type(records) is PagedJournal
        for number in range(self._sorted, len(records)):
            record = records[number]
            if type(record) is EventRecord:
                status = record.status
                if status is _COMPLETED or status is _FAILED or status is _CANCELLED:
                    scope = _scope_of(record.address)
                    path = enclosing.get(scope)
                    if path is None:
                        path = enclosing[scope] = self._path_of(scope)
                    there = inside.get(path)
                    if there is None:
                        there = inside[path] = []
                    there.append(-record.seq if is_paged and is_plain_result(record) else record)
            elif type(record) is TimerRecord:
                inside.setdefault(record.path, []).append(record)
        self._sorted = len(records)

    def _path_of(self, scope: str, others: Collection[str] = ()) -> str:
        """The path of the innermost call around a scope, which may be a branch of it."""
        latest = self.history.latest
        while scope and not any(scope + suffix in latest or scope + suffix in others for suffix in _SUFFIXES):
            scope = scope.rpartition(SEPARATOR)[0]
        return scope

    def _found_cuts(self) -> dict[str, dict[int, int]]:
        parts, journal = self.history.cut_parts, self.history.journal
        judge = Sieve(parts).judge
        dropped = [
            (record, part.last)
            for part in parts
            for record in journal[part.first - 1 : part.last]
            if judge(record) is not Verdict.BELONGS and type(record) is EventRecord
        ]
        addresses = {record.address for record, _ in dropped}
        found: dict[str, dict[int, int]] = {}
        for record, last in dropped:
            if record.status in (_COMPLETED, _FAILED, _CANCELLED):
                found.setdefault(self._path_of(_scope_of(record.address), addresses), {}).setdefault(last, record.seq)
        return found


def is_plain_result(record: EventRecord) -> bool:
    """Whether a record says no more about its place in the order than its number does."""
    return record.status is _COMPLETED and record.details is None


def outcome_in(entry: Entry) -> int:
    """The number of the outcome; 0 of a timer."""
    return max(-entry, 0) if type(entry) is int else cast("EventRecord", entry).seq


def _scope_of(address: str) -> str:
    """Where the call with an address was made."""
    end = address.rfind(SEPARATOR, 0, address.rfind(SEPARATOR))
    return address[:end] if end > 0 else ""


def _is_in(stretches: dict[int, int], record: EventRecord) -> bool:
    return any(first < record.seq <= last for last, first in stretches.items())


def _is_said(record: EventRecord) -> bool:
    """Whether a person or a probe has said what a record tells, rather than that it happened."""
    return record.details is not None and record.details.settled not in ("", Settled.NOT_EXECUTED)


def _in_their_places(entries: list[Entry]) -> list[Entry]:
    """The entries, with those that were given in the place of others before these."""
    for at, entry in enumerate(entries):
        if type(entry) is EventRecord and (before := _given_before(entry)):
            entries.insert(_place_of(before, entries[:at]), entries.pop(at))
    return entries


def _given_before(record: EventRecord) -> int:
    """The number of the outcome in whose place one was given; 0 where it was given behind all others."""
    return 0 if record.details is None else record.details.before


def _place_of(seq: int, entries: list[Entry]) -> int:
    """Where the outcome with that number stands. Where it no longer counts: before what came next in its own place."""
    following: int | None = None
    for at, each in enumerate(entries):
        if number := outcome_in(each):
            if number == seq:
                return at
            if following is None and number > seq and not (type(each) is EventRecord and _given_before(each)):
                following = at
    return len(entries) if following is None else following


def _fired_last(entries: list[Entry]) -> list[Entry]:
    """The entries without timers that fired again later, when the code went on from a failure before them."""
    numbers = [each for each in entries if type(each) is int and each > 0]
    if len(numbers) == len(set(numbers)):
        return entries
    fired: set[int] = set()
    kept: list[Entry] = []
    for each in reversed(entries):
        if type(each) is int and each > 0:
            if each in fired:
                continue
            fired.add(each)
        kept.append(each)
    return kept[::-1]
