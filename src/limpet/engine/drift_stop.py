"""Drift that is an error: it stops its run, so that no code swallows it, and the state says why it was stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.errors import Drift
from limpet.model import InterruptReason, InterruptSignal, OnDrift, StateStatus

if TYPE_CHECKING:
    from limpet.engine.live import LiveState


def stop_for(live: LiveState, error: Drift) -> Drift:
    """Stop a run that has drifted, and give the error to raise. The state is left as failed, with the reason.

    Bringing the code back, and running again, goes on. What is only looked at, and not run, is not stopped.
    """
    if live.stopper.is_awaited and not live.reads_only:
        live.stopper.break_off(InterruptSignal(InterruptReason.DRIFT, str(error)), StateStatus.FAILED, error)
    return error


def require_reached(live: LiveState) -> None:
    """Raises Drift, and stops the run, where its end has come before the call that it was to be run on from, and
    that is an error."""
    address = live.resume_from_address
    if address is not None and live.on_drift is OnDrift.ERROR:
        what = "it was to be run on from there, and the code no longer makes that call"
        raise stop_for(live, Drift(address, live.state_id, what))
