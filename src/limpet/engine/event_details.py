"""What is recorded of an outcome beside what every outcome has: keys of effects, what undoes it, what a model used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limpet.engine.undo_names import name_of_undo
from limpet.engine.usage_hooks import usage_of
from limpet.model import Details, EventType, Settled

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.scope import Start


def details_of(call: Call, start: Start, result: Any) -> Details | None:
    """The details of a result; None where there is nothing to say."""
    actor = call.actor
    usage = usage_of(result) if actor.event_type is EventType.LLM_CALL else None
    undo = name_of_undo(actor.undo)
    if usage is None and not undo:
        return start.details
    return Details(key=call.key, undo=undo, usage=usage)


def details_of_failure(call: Call, start: Start) -> Details | None:
    """The details of a failure for good: whether what is declared ``once`` was executed at all."""
    if not call.actor.once:
        return None
    if call.has_run:
        return start.details
    return Details(key=call.key, undo=name_of_undo(call.actor.undo), settled=Settled.NOT_EXECUTED)
