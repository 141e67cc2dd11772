"""Processes that are played inside this one: a run is stopped at a write as if its process had died there, and resumed.

When the backend stops, the log takes nothing any more and the loop is stopped: no code of the dead process has a say.
"""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, Literal, TypeVar

from order.checks import Ending, Process
from order.loops import Loop, new_loop
from order.outside import Entry, MemoryLog, enter
from order.recorded import recorded_names

from limpet import DriftWarning, Limpet, RehearsalReport, StateBackend
from limpet.engine.actors import Actor
from limpet.testing import CrashingBackend, SimulatedCrash

T = TypeVar("T")
When = Literal["before", "after"]

LONGEST_S = 10.0
"""A run that has not ended by then hangs."""
_UNWINDING_S = 1.0


class StoppingBackend(CrashingBackend):
    """Says so when it stops, from whatever thread."""

    on_stop: Callable[[], object] = staticmethod(lambda: None)

    def write(self, write: Callable[[], T]) -> T:
        was_alive = not self.is_stopped
        try:
            return super().write(write)
        except SimulatedCrash:
            if was_alive:
                self.on_stop()
            raise


class Life:
    """One run over all processes that it takes, on a store that is opened anew by each."""

    def __init__(
        self, agent: Actor[..., list[str]], loop: Loop, open_store: Callable[[], StateBackend], *args: object
    ) -> None:
        self.agent, self.loop, self.open_store, self.args = agent, loop, open_store, args
        self.log = MemoryLog()
        self.processes: list[Process] = []

    def run(self, seed: int, stop_at: int | None = None, when: When = "before") -> Process:
        """Run it in one more process, to a write or to its end."""
        recorded = recorded_names(Limpet(self.open_store()), "order")
        backend = StoppingBackend(self.open_store(), stop_at, when)

        async def run() -> list[str]:
            return await Limpet(backend).run(self.agent, *self.args, state_id="order")

        return self._play(run, backend, recorded, seed)

    def rehearse(self, seed: int) -> Process:
        """Run the agents' code on what is recorded, in one more process."""
        backend = StoppingBackend(self.open_store())

        async def rehearse() -> RehearsalReport:
            report = (await Limpet(backend).rehearse("order"))["order"]
            assert isinstance(report, RehearsalReport)
            return report

        return self._play(rehearse, backend, frozenset(), seed)

    def _play(
        self,
        what: Callable[[], Coroutine[Any, Any, Any]],
        backend: StoppingBackend,
        recorded: frozenset[str],
        seed: int,
    ) -> Process:
        entries = self.log.begin()
        enter(self.log, seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result, error = _run_to_the_stop(what, self.loop, backend, self.log)
        given = [str(warning.message) for warning in caught if issubclass(warning.category, DriftWarning)]
        process = _process(entries, recorded, backend.is_stopped, result, error, given)
        self.processes.append(process)
        return process


def _process(
    entries: list[Entry], recorded: frozenset[str], is_stopped: bool, result: Any, error: str, given: list[str]
) -> Process:
    if is_stopped:
        ending, error = Ending.STOPPED, ""
    elif isinstance(result, RehearsalReport):
        ending, error = Ending.REHEARSED, "" if result.is_ok else str(result)
    else:
        ending = Ending.FAILED if error else Ending.FINISHED
    return Process(
        entries=tuple(entries),
        recorded=recorded,
        ending=ending,
        result=None if isinstance(result, RehearsalReport) else result,
        error=error,
        warnings=given,
    )


def _run_to_the_stop(
    what: Callable[[], Coroutine[Any, Any, Any]], kind: Loop, backend: StoppingBackend, log: MemoryLog
) -> tuple[Any, str]:
    """The result, or why there is none."""
    loop = new_loop(kind)
    loop.set_exception_handler(lambda *_: None)

    is_running = True

    def stop(_: object = None) -> None:
        nonlocal is_running
        # Once: a second stop would end the unwinding.
        if is_running:
            is_running = False
            loop.stop()

    def die() -> None:
        log.is_open = False
        loop.call_soon_threadsafe(stop)

    backend.on_stop = die
    main = loop.create_task(what())
    main.add_done_callback(stop)
    hanging = loop.call_later(LONGEST_S, stop)
    loop.run_forever()
    log.is_open = False
    hanging.cancel()
    has_ended = main.done()
    _unwind(loop)
    if not has_ended:
        return None, "it hangs"
    if main.cancelled():
        return None, "it was cancelled, and nobody had asked for that"
    error = main.exception()
    return (main.result(), "") if error is None else (None, f"{type(error).__name__}: {error}")


def _unwind(loop: asyncio.AbstractEventLoop) -> None:
    """Let go of what a dead process has left in this one: the lease for instance, which its run gives back."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_UNWINDING_S))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    if tasks:
        gc.collect()
