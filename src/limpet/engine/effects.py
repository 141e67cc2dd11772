"""Calls whose effects must not be repeated: what is declared ``once``, and was cut off.

Such a call has its start in the journal before its handler runs. Where a start has no outcome behind it, nobody knows
whether the work was done: it is not executed again. A probe of the user's finds out, or a person says what became of
it; until then the state awaits that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, cast

import msgspec

from limpet.engine.live import LiveState
from limpet.engine.scope import Scope, current_scope
from limpet.engine.threads import run_plain
from limpet.errors import OutcomeUnknown, UsageError
from limpet.logs import logger
from limpet.model import (
    CurrentEvent,
    Details,
    DidNotHappen,
    EventRecord,
    ExecutionStatus,
    Happened,
    InterruptReason,
    InterruptSignal,
    Settled,
    StateStatus,
)

if TYPE_CHECKING:
    from limpet.engine.actors import Actor
    from limpet.engine.call import Call

log = logger("limpet.effects")


def current_event() -> CurrentEvent:
    """The call that this code is executed for: its address, the attempt, and its idempotency key.

    Raises UsageError outside of a run.
    """
    scope = current_scope.get()
    call = None if scope is None else scope.event.call
    if scope is None or call is None:
        raise UsageError(
            "No event is being executed here.", "Call `current_event()` inside a tool, a model or an agent."
        )
    return CurrentEvent(
        state_id=scope.live.state_id,
        address=call.address,
        attempt=call.attempt,
        idempotency_key=call.key or new_key(scope.live, call.address),
    )


def new_key(live: LiveState, address: str) -> str:
    """The idempotency key of a call. It does not depend on when, where or how often the call is executed.

    On a new timeline the same address is another call, and has another key.
    """
    what = f"{live.state_id}\n{live.history.timelines.current}\n{address}"
    return hashlib.sha256(what.encode()).hexdigest()[:32]


def recorded_key(record: EventRecord | None) -> str:
    """The key that a call was given before, where that is recorded."""
    return "" if record is None or record.details is None else record.details.key


def kept_details(record: EventRecord, settled: str = "", by: str = "") -> Details:
    """What stays the same of the details of a call, whatever is said of it."""
    undo = "" if record.details is None else record.details.undo
    return Details(key=recorded_key(record), undo=undo, settled=settled, by=by)


def is_unknown(record: EventRecord) -> bool:
    """Whether a call that is declared ``once`` has started, gave no result, and nobody has said that it may run
    again."""
    may_run = record.details is not None and record.details.settled in (Settled.AGAIN, Settled.NOT_EXECUTED)
    return record.status is not ExecutionStatus.COMPLETED and not may_run


async def probed(scope: Scope, call: Call, record: EventRecord) -> Happened | None:
    """What a probe has found out of a call whose outcome is unknown: its result, or None where it did not happen.

    Where there is no probe, or it does not know either, the state is left for a person to say it.
    """
    said: Any = None
    if call.actor.probe is not None:
        said = await _ask(scope, call)
        if isinstance(said, (Happened, DidNotHappen)):
            return said if isinstance(said, Happened) else None
    await _await_a_person(scope, call, record)
    raise AssertionError("a run that waits for a person goes no further")


async def _ask(scope: Scope, call: Call) -> Any:
    """What the probe says. One that raises is reported, and knows nothing."""
    probe = call.actor.probe
    assert probe is not None
    inside = scope.inside(call.path)
    inside.call = call
    token = current_scope.set(inside)
    try:
        if call.actor.probe_is_plain:
            return await run_plain(probe, call.args, call.kwargs)
        return await cast("Awaitable[object]", probe(*call.args, **call.kwargs))
    except Exception:
        log.exception("The probe of %s in state %s raised.", call.address, scope.live.state_id)
        return None
    finally:
        inside.is_closed = True
        current_scope.reset(token)


async def _await_a_person(scope: Scope, call: Call, record: EventRecord) -> None:
    """Record that the outcome is awaited, and stop the run: what is being executed elsewhere is finished first."""
    live = scope.live
    if record.status is not ExecutionStatus.AWAITING:
        live.write_event(lambda seq, now: _awaiting(record, seq, now))
    message = f"{call.address} is declared once, was cut off, and may or may not have done its work."
    await live.stopper.stop_here(
        scope,
        InterruptSignal(InterruptReason.UNKNOWN_OUTCOME, message, is_graceful=True),
        StateStatus.AWAITING,
        OutcomeUnknown(call.address, live.state_id),
    )


def _awaiting(record: EventRecord, seq: int, now: float) -> EventRecord:
    return said_of(record, seq, now, ExecutionStatus.AWAITING, kept_details(record))


def said_of(
    record: EventRecord, seq: int, now: float, status: ExecutionStatus, details: Details, **more: Any
) -> EventRecord:
    """What somebody says of an event, as the record behind its newest one. It keeps its start."""
    said = EventRecord(
        seq=seq,
        address=record.address,
        status=status,
        at=now,
        behind=seq - record.order,
        attempt=record.attempt,
        version=record.version,
        fingerprint=record.fingerprint,
        input=record.input,
        artifacts=record.artifacts,
        beside=record.beside,
        details=details,
    )
    return msgspec.structs.replace(said, **more)


async def settle_happened(live: LiveState, actor: Actor[..., Any], record: EventRecord, found: Happened) -> None:
    """Record the result that a probe has found of a call."""
    encoded, pending = await live.stored.encode_result(actor.hide_result(found.result), False)
    live.secrets |= actor.secrets_in_result(found.result)
    ids = await live.put_artifacts(pending) if pending else ()
    details = kept_details(record, Settled.HAPPENED, "probe")
    artifacts = tuple(dict.fromkeys((*record.artifacts, *ids)))
    live.write_event(
        lambda seq, now: said_of(
            *(record, seq, now, ExecutionStatus.COMPLETED, details), result=encoded, artifacts=artifacts
        )
    )
