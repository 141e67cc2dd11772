"""One event, from call to record.

The call has its address already. What stands in the history decides: the recorded outcome is given, or the handler
runs in a scope of its own and its outcome is recorded, acknowledged, and told to the observers. An outcome is given
to the caller only after it is durable. What follows an attempt without a result is in ``attempts.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from limpet.artifacts.stored_values import Pending
from limpet.codec import values
from limpet.codec.secrets import MARK as SECRET_MARK
from limpet.engine.allowed import require_allowed
from limpet.engine.attempts import cut_off, failure_behind, inside_of_attempt, is_no_failure, take_up, try_again
from limpet.engine.call import Call
from limpet.engine.call_values import encode_input, encode_result
from limpet.engine.compare import compare
from limpet.engine.drift import check_ended, check_given, check_going_on, check_new
from limpet.engine.effects import is_unknown, new_key, probed, recorded_key, settle_happened
from limpet.engine.event_details import details_of, details_of_failure
from limpet.engine.exits import ends_program
from limpet.engine.failures import causes_of, failure_in, mark_failed, recorded_error
from limpet.engine.handlers import LEVELS_ON_A_STACK, run_handler
from limpet.engine.lease import since_boot
from limpet.engine.notices import tell
from limpet.engine.opening import newest_record, require_lease, take_lease
from limpet.engine.order import Order
from limpet.engine.outcomes import (
    closing,
    give,
    may_wait_here,
    order_in,
    performed_on,
    refuse_late,
    require_wanted,
    settle,
    tell_news,
    tell_ungiven,
)
from limpet.engine.rehearse import rehearse_agent
from limpet.engine.scope import Scope, Start, current_scope, new_start
from limpet.engine.stopping import Stopped
from limpet.engine.storage_view import begin_inside, is_new_execution, note_entered, note_given
from limpet.engine.time_limits import run_limited
from limpet.engine.tracebacks import note_recorded
from limpet.engine.turns import IN_ORDER, Given, Turn
from limpet.engine.unconfirmed import made_durable
from limpet.engine.undo_names import name_of_undo
from limpet.engine.waiting import perform_wait
from limpet.errors import LimpetError
from limpet.journal.lifecycle import SETTLED
from limpet.journal.pages import Page
from limpet.journal.replay import Decision, decide
from limpet.journal.tracebacks import pieces_of
from limpet.model import Details, EventRecord, ExecutionStatus, Happened, ReplayMode, StateStatus, fingerprint

if TYPE_CHECKING:
    from limpet.engine.actors import Actor

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_STARTED = ExecutionStatus.STARTED
_NORMAL = ReplayMode.NORMAL

LONGEST_TURN_S = 0.002
"""After so long without a pause the event loop gets a turn, even where every commit is made inline."""


async def perform(
    scope: Scope, actor: Actor[..., Any], path: str, address: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Give the result of a call, recorded or new; raise what it failed of.

    A recorded result whose input and actor are unchanged is what a resumed run meets by the thousand. It is given here,
    by the shortest way, at once or when it is the next one; everything else takes the long way.
    """
    live = scope.live
    record = live.history.index.get(address)
    if type(record) is Page:
        record = record.event(address)
    if (
        record is not None
        and record.status is _COMPLETED
        and live.replays_quickly
        and record.version == actor.version
        and not record.artifacts
        and not actor.secret_parameters
        and (order := scope.event.order or order_in(scope)) is not None
        and record.input == values.encode_arguments(actor.input_of(args, kwargs) if kwargs else list(args))
    ):
        assert record.result is not None, "a completed event has a result"
        is_given = False
        if order.next == record.seq and not (order.ready or order.making or order.queue):
            is_given = live.rehearsal is None or live.rehearsal.reuse(scope, record)
            if is_given:
                order.advance(record)
        elif may_wait_here(scope, address) and (turn := order.park(record)) is not None:
            try:
                if (given := await turn) is not IN_ORDER:
                    call = Call(actor, path, args, kwargs, args, address)
                    check_given(scope, call, record, record.input or b"", given.drift)
            except (asyncio.CancelledError, LimpetError) as error:
                order.drop(turn)
                note_given(scope, record)
                if isinstance(error, LimpetError) and live.stopper.is_cancelling and not live.has_ended:
                    raise Stopped from error
                raise
            if turn.is_wished:
                order.put_off(turn)
            is_given = True
        if is_given:
            if record.seq > scope.seen:
                scope.seen = record.seq
            if scope.event is not scope and not path.startswith(scope.prefix):
                note_given(scope, record)  # A call with a key, made from a branch.
            if live.rehearsal is None:
                live.given += 1
                if record.details is not None:
                    live.saved.note(record.details)
            return values.decode(record.result)
    return await perform_call(scope, Call(actor, path, args, kwargs, args, address))


