"""One event, from call to record.

The call has its address already. What stands in the history decides: the recorded outcome is given, or the handler
runs in a scope of its own and its outcome is recorded, acknowledged, and told to the observers. An outcome is given
to the caller only after it is durable.
"""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from holdfast.artifacts.stored_values import Encoded, Pending
from holdfast.backends.contract import StateUpdate
from holdfast.codec import values
from holdfast.codec.secret_search import secrets_in
from holdfast.codec.secrets import MARK as SECRET_MARK
from holdfast.codec.user_types.exceptions import RECORDED_TRACEBACK
from holdfast.engine.live import LiveState, failure_of
from holdfast.engine.opening import take_lease
from holdfast.engine.scope import Scope, Start, current_scope
from holdfast.engine.threads import run_plain
from holdfast.errors import ConditionFailed, DriftWarning, HoldfastError, NotRecorded, ValueNotReadable
from holdfast.journal.replay import Decision, decide, drift
from holdfast.model import EventNotice, EventRecord, ExecutionStatus, ReplayMode, StateStatus, fingerprint

if TYPE_CHECKING:
    from holdfast.engine.actors import Actor

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_ADDRESS = "_holdfast_address"

LONGEST_TURN_S = 0.002
"""After so long without a pause the event loop gets a turn, even where every commit is made inline."""


class Call:
    """A call that is being performed; the explicit form reads what became of it from here."""

    closes = False
    """Whether this is the call that the whole run consists of, so that its outcome is that of the state."""
    execution_time = 0.0
    is_replayed = False
    drift: str | None = None

    def __init__(
        self,
        actor: Actor[..., Any],
        path: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        inputs: tuple[Any, ...],
    ) -> None:
        self.actor = actor
        self.path = path
        self.address = path + actor.suffix
        self.args = args
        self.kwargs = kwargs
        self.inputs = inputs
        """What of the arguments is the input that is recorded."""


