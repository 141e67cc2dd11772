"""What may stop a run from outside of its code: a checker that is asked again and again, and a time that runs out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, cast

from limpet.engine.scope import current_scope
from limpet.errors import BudgetExceeded
from limpet.logs import logger
from limpet.model import InterruptReason, InterruptSignal
from limpet.model.interrupts import signal_of

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

log = logger("limpet.interrupts")

EVERY_S = 0.05
"""How often a checker is asked."""

Checker = Callable[[], object] | Callable[[], Awaitable[object]]
"""Says whether a run is to stop: True or an InterruptSignal if so; anything else if not."""


class Watch:
    """The checker and the time limit of one run. It watches while the run goes on."""

    def __init__(self, live: LiveState) -> None:
        self._live = live
        self.checker: Checker | None = None
        self._ends: dict[str, tuple[float, InterruptSignal]] = {}
        """By the reason: when the time is over, and what the run is told then."""
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._users = 0
        self._has_reported = False

    def set_checker(self, checker: Checker | None) -> None:
        self.checker = checker
        self._live.is_guarded = checker is not None or self._live.tally is not None
        if self._users:
            self._begin()

    def set_timeout(self, seconds: float | None) -> None:
        """Stop the run after so many seconds from now; None: no more."""
        self._ends.pop(InterruptReason.TIMEOUT, None)
        if seconds is not None:
            signal = InterruptSignal(InterruptReason.TIMEOUT, f"The {seconds:g} s that it was given are over.")
            self._ends[signal.reason] = (self._live.clock.elapsed() + seconds, signal)
        if self._users:
            self._begin()

    def set_wall_time(self, limit_s: float, spent_s: float) -> None:
        """Stop the run when it has taken as long as its budget allows, with the time before this process took it up."""
        signal = InterruptSignal(InterruptReason.BUDGET, f"It has taken the {limit_s:g} s in its budget.")
        self._ends[signal.reason] = (self._live.clock.elapsed() + limit_s - spent_s, signal)

    def __enter__(self) -> None:
        """Watch as long as this lasts, if there is anything to watch."""
        self._users += 1
        if self.checker is not None or self._ends:
            self._begin()

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if not self._users:
            self._end()

    def _begin(self) -> None:
        self._end()
        loop = self._live.loop
        assert loop is not None
        if self._ends:
            ends_at, signal = min(self._ends.values(), key=lambda end: end[0])
            left_s = ends_at - self._live.clock.elapsed()
            if left_s > 0:
                self._timer = loop.call_later(left_s, self._time_is_over, signal)
            else:
                self._time_is_over(signal)
        if self.checker is not None:
            context = copy_context()
            context.run(current_scope.set, None)
            self._task = loop.create_task(self._ask_again_and_again(), context=context)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        self._timer = self._task = None

    def _time_is_over(self, signal: InterruptSignal) -> None:
        state_id, is_budget = self._live.state_id, signal.reason == InterruptReason.BUDGET
        error = BudgetExceeded(state_id, str(signal.reason), signal.message) if is_budget else None
        self._live.stopper.request(signal, error=error)

    async def _ask_again_and_again(self) -> None:
        while not self._live.is_stopping:
            await asyncio.sleep(EVERY_S)
            await self.ask()

    async def ask(self) -> None:
        """Ask the checker, and stop the run if it says so. One that raises is reported, and has said nothing."""
        checker = self.checker
        if checker is None:
            return
        try:
            said = checker()
            if inspect.isawaitable(said):
                said = await cast("Awaitable[object]", said)
        except Exception:
            if not self._has_reported:
                log.exception("The interrupt checker of state %s raised. The run goes on.", self._live.state_id)
            self._has_reported = True
            return
        signal = signal_of(said)
        if signal is not None:
            self._live.stopper.request(signal)
