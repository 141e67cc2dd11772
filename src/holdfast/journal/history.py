"""A journal read as a whole: the newest record of each address, what is to be tried again, and the storage.

Which failures are tried again when a state is taken up again? A failure that its caller caught is part of what
happened: it is replayed like a result, so that the run takes the same way. A failure that went on to fail what
encloses it, up to the top, is what the run failed of: that one, and the calls it passed through, are tried again. The
record of a failed event names the calls inside it whose failure it passed on (``causes``); the rule follows them from
the top downwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.errors import StateCorrupted
from holdfast.journal.address import is_top_level
from holdfast.journal.lifecycle import event_may_become
from holdfast.model import CheckpointRecord, EventRecord, ExecutionStatus, Record, StorageRecord

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED


class History:
    """The records of one state in order, indexed. Adding is the only change there is."""

    __slots__ = ("artifacts", "latest", "next_order", "records", "state_id", "storage", "to_retry")

    def __init__(self, state_id: str, records: Iterable[Record] = ()) -> None:
        self.state_id = state_id
        self.records: list[Record] = []
        self.latest: dict[str, EventRecord] = {}
        """The newest record of each address."""
        self.to_retry: set[str] = set()
        """The addresses whose recorded failure is not replayed but tried again."""
        self.storage: dict[str, bytes] = {}
        self.artifacts: dict[str, bytes] = {}
        """The storage of artifacts, each a reference."""
        self.next_order = 1
        self._extend(records)

    @property
    def position(self) -> int:
        return len(self.records)

    def _extend(self, records: Iterable[Record]) -> None:
        """Take up many records. Most are first outcomes, which need no more than to be put into their places.

        Statuses are told by identity: hashing a member of an enum costs more than all the rest.
        """
        latest, to_retry, take = self.latest, self.to_retry, self.records.append
        position, next_order = len(self.records), self.next_order
        for record in records:
            position += 1
            if (
                type(record) is EventRecord
                and record.status is _COMPLETED
                and record.seq == position
                and record.address not in latest
                and not to_retry
            ):
                latest[record.address] = record
                order = position - record.behind
                if order >= next_order:
                    next_order = order + 1
                take(record)
            else:
                self.next_order = next_order
                self.add(record)
                next_order = self.next_order
        self.next_order = next_order

    def add(self, record: Record) -> None:
        """Take up the next record. Raises StateCorrupted where it cannot follow what stands."""
        if record.seq != len(self.records) + 1:
            raise StateCorrupted(self.state_id, record.seq, f"record {len(self.records) + 1} was to come here")
        if type(record) is EventRecord:
            self._add_event(record)
        elif type(record) is StorageRecord:
            self.put_storage(record.key, record.value, record.is_artifact)
        self.records.append(record)

    def put_storage(self, key: str, value: bytes | None, is_artifact: bool = False) -> None:
        """Set an entry of the storage, or (None) delete it."""
        space = self.artifacts if is_artifact else self.storage
        if value is None:
            space.pop(key, None)
        else:
            space[key] = value

    def _add_event(self, record: EventRecord) -> None:
        address, status = record.address, record.status
        before = self.latest.get(address)
        was = before.status if before is not None else None
        is_usual = was is None and status is _COMPLETED
        if not is_usual and not event_may_become(was, status):
            raise StateCorrupted(
                self.state_id, record.seq, f"{address!r} was {was or 'absent'} and cannot become {status}"
            )
        self.latest[address] = record
        if record.order >= self.next_order:
            self.next_order = record.order + 1
        if status is _FAILED and is_top_level(address):
            self._retry_what_failed(address)
        elif self.to_retry and status is not ExecutionStatus.STARTED:
            self.to_retry.discard(address)

    def _retry_what_failed(self, address: str) -> None:
        """Mark a failed event and, downwards, the failed events that it names as causes."""
        to_look_at, seen = [address], {address}
        while to_look_at:
            record = self.latest.get(to_look_at.pop())
            if record is not None and record.status is _FAILED:
                self.to_retry.add(record.address)
                to_look_at += (cause for cause in record.causes if cause not in seen)
                seen.update(record.causes)

    def events(self) -> Iterator[EventRecord]:
        """The records of events, in order."""
        return (record for record in self.records if type(record) is EventRecord)

    def first_event(self) -> EventRecord | None:
        """The record that a run began with: its input stands there. None in a state without events."""
        return next(self.events(), None)

    def checkpoints(self) -> Iterator[CheckpointRecord]:
        """The marked points, in order."""
        return (record for record in self.records if type(record) is CheckpointRecord)

    def life(self) -> Iterator[Record]:
        """Every record in order, with the start of an attempt shown before its outcome where it has no record itself.

        A start that is shown so has the position of the outcome that carries it.
        """
        started: set[str] = set()
        for record in self.records:
            if type(record) is EventRecord:
                if record.status is ExecutionStatus.STARTED:
                    started.add(record.address)
                elif record.status in _ENDS_AN_ATTEMPT:
                    if record.address in started:
                        started.discard(record.address)
                    else:
                        yield _start_of(record)
            yield record


_ENDS_AN_ATTEMPT = frozenset({ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED})


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
