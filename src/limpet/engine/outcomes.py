"""Where the outcome of a call meets the order of the code that made it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from limpet.backends.contract import StateUpdate
from limpet.engine.drift_stop import require_reached
from limpet.engine.notices import tell
from limpet.engine.order import Order
from limpet.engine.scope import Scope, current_scope
from limpet.engine.stopping import Stopped
from limpet.engine.turns import Turn, too_late
from limpet.engine.user_lines import warn_at_user
from limpet.errors import LateCallWarning, UsageError
from limpet.model import StateStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState
    from limpet.model import ExecutionStatus


def order_in(scope: Scope) -> Order | None:
    """The order in which the code around a call is given its results; None at the top of a state."""
    hooks = scope.live.hooks
    return None if hooks is None else hooks.order_of(scope)


def may_wait_here(scope: Scope, address: str) -> bool:
    """Whether a call that is recorded may wait for its place in the order where it is awaited: nothing is to be asked
    but the order, and what goes on then is the code that made it."""
    live, current = scope.live, current_scope.get()
    return (
        current is not None
        and current.event is scope.event
        and not scope.event.is_closed
        and not live.has_cut_off
        and live.lease is not None
        and live.rehearsal is None
        and address != live.resume_from_address
        and asyncio.get_running_loop() is live.loop
    )


async def performed_on(loop: asyncio.AbstractEventLoop, scope: Scope, performing: Coroutine[Any, Any, Any]) -> Any:
    """What a call gives that is performed on the loop of its run, and was made on another one."""
    if (order := order_in(scope)) is not None:
        order.is_foreign = True
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(performing, loop))


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


def closing(live: LiveState, at: float, status: StateStatus) -> StateUpdate:
    """What changes of the state when its run ends. From here on it is too late to stop it."""
    if status is StateStatus.COMPLETED:
        require_reached(live)
    live.has_ended = True
    metadata = live.metadata_to_keep()
    return StateUpdate(
        at=at, status=status, metadata=None if metadata is live.header.metadata else metadata, releases=True
    )


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


def require_wanted(scope: Scope) -> None:
    """Raise Stopped where what a handler gives is not recorded any more: it was cancelled, or given up."""
    live = scope.live
    if live.stopper.is_cancelling or (live.has_cut_off and scope.is_given_up):
        raise Stopped
