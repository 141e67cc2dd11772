"""What comes of ``attempts_program``: its attempts as a journal tells of them, counted as it counts them itself.

Every execution ends in a record of its own: COMPLETED, FAILED, RETRYING, or, where it was cut off, CANCELLED or
INTERRUPTED. Only those that were cut off, and those whose record was never written, may be executed again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
from crash.attempts_program import attempts, executions

from limpet import ExecutionStatus, HistorySet, Limpet, MemoryStateBackend
from limpet.codec import values
from limpet.testing import CrashingBackend

Attempts = Counter[tuple[str, int]]
"""By name and number of the attempt."""

OUTCOMES = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.RETRYING)
CUT_OFF = (ExecutionStatus.CANCELLED, ExecutionStatus.INTERRUPTED)


class Recorded(msgspec.Struct, frozen=True):
    """How often each attempt has a record."""

    outcomes: Attempts
    cut_off: Attempts


def history_of(client: Limpet, state_id: str = "swept") -> HistorySet | None:
    """The history of a state, read once for all that follows; None where it is not there."""
    return None if client.backend.find_state(state_id) is None else client.history(state_id)


def recorded(history: HistorySet | None) -> Recorded:
    outcomes: Attempts = Counter()
    cut_off: Attempts = Counter()
    # As it is stored: iterating would show the failure that a record of RETRYING carries as another one.
    for record in () if history is None else history._history.events():
        if record.status in (*OUTCOMES, *CUT_OFF):
            assert record.input is not None
            counted = outcomes if record.status in OUTCOMES else cut_off
            counted[values.decode(record.input)[0], record.attempt] += 1
    return Recorded(outcomes, cut_off)


def allowed(whole: Attempts, before: Recorded, after: Recorded) -> Attempts:
    """How often each attempt may have been executed by a process that found one record and left the other.

    ``whole`` is what has an outcome when the program has ended. What is recorded of that is not executed any more, the
    rest once; and once more for each time that it was cut off.
    """
    return whole - before.outcomes + (after.cut_off - before.cut_off)


def require_made(executed: Attempts, whole: Attempts, before: Recorded, after: Recorded) -> None:
    """See to it that a process which came to the end made each attempt that it had to, exactly once.

    What its code cancels before it could begin again is recorded as cut off, and was not executed.
    """
    may_be_executed = allowed(whole, before, after)
    assert executed <= may_be_executed
    assert may_be_executed - executed <= after.cut_off - before.cut_off


def lives(history: HistorySet) -> dict[str, list[tuple[ExecutionStatus, int]]]:
    """By address: every step of every attempt, in order, but for those that were cut off."""
    found: dict[str, list[tuple[ExecutionStatus, int]]] = {}
    for record in history.get_event_list():
        life = found.setdefault(record.address, [])
        if record.status not in CUT_OFF:
            life.append((record.status, record.attempt))
        elif life and life[-1][0] is ExecutionStatus.STARTED:
            life.pop()
    return found


def counts(history: HistorySet) -> tuple[int, int, dict[str, int]]:
    """What the statistics come to, however often a run was stopped."""
    statistics = history.retry_statistics()
    return statistics.events_retried, statistics.retries, statistics.errors_by_type


class Undisturbed(msgspec.Struct, frozen=True):
    """What comes of the program where nothing stops it."""

    result: Any
    writes: int
    attempts: Attempts
    lives: dict[str, list[tuple[ExecutionStatus, int]]]
    counts: tuple[int, int, dict[str, int]]
    tokens: int


def run_undisturbed() -> Undisturbed:
    executions.clear()
    backend = CrashingBackend(MemoryStateBackend())
    client = Limpet(backend)
    result = client.run_sync(attempts, "attempts", state_id="swept")
    history = client.history("swept")
    found = recorded(history)
    assert executions == found.outcomes + found.cut_off
    tokens = client.usage("swept").tokens
    return Undisturbed(result, backend.writes, found.outcomes, lives(history), counts(history), tokens)


def require_whole(client: Limpet, undisturbed: Undisturbed) -> None:
    """All is recorded as if the run had never been stopped."""
    history = client.history("swept")
    assert undisturbed.attempts == recorded(history).outcomes
    assert undisturbed.lives == lives(history)
    assert undisturbed.counts == counts(history)
    assert undisturbed.tokens == client.usage("swept").tokens
    assert client.verify("swept").is_sound
