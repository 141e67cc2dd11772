"""Running the function of an actor in a scope of its own, with its conditions before and after it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from limpet.engine.scope import Scope, current_scope
from limpet.engine.threads import run_plain
from limpet.errors import ConditionFailed

if TYPE_CHECKING:
    from limpet.engine.call import Call


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
        call.has_run = True
        if actor.is_plain:
            result = await run_plain(actor.function, call.args, call.kwargs)
        else:
            result = await actor.function(*call.args, **call.kwargs)
        if actor.postconditions:
            _check(actor.postconditions, "postcondition", call, (result,), {})
        return result
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