async def perform_call(scope: Scope, call: Call) -> Any:
    """As ``perform``, for a call that is to tell what became of it."""
    live, actor, address = scope.live, call.actor, call.address
    if live.loop is not None and asyncio.get_running_loop() is not live.loop:
        return await performed_on(live.loop, scope, perform_call(scope, call))
    # What is done here belongs to the engine: its timers and tasks have no place in the order of the code.
    token = current_scope.set(None)
    try:
        if live.has_cut_off and scope.is_given_up:
            raise Stopped
        if live.is_stopping:
            await live.stopper.meet(scope)
        event = scope.event
        if event.is_closed:
            refuse_late(scope, call, is_begun=False)
        given = actor.input_of(call.inputs, call.kwargs)
        encoded, pending = live.stored.encode_small(given), ()
        if encoded is None or SECRET_MARK in encoded or not live.records_inputs:
            encoded, pending = await encode_input(live, call, given)
        if address == live.resume_from_address:
            live.resume_from_address = None
        record = live.history.latest.get(address)
        if live.lease is None:
            record = newest_record(live, call, record)
        drift, order = None, event.order or order_in(scope)
        if record is not None or live.mode is not _NORMAL or (order is not None and (order.next or order.deferred)):
            found = await _look_up(scope, call, encoded, record, order)
            if type(found) is not Given:
                return found
            drift = found.drift
            if live.is_stopping:  # It may have waited long for its place in the order.
                await live.stopper.meet(scope)
        if record is not None:
            note_entered(scope, record)
        execute = perform_wait if actor.is_wait else _execute
        live.under_way += 1
        if order is not None:
            order.executing += 1
        try:
            return await execute(scope, call, encoded, pending, record, drift)
        except asyncio.CancelledError as error:
            if not call.is_settled:
                await cut_off(scope, call, error, encoded)
            raise
        finally:
            if order is not None:
                order.executing -= 1
            if (durable := call.durable) is not None:
                try:
                    await (durable.order.wait(scope, durable) if type(durable) is Turn else durable)
                except BaseException as error:
                    tell_ungiven(live, call, error)
                    raise
            if call.news is not None:
                tell_news(live, call, call.news)
            live.under_way -= 1
            if live.is_stopping:
                live.stopper.look()
    except LimpetError as error:
        if live.stopper.is_cancelling and not live.has_ended:
            raise Stopped from error  # Whoever awaits the run is told why; its own code must not catch that.
        raise
    finally:
        if (newest := live.history.latest.get(address)) is not None:
            note_given(scope, newest)
        try:  # noqa: SIM105 - suppress() costs more
            current_scope.reset(token)
        except ValueError:
            pass  # The coroutine is being closed from outside its context, in which nothing goes on.


