"""Stopping a run in such a way that nothing can undo it, and that it can be taken up again.

Whoever wants a run to stop says so to its ``Stopper``, from any thread. The tasks of the run are then cancelled: the
one that awaits it, and every task that was created inside it. So code that awaits anything is stopped at once, and its
``finally`` blocks run. A graceful stop first lets what is being executed come to its end: tools and models, with all
that they call. Calls that are made meanwhile do not begin.

The run remembers that it is being stopped. Code that swallows the cancellation meets it again at its next call, and
what it gives or raises from then on is not recorded.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.errors import ExecutionInterrupted, HoldfastError
from holdfast.model import InterruptSignal, StateStatus

if TYPE_CHECKING:
    from holdfast.engine.live import LiveState
    from holdfast.engine.scope import Scope

log = logging.getLogger("holdfast.interrupts")

INSIST_S = 5.0
"""After so long, code that has not ended although it was cancelled is cancelled again, and reported."""

Stoppable = asyncio.Future[object] | concurrent.futures.Future[object]


class Stopped(asyncio.CancelledError):
    """Raised in the code of a run that is being stopped. Like every cancellation, nobody should keep it."""


class Stopper:
    """Whether and how one run is to stop, and the tasks that it goes on in."""

    __slots__ = (
        "_cancelled",
        "_insisting",
        "_live",
        "_parked",
        "_roots",
        "error",
        "is_cancelling",
        "is_over",
        "signal",
        "status",
        "tasks",
        "waiting",
    )

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self.signal: InterruptSignal | None = None
        """Why it is being stopped; None while it is not."""
        self.status = StateStatus.INTERRUPTED
        """What the state is left in."""
        self.error: HoldfastError | None = None
        """What whoever awaits the run is told."""
        self.is_cancelling = False
        """Whether the tasks have been cancelled: from then on no outcome is recorded."""
        self.is_over = False
        """Whether the run was stopped, and its state was given back. It is taken up again by loading it anew."""
        self.waiting = 0
        """How many calls are under way of which nothing is being executed: they wait for their next attempt."""
        self.tasks: dict[Stoppable, Scope] = {}
        """The tasks that were created inside the run and have not ended, with the scope that each is in."""
        self._roots: set[asyncio.Task[object]] = set()
        """The tasks that await the run."""
        self._cancelled: dict[asyncio.Task[object], int] = {}
        """How often each of them was cancelled from here."""
        self._parked: set[asyncio.Future[None]] = set()
        self._insisting: asyncio.TimerHandle | None = None

    def request(
        self,
        signal: InterruptSignal,
        status: StateStatus = StateStatus.INTERRUPTED,
        error: HoldfastError | None = None,
    ) -> None:
        """Stop the run. The first wish counts; a later one that is not graceful hastens a graceful one."""
        loop = self._live.loop
        if loop is None or loop.is_closed() or _is_running_here(loop):
            self._begin(signal, status, error)
        else:
            loop.call_soon_threadsafe(self._begin, signal, status, error)

    def _begin(self, signal: InterruptSignal, status: StateStatus, error: HoldfastError | None) -> None:
        live = self._live
        if live.has_ended:
            return
        if self.signal is None:
            self.signal, self.status = signal, status
            self.error = error or ExecutionInterrupted(
                live.state_id, str(signal.reason), signal.message, signal.triggered_by
            )
            live.is_stopping = True
            live.replays_quickly = False
        elif self.signal.is_graceful and not signal.is_graceful:
            self.signal = msgspec.structs.replace(self.signal, is_graceful=False)
        self.look()

    def look(self) -> None:
        """Cancel what is left if the time for it has come. Called whenever a call has ended."""
        live, signal = self._live, self.signal
        if signal is None or self.is_cancelling or not self._roots or live.loop is None:
            return
        if not signal.is_graceful or live.under_way - live.agents_under_way - self.waiting <= 0:
            # In a turn of its own: a handler that asks for the stop, and returns, has its result recorded.
            live.loop.call_soon(self._cancel_all)

    def _cancel_all(self) -> None:
        live = self._live
        if live.has_ended or not self._roots or live.loop is None:
            return
        if self.is_cancelling:
            log.warning("State %s has not stopped %.0f s after it was told to.", live.state_id, INSIST_S)
        self.is_cancelling = True
        for task in self._roots:
            self._cancelled[task] = self._cancelled.get(task, 0) + 1
            task.cancel()
        cancel(self.tasks)
        for future in self._parked:
            if not future.done():
                future.set_exception(Stopped())
        self._insisting = live.loop.call_later(INSIST_S, self._cancel_all)

    async def meet(self, scope: Scope) -> None:
        """What a call meets that is made while the run is being stopped. Raises Stopped, at once or later."""
        if self.is_cancelling or self.signal is None or not self.signal.is_graceful:
            raise Stopped
        if not _is_inside_work(scope):
            await self.park()

    async def stop_here(self, signal: InterruptSignal, status: StateStatus, error: HoldfastError) -> None:
        """Stop the run at a call that cannot be executed. The call waits for the end; nothing is raised in its
        branch."""
        self.waiting += 1
        try:
            self.request(signal, status, error)
            await self.park()
        finally:
            self.waiting -= 1

    async def park(self) -> None:
        """Wait for the end, without an exception that could end other branches before it."""
        assert self._live.loop is not None
        future: asyncio.Future[None] = self._live.loop.create_future()
        self._parked.add(future)
        try:
            await future
        finally:
            self._parked.discard(future)

    @contextmanager
    def rooted(self) -> Generator[None]:
        """While this lasts, the current task awaits the run, and is what is cancelled to stop it."""
        task = asyncio.current_task()
        assert task is not None
        self._roots.add(task)
        self.look()
        try:
            yield
        finally:
            self._roots.discard(task)
            for _ in range(self._cancelled.pop(task, 0)):
                task.uncancel()
            if not self._roots and self._insisting is not None:
                self._insisting.cancel()


def cancel(tasks: dict[Stoppable, Scope]) -> None:
    """Cancel tasks that are not being cancelled already: a second time would disturb their cleaning up."""
    for task in list(tasks):
        if not isinstance(task, asyncio.Task) or not task.cancelling():
            task.cancel()


def leave_behind(task: asyncio.Task[Any]) -> None:
    """Wait no longer for a task that ignores its cancellation: the loop does not either when it ends."""
    task.add_done_callback(_look_at)
    # What asyncio documents for those who extend it: a task that is not registered is not waited for.
    asyncio._unregister_task(task)
    task._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]  # as asyncio does itself


def _look_at(task: asyncio.Task[Any]) -> None:
    """Nobody asks for what it raises in the end, and nobody need be told."""
    if not task.cancelled():
        task.exception()


def tasks_inside(live: LiveState, scope: Scope) -> dict[Stoppable, Scope]:
    """The tasks that were created inside a call and have not ended."""
    return {task: each for task, each in live.stopper.tasks.items() if each.is_inside(scope)}


def _is_inside_work(scope: Scope) -> bool:
    """Whether a call is made by a tool or a model, and so is part of what is finished first."""
    above: Scope | None = scope.event
    while above is not None:
        if above.call is not None and not above.call.actor.is_agent:
            return True
        above = None if above.parent is None else above.parent.event
    return False


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return not loop.is_running()
