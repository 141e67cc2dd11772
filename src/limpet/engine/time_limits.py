"""Running a handler that has only so much time.

It runs in a task of its own, so that its caller goes on when the time is over, whatever the handler does. It is
cancelled then. One that ignores that, or a plain function in its thread, cannot be ended: it is reported, and what it
still does is not recorded any more.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from limpet.engine.attempts import end_tasks, time_spent
from limpet.engine.handlers import run_handler, run_nested, wait_for_place
from limpet.engine.places import Place
from limpet.engine.scope import Scope, current_scope
from limpet.engine.stopping import cancel_task, leave_behind
from limpet.errors import EventTimedOut
from limpet.journal.retry import time_left_s
from limpet.logs import logger
from limpet.model import RetryConfig

if TYPE_CHECKING:
    from limpet.engine.call import Call

log = logger("limpet.interrupts")

GRACE_S = 1.0
"""How long a handler that was cancelled has for its cleaning up, before its caller goes on without it."""


async def run_limited(child: Scope, call: Call) -> Any:
    """As ``run_nested``, within the time that is left for this attempt. Raises EventTimedOut."""
    live, actor = child.live, call.actor
    config = live.retry.config_for(actor.event_type, call.retry_config or actor.retry_config)
    if actor.is_plain:
        call.place = await _place(child, call, config)
    try:
        limit_s = time_left_s(config, actor.timeout_s, actor.total_timeout_s, time_spent(live, call))
        return await (run_nested(child, call) if limit_s is None else _run_within(limit_s, child, call))
    finally:
        if call.place is not None:  # It was cut off before it was run.
            call.place.give_back()
            call.place = None


async def _place(child: Scope, call: Call, config: RetryConfig) -> Place:
    """A place for a plain function. The wait for it is none of an attempt, but of the call as a whole."""
    live, actor = child.live, call.actor
    place = live.writer.places.take()
    if place is not None:
        return place
    limit_s = time_left_s(config, None, actor.total_timeout_s, time_spent(live, call))
    limit = asyncio.timeout(limit_s)
    try:
        async with limit:
            return await wait_for_place(child)
    except TimeoutError:
        if not limit.expired():
            raise
        raise EventTimedOut(call.address, f"it had no thread within {limit_s:g} s") from None


async def _run_within(limit_s: float, child: Scope, call: Call) -> Any:
    context = copy_context()
    # The handler sets its own scope; without one, the task does not become a branch of the caller's.
    context.run(current_scope.set, None)
    task = asyncio.get_running_loop().create_task(run_handler(child, call), context=context)
    try:
        done, _ = await asyncio.wait((task,), timeout=limit_s)
    except asyncio.CancelledError:
        await _end(task, child, call)
        raise
    if done:
        return task.result()
    await _end(task, child, call)
    raise EventTimedOut(call.address, f"it took longer than {limit_s:g} s") from _raised_by(task)


async def _end(task: asyncio.Task[Any], child: Scope, call: Call) -> None:
    """Cancel a handler and wait a little for its end; one that goes on is cut off."""
    child.is_ended = True
    cancel_task(task)
    _, left = await asyncio.wait((task,), timeout=GRACE_S)
    await end_tasks(child.live, child)
    if left:
        child.cut_off()
        leave_behind(task)
        log.warning(
            "%s in state %s ignores its cancellation, and is left behind: what it gives is not recorded.",
            *(call.address, child.live.state_id),
        )


def _raised_by(task: asyncio.Task[Any]) -> BaseException | None:
    """What a handler made of its cancellation, where it raised something else. Asking for it marks it as seen."""
    return None if not task.done() or task.cancelled() else task.exception()
