"""Telling the observers of a run what happens to a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limpet.engine.bus import EventBus
from limpet.journal.saving import Recorded
from limpet.model import EventNotice, ExecutionStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState


def tell(live: LiveState, call: Call, status: ExecutionStatus, **details: Any) -> None:
    """Publish what became of a call. Only where anybody listens: nothing is made otherwise."""
    live.bus.publish(
        EventNotice(
            state_id=live.state_id,
            address=call.address,
            status=status,
            attempt=call.attempt,
            is_retry=call.attempt > 1 or status is ExecutionStatus.RETRYING,
            **details,
        )
    )


def tell_of_saving(bus: EventBus, state_id: str, last: Recorded, error: str | None) -> None:
    """Publish that the store takes no records, and why; None: that it has taken all that it had missed."""
    if bus.is_heard:
        bus.publish(
            EventNotice(
                state_id=state_id,
                address=last.address,
                status=last.status,
                save_error=error,
                is_caught_up=error is None,
            )
        )
