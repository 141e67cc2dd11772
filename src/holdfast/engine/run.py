"""A run: one actor, one input, one state, from wherever it stands to its end.

Idempotent by the state's id: an unknown one starts, an unfinished one goes on, a completed one gives its recorded
result, and one that belongs to another actor or input is refused without being changed.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.backends.contract import Claim, Grant
from holdfast.codec import frames, values
from holdfast.engine.actors import Actor, HandlerActor
from holdfast.engine.branches import branching
from holdfast.engine.bus import EventBus
from holdfast.engine.clock import SYSTEM_CLOCK
from holdfast.engine.environment import with_environment
from holdfast.engine.lease import mark_ended, mark_running, new_holder
from holdfast.engine.live import LiveState
from holdfast.engine.opening import acquire, read_history
from holdfast.engine.perform import Call, perform_call
from holdfast.engine.state import ExecutionState
from holdfast.engine.writer import Writer
from holdfast.errors import StateCorrupted, StateMismatch, UnknownState
from holdfast.journal.address import is_top_level, parse
from holdfast.journal.history import History
from holdfast.model import EventRecord, ExecutionStatus, Holder, Record, StateHeader, StateMetadata, StateStatus
from holdfast.model.header import utc


class Run(msgspec.Struct, kw_only=True):
    """What is to be run, and how."""

    actor: Actor[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state_id: str
    metadata: StateMetadata
    bus: EventBus
    wait_s: float | None = None
    """How long to wait while another process has the state; None: not at all."""
    records_inputs: bool = True
    create: bool = True
    """False: the state must exist, as it does for whoever resumes it."""


async def run_to_end(writer: Writer, run: Run) -> Any:
    """Run, and give the result. Raises what the run failed of, StateMismatch, LeaseHeld, or what the store says."""
    holder = new_holder()
    first = _first_record(run)
    mark_running(holder)
    writer.crowd += 1
    try:
        grant = await acquire(writer, _claim(writer, run, holder, first), run.wait_s)
        if grant is None:
            raise UnknownState(run.state_id)
        if grant.lease is None:
            return await _recorded_result(writer, run, grant.header, first)
        live = await _live(writer, run, holder, grant, first)
        return await _go_on(run, live)
    finally:
        writer.crowd -= 1
        mark_ended(holder)


def _first_record(run: Run) -> EventRecord:
    address = run.actor.label + run.actor.suffix
    # The whole run can only be taken up again from its input, so that must be storable to the last part.
    encoded = values.encode(run.actor.input_of(run.args, run.kwargs), "input")
    return EventRecord(
        seq=1,
        address=address,
        status=ExecutionStatus.STARTED,
        at=SYSTEM_CLOCK.now(),
        version=run.actor.version,
        input=encoded,
    )


def _claim(writer: Writer, run: Run, holder: Holder, first: EventRecord) -> Claim:
    body, _ = frames.to_frame(first, frames.first_link(run.state_id))
    now = utc(first.at)
    header = StateHeader(
        state_id=run.state_id,
        status=StateStatus.RUNNING,
        created_at=now,
        updated_at=now,
        metadata=with_environment(run.metadata),
        agent=run.actor.reference,
    )
    return Claim(header=header, bodies=(body,), holder=holder, ttl_s=writer.keeper.ttl_s, create=run.create)


async def _live(writer: Writer, run: Run, holder: Holder, grant: Grant, first: EventRecord) -> LiveState:
    """The state, held by this run. Whatever goes wrong, the lease is given back."""
    assert grant.lease is not None
    live = LiveState(
        writer=writer,
        header=grant.header,
        history=History(run.state_id),
        link=frames.first_link(run.state_id),
        bus=run.bus,
        records_inputs=run.records_inputs,
        holder=holder,
    )
    live.begin_writing(grant.lease)
    try:
        if grant.is_new:
            _, link = frames.to_frame(first, frames.first_link(run.state_id))
            live.replace_history(History(run.state_id, [first]), link)
        else:
            live.replace_history(*read_history(run.state_id, await writer.read(run.state_id)))
            _require_same_run(run.state_id, live.history.first_event(), first)
            if grant.header.status is not StateStatus.RUNNING:
                live.update_header(StateStatus.RUNNING)
    except BaseException:
        live.release(None)
        raise
    ExecutionState.around(live)
    return live


async def _go_on(run: Run, live: LiveState) -> Any:
    loop = asyncio.get_running_loop()
    live.loop = loop
    args = (*run.args, None, live.facade) if isinstance(run.actor, HandlerActor) else run.args
    call = Call(run.actor, live.top.take(run.actor.label), args, run.kwargs, run.args)
    call.closes = True
    try:
        with branching(loop):
            return await perform_call(live.top, call)
    except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
        live.release(StateStatus.INTERRUPTED)
        raise
    finally:
        live.forget()


def _require_same_run(state_id: str, recorded: EventRecord | None, wanted: EventRecord) -> None:
    if recorded is None:
        raise StateMismatch(state_id, "it was made in the explicit form, not by running an agent")
    if recorded.address != wanted.address:
        was, now = parse(recorded.address), parse(wanted.address)
        raise StateMismatch(state_id, f"it runs the agent {was.name!r}, not {now.name!r}")
    if recorded.input_fingerprint != wanted.input_fingerprint:
        raise StateMismatch(state_id, f"{wanted.address.partition('::')[0]!r} runs there with another input")


async def _recorded_result(writer: Writer, run: Run, header: StateHeader, first: EventRecord) -> Any:
    """The result of a completed run."""
    record = await _last_record(writer, run.state_id, header.position)
    if not isinstance(record, EventRecord) or not is_top_level(record.address):
        history, _ = read_history(run.state_id, await writer.read(run.state_id))
        began = history.first_event()
        record = None if began is None else history.latest[began.address]
    _require_same_run(run.state_id, record, first)
    if record is None or record.result is None:
        raise StateCorrupted(run.state_id, header.position, "the state is completed and has no recorded result")
    return values.decode(record.result)


async def _last_record(writer: Writer, state_id: str, position: int) -> Record | None:
    """The last record of a journal, read without the rest; its checksum is checked against the one before it."""
    tail = await writer.read(state_id, max(0, position - 2))
    link = None
    if position > 2:
        (_, before), *tail = tail
        link = frames.link_of(before)
    records = list(frames.from_frames(state_id, tail, link))
    return records[-1] if records else None
