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
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from limpet.engine.scope import Scope, current_scope
from limpet.errors import ExecutionInterrupted, LimpetError
from limpet.logs import logger
from limpet.model import InterruptReason, InterruptSignal, StateStatus
from limpet.model.interrupts import SHUT_DOWN

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

log = logger("limpet.interrupts")

INSIST_S = 5.0
"""After so long, code that has not ended although it was cancelled is cancelled again, and reported."""

HANDED_BACK = StateStatus.RUNNING
"""What a run leaves its state in that is to be resumed by whoever comes next, as after a kill: nobody holds it then."""

MOMENT_S = 0.05
"""How long a plain handler that asks for a stop has to return."""

Stoppable = asyncio.Future[Any]
"""A task, or what a task factory of the user's made in its place."""


class Stopped(asyncio.CancelledError):
    """Raised in the code of a run that is being stopped. Like every cancellation, nobody should keep it."""


class Stopper:
    """Whether and how one run is to stop, and the tasks that it goes on in."""

    __slots__ = (
        "_cancelled",
        "_delay_s",
        "_gone",
        "_held",
        "_insisting",
        "_is_due",
        "_live",
        "_parked",
        "_roots",
        "_waiting",
        "error",
        "is_cancelling",
        "is_over",
        "signal",
        "status",
        "tasks",
    )

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self.signal: InterruptSignal | None = None
        """Why it is being stopped; None while it is not."""
        self.status = StateStatus.INTERRUPTED
        """What the state is left in."""
        self.error: LimpetError | None = None
        """What whoever awaits the run is told."""
        self.is_cancelling = False
        """Whether the tasks have been cancelled: from then on no outcome is recorded."""
        self.is_over = False
        """Whether the run was stopped, and its state was given back. It is taken up again by loading it anew."""
        self._waiting = 0
        """How many calls are under way of which nothing is being executed: they wait for their next attempt, for
        one."""
        self._held: dict[Scope, int] = {}
        """For how many such calls a tool waits itself, by its inside."""
        self.tasks: dict[Stoppable, Scope] = {}
        """The tasks that were created inside the run and have not ended, with the scope that each is in."""
        self._roots: set[asyncio.Task[object]] = set()
        """The tasks that await the run."""
        self._cancelled: dict[asyncio.Task[object], int] = {}
        """How often each of them was cancelled from here."""
        self._parked: set[asyncio.Future[None]] = set()
        self._is_due = False
        """Whether the tasks are about to be cancelled, or have been."""
        self._delay_s = 0.0
        """How long what is being executed has before it is cancelled."""
        self._gone: asyncio.Future[None] | None = None
        """Done when the last of those who await the run has given the state back."""
        self._insisting: asyncio.TimerHandle | None = None

    def request(
        self,
        signal: InterruptSignal,
        status: StateStatus | None = None,
        error: LimpetError | None = None,
    ) -> None:
        """Stop the run. The first wish counts; a later one that is not graceful takes the place of a graceful one, and
        an interrupt that of a wish to hand the run back. Without a status the reason says what the state is left in."""
        status = status or (HANDED_BACK if signal.reason == SHUT_DOWN else StateStatus.INTERRUPTED)
        loop = self._live.loop
        if loop is None or loop.is_closed() or _is_running_here(loop):
            self._begin(signal, status, error)
        elif self._is_asked_by_handler():
            # A plain function: where it returns within a moment, its result is recorded, as that of an async one is.
            self._delay_s = MOMENT_S
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._begin, signal, status, error)
        else:
            with suppress(RuntimeError):  # The loop has been closed in this moment, and so the run is over.
                loop.call_soon_threadsafe(self._begin, signal, status, error)

    def break_off(self, signal: InterruptSignal, status: StateStatus, error: LimpetError) -> None:
        """Stop the run at once, from any thread: no call begins from here on, and no outcome is recorded any more."""
        live = self._live
        is_refused = signal.reason == InterruptReason.REFUSED
        if live.has_ended or self.is_over or (self.is_cancelling and not is_refused):
            return
        self.signal, self.status, self.error = signal, status, error
        self.is_cancelling = live.is_stopping = True
        live.replays_quickly = False
        loop = live.loop
        if loop is None or loop.is_closed() or _is_running_here(loop):
            self.look()
        else:
            with suppress(RuntimeError):  # As above.
                loop.call_soon_threadsafe(self.look)

    def refuse(self, error: LimpetError) -> None:
        """Stop the run because nothing of it can be recorded any more; from any thread. The state is left as it is."""
        self.break_off(InterruptSignal(InterruptReason.REFUSED, str(error)), self._live.header.status, error)

    def taken_up_anew(self) -> None:
        """The state is held again, with what stands in its store: that nothing could be recorded is over."""
        if self.signal is None or self.signal.reason != InterruptReason.REFUSED or self._roots or self.is_over:
            return
        self.signal = self.error = None
        self.is_cancelling = self._live.is_stopping = False

    def _begin(self, signal: InterruptSignal, status: StateStatus, error: LimpetError | None) -> None:
        live = self._live
        if live.has_ended:
            return
        if self.signal is None:
            self.signal, self.status = signal, status
            self.error = error or self._interrupted(signal)
            live.is_stopping = True
            live.replays_quickly = False
        elif type(self.error) is ExecutionInterrupted and self._gives_way_to(signal, status):
            is_graceful = self.signal.is_graceful and signal.is_graceful
            self.signal, self.status = msgspec.structs.replace(signal, is_graceful=is_graceful), status
            self.error = self._interrupted(signal)
        elif not signal.is_graceful:
            self.signal = msgspec.structs.replace(self.signal, is_graceful=False)
        self.look()

    def _gives_way_to(self, signal: InterruptSignal, status: StateStatus) -> bool:
        """Tells whether another wish takes the place of the present one. No run is handed back that was interrupted."""
        assert self.signal is not None
        if self.is_cancelling or (status is HANDED_BACK and self.status is not HANDED_BACK):
            return False
        is_hastened = self.signal.is_graceful and not signal.is_graceful
        return is_hastened or (self.status is HANDED_BACK and status is not HANDED_BACK)

    def _interrupted(self, signal: InterruptSignal) -> ExecutionInterrupted:
        return ExecutionInterrupted(self._live.state_id, str(signal.reason), signal.message, signal.triggered_by)

    def look(self) -> None:
        """Cancel what is left if the time for it has come. Called whenever a call has ended."""
        live, signal = self._live, self.signal
        if signal is None or self._is_due or not self._roots or live.loop is None:
            return
        if not signal.is_graceful or not self.is_anything_executed():
            # In a turn of its own: a handler that asks for the stop, and returns, has its result recorded.
            self._is_due = True
            live.loop.call_later(self._delay_s, self._cancel_all)

    def is_anything_executed(self) -> bool:
        """Whether a tool or a model is at work, rather than that it waits for calls of which nothing is executed."""
        live = self._live
        return live.under_way - live.agents_under_way - self._waiting - len(self._held) > 0

    def all_tasks(self) -> set[Stoppable]:
        """The tasks that await the run, and those that were created inside it."""
        return {*self._roots, *self.tasks}

    def _is_asked_by_handler(self) -> bool:
        scope = current_scope.get()
        return scope is not None and scope.live is self._live

    def _cancel_all(self) -> None:
        live = self._live
        self._is_due = False
        if live.has_ended or not self._roots or live.loop is None:
            return
        self.is_cancelling = self._is_due = True
        for task in self._roots:
            self._cancelled[task] = self._cancelled.get(task, 0) + 1
            cancel_task(task)
        cancel(self.tasks)
        self._end_waiting()
        self._insisting = live.loop.call_later(INSIST_S, self._insist)

    def _insist(self) -> None:
        log.warning("State %s has not stopped %.0f s after it was told to.", self._live.state_id, INSIST_S)
        self._cancel_all()

    async def meet(self, scope: Scope) -> None:
        """What a call meets that is made while the run is being stopped. Raises Stopped, at once or later."""
        if self.is_cancelling or self.signal is None or not self.signal.is_graceful:
            await asyncio.sleep(0)  # Code that swallows this, and tries again for ever, does not hold up all others.
            raise Stopped
        if next(_enclosing_work(scope), None) is None:
            await self.park()

    async def stop_here(self, scope: Scope, signal: InterruptSignal, status: StateStatus, error: LimpetError) -> None:
        """Stop the run at a call that cannot be executed. The call waits for the end; nothing is raised in its
        branch."""
        with self.nothing_is_executed(scope):
            self.request(signal, status, error)
            await self.park()

    @contextmanager
    def nothing_is_executed(self, scope: Scope) -> Generator[None]:
        """While this lasts, a call that was made there is under way, and nothing of it is being executed.

        A graceful stop does not wait for it, nor for the tools that wait for it themselves.
        """
        held = list(_enclosing_work(scope))
        self._waiting += 1
        for each in held:
            self._held[each] = self._held.get(each, 0) + 1
        try:
            yield
        finally:
            self._waiting -= 1
            for each in held:
                self._held[each] -= 1
                if not self._held[each]:
                    del self._held[each]

    async def park(self) -> None:
        """Wait for the end, without an exception that could end other branches before it."""
        assert self._live.loop is not None
        future: asyncio.Future[None] = self._live.loop.create_future()
        self._parked.add(future)
        self.look()
        try:
            await future
        finally:
            self._parked.discard(future)

    def cancelled_from_outside(self, signal: InterruptSignal, status: StateStatus) -> None:
        """Whoever awaits the run was cancelled: it is stopped by that, and what is left of it is cancelled as well."""
        self._begin(signal, status, None)
        self.is_cancelling = True

    @property
    def is_wanted(self) -> bool:
        """Whether the run itself is being stopped, rather than that whoever awaits it was cancelled."""
        return self.signal is not None and self.signal.reason != InterruptReason.CANCELLED

    @property
    def is_interrupted(self) -> bool:
        """Tells whether the run is stopped by somebody who wants it to stay so."""
        return self.signal is not None and self.status is StateStatus.INTERRUPTED

    @property
    def is_waiting(self) -> bool:
        """Whether the run is left because it has nothing to do but to wait."""
        return self.signal is not None and self.signal.reason == InterruptReason.WAITING

    @property
    def is_awaited(self) -> bool:
        """Whether any task still awaits the run."""
        return bool(self._roots)

    async def others_are_gone(self) -> None:
        """Wait until the last of those who await the run has given the state back."""
        assert self._live.loop is not None
        self._gone = self._gone or self._live.loop.create_future()
        await asyncio.shield(self._gone)

    def tell_others(self) -> None:
        """Say that the state was given back."""
        self.is_over = True
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)

    def add_root(self, task: asyncio.Task[Any]) -> None:
        """From now on this task awaits the run, and is what is cancelled to stop it."""
        self._roots.add(task)
        self.look()

    def remove_root(self, task: asyncio.Task[Any]) -> None:
        """When nobody awaits the run any more, nothing is cancelled again, and what waits for its end meets it."""
        self._roots.discard(task)
        for _ in range(self._cancelled.pop(task, 0)):
            task.uncancel()
        if not self._roots:
            if self._insisting is not None:
                self._insisting.cancel()
            self._end_waiting()

    def _end_waiting(self) -> None:
        for future in self._parked:
            if not future.done():
                future.set_exception(Stopped())


def cancel(tasks: dict[Stoppable, Scope]) -> None:
    """Cancel tasks that are not being cancelled already: a second time would disturb their cleaning up."""
    for task in list(tasks):
        if not isinstance(task, asyncio.Task) or not task.cancelling():
            cancel_task(task)


def cancel_task(task: Stoppable) -> None:
    """Cancel a task of a run, whose tasks are all cancelled.

    asyncio goes down from what a task awaits to what that awaits, which may be too deep for it. Then the innermost
    task, which is cancelled by itself, ends the others.
    """
    with suppress(RecursionError):
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


def _enclosing_work(scope: Scope) -> Iterator[Scope]:
    """The insides of the tools and models that enclose a call, from the innermost: with them it is finished first."""
    above: Scope | None = scope.event
    while above is not None:
        if above.call is not None and not above.call.actor.is_agent:
            yield above
        above = None if above.parent is None else above.parent.event


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return not loop.is_running()
