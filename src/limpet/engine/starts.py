"""What is recorded with the next outcome: the starts of calls inside which nothing had happened, and timers that fired."""

from __future__ import annotations

from limpet.engine.scope import Scope
from limpet.model import EventRecord, ExecutionStatus, TimerRecord


def not_started(scope: Scope) -> list[Scope]:
    """The insides of the calls that enclose what happens there and have no record yet, from the outermost."""
    found: list[Scope] = []
    above: Scope | None = scope.event
    while above is not None and above.pending_start is not None:
        found.append(above)
        above = above.parent.event if above.parent is not None else None
    found.reverse()
    return found


def start_of(scope: Scope, seq: int) -> EventRecord:
    """The record of a start, under its number."""
    assert scope.pending_start is not None
    address, at, order, version, fingerprint, input_, named, attempt, details, _ = scope.pending_start
    started = ExecutionStatus.STARTED
    return EventRecord(
        *(seq, address, started, at, seq - order, attempt, 0.0, version, fingerprint, input_),
        artifacts=named,
        details=details,
    )


def timers_of(scope: Scope, seq: int, at: float, newest: int) -> TimerRecord:
    """The record of the timers that fired inside a call since the last outcome, under its number."""
    assert scope.order is not None
    return TimerRecord(seq, at, scope.prefix.removesuffix("::"), tuple(scope.order.fired), seq - newest)
