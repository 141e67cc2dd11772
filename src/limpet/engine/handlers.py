"""Running the function of an actor in a scope of its own, with its conditions before and after it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextvars import Context, copy_context
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from limpet.engine.exits import is_closing
from limpet.engine.places import Place
from limpet.engine.scope import Scope, current_scope
from limpet.engine.threads import run_plain
from limpet.errors import ConditionFailed

if TYPE_CHECKING:
    from limpet.engine.call import Call


LEVELS_ON_A_STACK = 20
"""Of so many agents that await each other the code goes on in one task. Each takes several frames of its stack."""


async def run_nested(child: Scope, call: Call) -> Any:
    """As ``run_handler``, however deep it is nested: from level to level on a stack of its own."""
    if child.depth % LEVELS_ON_A_STACK:
        return await run_handler(child, call)
    context = copy_context()
    # The handler sets its own scope; without one, the task does not become a branch of the caller's.
    context.run(current_scope.set, None)
    # Not made by the loop's factory, which may begin it at once: on the stack that it is to leave.
    task = asyncio.Task(run_handler(child, call), loop=asyncio.get_running_loop(), context=context)
    assert child.parent is not None
    tasks = child.live.stopper.tasks
    tasks[task] = child.parent
    try:
        return await task
    finally:
        tasks.pop(task, None)
        _take_over(context)


def _take_over(context: Context) -> None:
    """Set what code has set in a context that it would have shared with its caller."""
    for variable in context:
        value = context[variable]
        if variable is not current_scope and variable.get(None) is not value:
            variable.set(value)


async def wait_for_place(child: Scope) -> Place:
    """Wait for a thread for a plain function. A run that is stopped does not wait for that."""
    stopper, scope, places = child.live.stopper, child.parent, child.live.writer.places
    assert scope is not None
    with stopper.nothing_is_executed(scope):
        if child.live.is_stopping:
            stopper.look()
        place = await places.wait()
        if child.live.is_stopping:
            place.give_back()  # What is inside a tool that is finished needs it.
            await stopper.meet(scope)
            place = await places.wait()
    return place


async def run_handler(child: Scope, call: Call) -> Any:
    """What the function gives. Raises what it raises, or ConditionFailed."""
    actor = call.actor
    live = child.live
    child.call = call
    if actor.is_agent:
        child.task = asyncio.current_task()
        live.agents_under_way += 1
        if live.is_stopping:
            live.stopper.look()
    token = current_scope.set(child)
    try:
        if actor.preconditions:
            _check(actor.preconditions, "precondition", call, call.args, call.kwargs)
        if actor.is_plain:
            place = call.place or live.writer.places.take() or await wait_for_place(child)
            call.has_run, call.place = True, None
            result: Any = await run_plain(actor.function, call.args, call.kwargs, place)
            if (
                type(result) is CoroutineType
            ):  # It was asked for what is to be awaited, as a wrapper of an `async def` is.
                result = await cast("Awaitable[Any]", result)
        else:
            call.has_run = True
            result = await actor.function(*call.args, **call.kwargs)
        if actor.postconditions:
            try:
                _check(actor.postconditions, "postcondition", call, (result,), {})
            except Exception:
                live.secrets |= actor.secrets_in_result(result)  # What it says may repeat them.
                raise
        return result
    except GeneratorExit as error:
        if is_closing(error):
            raise
        # A task that awaits another one which raised this would be closed in the middle.
        raise RuntimeError(f"{actor.name} raised GeneratorExit") from error
    finally:
        if actor.is_agent:
            live.agents_under_way -= 1
        child.is_closed = True
        child.call = child.task = None
        if child.order is not None:
            child.order.close()
            if live.waits is not None:
                live.waits.notice_end(child)  # What was left behind waits no longer.
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
