"""What is recorded of an outcome beside what every outcome has: keys of effects, what undoes it, what a model used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from limpet.engine.effects import is_unknown
from limpet.engine.undo_names import name_of_undo
from limpet.engine.usage_hooks import usage_of
from limpet.journal.lifecycle import SETTLED
from limpet.model import Details, EventRecord, EventType, Settled

if TYPE_CHECKING:
    from limpet.engine.actors import Actor
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


def details_unbegun(actor: Actor[..., Any], record: EventRecord | None) -> Details | None:
    """The details of a call that is cut off before it began in this process: what is recorded of it stays so."""
    before = Details() if record is None or record.details is None else record.details
    details = Details(key=before.key, undo=before.undo)
    if actor.once and (record is None or not is_unknown(record)):
        details = msgspec.structs.replace(details, settled=Settled.NOT_EXECUTED)
    if record is not None and record.status not in SETTLED:
        details = msgspec.structs.replace(details, due_at=before.due_at, delay_s=before.delay_s, spent_s=before.spent_s)
    return None if details == Details() else details
