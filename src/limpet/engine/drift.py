"""Telling that the code no longer fits what is recorded: an input or a version changed, a call came, went or moved.

The address decides all the same, unless drift was declared an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from limpet.engine.drift_stop import stop_for
from limpet.engine.inputs import is_same_input
from limpet.engine.scope import Scope
from limpet.engine.user_lines import warn_at_user
from limpet.errors import Drift, DriftWarning
from limpet.journal.drift import is_moved, no_longer_made, passed_over, ran_beside
from limpet.journal.replay import INPUT_CHANGED, drift
from limpet.model import EventNotice, EventRecord, ExecutionStatus, OnDrift, fingerprint

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState

PACKAGE = str(Path(__file__).parents[1])
"""Frames of files in this folder are ours, not the user's."""


def changed(live: LiveState, call: Call, record: EventRecord, encoded: bytes) -> str | None:
    """What of the input and the version is no longer what was recorded."""
    if record.input == encoded and call.actor.version == record.version:
        return None
    is_same = is_same_input(live.stored, call.actor, record, encoded, (call.inputs, call.kwargs))
    return drift(record, call.actor.version, b"" if is_same else fingerprint(encoded))


def check_given(scope: Scope, call: Call, record: EventRecord, encoded: bytes, moved: str | None = None) -> None:
    """Tell what drifted of a call that is given its recorded outcome. Raises Drift where that is an error.

    ``moved`` says why it could not be given in its recorded place.
    """
    found = [changed(scope.live, call, record, encoded)]
    if scope.event.parent is None:
        if is_moved(record, scope.reached):
            moved = "it is now called behind what was recorded after it"
        if record.is_alone:
            scope.reached = record.order
    if scope.event.tried_again is None:
        found.append(moved)
    what = " and ".join(each for each in found if each)
    if what:
        live, has_other_input = scope.live, found[0] is not None and INPUT_CHANGED in found[0]
        is_unsure = has_other_input and (call.actor.once or ran_beside(live.history.records, record))
        _tell(live, call, what, "gave the recorded result at", is_unsure=is_unsure)


def check_going_on(live: LiveState, call: Call, record: EventRecord, encoded: bytes) -> None:
    """Tell what drifted of a call that had not ended and is entered again. Raises Drift where that is an error."""
    what = changed(live, call, record, encoded)
    if what:
        _tell(live, call, what, "went on inside", is_unsure=INPUT_CHANGED in what and call.actor.once)


def check_new(scope: Scope, call: Call, instead: str | None = None) -> None:
    """Tell that a call has no record although later ones of its scope have; once for each scope.

    ``instead`` says in whose place it is made. Raises Drift where that is an error.
    """
    live = scope.live
    if scope.event.parent is not None:
        if instead is not None and not scope.event.has_new:
            scope.event.has_new = scope.event.is_mixed = True
            if scope.event.tried_again is None:
                _tell(live, call, instead, "executes")
        return
    if live.loaded <= 1 or scope.has_new:
        return
    scope.has_new = True
    passed = passed_over(live.history.records, live.loaded, scope.prefix, scope.reached)
    scope.is_mixed = passed.is_any
    if passed.record is not None and scope.tried_again is None:
        _tell(live, call, f"it is not recorded, and {passed.record.address!r} was recorded in its place", "executes")


def check_ended(child: Scope, call: Call) -> None:
    """Tell which recorded calls a call that was entered again did not make. Raises Drift where that is an error."""
    live = child.live
    if not live.loaded or live.given == live.settled:
        return
    outcomes = live.recorded_order.outcomes(child.prefix.removesuffix("::"))
    missing = no_longer_made(outcomes, live.loaded, child.prefix, child.counts, child.tried_again)
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        _tell(live, call, f"it no longer calls {missing[0]!r}{more}", "ended")


def tell_kept(live: LiveState, call: Call, what: str) -> None:
    """Tell that code which is replayed wrote something else than is recorded. Raises Drift where that is an error."""
    _tell(live, call, what, "kept what is recorded inside")


def _tell(live: LiveState, call: Call, what: str, did: str, *, is_unsure: bool = False) -> None:
    """``is_unsure`` says that it may be another call which stands at the address."""
    call.drift = what if call.drift is None else f"{call.drift} and {what}"
    if live.on_drift is OnDrift.ERROR or (is_unsure and live.on_drift is OnDrift.DEFAULT):
        raise stop_for(live, Drift(call.address, live.state_id, what))
    if live.bus.is_heard:
        live.bus.publish(
            EventNotice(
                state_id=live.state_id,
                address=call.address,
                status=ExecutionStatus.RECOVERED if call.is_replayed else ExecutionStatus.STARTED,
                is_replayed=call.is_replayed,
                drift=what,
            )
        )
    if live.on_drift is not OnDrift.IGNORE:
        message = f"State {live.state_id!r} {did} {call.address!r} although {what}."
        warn_at_user(message, DriftWarning)
