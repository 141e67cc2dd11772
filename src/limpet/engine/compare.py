"""A call in validation: its handler runs again and what it gives is compared with what is recorded. Records nothing."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from limpet.engine.drift import changed
from limpet.engine.exits import is_closing
from limpet.engine.failures import failure_in, recorded_error
from limpet.engine.handlers import run_nested
from limpet.engine.replacement import NOTHING
from limpet.engine.scope import Scope
from limpet.engine.storage_view import compare_inside
from limpet.errors import NotRecorded
from limpet.journal.lifecycle import SETTLED
from limpet.model import EventRecord

if TYPE_CHECKING:
    from limpet.engine.call import Call


async def _given(scope: Scope, call: Call, record: EventRecord | None) -> Any:
    """What is declared ``once`` is not executed for the sake of a comparison, and nobody is asked again: what is
    recorded is given."""
    live = scope.live
    assert live.validation is not None
    if record is None or record.status not in SETTLED:
        raise NotRecorded(call.address, live.state_id)
    call.is_replayed = True
    live.validation.note_reused(call.address)
    if record.result is not None:
        return await live.stored.decode_record(record.result, record.artifacts)
    raise recorded_error(record, live.history.failure)


async def compare(scope: Scope, call: Call, record: EventRecord | None, encoded: bytes) -> Any:
    """Give what executing again gives, or raise what it raises, and take note of it in the report."""
    live = scope.live
    report = live.validation
    assert report is not None
    if call.actor.once or call.actor.is_wait:
        return await _given(scope, call, record)
    has_other_input = record is not None and changed(live, call, record, encoded) is not None
    child = scope.inside(call.path)
    compare_inside(child, record)
    began = live.clock.elapsed()
    try:
        result = await run_nested(child, call)
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) or is_closing(error):
            raise
        failure = failure_in(live, error, is_recorded=False).failure
        report.compare_failure(call.address, call.actor, record, failure)
        raise
    call.execution_time = live.clock.elapsed() - began
    if call.actor.is_kept_apart:
        live.secrets |= call.actor.secrets_in_result(result)
    given = call.actor.input_of(call.inputs, call.kwargs) if has_other_input else NOTHING
    report.compare_result(call.address, call.actor, record, call.actor.hide_result(result), given)
    return result
