"""Aligning two journals by address, in one walk over both.

Both are walked at the same pace, and what the one has and the other has not yet is kept until it comes. Two journals of
one program therefore need no more memory than what is really different between them. A completed event is final; one
that failed may come again, so it is compared at the end.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import zip_longest

from limpet.model import EventRecord, ExecutionStatus, Record, StorageRecord, Totals

Pair = tuple[EventRecord | None, EventRecord | None]
"""The records of one event that are not the same; None on the side that does not have it."""

_COMPLETED = ExecutionStatus.COMPLETED
_STARTED = ExecutionStatus.STARTED
_AGENT = "agent_call"


class Side:
    """What is known of one of the two journals on the way."""

    __slots__ = ("artifacts", "duration_s", "events", "failures", "named", "open", "retries", "storage", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, EventRecord] = {}
        """Outcomes that the other side has not had yet, by address."""
        self.open: dict[str, EventRecord] = {}
        """Starts whose outcome has not come yet."""
        self.storage: dict[tuple[bool, str], bytes] = {}
        """What stands in the storage."""
        self.named: dict[tuple[bool, str], tuple[str, ...]] = {}
        """The ids of the artifacts that these entries name, of those that name any."""
        self.artifacts: set[str] = set()
        """The ids that events name of which the other side may not have the same."""
        self.events = 0
        self.failures = 0
        self.retries = 0
        self.duration_s = 0.0

    def totals(self) -> Totals:
        return Totals(events=self.events, failures=self.failures, retries=self.retries, duration_s=self.duration_s)

    def take(self, record: Record) -> EventRecord | None:
        """Take note of a record; it is given back if it is an outcome."""
        if type(record) is EventRecord:
            if record.status is _STARTED:
                self.open[record.address] = record
                return None
            self.open.pop(record.address, None)
            if record.status is not _COMPLETED:
                self.failures += 1
            if not record.address.endswith(_AGENT):
                self.duration_s += record.duration_s
            return record
        if type(record) is StorageRecord:
            entry = (record.is_artifact, record.key)
            self.storage.pop(entry, None)
            self.named.pop(entry, None)
            if record.value is not None:
                self.storage[entry] = record.value
                if record.artifacts:
                    self.named[entry] = record.artifacts
        return None


class Alignment:
    """Two journals side by side. ``pairs`` gives what differs; the rest is known when it has ended."""

    def __init__(self) -> None:
        self.before = Side()
        self.after = Side()
        self._unsettled: dict[str, list[EventRecord]] = {}
        """Events that both have and of which a side has failed, which may come again."""

    def pairs(self, before: Iterable[Record], after: Iterable[Record]) -> Generator[Pair]:
        """The events that differ, or that one side does not have, as soon as that is certain."""
        one, other = self.before, self.after
        for old, new in zip_longest(before, after):
            if old is not None and (outcome := one.take(old)) is not None:
                yield from self._met(outcome, one, other, is_before=True)
            if new is not None and (outcome := other.take(new)) is not None:
                yield from self._met(outcome, other, one, is_before=False)
        yield from self._rest()

    def _met(self, record: EventRecord, here: Side, there: Side, is_before: bool) -> Iterator[Pair]:
        address = record.address
        pair = self._unsettled.get(address) if self._unsettled else None
        if pair is not None:
            pair[not is_before] = record
            here.retries += 1
            return
        partner = there.waiting.pop(address, None)
        if partner is None:
            if here.waiting.get(address) is None:
                here.events += 1
            else:
                here.retries += 1
            here.waiting[address] = record
            return
        here.events += 1
        old, new = (record, partner) if is_before else (partner, record)
        if old.status is _COMPLETED and new.status is _COMPLETED:
            if self._differs(old, new):
                yield old, new
        else:
            self._unsettled[address] = [old, new]

    def _rest(self) -> Iterator[Pair]:
        for old, new in self._unsettled.values():
            if self._differs(old, new):
                yield old, new
        for address, record in self.before.open.items():
            self.before.events += 1
            if address not in self.after.open:
                self.before.waiting.setdefault(address, record)
        for address, record in self.after.open.items():
            self.after.events += 1
            if address not in self.before.open:
                self.after.waiting.setdefault(address, record)
        yield from self._left_over()

    def _left_over(self) -> Iterator[Pair]:
        for address, record in self.before.waiting.items():
            partner = self.after.waiting.pop(address, None)
            if partner is None:
                self.before.artifacts.update(record.artifacts)
                yield record, None
            elif self._differs(record, partner):
                yield record, partner
        for record in self.after.waiting.values():
            self.after.artifacts.update(record.artifacts)
            yield None, record

    def _differs(self, old: EventRecord, new: EventRecord) -> bool:
        if old.artifacts != new.artifacts:
            self.before.artifacts.update(old.artifacts)
            self.after.artifacts.update(new.artifacts)
        return (
            old.result != new.result
            or old.input != new.input
            or old.status is not new.status
            or old.version != new.version
            or old.fingerprint != new.fingerprint
            or _failure(old) != _failure(new)
        )


def _failure(record: EventRecord) -> tuple[str, str] | None:
    return None if record.error is None else (record.error.type_name, record.error.message)


def put_otherwise(side: Side, other: Side) -> dict[str, str]:
    """The artifacts that ``set_artifact`` has put at a key where the other side has another one, or none; the key of
    each by its id."""
    return {
        artifact_id: key
        for (is_artifact, key), named in side.named.items()
        if is_artifact and side.storage[True, key] != other.storage.get((True, key))
        for artifact_id in named
    }
