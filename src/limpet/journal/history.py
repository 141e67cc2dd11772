"""A journal read as a whole: the newest record of each address, what is to be tried again, and the storage.

All of that is of one timeline, the current one unless another is asked for. The journal has those of all timelines.

Which failures are retried when a state is resumed? A failure that its caller caught is part of what happened: it is
replayed like a result, so that the run takes the same way, whatever failed the run later. A failure that went on to
fail what encloses it, up to the top, is what the run failed of: that one, and the calls it passed through, are retried.
The record of a failed event names the calls inside it whose failure it passed on (``causes``); the rule follows them
from the top downwards. What failed an attempt of an event that is retried is retried with it, by the same rule.
``retry_caught`` marks all the others as well, for who wants that.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import cast

import msgspec

from limpet.errors import StateCorrupted
from limpet.journal.address import is_top_level
from limpet.journal.checkpoints import checkpoints_of
from limpet.journal.executions import Executions
from limpet.journal.lifecycle import event_may_become
from limpet.journal.pages import Page, PagedIndex, PagedJournal, ReadPage
from limpet.journal.storage_changes import StorageChanges
from limpet.journal.timeline import Sieve, TimelineIndex, Verdict, first_lost, intact, require_whole
from limpet.model import (
    Checkpoint,
    CheckpointRecord,
    DamagedRecord,
    DroppedRecord,
    EventRecord,
    ExecutionStatus,
    Part,
    ReadRecord,
    Record,
    StateMetadata,
    StorageRecord,
    Timeline,
    TimelineRecord,
    TimerRecord,
)

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_CANCELLED = ExecutionStatus.CANCELLED
_STARTED = ExecutionStatus.STARTED
_RETRYING = ExecutionStatus.RETRYING


class History:
    """The records of one state in order, indexed. Adding is the only change there is."""

    __slots__ = (
        "artifacts",
        "changes",
        "cut_parts",
        "executions",
        "index",
        "journal",
        "latest",
        "next_order",
        "open",
        "records",
        "started",
        "state_id",
        "storage",
        "timelines",
        "to_retry",
    )

    def __init__(self, state_id: str, records: Iterable[Record | DamagedRecord] = (), timeline: int = 0) -> None:
        """``timeline``: the number of the record that began the current timeline, where that is known beforehand."""
        self.state_id = state_id
        self.journal: list[Record | DamagedRecord] = []
        """Every record, whatever timeline it is of. None that is damaged belongs to the current one."""
        self.timelines = TimelineIndex()
        self.next_order = 1
        self._forget()
        self.records = cast("list[Record]", self.journal)
        if timeline > 1:
            records = iter(records)
            self._skip(records, timeline - 1)
        self.extend(records)

    def _forget(self) -> None:
        self.records: list[Record] = []
        """The records of the timeline."""
        self.index: dict[str, EventRecord | Page] = {}
        """The newest record of each address, or the page on which it stands where that is closed."""
        self.latest = cast("Mapping[str, EventRecord]", self.index)
        """The newest record of each address. Asking for one on a closed page reads the store."""
        self.started: set[str] = set()
        """The addresses whose start has a record of its own: something is recorded inside them."""
        self.open: set[str] = set()
        """The addresses that have a record and no outcome: under way, cut off, or about to be tried again."""
        self.to_retry: set[str] = set()
        """The addresses whose recorded failure is not replayed but tried again."""
        self.storage: dict[str, bytes] = {}
        self.artifacts: dict[str, bytes] = {}
        """The storage of artifacts, each a reference."""
        self.changes = StorageChanges()
        """All changes of both."""
        self.executions: Executions | None = None
        """What code that is replayed has written and read, once that is asked for."""
        self.cut_parts: list[Part] = []
        """The parts of the timeline of which not everything belongs to it."""

    @property
    def position(self) -> int:
        return len(self.journal)

    def read_in_pages(self, read_page: ReadPage) -> None:
        """From now on completed events may be left out of memory, unless the journal has more than one timeline."""
        if self.records is self.journal and type(self.journal) is list:
            self.journal = PagedJournal(self.journal, self.index, read_page)
            self.records = cast("list[Record]", self.journal)
            self.latest = PagedIndex(self.index)

    def close_pages(self, until: int) -> None:
        """Leave out of memory what the store has for certain, up to that record."""
        if type(self.journal) is PagedJournal:
            self.journal.close_pages(until)

    def _keep_all(self) -> None:
        """Have all records in memory again: timelines do not go together with pages."""
        if type(self.journal) is PagedJournal:
            self.journal = self.journal.put_back()
            self.records = cast("list[Record]", self.journal)
            self.latest = cast("Mapping[str, EventRecord]", self.index)

    def on(self, parts: Sequence[Part]) -> History:
        """The same journal, read on the timeline that is made of these parts."""
        view = History(self.state_id)
        view.journal = self.journal
        view.timelines = self.timelines
        view.next_order = self.next_order
        view._read(parts)
        return view

    def on_timeline(self, number: int) -> History:
        """The same journal, read on another of its timelines."""
        return self if number == self.timelines.current else self.on(self.parts(number))

    def parts(self, number: int | None = None) -> tuple[Part, ...]:
        """What a timeline is made of, the current one if none is named."""
        self.timelines.position = self.position
        return self.timelines.parts(number or self.timelines.current)

    def listed_timelines(self) -> list[Timeline]:
        """All timelines, in the order of their beginning."""
        self.timelines.position = self.position
        return self.timelines.listed()

    def _skip(self, records: Iterator[Record | DamagedRecord], count: int) -> None:
        """Take up records that only a later one tells the meaning of."""
        take, next_order = self.journal.append, self.next_order
        for record in itertools.islice(records, count):
            self._require_next(record)
            take(record)
            if type(record) is EventRecord:
                order = record.seq - record.behind
                if order >= next_order:
                    next_order = order + 1
            elif type(record) is TimelineRecord:
                require_whole(self.state_id, record)
                self.timelines.add(record)
            elif type(record) is DamagedRecord:
                # Whatever started there, it was not a later start than its number.
                next_order = max(next_order, record.seq + 1)
            elif type(record) is DroppedRecord or (isinstance(record, StorageRecord | ReadRecord) and record.place):
                next_order = max(next_order, record.order + 1)
        self.next_order = next_order

    def read_closed(self, records: Iterable[Record | DamagedRecord], last: int, kept: bytes | None) -> None:
        """Take up the records that the store has up to that number, and let as few of them as possible be in memory."""
        journal = self.journal
        self.extend(records, journal.next_page(last, kept) if type(journal) is PagedJournal else None)

    def extend(self, records: Iterable[Record | DamagedRecord], page: Page | None = None) -> None:
        """Take up many records. Most are first outcomes, for which their places, or their page, are all that is needed.

        Statuses are told by identity: hashing a member of an enum costs more than all the rest.
        """
        latest, to_retry, take = self.index, self.to_retry, self.journal.append
        position, next_order = len(self.journal), self.next_order
        belong = None if self.records is self.journal else self.records.append
        for record in records:
            position += 1
            if (
                type(record) is EventRecord
                and record.status is _COMPLETED
                and record.seq == position
                and record.address not in latest
                and not to_retry
            ):
                latest[record.address] = page or record
                order = position - record.behind
                if order >= next_order:
                    next_order = order + 1
                take(cast("EventRecord", page or record))
                if belong is not None:
                    belong(record)
            else:
                self.next_order = next_order
                self.add(record)
                next_order = self.next_order
                latest, to_retry, take = self.index, self.to_retry, self.journal.append
                page = page if type(self.journal) is PagedJournal else None
                belong = None if self.records is self.journal else self.records.append
        self.next_order = next_order

    def _require_next(self, record: Record | DamagedRecord) -> None:
        if record.seq != len(self.journal) + 1:
            raise StateCorrupted(self.state_id, record.seq, f"record {len(self.journal) + 1} was to come here")

    def add(self, record: Record | DamagedRecord) -> None:
        """Take up the next record. Raises StateCorrupted where it is damaged or cannot follow what stands."""
        journal = self.journal
        if record.seq != len(journal) + 1:
            self._require_next(record)
        if type(record) is EventRecord:
            self._add_event(record)
            journal.append(record)
            if self.records is not journal:
                self.records.append(record)
            return
        if isinstance(record, DamagedRecord):
            raise StateCorrupted(self.state_id, record.seq, record.why)
        if type(record) is TimelineRecord:
            require_whole(self.state_id, record)
            self._keep_all()
            self.journal.append(record)
            self.timelines.add(record)
            self._read(record.parts)
            return
        if type(record) is DroppedRecord:
            self._pass_over(record)
            return
        self._index(record)
        self.journal.append(record)
        if self.records is not self.journal:
            self.records.append(record)

    def add_all(self, records: Sequence[EventRecord | StorageRecord | ReadRecord | TimerRecord]) -> None:
        """Take up records that follow each other: all of them, or, where one cannot follow what stands, none."""
        became: dict[str, ExecutionStatus] = {}
        for position, record in enumerate(records, self.position + 1):
            if record.seq != position:
                raise StateCorrupted(self.state_id, record.seq, f"record {position} was to come here")
            if type(record) is not EventRecord:
                continue
            before = self.index.get(record.address)
            was = became.get(record.address, before.status if before is not None else None)
            self._require_follows(was, record)
            became[record.address] = record.status
        for record in records:
            self.add(record)

    def _require_follows(self, was: ExecutionStatus | None, record: EventRecord) -> None:
        if not event_may_become(was, record.status):
            raise StateCorrupted(
                self.state_id, record.seq, f"{record.address!r} was {was or 'absent'} and cannot become {record.status}"
            )

    def _pass_over(self, record: DroppedRecord) -> None:
        """Take up what belongs to no timeline: from here on the records of this one are not all of the journal."""
        self._keep_all()
        if self.records is self.journal:
            self.records = cast("list[Record]", self.journal.copy())
        self.journal.append(record)
        self.next_order = max(self.next_order, record.order + 1)

    def dropped(self) -> list[DroppedRecord]:
        """What cleanups have left of records, on whatever timeline these were."""
        return [record for record in self.journal if type(record) is DroppedRecord]

    def is_whole(self, parts: Sequence[Part], began: int) -> bool:
        """Whether nothing was dropped of a timeline made of these parts, which began with the record of that number."""
        return first_lost(self.dropped(), parts, began) is None

    def _index(self, record: Record) -> None:
        if type(record) is EventRecord:
            self._add_event(record)
        elif isinstance(record, StorageRecord | ReadRecord):
            if type(record) is StorageRecord:
                self.put_storage(record.key, record.value, record.is_artifact)
                self.changes.add(record)
            if record.place and record.order >= self.next_order:
                # A call that it came after may have no record itself: no other call takes the place of that one.
                self.next_order = record.order + 1

    def executions_until(self, position: int) -> Executions:
        """What code inside the calls had written and read when the record of that number was the newest."""
        known = self.executions
        if known is None or known.until > position:
            known = Executions()
            if self.executions is None:
                self.executions = known
        known.read(self.records, position)
        return known

    def _read(self, parts: Sequence[Part]) -> None:
        """Read the journal anew, as the timeline that is made of these parts."""
        self._forget()
        self.cut_parts = [part for part in parts if part.below]
        sieve = Sieve(parts)
        latest, to_retry, take = self.index, self.to_retry, self.records.append
        failed: dict[str, EventRecord] = {}
        for part in parts:
            below = part.below or sys.maxsize
            for record in itertools.islice(self.journal, part.first - 1, part.last):
                # As in ``extend``, most are first outcomes, and nothing is cut in two.
                if (
                    type(record) is EventRecord
                    and record.status is _COMPLETED
                    and record.seq - record.behind < below
                    and record.address not in latest
                    and not sieve.dropped_inside
                    and not to_retry
                ):
                    latest[record.address] = record
                    take(record)
                else:
                    self._judge(record, sieve, failed)

    def _judge(self, record: Record | DamagedRecord, sieve: Sieve, failed: dict[str, EventRecord]) -> None:
        verdict = sieve.judge(record)
        if isinstance(record, DamagedRecord):
            raise StateCorrupted(self.state_id, record.seq, record.why)
        if verdict is Verdict.BELONGS:
            self._index(record)
            self.records.append(record)
        elif verdict is Verdict.ENTERED_AGAIN and type(record) is EventRecord and record.status is _FAILED:
            # What a failed run failed of is tried again on the new timeline, too.
            failed[record.address] = record
            if is_top_level(record.address):
                self._retry_what_failed(record.address, failed)

    def put_storage(self, key: str, value: bytes | None, is_artifact: bool = False) -> None:
        """Set an entry of the storage, or (None) delete it."""
        space = self.artifacts if is_artifact else self.storage
        if value is None:
            space.pop(key, None)
        else:
            space[key] = value

    def _add_event(self, record: EventRecord) -> None:
        address, status = record.address, record.status
        before = self.index.get(address)
        was = before.status if before is not None else None
        is_usual = was is None and status is _COMPLETED
        if not is_usual:
            self._require_follows(was, record)
        self.index[address] = record
        if self.open and (status is _COMPLETED or status is _FAILED):
            self.open.discard(address)
        order = record.seq - record.behind
        if order >= self.next_order:
            self.next_order = order + 1
        if self.to_retry and status is not _STARTED:
            self.to_retry.discard(address)
        if status is not _COMPLETED:
            self._add_without_result(record)

    def _add_without_result(self, record: EventRecord) -> None:
        address, status = record.address, record.status
        if status is _FAILED:
            if is_top_level(address):
                self._retry_what_failed(address)
            return
        self.open.add(address)
        if status is _STARTED:
            self.started.add(address)
        elif status is _RETRYING:
            for cause in record.causes:
                self._retry_what_failed(cause)

    def _retry_what_failed(self, address: str, entered_again: Mapping[str, EventRecord] = MappingProxyType({})) -> None:
        """Mark a failed event and, downwards, the failed events that it names as causes."""
        to_look_at, seen = [address], {address}
        while to_look_at:
            failed = to_look_at.pop()
            record = entered_again.get(failed) or self.index.get(failed)
            if type(record) is EventRecord and (record.status is _FAILED or record.status is _CANCELLED):
                self.to_retry.add(failed)
                to_look_at += (cause for cause in record.causes if cause not in seen)
                seen.update(record.causes)

    def retry_caught(self) -> None:
        """Mark every failed event, so that those are retried as well whose failure was caught."""
        self.to_retry.update(address for address, record in self.index.items() if record.status is _FAILED)

    def events(self) -> Iterator[EventRecord]:
        """The records of events, in order."""
        return (record for record in self.records if type(record) is EventRecord)

    def failure(self, number: int) -> EventRecord | None:
        """The record of this number, if it is that of a failure."""
        record = self.journal[number - 1] if 0 < number <= len(self.journal) else None
        return record if type(record) is EventRecord and record.error is not None else None

    def first_event(self) -> EventRecord | None:
        """The record that a run began with, on whatever timeline: its input stands there. None without events.

        Raises StateCorrupted where it cannot be known, because a record before it is damaged.
        """
        for record in self.journal:
            if isinstance(record, DamagedRecord):
                raise StateCorrupted(self.state_id, record.seq, record.why)
            if type(record) is EventRecord:
                return record
        return None

    def intact_journal(self) -> tuple[Record, ...]:
        """Every record, whatever timeline it is of. Raises StateCorrupted where one is damaged."""
        return tuple(intact(self.journal))

    def checkpoints(self, metadata: StateMetadata | None = None) -> list[Checkpoint]:
        """The marked points of all timelines, in order.

        Of one that says nothing of it, the metadata is that of the one before it; what is given here, where none says
        anything of it; and else empty, since it has changed since.
        """
        records = [record for record in self.journal if type(record) is CheckpointRecord]
        return checkpoints_of(self.state_id, records, self.timelines, metadata)

    def life(self) -> Iterator[Record]:
        """Every record in order, with the start of an attempt shown before its outcome where it has no record itself,
        and its failure before the record that it is tried again.

        What is shown so has the position of the record that carries it.
        """
        started: set[str] = set()
        for record in self.records:
            if type(record) is EventRecord:
                if record.status is ExecutionStatus.STARTED:
                    started.add(record.address)
                elif record.status in _ENDS_AN_ATTEMPT and not _is_not_of_an_attempt(record):
                    if record.address in started:
                        started.discard(record.address)
                    else:
                        yield _start_of(record)
                    if record.status is ExecutionStatus.RETRYING:
                        yield msgspec.structs.replace(record, status=_FAILED, details=None)
            yield record


_ENDS_AN_ATTEMPT = frozenset(
    {
        ExecutionStatus.COMPLETED,
        ExecutionStatus.FAILED,
        ExecutionStatus.RETRYING,
        ExecutionStatus.CANCELLED,
        ExecutionStatus.INTERRUPTED,
    }
)


def _is_not_of_an_attempt(record: EventRecord) -> bool:
    """Whether nothing was executed for a record: a person or a probe has said what became of an event, or it was cut
    off while it waited for its next attempt."""
    details = record.details
    is_of_wait = record.status is not ExecutionStatus.RETRYING and details is not None and bool(details.due_at)
    return is_of_wait or (details is not None and bool(details.settled))


def _start_of(record: EventRecord) -> EventRecord:
    return EventRecord(
        seq=record.seq,
        address=record.address,
        status=ExecutionStatus.STARTED,
        at=record.at - record.duration_s,
        behind=record.behind,
        attempt=record.attempt,
        version=record.version,
        fingerprint=record.fingerprint,
        input=record.input,
    )
