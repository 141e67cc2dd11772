"""Which records of a journal belong to a timeline, and what a new timeline keeps of the one it goes on from.

A timeline that is run on from an event keeps what started before that event. What started with it or later does not
belong to it, in whatever branch it ran. What encloses any such call is entered again: its start is kept and its outcome
is not, also where it had ended. So the calls that are kept are skipped, and the rest runs again at its own addresses. A
call counts as enclosing what was ever recorded inside it; entering it once too often costs nothing but its own code.

Orders are counted through all timelines of a state, so "started before" is one comparison of numbers; and the records
of a timeline are found in one walk over the journal that remembers no more than the calls which are cut in two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import cast

from limpet.errors import StateCorrupted
from limpet.journal.address import SEPARATOR
from limpet.model import (
    DamagedRecord,
    DroppedRecord,
    EventRecord,
    ExecutionStatus,
    Part,
    ReadRecord,
    Record,
    StorageRecord,
    Timeline,
    TimelineRecord,
    TimerRecord,
)

_STARTED = ExecutionStatus.STARTED


class Verdict(Enum):
    """What a record is to a timeline."""

    BELONGS = auto()
    DROPPED = auto()
    ENTERED_AGAIN = auto()
    """The outcome of a call that encloses something which is dropped: the call is entered again."""


class Sieve:
    """Tells of the records of a journal, asked in order, which of them belong to a timeline made of these parts."""

    __slots__ = ("_next", "_part", "_parts", "dropped_inside")

    def __init__(self, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._part = parts[0] if parts else None
        self._next = 1
        self.dropped_inside: dict[str, int] = {}
        """By the path of a call that is kept: the latest start of what was dropped inside it."""

    def judge(self, record: Record | DamagedRecord) -> Verdict:
        part = self._part
        while part is not None and record.seq > part.last:
            part = self._part = self._parts[self._next] if self._next < len(self._parts) else None
            self._next += 1
        if part is None or record.seq < part.first:
            return Verdict.DROPPED
        if type(record) is EventRecord:
            return self._judge_event(record, part.below)
        if isinstance(record, StorageRecord | TimerRecord | ReadRecord) and 0 < part.below <= record.order:
            return Verdict.DROPPED
        if type(record) is TimelineRecord or type(record) is DroppedRecord:
            return Verdict.DROPPED
        return Verdict.BELONGS

    def _judge_event(self, record: EventRecord, below: int) -> Verdict:
        if not below:
            return Verdict.BELONGS
        order = record.order
        path = record.address.rpartition(SEPARATOR)[0]
        if order >= below:
            self.dropped_inside.pop(path, None)
            while path := path.rpartition(SEPARATOR)[0]:
                self.dropped_inside[path] = max(order, self.dropped_inside.get(path, 0))
            return Verdict.DROPPED
        # A call whose inside was dropped by an earlier cut, and that has ended since, has ended.
        if record.status is not _STARTED and self.dropped_inside.get(path, 0) >= below:
            return Verdict.ENTERED_AGAIN
        return Verdict.BELONGS


def belonging(records: Iterable[Record | DamagedRecord], parts: Sequence[Part]) -> Iterator[Record]:
    """The records of a journal that belong to a timeline made of these parts, in order.

    Raises StateCorrupted at one that is damaged; those that stand outside of the timeline do not matter to it.
    """
    judge = Sieve(parts).judge
    return intact(record for record in records if judge(record) is Verdict.BELONGS)


def standing_in(parts: Sequence[Part], records: Iterable[Record | DamagedRecord]) -> Iterator[Record | DamagedRecord]:
    """Those of the records that stand in one of these parts: all that can belong to the timeline made of them."""
    return (record for record in records if any(part.first <= record.seq <= part.last for part in parts))


def intact(records: Iterable[Record | DamagedRecord]) -> Iterator[Record]:
    """The records, up to the first that is damaged, at which StateCorrupted is raised."""
    for record in records:
        if type(record) is DamagedRecord:
            raise record.error
        yield cast("Record", record)


def cut_before(parts: Iterable[Part], order: int) -> tuple[Part, ...]:
    """What of these parts started before the how-manieth start."""
    return tuple(
        Part(part.first, part.last, order if not part.below else min(part.below, order)) for part in parts if order > 1
    )


def cut_behind(parts: Iterable[Part], position: int) -> tuple[Part, ...]:
    """What of these parts stood in the journal when the record of that number was its newest."""
    return tuple(Part(part.first, min(part.last, position), part.below) for part in parts if part.first <= position)


def first_lost(dropped: Iterable[DroppedRecord], parts: Sequence[Part], began: int) -> DroppedRecord | None:
    """The first of the dropped records that a timeline made of these parts had; None where it is whole.

    ``began`` is the number of the record that began the timeline. One that was the current one when the records were
    dropped, or has begun since, does without them.
    """
    for record in dropped:
        if record.timeline > began and any(_has(part, record) for part in parts):
            return record
    return None


def _has(part: Part, record: DroppedRecord) -> bool:
    return part.first <= record.seq <= part.last and (not part.below or record.order < part.below)


_END_OF_TIME = 253_402_300_800.0
"""The first second after the year 9999, behind which there are no dates."""


def require_whole(state_id: str, record: TimelineRecord) -> None:
    """Raises StateCorrupted where the parts of a timeline are not stretches of what stands before it, in order, or it
    began at no time that there is."""
    if not 0 <= record.at < _END_OF_TIME:
        raise StateCorrupted(state_id, record.seq, f"it says that a timeline began at {record.at!r}")
    reached = 0
    for part in record.parts:
        if not reached < part.first <= part.last < record.seq or part.below < 0:
            raise StateCorrupted(state_id, record.seq, f"the journal has no part {part.first} to {part.last}")
        reached = part.last


class TimelineIndex:
    """The timelines of a journal, and the parts that each is made of. Knows where the journal ends now."""

    __slots__ = ("_began", "position")

    def __init__(self) -> None:
        self._began: list[TimelineRecord | None] = [None]
        self.position = 0

    def add(self, record: TimelineRecord) -> None:
        # In a fork the timelines of the state that was forked are no longer its own.
        if record.forked_from:
            self._began = [record]
        else:
            self._began.append(record)

    @property
    def current(self) -> int:
        """The number of the current timeline."""
        return len(self._began)

    def began(self, number: int) -> int:
        """The number of the record that began a timeline; 0 for the first of a state."""
        record = self._began[number - 1]
        return 0 if record is None else record.seq

    def number_at(self, position: int) -> int:
        """The number of the timeline that a record stands on; 0 for what a fork has from others."""
        return sum(record is None or record.seq <= position for record in self._began)

    def parts(self, number: int) -> tuple[Part, ...]:
        """What a timeline is made of, up to its end."""
        record = self._began[number - 1]
        first, last = self._own(number)
        kept = () if record is None else record.parts
        return (*kept, Part(first, last)) if last >= first else kept

    def _own(self, number: int) -> tuple[int, int]:
        record = self._began[number - 1]
        behind = self._began[number] if number < len(self._began) else None
        return (1 if record is None else record.seq + 1, self.position if behind is None else behind.seq - 1)

    def listed(self) -> list[Timeline]:
        """All timelines, in the order of their beginning."""
        return [self._timeline(number, record) for number, record in enumerate(self._began, 1)]

    def _timeline(self, number: int, record: TimelineRecord | None) -> Timeline:
        first, last = self._own(number)
        return Timeline(
            number=number,
            base=None if record is None else record.base,
            forked_from=(record.forked_from or None) if record is not None else None,
            address=(record.address or None) if record is not None else None,
            began_at=None if record is None else record.recorded_at,
            first=first,
            last=last,
            is_current=number == self.current,
        )
