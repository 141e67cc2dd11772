"""Telling the observers of a run what happens to a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.model import EventNotice, ExecutionStatus

if TYPE_CHECKING:
    from holdfast.engine.call import Call
    from holdfast.engine.live import LiveState


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
