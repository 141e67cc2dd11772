"""Rolling a run back: everything it has done that something undoes is undone, from the newest to the oldest.

It is an agent of its own in the same state, whose calls are the functions that undo. So it is as durable as the run
was: what is undone is not undone again, however often the rollback is stopped, and what fails is tried again.
"""

from __future__ import annotations

import asyncio
import inspect
from functools import partial
from typing import Any, cast

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateUpdate
from limpet.engine.actors import Actor, FunctionActor, with_undo
from limpet.engine.bus import EventBus
from limpet.engine.call import Call
from limpet.engine.lease import mark_ended, mark_running
from limpet.engine.limits import Limits
from limpet.engine.live import LiveState
from limpet.engine.opening import take_lease
from limpet.engine.perform import perform_call
from limpet.engine.reading import read_history
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.state import ExecutionState
from limpet.engine.stoppable import stoppable
from limpet.engine.undo_names import name_of_undo
from limpet.engine.writer import Writer
from limpet.errors import OutcomeUnknown, UsageError
from limpet.journal.address import SEPARATOR, parse
from limpet.journal.history import History
from limpet.journal.rollback import ROLLBACK, rollback_key, to_undo, unknown_effects
from limpet.model import EventRecord, EventType, ReplayMode, StateHeader, StateStatus
from limpet.model.interrupts import ROLLED_BACK


async def roll_back(
    writer: Writer, stored: StoredValues, header: StateHeader, bus: EventBus, limits: Limits
) -> list[str]:
    """Undo what a run has done, and give the addresses of that, in the order of undoing. Raises what an undo raises."""
    _require_unfinished(header)
    history, link = read_history(header, await writer.read(header.state_id), stored)
    live = LiveState(
        writer=writer,
        stored=stored,
        header=header,
        history=history,
        link=link,
        bus=bus,
        mode=ReplayMode.NORMAL,
        retry=RetryLevels.recorded(header.metadata),
    )
    mark_running(live.holder)
    try:
        await asyncio.to_thread(take_lease, live)
    except BaseException:
        mark_ended(live.holder)
        raise
    try:
        _require_can_be_undone(live.header, live.history)
        undoing = [(record, _undo_of(record)) for record in _own(live.header, live.history)]
        stopped = {"reason": ROLLED_BACK, "at": live.clock.now()}
        metadata = msgspec.structs.replace(live.header.metadata, stopped=stopped)
        live.write_update(StateUpdate(at=live.clock.now(), status=StateStatus.RUNNING, metadata=metadata))
        limits.apply_to(live)
    except BaseException:
        live.release(None)
        raise
    ExecutionState.around(live)
    return await _undo_all(live, limits, undoing)


async def _undo_all(live: LiveState, limits: Limits, undoing: list[tuple[EventRecord, Actor[..., Any]]]) -> list[str]:
    live.loop = asyncio.get_running_loop()
    first = live.history.first_event()
    assert first is not None

    async def undo_each() -> list[str]:
        for record, undo in undoing:
            await _call(live, record, undo)
        return [record.address for record, _ in undoing]

    # It stands beside the run, and in the place of nothing that is recorded.
    live.top.has_new = True
    actor: Actor[..., Any] = FunctionActor(undo_each, EventType.AGENT_CALL, name=ROLLBACK)
    actor = actor.options(key=rollback_key(first.address))
    call = Call(actor, live.top.take(actor.label), (), {}, ())
    try:
        with limits.signals(live):
            undone = await stoppable(live, perform_call(live.top, call))
        live.release(StateStatus.FAILED)
        return undone
    except BaseException:
        if live.lease is not None:
            live.release(StateStatus.FAILED)
        raise
    finally:
        live.forget()


async def _call(live: LiveState, record: EventRecord, undo: Actor[..., Any]) -> None:
    """Undo one result: a call with the path of what it undoes as its key."""
    assert record.input is not None, "nothing is begun where one cannot be undone"
    recorded = await live.stored.decode_record(record.input, record.artifacts)
    args, kwargs = undo.arguments_of(recorded)
    if _takes_result(undo.function):
        assert record.result is not None
        kwargs = {**kwargs, "result": await live.stored.decode_record(record.result, record.artifacts)}
    keyed = undo.options(key=record.address.rpartition(SEPARATOR)[0])
    await keyed(*args, **kwargs)


def _takes_result(function: Any) -> bool:
    while isinstance(function, partial):
        function = cast("partial[Any]", function).func
    return "result" in inspect.signature(function).parameters


def _undo_of(record: EventRecord) -> Actor[..., Any]:
    """The actor that undoes a result. Raises UsageError where this process does not have it, or it cannot undo that."""
    address = parse(record.address)
    assert record.details is not None
    if record.input is None:
        raise UsageError(
            f"{record.address} cannot be undone: its input is not recorded.", "Undo by hand what the run has done."
        )
    actor = with_undo.get((address.name, EventType(address.event_type), record.details.undo))
    if actor is None or actor.undo is None:
        raise UsageError(
            f"{record.address} is undone by {record.details.undo!r}, and no actor {address.name!r} with an undo is "
            "declared here.",
            "Import the module that declares it, and roll back again.",
        )
    if isinstance(actor.undo, Actor):
        return cast("Actor[..., Any]", actor.undo)
    # An object that can be called has no name of its own, and its method has.
    function = actor.undo if hasattr(actor.undo, "__name__") else getattr(actor.undo, "__call__")  # noqa: B004, B009
    return FunctionActor(function, EventType.TOOL_CALL, name=name_of_undo(actor.undo))


def _own(header: StateHeader, history: History) -> list[EventRecord]:
    """What this state has done itself: what a fork shares was done by others, who may still need it."""
    shared = max((base.last for base in header.bases), default=0)
    return [record for record in to_undo(history) if record.seq > shared]


def _require_unfinished(header: StateHeader) -> None:
    if header.status is StateStatus.COMPLETED:
        raise UsageError(
            f"State {header.state_id!r} has completed, and only a run that did not is rolled back.",
            "Undo what it has done by other runs.",
        )


def _require_can_be_undone(header: StateHeader, history: History) -> None:
    _require_unfinished(header)
    if history.first_event() is None:
        raise UsageError(f"State {header.state_id!r} has no events.", "There is nothing to undo.")
    unknown = unknown_effects(history, failed=False)
    if unknown:
        raise OutcomeUnknown(unknown[0].address, header.state_id)
