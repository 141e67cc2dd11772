"""What follows when an attempt did not give a result: another one, after a wait that outlives the process; or none.

What is decided is written down before anybody waits: the attempt that failed, why, and when the next one is due. So a
crash while waiting goes on with the remaining attempts and what is left of the wait.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import msgspec

from limpet.engine.event_details import details_unbegun
from limpet.engine.exits import ending_of_loop, ends_program, is_closing, is_raised_by_signal
from limpet.engine.failures import causes_of, failed_call, failure_in, mark_failed
from limpet.engine.notices import tell
from limpet.engine.outcomes import settle
from limpet.engine.scope import Scope, Start
from limpet.engine.stopping import Stopped, cancel, leave_behind, log, tasks_inside
from limpet.engine.storage_view import begin_inside, is_new_execution
from limpet.engine.waits import waits_of
from limpet.journal.retry import leaves_process, next_attempt, remaining_wait_s, wait_before_next
from limpet.model import Details, EventRecord, ExecutionStatus, Failure, fingerprint

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState
    from limpet.model import RetryConfig

GRACE_S = 1.0
"""How long tasks that were cancelled have for their cleaning up."""


async def take_up(scope: Scope, call: Call, record: EventRecord) -> None:
    """Go on with a call that has a record: the attempt that is due, after what is left of the wait for it."""
    call.attempt = next_attempt(record)
    details = record.details
    if details is None:
        return
    call.spent_s = details.spent_s if record.status is not ExecutionStatus.FAILED else 0.0
    if details.due_at:
        await _wait(scope, call, remaining_wait_s(details.due_at, details.delay_s, scope.live.clock.now()))


def _config_of(live: LiveState, call: Call) -> RetryConfig:
    return live.retry.config_for(call.actor.event_type, call.retry_config or call.actor.retry_config)


async def try_again(
    scope: Scope, child: Scope, call: Call, start: Start, error: BaseException, duration_s: float
) -> tuple[Scope, Start] | None:
    """Where a failed attempt is to be followed by another one: record that, wait, and give the inside of the next.

    None where the call has failed for good.
    """
    live, actor = scope.live, call.actor
    if actor.once:
        return None
    spent_s = time_spent(live, call)
    delay_s = wait_before_next(
        _config_of(live, call),
        error,
        attempt=call.attempt,
        spent_s=spent_s,
        spread=random.random(),
        now=live.clock.now(),
        total_timeout_s=actor.total_timeout_s,
    )
    if delay_s is None:
        return None
    await end_tasks(live, child)
    now = live.clock.now()
    details = Details(due_at=now + delay_s, delay_s=delay_s, spent_s=spent_s + delay_s)
    told = failure_in(live, error)
    failure = told.failure
    causes = causes_of(error, child.failed or [])
    durable = live.write_outcome(
        *(scope, start, ExecutionStatus.RETRYING, now, duration_s),
        error=failure,
        causes=causes,
        details=told.with_blocks(details),
    )
    again = call.start = start._replace(attempt=call.attempt + 1, details=details)
    call.attempt_began = 0.0
    try:
        if durable is not None:
            await durable
    except asyncio.CancelledError:
        _tell_of_next(live, call, failure, duration_s, delay_s)
        raise
    _tell_of_next(live, call, failure, duration_s, delay_s)
    if live.bus.is_heard:
        live.bus.give_a_moment()
    inside = inside_of_attempt(scope, call)
    await _wait(scope, call, delay_s)
    again = again._replace(at=live.clock.now(), details=Details(spent_s=details.spent_s))
    inside.pending_start = call.start = again
    if live.bus.is_heard:
        tell(live, call, ExecutionStatus.STARTED)
    return inside, again


def _tell_of_next(live: LiveState, call: Call, failure: Failure, duration_s: float, delay_s: float) -> None:
    """Go on to the next attempt, and tell the observers of the one that has failed."""
    if live.bus.is_heard:
        said = f"{failure.type_name}: {failure.message}"
        tell(live, call, ExecutionStatus.FAILED, execution_time=duration_s, retry_delay=delay_s, original_error=said)
        tell(live, call, ExecutionStatus.RETRYING, retry_delay=delay_s, original_error=said)
    call.attempt += 1


def inside_of_attempt(scope: Scope, call: Call) -> Scope:
    """The inside of a further attempt of a call. Its code may go another way than that of the attempts before."""
    inside = scope.inside(call.path)
    inside.tried_again = 0
    record = scope.live.history.latest[call.address]
    begin_inside(inside, record.order, is_new=is_new_execution(record, is_agent=call.actor.is_agent))
    return inside


async def cut_off(scope: Scope, call: Call, error: BaseException, encoded: bytes) -> None:
    """Record that a call was cut off: by a run that is being stopped, or because its task was cancelled.

    What its code cancelled stays so, as often as it comes to that; anything else is executed when it is reached again.
    """
    live = scope.live
    is_by_code = not (live.stopper.is_wanted or live.is_left or scope.is_being_ended)
    status = ExecutionStatus.CANCELLED if is_by_code else ExecutionStatus.INTERRUPTED
    call.execution_time = max(0.0, live.clock.elapsed() - call.attempt_began) if call.attempt_began else 0.0
    if live.stopper.is_waiting:
        return  # What encloses a wait goes on with it: nothing has become of it.
    is_late = scope.event.is_closed and not (scope.event.is_ended or live.is_stopping)
    is_late = is_late or (live.has_cut_off and scope.is_given_up)
    is_begun = call.start is not None or is_by_code
    if live.lease is not None and live.can_be_left and is_begun and not is_late:
        start = call.start or _unbegun(scope, call, encoded)
        details = start.details
        if call.start is not None and call.attempt > 1 and not (details is not None and details.due_at):
            details = msgspec.structs.replace(details or Details(), spent_s=time_spent(live, call))
        durable = live.write_outcome(*(scope, start, status, live.clock.now(), call.execution_time), details=details)
        if is_by_code and not live.is_stopping:
            mark_failed(scope, call.address, error)
            call.news = (status, {"execution_time": call.execution_time})
            settle(scope, call, durable, is_cut=True)
            return
        if durable is not None:
            await durable
    if live.bus.is_heard:
        tell(live, call, status, execution_time=call.execution_time)
        if not live.is_stopping:
            live.bus.give_a_moment()


def _is_of_handler(scope: Scope, call: Call, error: asyncio.CancelledError) -> bool:
    """Whether a handler has raised a cancellation that nobody has asked for, as where it waits for a cancelled future.

    That is a failure of the call. In the code of an agent it is the end of a call that was cancelled there.
    """
    live, task = scope.live, asyncio.current_task()
    is_asked_for = task is None or task.cancelling() or live.stopper.is_wanted or live.is_left or scope.is_being_ended
    is_late = scope.event.is_closed or (live.has_cut_off and scope.is_given_up)
    return not (is_asked_for or is_late or isinstance(error, Stopped))


def is_no_failure(scope: Scope, error: BaseException) -> bool:
    """Tells whether an exception says nothing of a call: the call is executed again, as after a kill."""
    if is_closing(error):
        return True
    return ends_program(error) and (scope.live.is_stopping or scope.event.is_closed or is_raised_by_signal(error))


async def failure_behind(scope: Scope, child: Scope, call: Call, error: asyncio.CancelledError) -> BaseException | None:
    """Returns what a cancelled call has failed of; None where it was cut off.

    A call in a task of the run may have raised what ends the program: that fails the run, and is retried with it.
    """
    if _is_of_handler(scope, call, error):
        return error
    ending = await ending_of_loop() if call.closes else None
    if ending is None or not (failed := failed_call(ending)):
        return None
    child.note_failed(failed)
    return ending


def _unbegun(scope: Scope, call: Call, encoded: bytes) -> Start:
    """The start of a call that did not begin here. The attempt that is due stays due, and so does the wait for it."""
    live, actor = scope.live, call.actor
    record = live.history.latest.get(call.address)
    order, attempt = (live.next_order(), 1) if record is None else (record.order, next_attempt(record))
    call.attempt = attempt
    details = details_unbegun(actor, record)
    what, input_ = (b"", encoded) if live.records_inputs else (fingerprint(encoded), None)
    return Start(call.address, live.clock.now(), order, actor.version, what, input_, attempt=attempt, details=details)


def time_spent(live: LiveState, call: Call) -> float:
    """How long a call has taken so far, with all attempts and waits, in whatever processes."""
    return call.spent_s + (live.clock.elapsed() - call.began if call.began else 0.0)


async def end_tasks(live: LiveState, child: Scope) -> None:
    """End what an attempt has left running: the next one makes the same calls at the same addresses."""
    child.is_ended = True
    left = tasks_inside(live, child)
    cancel(left)
    tasks = [task for task in left if isinstance(task, asyncio.Task)]
    if tasks:
        _, ignoring = await asyncio.wait(tasks, timeout=GRACE_S)
        if ignoring:
            child.cut_off()
        for task in ignoring:
            leave_behind(task)
            log.warning("State %s: %s ignores its cancellation, and is left behind.", live.state_id, task.get_name())


async def _wait(scope: Scope, call: Call, delay_s: float) -> None:
    """Wait for the next attempt. A run that is being stopped does not wait for it, and one that can only wait for long
    leaves memory."""
    if delay_s <= 0:
        return
    live, record = scope.live, scope.live.history.latest[call.address]
    if leaves_process(_config_of(live, call), delay_s):
        ends_at = live.clock.now() + delay_s
        while live.clock.now() < ends_at:
            await waits_of(live).until_noticed(scope, record, "")
        return
    with live.stopper.nothing_is_executed(scope):
        if live.is_stopping:
            live.stopper.look()
        await live.clock.sleep(delay_s)
