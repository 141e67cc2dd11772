"""An agent in rehearsal: its code runs, on the recorded outcomes of what it calls. Records nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from limpet.engine.exits import is_closing
from limpet.engine.handlers import run_nested
from limpet.engine.scope import Scope
from limpet.engine.storage_view import compare_inside
from limpet.model import EventRecord, ExecutionStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call


async def rehearse_agent(scope: Scope, call: Call, record: EventRecord, encoded: bytes) -> Any:
    """Give what the code of an agent gives now; raise what it raises."""
    rehearsal = scope.live.rehearsal
    assert rehearsal is not None
    call.is_replayed = True
    rehearsal.given(scope, call, record, encoded)
    rehearsal.entering(call)
    child = scope.inside(call.path)
    compare_inside(child, record)
    try:
        result = await run_nested(child, call)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) or is_closing(error):
            raise
        if record.status is ExecutionStatus.COMPLETED:
            rehearsal.failed(f"{call.address}: {type(error).__name__}: {error}")
        raise
    rehearsal.ended(call)
    return result
