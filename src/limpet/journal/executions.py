"""What is recorded inside each call about the storage, for code that is replayed: its writes, its reads, its progress.

The code of an agent goes on when it is retried, as the calls that it has made are given again; so all attempts of an
agent are one execution. Each attempt of a tool or a model call is an execution of its own: it makes its writes anew.

Behind a failed call that is executed again the code may go another way. So what it wrote and read behind that failure
no longer counts: it is written again, or not at all.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter

from limpet.journal.address import SEPARATOR
from limpet.model import EventRecord, EventType, ExecutionStatus, ReadRecord, Record, StorageRecord

Entry = tuple[str, bool, str]
"""A key of the storage as code uses it: where that is, whether it is one of ``set_artifact``, and the key."""

Step = tuple[str, bool, str, int]
"""A read or a write: the same, and the how-manieth it is there."""

_AGENT = SEPARATOR + EventType.AGENT_CALL
_number = attrgetter("number")
_ENDS_AN_ATTEMPT = (ExecutionStatus.FAILED, ExecutionStatus.RETRYING)


class Execution:
    """The inside of one call, as far as it is recorded."""

    __slots__ = ("began", "calls", "ended", "failed", "is_agent", "newest", "reads", "writes")

    def __init__(self, began: int, *, is_agent: bool) -> None:
        self.began = began
        """The number of the newest record when it began."""
        self.is_agent = is_agent
        self.ended = 0
        """The number of the record that says that an attempt failed; the newest one; 0 while none has."""
        self.calls: dict[str, int] = {}
        """By the place in which calls were made: the number of the newest record of one."""
        self.newest = 0
        """The newest start of this call and of all that it encloses."""
        self.failed: dict[str, int] = {}
        """By the address of a call that was made there and whose last outcome is a failure: the number of that."""
        self.writes: dict[Step, StorageRecord] = {}
        self.reads: dict[Entry, list[ReadRecord]] = {}
        """By place and key, in the order in which they were made."""

    def lasts(self, retried: Collection[str]) -> dict[str, int]:
        """By place, the number of the last record that replayed code comes to, where these calls are executed again."""
        for address, failed in self.failed.items():
            if address in retried:
                self.forget_behind(address, failed)
        lasts = self.calls.copy()
        for record in (*self.writes.values(), *itertools.chain.from_iterable(self.reads.values())):
            lasts[record.place] = max(record.seq, lasts.get(record.place, 0))
        return lasts

    def read(self, step: Step) -> ReadRecord | None:
        """What says what a read has found, if anything does."""
        *_, number = step
        reads = self.reads.get(step[:3], [])
        place = bisect_left(reads, number, key=_number)
        return reads[place] if place < len(reads) and _first(reads[place]) <= number else None

    def add_read(self, record: ReadRecord) -> None:
        """Take note of a read; it counts instead of what is known of the same one, and of later ones."""
        reads = self.reads.setdefault((record.place, record.is_artifact, record.key), [])
        while reads and reads[-1].number >= _first(record):
            reads.pop()
        reads.append(record)

    def forget_behind(self, address: str, failed: int) -> None:
        """Forget the writes and reads that followed from the failure of a call, which was executed again."""
        scope = _path(_path(address)) + SEPARATOR

        def is_left(record: StorageRecord | ReadRecord) -> bool:
            return record.seq <= failed or not scope.startswith(record.place + SEPARATOR)

        self.writes = {step: record for step, record in self.writes.items() if is_left(record)}
        self.reads = {entry: [*filter(is_left, reads)] for entry, reads in self.reads.items()}


def _first(record: ReadRecord) -> int:
    """The first of the reads that a record stands for."""
    return record.number - record.count + 1


def branches_of(places: Iterable[str], path: str) -> dict[str, set[str]]:
    """By place, the names of the branches that were made there, where these are the places inside one call."""
    branches: dict[str, set[str]] = {}
    for place in places:
        inner = place
        while inner != path and (outer := _path(inner)):
            branches.setdefault(outer, set()).add(inner[len(outer) + len(SEPARATOR) :])
            inner = outer
    return branches


def is_made(branch: str, counts: Mapping[str, int]) -> bool:
    """Whether a branch was made by code that has made so many of each name."""
    name, sign, number = branch.rpartition("#")
    return counts.get(name, 0) >= int(number) if sign else branch in counts


class Executions:
    """The executions of all calls that have anything recorded inside, by the paths of the calls."""

    __slots__ = ("_at", "_of", "until")

    def __init__(self) -> None:
        self._at = 0
        self._of: dict[str, Execution] = {}
        self.until = 0
        """The number of the newest record that was taken into account."""

    def get(self, path: str) -> Execution | None:
        """The newest execution of a call."""
        return self._of.get(path)

    def read(self, records: Sequence[Record], until: int) -> None:
        """Take the records of a timeline into account up to the one with that number, from where that was done last."""
        at = self._at
        while at < len(records) and records[at].seq <= until:
            self._take(records[at])
            at += 1
        self._at, self.until = at, until

    def _take(self, record: Record) -> None:
        if type(record) is EventRecord:
            self._take_event(record)
        elif isinstance(record, StorageRecord | ReadRecord) and record.place:
            execution = next(self._enclosing(record.place), None)
            if execution is None:
                return
            if isinstance(record, StorageRecord):
                execution.writes[record.place, record.is_artifact, record.key, record.number] = record
            else:
                execution.add_read(record)

    def _take_event(self, record: EventRecord) -> None:
        path, status = _path(record.address), record.status
        own = self._of.get(path)
        if status is ExecutionStatus.STARTED and (own is None or (own.ended and not own.is_agent)):
            unseen = 0 if record.details is None else record.details.unseen
            own = self._of[path] = Execution(record.seq - 1 - unseen, is_agent=record.address.endswith(_AGENT))
        if own is not None:
            own.newest = max(own.newest, record.order)
            if status in _ENDS_AN_ATTEMPT:
                own.ended = record.seq
        is_direct = True
        for execution in self._enclosing(_path(path)):
            execution.newest = max(execution.newest, record.order)
            if is_direct:
                _take_call(execution, record)
                is_direct = False

    def _enclosing(self, path: str) -> Iterator[Execution]:
        """The executions of the calls around a place, from the inside out."""
        while path:
            if (execution := self._of.get(path)) is not None:
                yield execution
            path = _path(path)


def _take_call(execution: Execution, record: EventRecord) -> None:
    execution.calls[_path(_path(record.address))] = record.seq
    failed = execution.failed.pop(record.address, 0)
    if failed:
        execution.forget_behind(record.address, failed)
    if record.status is ExecutionStatus.FAILED:
        execution.failed[record.address] = record.seq


def _path(address: str) -> str:
    return address.rpartition(SEPARATOR)[0]