async def perform(
    scope: Scope, actor: Actor[..., Any], path: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Give the result of a call, recorded or new; raise what it failed of.

    A recorded result whose input and actor are unchanged is what a resumed run meets by the thousand. It is given here,
    by the shortest way; everything else takes the long one.
    """
    live = scope.live
    record = live.history.latest.get(path + actor.suffix)
    if (
        record is not None
        and record.status is _COMPLETED
        and live.replays_silently
        and record.version == actor.version
        and not record.artifacts
        and not actor.secret_parameters
        and record.input == values.encode_arguments(actor.input_of(args, kwargs) if kwargs else list(args))
    ):
        assert record.result is not None, "a completed event has a result"
        return values.decode(record.result)
    return await perform_call(scope, Call(actor, path, args, kwargs, args))


async def perform_call(scope: Scope, call: Call) -> Any:
    """As ``perform``, for a call that is to tell what became of it."""
    live = scope.live
    if live.loop is not None and asyncio.get_running_loop() is not live.loop:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(perform_call(scope, call), live.loop))
    encoded, pending = await _encode_input(live, call)
    history = live.history
    record = history.latest.get(call.address)
    if record is not None or live.mode is not ReplayMode.NORMAL:
        status = None if record is None else record.status
        decision = decide(live.mode, status, call.address in history.to_retry)
        if decision is Decision.SKIP:
            assert record is not None, "only what is recorded is skipped"
            if status is _COMPLETED or _can_be_raised(record):
                return await _replay(scope, call, record, encoded)
        elif decision is Decision.COMPARE:
            return await _compare(scope, call, record)
        elif decision is Decision.REFUSE:
            raise NotRecorded(call.address, live.state_id)
    return await _execute(scope, call, encoded, pending, record)


async def _encode_input(live: LiveState, call: Call) -> Encoded:
    """The input as it is recorded. What tells it from others has no artifacts where it is not recorded itself."""
    given = call.actor.input_of(call.inputs, call.kwargs)
    pending: Sequence[Pending] = ()
    encoded = live.stored.encode_small(given)
    if encoded is None and live.records_inputs:
        encoded, pending = await live.stored.encode_input(given, is_lenient=True)
    elif encoded is None:
        encoded = live.stored.encode_inline(given)
    if SECRET_MARK in encoded:
        live.secrets |= call.actor.secrets_in(call.inputs, call.kwargs)
    return encoded, pending


async def _execute(
    scope: Scope, call: Call, encoded: bytes, pending: Sequence[Pending], record: EventRecord | None
) -> Any:
    live, actor = scope.live, call.actor
    if live.lease is None:
        take_lease(live)
    named = await live.put_artifacts(pending) if pending else ()
    clock = live.clock
    # An input that is recorded tells itself from others; only in its place is a fingerprint needed.
    what, input_ = (b"", encoded) if live.records_inputs else (fingerprint(encoded), None)
    start = Start(call.address, clock.now(), live.next_order(), actor.version, what, input_, named)
    child = Scope(live, call.path + "::", scope)
    if record is None or record.status is not ExecutionStatus.STARTED:
        child.pending_start = start
    elif record.input != encoded or actor.version != record.version:
        _report_drift(live, call, record, encoded)
    if live.bus.is_heard:
        _tell(live, call, ExecutionStatus.STARTED)
    began = clock.elapsed()
    try:
        result = await _run_handler(child, call)
        encoded_result, produced = await _encode_result(live, actor, result)
        results = await live.put_artifacts(produced) if produced else ()
    except Exception as error:
        if isinstance(error, HoldfastError) and live.is_refusing(error):
            raise
        await _settle_failure(scope, child, call, start, error, clock.elapsed() - began)
        raise
    except asyncio.CancelledError:
        # A cancelled call has no outcome: it is executed again when it is reached again.
        if live.bus.is_heard:
            _tell(live, call, ExecutionStatus.CANCELLED, execution_time=clock.elapsed() - began)
        raise
    call.execution_time = clock.elapsed() - began
    at = clock.now()
    update = StateUpdate(at=at, status=StateStatus.COMPLETED, releases=True) if call.closes else None
    durable = live.write_outcome(
        scope, start, _COMPLETED, at, call.execution_time, encoded_result, artifacts=results, update=update
    )
    if durable is not None:
        await durable
    elif at - live.turn_began > LONGEST_TURN_S:
        live.turn_began = at
        await asyncio.sleep(0)
    if live.bus.is_heard:
        _tell(live, call, _COMPLETED, execution_time=call.execution_time)
        live.bus.give_a_moment()
    return result


async def _encode_result(live: LiveState, actor: Actor[..., Any], result: Any) -> Encoded:
    pending: Sequence[Pending] = ()
    encoded = None if actor.is_artifact else live.stored.encode_small(result)
    if encoded is None:
        encoded, pending = await live.stored.encode_result(result, actor.is_artifact)
    if SECRET_MARK in encoded:
        live.secrets |= secrets_in(result)
    return encoded, pending


async def _run_handler(child: Scope, call: Call) -> Any:
    actor = call.actor
    token = current_scope.set(child)
    try:
        if actor.preconditions:
            _check(actor.preconditions, "precondition", call, call.args, call.kwargs)
        if actor.is_plain:
            result = await run_plain(actor.function, call.args, call.kwargs)
        else:
            result = await actor.function(*call.args, **call.kwargs)
        if actor.postconditions:
            _check(actor.postconditions, "postcondition", call, (result,), {})
        return result
    finally:
        child.is_closed = True
        try:  # noqa: SIM105 - suppress() would cost more than the rest of this function
            current_scope.reset(token)
        except ValueError:
            pass  # The coroutine is being closed from outside its context, in which nothing goes on.


def _check(conditions: Any, kind: str, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for condition in conditions:
        if condition(*args, **kwargs) is False:
            raise ConditionFailed(
                call.address, f"its {kind} {getattr(condition, '__name__', condition)!s} does not hold"
            )


async def _settle_failure(
    scope: Scope, child: Scope, call: Call, start: Start, error: Exception, duration_s: float
) -> None:
    live = scope.live
    call.execution_time = duration_s
    failure = failure_of(error, live.secrets)
    causes = _causes(error, child.failed or [])
    mark_failed(scope, call.address, error)
    at = live.clock.now()
    update = StateUpdate(at=at, status=StateStatus.FAILED, releases=True) if call.closes else None
    durable = live.write_outcome(scope, start, _FAILED, at, duration_s, error=failure, causes=causes, update=update)
    if durable is not None:
        await durable
    if live.bus.is_heard:
        _tell(live, call, _FAILED, execution_time=duration_s, original_error=f"{failure.type_name}: {failure.message}")
        live.bus.give_a_moment()


def mark_failed(scope: Scope, address: str, error: BaseException) -> None:
    """Remember where an exception came from, for the record of what it fails next."""
    scope.note_failed(address)
    error.__dict__[_ADDRESS] = address  # Its class may forbid to set attributes, as a frozen dataclass does.


def _causes(error: BaseException, failed: list[str]) -> tuple[str, ...]:
    """The failed calls that an exception passes on; all of them where it does not show which."""
    if not failed:
        return ()
    found: list[str] = []
    seen: set[int] = set()
    to_look_at: list[BaseException | None] = [error]
    while to_look_at:
        one = to_look_at.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        address = one.__dict__.get(_ADDRESS)
        if address in failed:
            # What this one was raised in the wake of had been caught: it is not what is passed on.
            found.append(address)
            continue
        to_look_at += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            to_look_at += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return tuple(found or failed)


def _can_be_raised(record: EventRecord) -> bool:
    """Whether a recorded failure can be raised again as what it was; if not, the call is executed again."""
    try:
        return isinstance(_recorded_error(record), Exception)
    except ValueNotReadable:
        return False


def _recorded_error(record: EventRecord) -> Any:
    assert record.error is not None
    error = None if record.error.value is None else values.decode(record.error.value)
    if isinstance(error, BaseException):
        error.__dict__[RECORDED_TRACEBACK] = record.error.traceback
    return error


async def _replay(scope: Scope, call: Call, record: EventRecord, encoded: bytes) -> Any:
    live = scope.live
    call.is_replayed = True
    if record.input != encoded or call.actor.version != record.version:
        _report_drift(live, call, record, encoded)
    if live.mode is ReplayMode.REPUBLISH_ALL and live.bus.is_heard:
        _tell(live, call, ExecutionStatus.RECOVERED, is_replayed=True, execution_time=record.duration_s)
        live.bus.give_a_moment()
    if record.status is _COMPLETED:
        assert record.result is not None
        return await live.stored.decode_record(record.result, record.artifacts)
    error = _recorded_error(record)
    mark_failed(scope, call.address, error)
    raise error


def _report_drift(live: LiveState, call: Call, record: EventRecord, encoded: bytes) -> None:
    given = call.actor.input_of(call.inputs, call.kwargs)
    is_same = record.input is not None and live.stored.is_same(record.input, encoded, given)
    call.drift = drift(record, call.actor.version, b"" if is_same else fingerprint(encoded))
    if call.drift is None:
        return
    if live.bus.is_heard:
        _tell(live, call, ExecutionStatus.RECOVERED, is_replayed=True, drift=call.drift)
    did = "gave the recorded result at" if call.is_replayed else "went on inside"
    warnings.warn(
        f"State {live.state_id!r} {did} {call.address!r} although {call.drift}.",
        DriftWarning,
        stacklevel=5,
    )


async def _compare(scope: Scope, call: Call, record: EventRecord | None) -> Any:
    live = scope.live
    report = live.validation
    assert report is not None
    child = Scope(live, call.path + "::", scope)
    began = live.clock.elapsed()
    try:
        result = await _run_handler(child, call)
    except Exception as error:
        report.compare_failure(call.address, record, failure_of(error, live.secrets))
        raise
    call.execution_time = live.clock.elapsed() - began
    report.compare_result(call.address, record, result)
    return result


def _tell(live: LiveState, call: Call, status: ExecutionStatus, **details: Any) -> None:
    live.bus.publish(EventNotice(state_id=live.state_id, address=call.address, status=status, **details))
