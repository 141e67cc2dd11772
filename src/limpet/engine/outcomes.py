"""Where the outcome of a call meets the order of the code that made it."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, TypeVar

from limpet.engine.order import Order, too_late
from limpet.engine.scope import Scope, current_scope
from limpet.errors import LateCallWarning
from limpet.model import ExecutionStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call

T = TypeVar("T")


def order_in(scope: Scope) -> Order | None:
    """The order in which the code around a call is given its results; None at the top of a state."""
    hooks = scope.live.hooks
    return None if hooks is None else hooks.order_of(scope)


async def in_scope(scope: Scope, awaited: Awaitable[T]) -> T:
    """Await something as the code of that scope does: it is that code which goes on when it has come."""
    token = current_scope.set(scope)
    try:
        return await awaited
    finally:
        try:  # noqa: SIM105 - suppress() costs more
            current_scope.reset(token)
        except ValueError:
            pass  # The coroutine is being closed from outside its context.


async def settled(
    scope: Scope,
    call: Call,
    durable: asyncio.Future[None] | None,
    status: ExecutionStatus,
    *,
    pauses: bool = False,
    **told: Any,
) -> None:
    """Give an outcome that was handed to the writer its place in the order, and note what observers are to be told.

    ``pauses`` says that the event loop gets a turn before it is given.
    """
    order = scope.event.order
    call.news = (status, told)
    if order is not None:
        call.turn = order.enqueue(durable, pauses=pauses)
    elif durable is not None:
        await durable
    elif pauses:
        await asyncio.sleep(0)


def require_open(scope: Scope, call: Call) -> None:
    """Raise UsageError, with a warning that names the line, where what encloses a call has ended before it."""
    if not scope.event.is_closed:
        return
    error = too_late(scope)
    message = (
        f"{call.address} in state {scope.live.state_id!r} ended after the actor that made the call: it is not recorded."
    )
    file, line = _site()
    if file:
        warnings.warn_explicit(message, LateCallWarning, file, line)
    else:
        warnings.warn(message, LateCallWarning, stacklevel=2)
    raise error


def _site() -> tuple[str, int]:
    """The line of the user's that awaits the call, or has made a task of it."""
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # what `warnings` itself does
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        if name == "asyncio":
            break
        if name != "limpet":
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return getattr(asyncio.current_task(), "site", None) or ("", 0)