async def _look_up(scope: Scope, call: Call, encoded: bytes, record: EventRecord | None, order: Order | None) -> Any:
    """What a call gives by what is recorded, in its place in the order; how it is let go on where it is executed."""
    live, drift = scope.live, None
    if record is not None or live.mode is not _NORMAL:
        decision = decide(
            live.mode,
            None if record is None else record.status,
            call.address in live.history.to_retry,
            live.rehearsal is not None and live.rehearsal.is_orchestration(call),
        )
        if decision is Decision.SKIP:
            assert record is not None, "only what is recorded is skipped"
            return await _replay(scope, call, record, encoded, order)
        if order is not None and record is not None and record.status is ExecutionStatus.CANCELLED:
            # It was cancelled by the code, which is to do so again; else it is executed.
            try:
                drift = (await order.recorded(scope, record)).drift
            except asyncio.CancelledError as error:
                mark_failed(scope, call.address, error)
                raise
        if decision is Decision.COMPARE or decision is Decision.ENTER:
            return await _run_again(scope, call, record, encoded, decision)
    if order is not None and (order.is_replaying or order.deferred):
        drift = (await _begun(scope, call, encoded, order)).drift or drift
        scope.is_mixed = True  # Its start is recorded behind those of calls that the code makes later.
    if live.rehearsal is not None:
        raise await live.rehearsal.missing(scope, call)
    return IN_ORDER if drift is None else Given(drift)


async def _begun(scope: Scope, call: Call, encoded: bytes, order: Order) -> Given:
    """Wait until a call that has no recorded outcome may begin. One that is cancelled meanwhile was never begun."""
    try:
        return await order.begin(scope)
    except asyncio.CancelledError as error:
        live = scope.live
        if not live.is_left and not live.is_stopping and live.can_be_left and live.lease is not None:
            await cut_off(scope, call, error, encoded)
            await give(scope, call)
        raise


async def _run_again(scope: Scope, call: Call, record: EventRecord | None, encoded: bytes, decision: Decision) -> Any:
    """Run the code of a call that is validated or rehearsed, and give its outcome in its recorded place."""
    live, order = scope.live, scope.event.order
    if order is not None and order.is_replaying and (record is None or record.status not in SETTLED):
        await order.begin(scope)
    live.under_way += 1
    try:
        if order is not None:
            order.executing += 1
        try:
            if decision is Decision.COMPARE:
                return await compare(scope, call, record, encoded)
            assert record is not None, "only an agent that is recorded has something inside"
            return await rehearse_agent(scope, call, record, encoded)
        finally:
            if order is not None:
                order.executing -= 1
                # What the code has left behind, or whoever awaits the run, has no place any more.
                is_left = order.is_closed or live.is_left or live.stopper.is_cancelling
                if record is not None and not is_left and not order.is_open_for(record):
                    await order.recorded(scope, record)
    finally:
        live.under_way -= 1
        if live.is_stopping:
            live.stopper.look()


