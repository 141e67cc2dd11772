"""A program is interrupted at every attempt that it makes, and stopped at every write around that; then taken up.

Whoever is told that a run was interrupted can rely on that: the store says so, with the reason and a checkpoint. And
whatever happens on the way, the run ends as if nothing had.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from crash.attempts_program import attempts, executions, watchers
from crash.recorded_attempts import (
    Recorded,
    Undisturbed,
    allowed,
    history_of,
    recorded,
    require_made,
    require_whole,
    run_undisturbed,
)
from crash.stores import Open, opener
from crash.sweeping import When

from limpet import (
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    InterruptSignal,
    Limpet,
    StateBackend,
    StateStatus,
)
from limpet.testing import CrashingBackend

Way = Literal["graceful checker", "checker", "request"]
WAYS: list[Way] = ["graceful checker", "checker", "request"]

MOST_S = 20.0
"""A run that takes longer hangs."""

STEPS = {"memory": 6, "normal": 20, "full": 20, "files": 20, "files packed": 40}
"""On each store: at the how-manieth attempts the program is not only interrupted but stopped as well."""


class Interrupting:
    """Runs the program, and wants it to stop when it makes the attempt of one number."""

    def __init__(self, way: Way, number: int, writes: Callable[[], int]) -> None:
        self.way = way
        self.number = number
        self.writes = writes
        self.made = 0
        self.at_write = 0
        """How many writes had been made when it was told to stop; 0 where it was not."""
        self.state: ExecutionState | None = None

    def run(self, backend: StateBackend) -> Any:
        return asyncio.run(until_it_hangs(self._explicitly if self.way == "request" else self._with_checker, backend))

    async def _with_checker(self, backend: StateBackend) -> Any:
        return await Limpet(backend).run(attempts, "attempts", state_id="swept", interrupt_checker=self._checked)

    def _checked(self) -> InterruptSignal | None:
        # It is asked from time to time as well, which is as good as before an attempt.
        if not self._is_time():
            return None
        return InterruptSignal("test", "said the checker", "a test", is_graceful=self.way == "graceful checker")

    async def _explicitly(self, backend: StateBackend) -> Any:
        self.state = ExecutionState(state_backend=backend, state_id="swept")
        watchers.append(self._executed)
        try:
            return (await ExecutionEvent(attempts)("attempts", None, self.state)).result
        finally:
            watchers.remove(self._executed)

    def _executed(self) -> None:
        """Told in the middle of an attempt, which is thereby cut off if it awaits anything."""
        if self._is_time():
            assert self.state is not None
            self.state.request_interrupt("test", "said the program", "a test")

    def _is_time(self) -> bool:
        self.made += 1
        if self.made == self.number:
            self.at_write = self.writes()
        return self.made == self.number


async def until_it_hangs(run: Callable[[StateBackend], Any], backend: StateBackend) -> Any:
    began = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(MOST_S):
            return await run(backend)
    finally:
        assert asyncio.get_running_loop().time() - began < MOST_S, "it hangs"


def resumed(backend: StateBackend, way: Way) -> Any:
    if way != "request":
        return Limpet(backend).run_sync(attempts, "attempts", state_id="swept")
    if backend.find_state("swept") is None:
        state = ExecutionState(state_backend=backend, state_id="swept")
    else:
        state = ExecutionState.load_from_state_id("swept", backend)
    result = asyncio.run(ExecutionEvent(attempts)("attempts", None, state)).result
    # In this form it is for the program to say that the state has come to its end.
    state.save_checkpoint(StateStatus.RUNNING)
    state.save_checkpoint(StateStatus.COMPLETED)
    return result


@pytest.fixture(scope="module")
def undisturbed() -> Undisturbed:
    return run_undisturbed()


def interrupted(
    open_store: Open, way: Way, number: int, undisturbed: Undisturbed, stop_at: int | None = None, when: When = "before"
) -> range:
    """Interrupt the program, stop it as well if asked for, and take it up again.

    Gives the numbers of the writes that were made from then on until it had stopped; none where it was not interrupted.
    """
    executions.clear()
    crashing = CrashingBackend(open_store(), stop_at, when)
    interrupting = Interrupting(way, number, lambda: crashing.writes)
    is_told = False
    try:
        result = interrupting.run(crashing)
    except ExecutionInterrupted as told:
        is_told = True
        require_told_the_truth(open_store(), told)
    except BaseException:
        if not crashing.is_stopped:
            raise
        gc.collect()
    else:
        assert undisturbed.result == result, "it ended before it could be stopped"
    survivor = Limpet(open_store())
    after = recorded(history_of(survivor))
    assert executions <= allowed(undisturbed.attempts, Recorded(Counter(), Counter()), after) + in_flight(crashing)
    so_far = executions.copy()
    assert undisturbed.result == resumed(open_store(), way)
    require_made(executions - so_far, undisturbed.attempts, after, recorded(history_of(survivor)))
    require_whole(survivor, undisturbed)
    header = survivor.show("swept").header
    assert (StateStatus.COMPLETED, {}) == (header.status, header.metadata.stopped)
    return range(interrupting.at_write + 1, crashing.writes + 1) if is_told else range(0)


def in_flight(crashing: CrashingBackend) -> Counter[tuple[str, int]]:
    """What was cut off, and could not be recorded as that, by a process that was stopped: anything once."""
    return Counter(dict.fromkeys(executions, 1)) if crashing.is_stopped else Counter()


def require_told_the_truth(backend: StateBackend, told: ExecutionInterrupted) -> None:
    """The store says what was told: it was interrupted, why, and where it stands."""
    assert ("swept", "test", "a test") == (told.state_id, told.reason, told.triggered_by)
    state = ExecutionState.load_from_state_id("swept", backend)
    assert StateStatus.INTERRUPTED is state.status
    last = state.checkpoints[-1]
    assert (StateStatus.INTERRUPTED, state.metadata) == (last.status, last.metadata)
    header = backend.find_state("swept")
    assert header is not None
    assert header.position == last.position, "something is recorded behind it"
    stopped = state.metadata.stopped
    assert ("test", "a test", told.message) == (stopped["reason"], stopped["triggered_by"], stopped["message"])


@pytest.mark.parametrize("way", WAYS)
def test_a_run_interrupted_at_any_attempt_ends_as_the_undisturbed_one(way: Way, undisturbed: Undisturbed) -> None:
    numbers = itertools.count(1)
    while interrupted(opener("memory", Path()), way, next(numbers), undisturbed):
        pass
    assert next(numbers) > len(undisturbed.attempts)


@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_that_is_stopped_at_any_write_is_told_only_if_it_is_recorded(
    kind: str, way: Way, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    stores = itertools.count()

    def at(number: int, stop_at: int | None = None, when: When = "before") -> range:
        open_store = opener(kind, tmp_path / f"store-{next(stores)}")
        return interrupted(open_store, way, number, undisturbed, stop_at, when)

    # Each way of interrupting begins somewhere else.
    for number in itertools.count(1 + WAYS.index(way) * STEPS[kind] // 3, STEPS[kind]):
        writes = at(number)
        if not writes:
            break
        for stop_at in writes:
            # On a disk, which is slow, each of them before it or after it.
            if kind == "memory" or stop_at % 2:
                at(number, stop_at, "before")
            if kind == "memory" or not stop_at % 2:
                at(number, stop_at, "after")
