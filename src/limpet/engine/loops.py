"""The event loop as code inside a run sees it: its callbacks, timers and executor jobs go through the order of the call
that they belong to.

While a run is live on a loop, ``call_soon``, ``call_later``, ``call_at``, ``run_in_executor``, ``time`` and
``is_running`` of that loop are ours. Whose context is in no call gets what the loop does by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from types import MethodType
from typing import Any

from limpet.engine.order import Order
from limpet.engine.scope import Scope, current_scope
from limpet.engine.task_count import TaskCount
from limpet.engine.turns import Ready, Timer

_OURS = ("call_soon", "call_later", "call_at", "run_in_executor", "time", "is_running")


class Hooks:
    """What one loop does by itself, and what it does for code inside a run."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.call_soon = loop.call_soon
        self.now = loop.time
        self._call_later = loop.call_later
        self._call_at = loop.call_at
        self._run_in_executor = loop.run_in_executor
        self._is_running = loop.is_running
        self._counts_down = not isinstance(loop, asyncio.BaseEventLoop)
        """Whether its ``call_at`` calls ``call_later``, as uvloop's does. In asyncio it is the other way round."""
        self.context = Context()
        """In no call: for what is not to be ordered."""
        self.copy_context = copy_context
        self.is_in_step = False
        """Whether a callback of code inside a run is being called."""
        self.frozen: float | None = None
        """The time as the code that runs at the moment was told it: while it runs without a pause, no time passes."""

    def install(self) -> None:
        """Stand before the methods of the loop."""
        for name in _OURS:
            setattr(self.loop, name, getattr(self, f"_{name}_ordered"))

    def uninstall(self) -> None:
        for name in _OURS:
            if vars(self.loop).get(name) == getattr(self, f"_{name}_ordered"):
                delattr(self.loop, name)

    def call_after(self, delay_s: float, callback: Callable[..., Any], *args: Any) -> Any:
        """A timer of the loop itself, whoever asks."""
        if self._counts_down:
            return self._call_later(delay_s, callback, *args, context=self.context)
        return self._call_at(self.now() + delay_s, callback, *args, context=self.context)

    def report(self, error: BaseException, ready: Ready) -> None:
        """What the loop does with an exception out of a callback."""
        self.loop.call_exception_handler({"message": "Exception in callback", "exception": error, "handle": ready})

    def order_in(self, context: Context | None) -> Order | None:
        """The order of the call that a context is in."""
        scope = current_scope.get() if context is None else context.get(current_scope)
        return None if scope is None else self.order_of(scope)

    def order_of(self, scope: Scope) -> Order | None:
        """The order of the call that encloses a scope; None at the top, and where its run goes on on another loop."""
        if scope.live.hooks is not self:
            return None
        event = scope.event
        order = event.order
        if order is None:
            if event.parent is None:
                return None
            order = event.order = Order(event, self)
        return order if order.hooks is self or order.move(self) else None

    def _call_soon_ordered(self, callback: Callable[..., Any], *args: Any, context: Context | None = None) -> Any:
        scope = current_scope.get() if context is None else context.get(current_scope)
        if scope is None:
            if type(callback) is TaskCount:
                return callback(*args)  # It counts, and runs nothing.
            return self.call_soon(callback, *args, context=context)
        order = scope.event.order
        if order is None or order.hooks is not self:
            order = self.order_of(scope)
        if type(callback) is MethodType:
            if order is None:
                return self.call_soon(callback, *args, context=context)
            if callback.__name__ == "_deliver_cancellation":
                order.await_delivery()
                return self.call_soon(order.deliver, callback, args, context=context)
            # The time of an ``asyncio.timeout`` that is over when it begins is a timer, too.
            if callback.__name__ == "_on_timeout":
                return order.set_timer(0.0, callback, args, copy_context() if context is None else context)
        elif order is None:
            return self.call_soon(callback, *args, context=context)
        return order.add(callback, args, copy_context() if context is None else context)

    def _call_later_ordered(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        order = self.order_in(context)
        if order is None:
            return self._call_later(delay, callback, *args, context=context)
        return order.set_timer(delay, callback, args, copy_context() if context is None else context)

    def _call_at_ordered(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        order = self.order_in(context)
        if order is None:
            return self._call_at(when, callback, *args, context=context)
        delay_s = when - self.now() - order.ahead
        return order.set_timer(delay_s, callback, args, copy_context() if context is None else context)

    def _time_ordered(self) -> float:
        if asyncio.current_task(self.loop) is None and not self.is_in_step:
            return self.now()
        order = self.order_in(None)
        if order is None:
            return self.now()
        if self.frozen is None:
            self.frozen = self.now()
            if not self.is_in_step:
                self.call_soon(self._let_time_pass, context=self.context)
        return self.frozen + order.ahead

    def _let_time_pass(self) -> None:
        self.frozen = None

    def _is_running_ordered(self) -> bool:
        """Whether the loop runs, which a task asks that begins at once, also one that no factory has made.

        Whoever makes the task is to go on before anything recorded is given: so that can go on as well, and is counted.
        """
        is_running = self._is_running()
        if is_running and asyncio._get_running_loop() is self.loop:
            order = self.order_in(None)
            if order is not None and not order.making:
                order.add(_go_on, (), Context())
        return is_running

    def _run_in_executor_ordered(self, executor: Any, function: Callable[..., Any], *args: Any) -> Any:
        order = self.order_in(None)
        if order is None:
            return self._run_in_executor(executor, function, *args)
        given: asyncio.Future[Any] = self.loop.create_future()
        done = self._run_in_executor(executor, function, *args)
        job = order.add_job(lambda: _hand_on(done, given), copy_context())
        done.add_done_callback(lambda _: order.due(job), context=self.context)
        given.add_done_callback(lambda _: _give_up(given, done, job), context=self.context)
        return given


def _go_on() -> None:
    """Stands for code that goes on by itself."""


def _hand_on(done: asyncio.Future[Any], given: asyncio.Future[Any]) -> None:
    if given.done():
        return
    if done.cancelled():
        given.cancel()
    elif (error := done.exception()) is not None:
        given.set_exception(error)
    else:
        given.set_result(done.result())


def _give_up(given: asyncio.Future[Any], done: asyncio.Future[Any], job: Timer) -> None:
    if given.cancelled():
        job.cancel()
        done.cancel()
