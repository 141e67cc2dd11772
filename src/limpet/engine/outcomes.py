"""Where the outcome of a call meets the order of the code that made it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from limpet.engine.notices import tell
from limpet.engine.order import Order
from limpet.engine.scope import Scope
from limpet.engine.stopping import Stopped
from limpet.engine.turns import Turn, too_late
from limpet.engine.user_lines import warn_at_user
from limpet.errors import LateCallWarning, UsageError

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState
    from limpet.model import ExecutionStatus


def order_in(scope: Scope) -> Order | None:
    """The order in which the code around a call is given its results; None at the top of a state."""
    hooks = scope.live.hooks
    return None if hooks is None else hooks.order_of(scope)


def settle(
    scope: Scope,
    call: Call,
    durable: asyncio.Future[None] | None,
    *,
    pauses: bool = False,
    is_cut: bool = False,
) -> None:
    """Give an outcome that was handed to the writer its place in the order.

    ``pauses`` says that the event loop gets a turn before it is given, ``is_cut`` that the code has cancelled the call.
    """
    call.is_settled = True
    order = scope.event.order
    if order is None:
        call.durable = _moment() if pauses else durable
    elif durable is None:
        if pauses or order.is_shared:
            call.durable = order.enqueue(None, pauses=pauses)
    else:
        call.durable = order.enqueue(durable)
    if is_cut and type(call.durable) is Turn:
        call.durable.is_cut = True


async def give(scope: Scope, call: Call) -> None:
    """Let an outcome be given: it is durable, all before it were given, and the code can do nothing else."""
    durable = call.durable
    if durable is not None:
        try:
            await (durable.order.wait(scope, durable) if type(durable) is Turn else durable)
        except BaseException as error:
            tell_ungiven(scope.live, call, error)
            raise
    if call.news is not None:
        tell_news(scope.live, call, call.news)


def tell_news(live: LiveState, call: Call, news: tuple[ExecutionStatus, dict[str, Any]]) -> None:
    """Tell the observers of an outcome that is given."""
    if live.bus.is_heard:
        status, told = news
        tell(live, call, status, **told)
        if not live.is_stopping:
            live.bus.give_a_moment()


def tell_ungiven(live: LiveState, call: Call, why: BaseException) -> None:
    """Tell the observers of an outcome that is recorded, although nobody is left to whom it could be given."""
    durable = call.durable
    is_durable = type(durable) is Turn and durable.is_ready
    # A call that is cancelled, or comes too late, does not learn what becomes of its record. The writer has it.
    is_written = isinstance(why, asyncio.CancelledError | UsageError) and (live.can_be_left or call.closes)
    if (is_durable or is_written) and call.news is not None and live.bus.is_heard:
        status, told = call.news
        tell(live, call, status, **told)


def _moment() -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    loop.call_soon(_end_moment, future)
    return future


def _end_moment(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def refuse_late(scope: Scope, call: Call, *, is_begun: bool = True) -> None:
    """Raise UsageError, with a warning that names the line: what encloses the call has ended before it.

    ``is_begun`` says that it was executed. Where whoever awaits the run has cancelled it, that is why, and the call is
    only stopped.
    """
    if call.is_refused:
        return
    if scope.live.is_left:
        raise Stopped
    call.is_refused = True
    error = too_late(scope)
    what = "ended after" if is_begun else "had not begun at the end of"
    said = "recorded" if is_begun else "executed"
    message = f"{call.address} in state {scope.live.state_id!r} {what} the actor that made the call: it is not {said}."
    warn_at_user(message, LateCallWarning)
    raise error