async def _execute(
    scope: Scope,
    call: Call,
    encoded: bytes,
    pending: Sequence[Pending],
    record: EventRecord | None,
    drift: str | None,
) -> Any:
    live, actor, clock = scope.live, call.actor, scope.live.clock
    had_inside = record is not None and call.address in live.history.started
    if record is not None and (found := await _go_on(scope, call, encoded, record)) is not None:
        call.news = (_COMPLETED, {})
        settle(scope, call, None)
        return found.result
    if live.is_guarded:
        await require_allowed(scope, call, encoded)
    named = await live.put_artifacts(pending) if pending else ()
    child, start = _begin(scope, call, encoded, named, record)
    order = scope.event.order
    if record is None and (drift is not None or order is None):
        check_new(scope, call, drift)
    if (order is not None and order.fired) or actor.once or live.unconfirmed is not None:
        await made_durable(scope, call, child)
    if live.bus.is_heard:
        tell(live, call, ExecutionStatus.STARTED)
    is_limited = actor.limits_time or live.retry.limits_time or call.retry_config is not None
    is_limited = is_limited or not child.depth % LEVELS_ON_A_STACK
    began = call.began = call.attempt_began = clock.elapsed()
    while True:
        try:
            if since_boot() >= live.held_until:
                await require_lease(live)
            result = await (run_limited(child, call) if is_limited else run_handler(child, call))
            if live.is_stopping or live.has_cut_off:
                require_wanted(scope)
            if scope.event.is_closed:
                refuse_late(scope, call)
            if had_inside and call.attempt == 1:
                check_ended(child, call)
            encoded_result, produced = None if actor.is_kept_apart else live.stored.encode_small(result), ()
            if encoded_result is None or SECRET_MARK in encoded_result:
                encoded_result, produced = await encode_result(live, actor, result)
            results = await live.put_artifacts(produced) if produced else ()
            break
        except BaseException as error:
            again = await _go_on_after_failure(scope, child, call, start, encoded, error, clock.elapsed() - began)
            if again is None:
                raise
            child, start = again
            began = call.attempt_began = clock.elapsed()
    took_s = call.execution_time = clock.elapsed() - began
    at = clock.now()
    update = closing(live, at, StateStatus.COMPLETED) if call.closes else None
    details = details_of(call, start, result) if actor.has_details else None
    durable = live.write_outcome(
        scope, start, _COMPLETED, at, took_s, encoded_result, None, (), results, update, details, child
    )
    if live.bus.is_heard:
        call.news = (_COMPLETED, {"execution_time": took_s})
    if durable is None and at - live.turn_began > LONGEST_TURN_S:
        live.turn_began = at
        settle(scope, call, None, pauses=True)
    elif live.saver is not None or (durable is None and order is not None and order.is_shared):
        settle(scope, call, durable)
    else:
        call.is_settled, call.durable = True, durable  # The writer has asked the order for its turn.
    return result


async def _go_on_after_failure(
    scope: Scope,
    child: Scope,
    call: Call,
    start: Start,
    encoded: bytes,
    error: BaseException,
    duration_s: float,
) -> tuple[Scope, Start] | None:
    """The inside and the start of the next attempt; None where the failure is raised, recorded if it may be."""
    live = scope.live
    if isinstance(error, asyncio.CancelledError):
        if (failure := await failure_behind(scope, child, call, error)) is not None:
            await _settle_failure(scope, child, call, start, failure, duration_s)
        return None
    if is_no_failure(scope, error):
        return None
    if isinstance(error, LimpetError) and (call.is_refused or live.is_refusing(error)):
        return None
    if live.stopper.is_cancelling or (live.has_cut_off and scope.is_given_up):
        # Whatever code makes of its cancellation, the call has not failed.
        raise Stopped from error
    if scope.event.is_closed:
        refuse_late(scope, call)
    again = await try_again(scope, child, call, start, error, duration_s)
    if again is None:
        try:
            await _settle_failure(scope, child, call, start, error, duration_s)
        except LimpetError:
            if not ends_program(error):
                raise
            # Where nothing can be recorded, as in a forked child, the program ends all the same.
        return None
    if scope.event.is_closed:
        refuse_late(scope, call)
    if live.is_guarded:
        await require_allowed(scope, call, encoded)
    return again


async def _go_on(scope: Scope, call: Call, encoded: bytes, record: EventRecord) -> Happened | None:
    """Take up a call that has a record and no result, or one that is tried again.

    Its result is given where a probe has found it out. What is declared ``once`` goes no further without a word.
    """
    live = scope.live
    scope.reached = max(scope.reached, record.order)
    if record.status is not _FAILED:
        check_going_on(live, call, record, encoded)
    if record.status in (_FAILED, ExecutionStatus.CANCELLED) and (
        scope.event.tried_again is None or record.order < scope.event.tried_again
    ):
        scope.event.tried_again = record.order
    if live.lease is None:
        take_lease(live)
    call.key = recorded_key(record)
    # A run is claimed with the start of its agent, of which nothing has been executed by that.
    is_claimed = call.closes and record.seq == 1
    if call.actor.once and is_unknown(record) and not is_claimed and not live.repeats_once:
        found = await probed(scope, call, record)
        if found is not None:
            await settle_happened(live, call.actor, record, found)
            return found
    await take_up(scope, call, record)
    return None


