"""What waits in the order of a call: callbacks that can run, timers, and calls whose outcome is to be given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

import msgspec

from limpet.engine.scope import Scope, current_scope
from limpet.errors import UsageError
from limpet.model import EventRecord

if TYPE_CHECKING:
    from limpet.engine.order import Order


class Given(msgspec.Struct, frozen=True):
    """How a call is let go on."""

    drift: str | None = None
    """What could not be kept of the recorded order."""


IN_ORDER = Given()
LATE = Given("it is now called behind what was recorded after it")


class Ready(msgspec.Struct, eq=False):
    """A callback of the loop that waits for its turn. It is the handle, too."""

    order: Order
    callback: Callable[..., Any] | None
    args: tuple[Any, ...]
    context: Context

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.order.withdraw(self)

    def cancelled(self) -> bool:
        return self.callback is None


class Timer:
    """A timer that code inside the call has set, or a job of an executor, which ends as a timer fires."""

    __slots__ = ("_when", "args", "callback", "context", "handle", "is_due", "number", "order")

    is_ready = True

    def __init__(
        self, order: Order, when: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context
    ) -> None:
        self.order = order
        self.number = order.numbered()
        self._when = when
        self.callback: Callable[..., Any] | None = callback
        self.args = args
        self.context = context
        self.handle: Any = None
        """What the loop gave for it, once it is armed."""
        self.is_due = False

    def when(self) -> float:
        return self._when

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback = None
            self.order.withdraw_timer(self)

    def cancelled(self) -> bool:
        return self.callback is None


class Turn(asyncio.Future[Any]):
    """What a call waits for until its outcome is given. Who cancels it inside the call only says so: the order says
    what comes of it."""

    is_ready = False
    """Of a live one: whether its outcome is durable."""
    is_cut = False
    """Of a live one: whether its outcome is that the code has cancelled the call."""
    wish: str | None = None
    is_wished = False
    """Whether the code wants to cancel the call."""
    is_wished_by_itself = False
    """Whether the task that waits had cancelled itself before it made the call."""

    def __init__(self, order: Order, record: EventRecord | None) -> None:
        super().__init__(loop=order.hooks.loop)
        self.order = order
        self.record = record
        """Its recorded outcome; None: it is live."""

    def cancel(self, msg: Any | None = None) -> bool:
        if self.done():
            return False
        if not self.order.is_own(current_scope.get()):
            self.order.drop(self)
            return super().cancel(msg)
        self.wish, self.is_wished = msg, True
        task = asyncio.current_task(self.get_loop())
        self.is_wished_by_itself = getattr(task, "_fut_waiter", None) is self
        self.order.wake()
        return True

    def give(self, given: Given = IN_ORDER) -> None:
        """Let the call go on."""
        if not self.done():
            super().set_result(given)

    def cut_off(self) -> None:
        """Let the call be cancelled, as its code wants."""
        super().cancel(self.wish)

    def set_result(self, result: Any) -> None:
        """Its outcome is durable, says the writer."""
        self.is_ready = True
        self.order.go_on_with(self)

    def set_exception(self, exception: Any) -> None:
        """Its outcome is refused, or nobody is left to whom it could be given."""
        self.order.drop(self)
        super().set_exception(exception)

    def follow(self, durable: asyncio.Future[None]) -> None:
        """Learn from another future that its outcome is durable, or was refused."""
        if self.done():
            return
        error = None if durable.cancelled() else durable.exception()
        if error is None:
            self.set_result(None)
        else:
            self.set_exception(error)


def too_late(scope: Scope) -> UsageError:
    """The error of a call that has not ended before its enclosing call did."""
    return UsageError(
        f"A call made inside {scope.prefix.removesuffix('::')!r} had not ended when that call ended, so its outcome "
        "cannot be recorded any more.",
        "Await every call and every task before the enclosing actor returns.",
    )


def cancel_again(task: asyncio.Task[Any], wish: str | None) -> None:
    """Cancel a task that was to be cancelled while a result was about to be given to it."""
    if not task.done() and task.cancelling():
        task.cancel(wish)
        task.uncancel()
