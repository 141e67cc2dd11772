"""The life of an event and of a state, as tables. Whatever is not in a table cannot happen.

An event's outcome may be recorded without a start of its own: the record carries the start. In the same way RETRYING
carries the failure of an attempt. COMPLETED is final: on its timeline a recorded result is never executed again.
RECOVERED is told to observers and never recorded.
"""

from __future__ import annotations

from typing import Final

from limpet.model import ExecutionStatus, StateStatus

_E = ExecutionStatus
_S = StateStatus

_LIVE: Final = frozenset({_E.STARTED, _E.COMPLETED, _E.FAILED, _E.RETRYING, _E.AWAITING, _E.INTERRUPTED, _E.CANCELLED})

EVENT_MOVES: Final[dict[ExecutionStatus | None, frozenset[ExecutionStatus]]] = {
    None: _LIVE,
    _E.STARTED: _LIVE,
    _E.FAILED: _LIVE,
    _E.RETRYING: _LIVE,
    _E.AWAITING: _LIVE,
    _E.INTERRUPTED: _LIVE,
    _E.CANCELLED: _LIVE,
    _E.COMPLETED: frozenset(),
}
"""From the newest recorded status at an address (None: nothing recorded) to those that may follow."""

SETTLED: Final = frozenset({_E.COMPLETED, _E.FAILED})
"""An event has an outcome, which is given again. Whatever else stands there, the event has not ended."""

STATE_MOVES: Final[dict[StateStatus, frozenset[StateStatus]]] = {
    _S.RUNNING: frozenset(StateStatus),
    _S.PAUSED: frozenset({_S.RUNNING, _S.PAUSED, _S.COMPLETED, _S.FAILED, _S.INTERRUPTED}),
    _S.AWAITING: frozenset(StateStatus),
    _S.INTERRUPTED: frozenset({_S.RUNNING, _S.INTERRUPTED}),
    _S.FAILED: frozenset({_S.RUNNING, _S.FAILED}),
    _S.COMPLETED: frozenset({_S.RUNNING, _S.COMPLETED}),
}
"""From the status of a state to those that may follow. Out of COMPLETED only by being taken up again on purpose."""


def event_may_become(before: ExecutionStatus | None, after: ExecutionStatus) -> bool:
    return after in EVENT_MOVES[before]


def state_may_become(before: StateStatus, after: StateStatus) -> bool:
    return after in STATE_MOVES[before]
