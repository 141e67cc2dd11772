"""What must hold before a call is executed: nobody wants the run to stop, and its budget allows the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from limpet.engine.opening import take_lease
from limpet.errors import BudgetExceeded
from limpet.model import InterruptReason, InterruptSignal, StateStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.scope import Scope


async def require_allowed(scope: Scope, call: Call, encoded: bytes) -> None:
    """Count a call that is about to be executed; where that must not be, stop the run with the reason instead."""
    live = scope.live
    if live.watch.checker is not None:
        with live.stopper.nothing_is_executed(scope):
            await live.watch.ask()
            if live.is_stopping:
                await live.stopper.meet(scope)
    if live.tally is None:
        return
    if live.lease is None and not live.reads_only:
        take_lease(live)
    why = live.tally.exceeded_by(call.address, encoded)
    if why is None:
        live.tally.took(call.address, encoded)
        return
    signal = InterruptSignal(InterruptReason.BUDGET, f"{call.address} was not executed: {why}.", is_graceful=True)
    error = BudgetExceeded(live.state_id, str(signal.reason), signal.message)
    await live.stopper.stop_here(scope, signal, StateStatus.INTERRUPTED, error)
