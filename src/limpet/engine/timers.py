"""The timers of the code inside one call, and its executor jobs: they have their place in its order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast

from limpet.engine.scope import Scope
from limpet.engine.turns import Ready, Timer, Turn

if TYPE_CHECKING:
    from limpet.engine.loops import Hooks
    from limpet.engine.order import Order

MOST_UNRECORDED = 1000
"""So many timers that fired are remembered of code that has called nothing so far."""


class Timers:
    """The part of an order that keeps timers."""

    __slots__ = ()

    hooks: Hooks
    queue: deque[Turn | Timer]
    timers: dict[int, Timer]
    fired: list[tuple[int, int]]
    ahead: float
    executing: int
    is_closed: bool
    _scope: Scope
    _numbers: int
    _unarmed: dict[int, Timer]
    _late: list[Timer]

    @property
    def is_replaying(self) -> bool:
        """Whether anything recorded is left to be given."""
        raise NotImplementedError

    def add(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> Ready:
        """Take a callback that is to run soon."""
        raise NotImplementedError

    def wake(self) -> None:
        """See to it that what waits here is looked at soon."""
        raise NotImplementedError

    def go_on(self) -> None:
        """Look at what waits here."""
        raise NotImplementedError

    def numbered(self) -> int:
        self._numbers += 1
        return self._numbers

    def set_timer(self, delay_s: float, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> Timer:
        """Set a timer of the code. While replay goes on it is not armed: it may be recorded when it fired."""
        timer = Timer(cast("Order", self), self.hooks.now() + self.ahead + delay_s, callback, args, context)
        self.timers[timer.number] = timer
        if self.is_replaying:
            self._unarmed[timer.number] = timer
            self.wake()
        else:
            self._arm(timer)
        return timer

    def add_job(self, callback: Callable[..., Any], context: Context) -> Timer:
        """Take note of a job of an executor; whoever runs it says when it is ``due``."""
        job = Timer(cast("Order", self), 0.0, callback, (), context)
        self.timers[job.number] = job
        return job

    def _arm(self, timer: Timer) -> None:
        delay_s = max(0.0, timer.when() - self.ahead - self.hooks.now())
        timer.handle = self.hooks.call_after(delay_s, self.due, timer)

    def due(self, timer: Timer) -> None:
        """The time of a timer has come: it has its place behind what is recorded."""
        if timer.callback is None or timer.is_due:
            return
        timer.is_due = True
        if self.is_replaying:
            self._late.append(timer)
        else:
            self._put_into_queue(timer)
        self.go_on()

    def _put_into_queue(self, timer: Timer) -> None:
        self.queue.append(timer)
        if not self.is_closed:
            self.fired.append((timer.number, self._scope.live.history.next_order - 1))
            if len(self.fired) > MOST_UNRECORDED and not self._scope.counts:
                # Code that has called nothing so far has nothing that they could be in order with.
                self.fired.clear()

    def withdraw_timer(self, timer: Timer) -> None:
        self.timers.pop(timer.number, None)
        if timer.handle is not None:
            timer.handle.cancel()
        if timer.is_due:  # Else it stands nowhere, and many may be withdrawn while much waits.
            if timer in self.queue:
                self.queue.remove(timer)
            self.fired[:] = [each for each in self.fired if each[0] != timer.number]

    @property
    def must_record_timers(self) -> bool:
        """Whether the timers that fired must be durable before a call begins: something else could have come first."""
        return bool(self.fired) and bool(self.executing or self.queue or self.timers)

    def _fire(self, timer: Timer) -> None:
        self.timers.pop(timer.number, None)
        callback, timer.callback = timer.callback, None
        if callback is None:
            return
        self.ahead = max(self.ahead, timer.when() - self.hooks.now())
        self.add(callback, timer.args, timer.context)

    def _forget_unfired(self, timer: Timer) -> None:
        self._unarmed.pop(timer.number, None)
        if timer.is_due and timer in self._late:
            self._late.remove(timer)
