"""The events of a snapshot of the seeds' layout as records of calls. Pure: ``seed_layout.py`` reads the files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from limpet.errors import InvalidAddress
from limpet.journal.address import SEPARATOR, Address, Segment, parse
from limpet.journal.lifecycle import event_may_become
from limpet.model import EventRecord, EventType, ExecutionStatus, Failure

_STATUSES: Mapping[str, ExecutionStatus] = {
    "started": ExecutionStatus.STARTED,
    "completed": ExecutionStatus.COMPLETED,
    # The result of an earlier run, given again. Where that is in the snapshot as well, this is passed over.
    "recovered": ExecutionStatus.COMPLETED,
    "failed": ExecutionStatus.FAILED,
    "retrying": ExecutionStatus.RETRYING,
    "awaiting": ExecutionStatus.AWAITING,
    "human_intervention": ExecutionStatus.AWAITING,
    "interrupted": ExecutionStatus.INTERRUPTED,
    "cancelling": ExecutionStatus.CANCELLED,
    "cancelled": ExecutionStatus.CANCELLED,
}
_UNNAMED = "unnamed"
_RECOVERED = "recovered"
_LONGEST_S = 1e12


class NotUnderstood(ValueError):
    """An event says something that has no meaning here: ``NotUnderstood(place in the list, why)``."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)
        self.number = number
        self.why = why


class SeedActor(msgspec.Struct, frozen=True):
    """What was called."""

    name: str = ""
    event_type: str = ""


class SeedEvent(msgspec.Struct, frozen=True):
    """An event as a snapshot has it, with the fields that are taken over."""

    address: str = ""
    actor: SeedActor = SeedActor()
    datetime: str | None = None
    execution_time: float | None = None
    execution_status: str = "started"
    message: str | None = None
    original_error: str | None = None
    retry_attempt: int = 0
    result: Any = None


class Step(msgspec.Struct, frozen=True):
    """One record of a call."""

    event: SeedEvent
    address: str
    order: int
    status: ExecutionStatus

    @property
    def has_result(self) -> bool:
        return self.status is ExecutionStatus.COMPLETED

    def record(self, seq: int, begun_at: float, result: bytes | None, artifacts: tuple[str, ...]) -> EventRecord:
        """The record at that number, of a call that began at that time."""
        event, is_start = self.event, self.status is ExecutionStatus.STARTED
        duration_s = 0.0 if is_start else event.execution_time or 0.0
        message = event.message or event.original_error or ""
        return EventRecord(
            seq=seq,
            address=self.address,
            status=self.status,
            at=begun_at + duration_s,
            behind=seq - self.order,
            attempt=min(max(event.retry_attempt, 0), 1_000_000) + 1,
            duration_s=duration_s,
            result=result,
            error=Failure("Error", message, "") if self.status is ExecutionStatus.FAILED else None,
            artifacts=artifacts,
        )


class _Call(msgspec.Struct):
    """A call as it is found in the list of events."""

    address: str
    order: int
    status: ExecutionStatus | None = None
    event: SeedEvent | None = None
    """What was last recorded of it."""


class SeedHistory:
    """The list of events of a snapshot, made into records one by one."""

    def __init__(self, events: Sequence[SeedEvent]) -> None:
        self._events = events
        self.started = 0
        """How many calls have started so far."""
        self._calls: dict[tuple[str, str | None], _Call] = {}
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}
        """By address, the number that a call there was given last."""
        self._completed: set[str] = set()
        """The addresses, as they stand in the snapshot, of which a result is recorded."""
        self._last = {self._key(event): number for number, event in enumerate(events)}

    def steps(self) -> Iterator[tuple[int, Step]]:
        """The records, each with the place of its event in the list. Raises NotUnderstood."""
        for number, event in enumerate(self._events):
            try:
                step = self._step(number, event)
            except ValueError as error:
                raise NotUnderstood(number, str(error)) from error
            if step is not None:
                yield number, step

    def _step(self, number: int, event: SeedEvent) -> Step | None:
        status, last = _status_of(event), self._last[self._key(event)]
        if not 0.0 <= (event.execution_time or 0.0) < _LONGEST_S:
            raise ValueError(f"its execution_time is {event.execution_time}")
        if event.execution_status.lower() == _RECOVERED and event.address in self._completed:
            return None
        call = self._calls.get(self._key(event)) or self._begin(event)
        if number < last and event == self._events[last]:
            # It is listed again when it ended, and here, too, as it ended. What is recorded in between is inside it.
            status = ExecutionStatus.STARTED
        is_over_at_once = status is ExecutionStatus.STARTED and last == number + 1
        if is_over_at_once or (event == call.event and status is call.status):
            return None
        if not event_may_become(call.status, status):
            # Where no times tell calls apart, one that ended before was another one.
            call = self._begin(event)
        call.event, call.status = event, status
        if status is ExecutionStatus.COMPLETED:
            self._completed.add(event.address)
        return Step(event, call.address, call.order, status)

    def _begin(self, event: SeedEvent) -> _Call:
        self.started += 1
        call = _Call(self._free(_address_of(event)), self.started)
        self._calls[self._key(event)] = call
        self._taken.add(call.address)
        return call

    @staticmethod
    def _key(event: SeedEvent) -> tuple[str, str | None]:
        """What tells a call from the others: those in the same place were made at different times."""
        return event.address, event.datetime

    def _free(self, address: Address) -> str:
        """The address, with a number where another call has it."""
        *scope, last = address.segments
        first = str(address)
        # There may be as many as there are events: each is not looked for from the beginning.
        number = self._numbers.get(first, last.number)
        while str(address) in self._taken:
            number += 1
            address = Address((*scope, Segment(last.name, last.key, number)), address.event_type)
        self._numbers[first] = number
        return str(address)


def _status_of(event: SeedEvent) -> ExecutionStatus:
    status = _STATUSES.get(event.execution_status.lower())
    if status is None:
        raise ValueError(f"the status {event.execution_status!r} is not known")
    return status


def _address_of(event: SeedEvent) -> Address:
    """The address of an event in the grammar of addresses; what has a meaning there and none here is escaped."""
    try:
        return parse(event.address)
    except InvalidAddress:
        *path, kind = event.address.split(SEPARATOR)
    if kind not in list(EventType):
        path, kind = [*path, *filter(None, (kind,))], event.actor.event_type
    if kind not in list(EventType):
        raise ValueError(
            f"the address {event.address!r} does not say what kind of call it is, and neither does the actor"
        )
    names = path or list(filter(None, (event.actor.name,)))
    if not names:
        raise ValueError("neither the address nor the actor says what was called")
    return Address(tuple(Segment(name or _UNNAMED) for name in names), EventType(kind))