def _begin(
    scope: Scope, call: Call, encoded: bytes, named: tuple[str, ...], record: EventRecord | None
) -> tuple[Scope, Start]:
    """The inside of a call, and its start as it will be recorded, unless it is recorded already."""
    live, actor = scope.live, call.actor
    # An input that is recorded tells itself from others; only in its place is a fingerprint needed.
    what, input_ = (b"", encoded) if live.records_inputs else (fingerprint(encoded), None)
    # What is gone on with or tried again keeps its start: all that is inside it, or comes after it, started later.
    order = live.next_order() if record is None else record.order
    start = new_start(
        (call.address, live.clock.now(), order, actor.version, what, input_, named, call.attempt, None, False)
    )
    if actor.once:
        call.key = call.key or new_key(live, call.address)
        start = start._replace(details=Details(key=call.key, undo=name_of_undo(actor.undo)))
    elif call.spent_s:
        start = start._replace(details=Details(spent_s=call.spent_s))
    if actor.gate:
        start = start._replace(is_gate=True)
    child = scope.inside(call.path) if call.attempt == 1 else inside_of_attempt(scope, call)
    if record is None or live.history.position == 1:
        child.expects = 0
    elif record.seq == 1:
        child.expects = 2
    begin_inside(child, order, is_new=record is None or is_new_execution(record, is_agent=actor.is_agent))
    if actor.once or record is None or record.status is not _STARTED:
        child.pending_start = start
    call.start = start
    return child, start


async def _settle_failure(
    scope: Scope, child: Scope, call: Call, start: Start, error: BaseException, duration_s: float
) -> None:
    live = scope.live
    live.has_failed = True
    call.execution_time = duration_s
    failure, own = told = failure_in(live, error)
    causes = causes_of(error, child.failed or [])
    mark_failed(scope, call.address, error)
    at = live.clock.now()
    durable = live.write_outcome(
        *(scope, start, _FAILED, at, duration_s),
        error=failure,
        causes=causes,
        update=closing(live, at, StateStatus.FAILED) if call.closes and not ends_program(error) else None,
        details=told.with_blocks(details_of_failure(call, start) or start.details),
        inside=child,
    )
    note_recorded(error, live.state_id, live.history.latest[call.address].seq, own.joined())
    said = f"{failure.type_name}: {failure.message}"
    call.news = (_FAILED, {"execution_time": duration_s, "original_error": said})
    settle(scope, call, durable)


async def _replay(scope: Scope, call: Call, record: EventRecord, encoded: bytes, order: Order | None) -> Any:
    live = scope.live
    call.is_replayed = True
    result, drift = None, None
    if live.rehearsal is not None:
        live.rehearsal.given(scope, call, record, encoded)
    if record.artifacts and record.result is not None:
        # Before its turn: between that and its return nothing may be awaited.
        result = await live.stored.decode_record(record.result, record.artifacts)
    if order is not None and not order.is_open_for(record):
        drift = (await order.recorded(scope, record)).drift
    if live.rehearsal is None:
        check_given(scope, call, record, encoded, drift)
        live.given += 1
        if record.details is not None:
            live.saved.note(record.details)
    if live.mode is ReplayMode.REPUBLISH_ALL and live.bus.is_heard:
        tell(live, call, ExecutionStatus.RECOVERED, is_replayed=True, execution_time=record.duration_s)
        live.bus.give_a_moment()
    if record.status is _COMPLETED:
        assert record.result is not None
        return result if record.artifacts else values.decode(record.result)
    find = live.history.failure
    error = recorded_error(record, find)
    mark_failed(scope, call.address, error)
    note_recorded(error, live.state_id, record.seq, pieces_of(record, find))
    raise error
