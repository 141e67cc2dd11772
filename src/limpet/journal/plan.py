"""What running on from an event reuses and what it executes again, by what is recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from limpet.journal.address import SEPARATOR, parse
from limpet.journal.history import History
from limpet.journal.lifecycle import SETTLED
from limpet.journal.new_timeline import NewTimeline
from limpet.model import EventRecord, EventType, ExecutionStatus, PlannedCalls, RerunPlan
from limpet.model.words import WaitType


def plan_of(before: History, new: NewTimeline, once: Collection[tuple[str, EventType]] = ()) -> RerunPlan:
    """Compare a history, on the timeline that is gone on from, with what a new timeline keeps of it.

    ``once`` names the actors that are declared so.
    """
    kept = before.on(new.parts).latest
    replaced = new.address if new.replacement is not None else None
    # What is replaced does nothing any more, and so neither does what it had called.
    inside = None if replaced is None else replaced.rpartition(SEPARATOR)[0] + SEPARATOR
    reused: list[EventRecord] = []
    again: list[EventRecord] = []
    entered: list[str] = []
    for address, record in before.latest.items():
        now = kept.get(address)
        if inside is not None and address != replaced and address.startswith(inside):
            continue
        if address == replaced or (now is not None and now.status in SETTLED):
            reused.append(record)
        elif now is not None and now.status is ExecutionStatus.STARTED:
            entered.append(address)
        else:
            again.append(record)
    return RerunPlan(
        state_id=before.state_id,
        address=new.address,
        replaces=replaced is not None,
        reused=_by_actor(reused, once),
        again=_by_actor(again, once),
        entered_again=tuple(entered),
    )


def _by_actor(records: Iterable[EventRecord], once: Collection[tuple[str, EventType]]) -> tuple[PlannedCalls, ...]:
    sums: dict[tuple[str, EventType | WaitType], tuple[int, float]] = {}
    for record in records:
        address = parse(record.address)
        actor = (address.name, address.event_type)
        calls, seconds = sums.get(actor, (0, 0.0))
        sums[actor] = (calls + 1, seconds + record.duration_s)
    return tuple(
        PlannedCalls(
            actor=name, event_type=event_type, calls=calls, duration_s=seconds, once=(name, event_type) in once
        )
        for (name, event_type), (calls, seconds) in sums.items()
    )
