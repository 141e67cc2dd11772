"""A run: one actor, one input, one state, from wherever it stands to its end.

Idempotent by the state's id: an unknown one starts, an unfinished one goes on, a completed one gives its recorded
result, and one that belongs to another actor or input is refused without being changed.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from limpet.artifacts.stored_values import Encoded, Pending, StoredValues
from limpet.backends.contract import Claim, Grant, StateUpdate
from limpet.codec import frames
from limpet.engine.actors import Actor, HandlerActor
from limpet.engine.bus import EventBus
from limpet.engine.call import Call
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.drift_stop import require_reached
from limpet.engine.environment import with_environment
from limpet.engine.inputs import is_same_input, other_input
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.engine.limits import Limits
from limpet.engine.live import LiveState
from limpet.engine.opening import acquire, is_rolled_back, without_stop
from limpet.engine.perform import perform_call
from limpet.engine.reading import decoded, read_history, read_long_history, require_end
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.state import ExecutionState
from limpet.engine.stoppable import stoppable
from limpet.engine.writer import Writer
from limpet.errors import DriftWarning, RolledBack, StateCorrupted, StateMismatch, UnknownState
from limpet.journal import pages
from limpet.journal.address import is_top_level, parse
from limpet.journal.history import History
from limpet.journal.new_timeline import NewTimeline
from limpet.journal.timeline import intact
from limpet.model import (
    Capture,
    Details,
    End,
    EventRecord,
    ExecutionStatus,
    Holder,
    OnDrift,
    Record,
    StateHeader,
    StateMetadata,
    StateStatus,
)
from limpet.model.header import utc
from limpet.model.progress import TOTAL_EVENTS

MakeTimeline = Callable[[History], tuple[NewTimeline, Sequence[Pending]]]
"""From a history to the timeline that is to be begun, and what has to be stored before it."""


class Run(msgspec.Struct, kw_only=True):
    """What is to be run, and how."""

    stored: StoredValues
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
    new_timeline: MakeTimeline | None = None
    """Where it is not gone on with but run on from somewhere: what tells where, from the history as it then stands."""
    on_drift: OnDrift = OnDrift.DEFAULT
    repeats_once: bool = False
    """Whether what is declared ``once`` may be executed again."""
    retry_caught: bool = False
    """Whether failures that the program had caught are retried."""
    limits: Limits = Limits()
    """How it is retried, and what may stop it."""
    capture: Capture | None = None
    """How much of the environment is captured; None: as it is configured."""


async def run_to_end(writer: Writer, run: Run) -> Any:
    """Run, and give the result. Raises what the run failed of, StateMismatch, LeaseHeld, or what the store says."""
    holder = new_holder()
    encoded, pending = await _encoded_input(run)
    first = _first_record(run, encoded, pending)
    mark_running(holder)
    writer.crowd += 1
    try:
        if pending:
            await asyncio.to_thread(run.stored.put, pending, None)
        claim = _claim(writer, run, holder, first)
        damaged: StateHeader | None = None
        while True:
            grant = await acquire(writer, claim, run.wait_s)
            if grant is None:
                raise UnknownState(run.state_id)
            if grant.lease is not None:
                break
            try:
                return await _recorded_result(writer, run, grant.header, first)
            except StateCorrupted:
                if grant.header == damaged:
                    raise
                damaged = grant.header  # Or it was deleted since: then it is not found a second time.
        live = await _live(writer, run, claim, grant, first)
        if pending and grant.is_new:
            # Again, under the lease: so it is there even if a collector found it before the state named it.
            await live.put_artifacts(pending)
        return await _go_on(run, live)
    finally:
        writer.crowd -= 1
        mark_ended(holder)


async def _encoded_input(run: Run) -> Encoded:
    # The whole run can only be taken up again from its input, so that must be storable to the last part.
    given = run.actor.input_of(run.args, run.kwargs)
    encoded = run.stored.encode_small(given)
    return await run.stored.encode_input(given, is_lenient=False) if encoded is None else (encoded, ())


def _first_record(run: Run, encoded: bytes, pending: Sequence[Pending]) -> EventRecord:
    address = run.actor.label + run.actor.suffix
    return EventRecord(
        seq=1,
        address=address,
        status=ExecutionStatus.STARTED,
        at=SYSTEM_CLOCK.now(),
        version=run.actor.version,
        input=encoded,
        artifacts=tuple(each.artifact_id for each in pending),
        # The header names it as well, for whoever lists states; this is what is sealed, or bound to the chain.
        details=Details(agent=run.actor.reference or ""),
    )


def _claim(writer: Writer, run: Run, holder: Holder, first: EventRecord) -> Claim:
    owner = frames.first_link(run.state_id)
    body, link = frames.to_frame(first, owner, owner, run.stored.record_cipher(run.state_id))
    now, reference = utc(first.at), run.actor.reference
    header = StateHeader(
        state_id=run.state_id,
        status=StateStatus.RUNNING,
        created_at=now,
        updated_at=now,
        metadata=_with_settings(run, with_environment(run.metadata, agent=reference, capture=run.capture)),
        agent=reference,
        end=End(1, link),
    )
    return Claim(
        header=header,
        bodies=(body,),
        holder=holder,
        ttl_s=writer.keeper.ttl_s,
        create=run.create,
        reopen=run.new_timeline is not None,
    )


def _with_settings(run: Run, metadata: StateMetadata) -> StateMetadata:
    """The metadata of a new state, with what was said of its run and counts when it is looked at or taken up."""
    total = run.actor.total_events
    if total is not None:
        metadata = msgspec.structs.replace(metadata, settings={**metadata.settings, TOTAL_EVENTS: total})
    return run.limits.retry.kept_in(metadata)


async def _live(writer: Writer, run: Run, claim: Claim, grant: Grant, first: EventRecord) -> LiveState:
    """The state, held by this run. Whatever goes wrong, the lease is given back."""
    assert grant.lease is not None
    is_new = grant.is_new
    live = LiveState(
        writer=writer,
        stored=run.stored,
        header=grant.header,
        history=History(run.state_id, [first] if is_new else ()),
        link=frames.link_of(claim.bodies[0]) if is_new else frames.first_link(run.state_id),
        bus=run.bus,
        records_inputs=run.records_inputs,
        holder=claim.holder,
        on_drift=run.on_drift,
        retry=run.limits.retry,
    )
    live.repeats_once = run.repeats_once
    live.capture = run.capture
    live.begin_writing(grant.lease, grant.held_until)
    try:
        if not is_new:
            live.replace_history(*await _read(live, grant.header))
            _require_same_run(run, live.history.first_event(), first)
            if run.new_timeline is not None:
                await _begin_timeline(live, run.new_timeline)
            elif is_rolled_back(grant.header):
                raise RolledBack(run.state_id)
            if run.retry_caught:
                live.history.retry_caught()
            _mark_running(live, run.limits.retry)
        run.limits.apply_to(live)
    except BaseException:
        live.release(None)
        raise
    ExecutionState.around(live)
    return live


async def _read(live: LiveState, header: StateHeader) -> tuple[History, int]:
    """The history of a state that this run holds, and the link that the next record follows."""
    writer = live.writer
    if header.timeline or header.position < pages.PAGED_FROM:
        return read_history(header, await writer.read(header.state_id), live.stored)
    if writer.backend.commit_waits:
        return await asyncio.to_thread(read_long_history, header, writer.backend, live.stored, live.read_page)
    return read_long_history(header, writer.backend, live.stored, live.read_page)


def _mark_running(live: LiveState, retry: RetryLevels) -> None:
    """Say that the state is run again, and how it is retried from now on where that is said anew."""
    metadata = without_stop(retry.kept_in(live.header.metadata))
    live.retry = retry if retry.is_given else RetryLevels.recorded(metadata)
    changed = None if metadata is live.header.metadata else metadata
    if changed is not None or live.header.status is not StateStatus.RUNNING:
        live.write_update(StateUpdate(at=live.clock.now(), status=StateStatus.RUNNING, metadata=changed))


async def _begin_timeline(live: LiveState, make: MakeTimeline) -> None:
    new, pending = make(live.history)
    if pending:
        await live.put_artifacts(pending)
    if new.replacement is None:
        live.resume_from_address = new.address
    # Off the loop, as every commit that may wait: nothing of this run is under way yet.
    await asyncio.to_thread(live.begin_timeline, new)


async def _go_on(run: Run, live: LiveState) -> Any:
    loop = asyncio.get_running_loop()
    live.loop = loop
    args = (*run.args, None, live.facade) if isinstance(run.actor, HandlerActor) else run.args
    call = Call(run.actor, live.top.take(run.actor.label), args, run.kwargs, run.args)
    call.closes = True
    try:
        with run.limits.signals(live):
            result = await stoppable(live, _whole(live, call))
        if live.lease is not None:
            # What was given is the recorded result of the whole: a replaced one, or that of a fork.
            live.release(StateStatus.COMPLETED)
        _tell_unreached(live)
        return result
    finally:
        live.forget()
        if live.waits is not None:
            live.waits.notice()


async def _whole(live: LiveState, call: Call) -> Any:
    result = await perform_call(live.top, call)
    if live.lease is not None:
        require_reached(live)
    return result


def _tell_unreached(live: LiveState) -> None:
    address = live.resume_from_address
    if address is None or live.on_drift is OnDrift.IGNORE:
        return
    warnings.warn(
        f"State {live.state_id!r} ended without reaching {address!r}, where it was to be run on from: the code no "
        "longer makes that call.",
        DriftWarning,
        stacklevel=2,
    )


def _require_same_run(run: Run, recorded: EventRecord | None, wanted: EventRecord) -> None:
    state_id = run.state_id
    if recorded is None:
        raise StateMismatch(state_id, "it was made in the explicit form, not by running an agent")
    if recorded.address != wanted.address:
        was, now = parse(recorded.address), parse(wanted.address)
        raise StateMismatch(state_id, f"it runs the agent {was.name!r}, not {now.name!r}")
    assert wanted.input is not None
    given = run.args, run.kwargs
    if recorded.input is None or not is_same_input(run.stored, run.actor, recorded, wanted.input, given):
        raise StateMismatch(state_id, other_input(run.stored, run.actor, recorded.input, given))


async def _recorded_result(writer: Writer, run: Run, header: StateHeader, first: EventRecord) -> Any:
    """The result of a completed run."""
    record = await _last_record(writer, run, header)
    if not isinstance(record, EventRecord) or not is_top_level(record.address):
        history, _ = read_history(header, await writer.read(run.state_id), run.stored)
        began = history.first_event()
        record = None if began is None else history.latest[began.address]
    _require_same_run(run, record, first)
    if record is None or record.result is None:
        raise StateCorrupted(run.state_id, header.position, "the state is completed and has no recorded result")
    return await run.stored.decode_record(record.result, record.artifacts)


async def _last_record(writer: Writer, run: Run, header: StateHeader) -> Record | None:
    """The last record of a journal, read without the rest; its checksum is checked against the one before it."""
    tail = await writer.read(run.state_id, max(0, header.position - 2))
    before = None
    if header.position > 2 and tail:
        before, *tail = tail
    require_end(header, tail[-1] if tail else None)
    records = list(intact(decoded(header, tail, run.stored, before)))
    return records[-1] if records else None
