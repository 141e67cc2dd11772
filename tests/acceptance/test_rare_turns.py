"""Turns that a run rarely takes, and must take right."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from limpet import (
    Append,
    BackendError,
    BackendUnavailable,
    DriftWarning,
    EventBus,
    Limpet,
    MemoryStateBackend,
    StateStatus,
    UnknownState,
    agent,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


class Failing(MemoryStateBackend):
    """Fails the append of a given number, and every later one until it is mended."""

    def __init__(self, fail_at: int) -> None:
        super().__init__()
        self.fail_at = fail_at
        self.appends = 0

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        self.appends += 1
        if self.fail_at and self.appends >= self.fail_at:
            raise BackendUnavailable(self.name, "it is away")
        return super().append(appends)


@tool
async def double(number: int) -> int:
    executions[str(number)] += 1
    return number * 2


def test_a_store_that_fails_fails_the_run_even_where_the_program_catches_everything() -> None:
    @agent
    async def stubborn() -> list[int]:
        found: list[int] = []
        for number in range(4):
            try:
                found.append(await double(number))
            except Exception:
                found.append(-1)
        return found

    backend = Failing(fail_at=3)
    limpet = Limpet(backend)
    with pytest.raises(BackendUnavailable, match="run again to go on"):
        limpet.run_sync(stubborn, state_id="stubborn")
    backend.fail_at = 0
    assert StateStatus.RUNNING is limpet.list_states()[0].status
    assert [0, 2, 4, 6] == limpet.run_sync(stubborn, state_id="stubborn")
    assert (1, 1) == (executions["0"], executions["1"])


def test_a_store_that_fails_while_a_failure_is_recorded_is_the_error_that_counts() -> None:
    @agent
    async def fails() -> None:
        raise ValueError("mine")

    with pytest.raises(BackendUnavailable) as caught:
        Limpet(Failing(fail_at=1)).run_sync(fails)
    assert isinstance(caught.value.__context__, ValueError)


def test_an_exception_that_cannot_be_built_again_makes_its_call_run_again() -> None:
    class Local(Exception):
        pass

    @tool
    async def raises() -> str:
        executions["raises"] += 1
        raise Local("here only")

    @agent
    async def catches() -> str:
        try:
            return await raises()
        except Local:
            if switch.pop("break", None):
                raise RuntimeError from None
            return "caught"

    limpet = Limpet("memory://")
    switch["break"] = True
    with pytest.raises(RuntimeError):
        limpet.run_sync(catches, state_id="local")
    assert "caught" == limpet.run_sync(catches, state_id="local")
    assert 2 == executions["raises"]


@dataclass(frozen=True)
class FrozenError(Exception):
    number: int


def test_an_exception_that_forbids_attributes_fails_its_call_like_any_other() -> None:
    @tool
    async def raises() -> None:
        executions["raises"] += 1
        raise FrozenError(7)

    @agent
    async def catches() -> int:
        try:
            await raises()
        except FrozenError as error:
            if switch.pop("break", None):
                raise RuntimeError from None
            return error.number
        return 0

    limpet = Limpet("memory://")
    switch["break"] = True
    with pytest.raises(RuntimeError):
        limpet.run_sync(catches, state_id="frozen")
    assert 7 == limpet.run_sync(catches, state_id="frozen")


def test_a_nested_agent_that_goes_on_with_another_input_is_reported() -> None:
    @agent
    async def inner(number: int) -> int:
        found = await double(1)
        if switch.get("hang"):
            switch["hanging"].set()
            await asyncio.Event().wait()
        return found + number

    @agent
    async def outer() -> int:
        return await inner(switch["number"])

    async def interrupted(limpet: Limpet) -> None:
        switch["hanging"] = asyncio.Event()
        task = asyncio.create_task(limpet.run(outer, state_id="nested"))
        await switch["hanging"].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    limpet = Limpet("memory://")
    switch.update(number=10, hang=True)
    asyncio.run(interrupted(limpet))
    switch.update(number=20, hang=False)
    with pytest.warns(DriftWarning, match="went on inside 'outer::inner::agent_call' although its input changed"):
        assert 22 == limpet.run_sync(outer, state_id="nested")
    assert 1 == executions["1"]


def test_an_event_loop_of_a_plain_actors_own_reaches_the_run() -> None:
    async def on_another_loop() -> list[int]:
        return [await double(1), await double(2)]

    @tool
    def own_loop() -> list[int]:
        assert threading.current_thread() is not threading.main_thread()
        return asyncio.run(on_another_loop())

    @agent
    async def outer() -> list[int]:
        return await own_loop()

    limpet = Limpet("memory://")
    assert [2, 4] == limpet.run_sync(outer, state_id="loops")
    assert "outer::own_loop::double#2::tool_call" in limpet.history("loops")


def test_a_stop_iteration_from_a_plain_function_does_not_hang_the_run() -> None:
    @tool
    def stops() -> None:
        raise StopIteration

    @agent
    async def outer() -> None:
        await stops()

    with pytest.raises(RuntimeError, match="raised StopIteration"):
        Limpet("memory://").run_sync(outer)


def test_a_run_that_never_waits_lets_other_tasks_have_their_turn() -> None:
    @agent
    async def busy() -> int:
        number = 0
        while not switch.get("stop"):
            number += await double(0) + 1
        return number

    async def main() -> int:
        async def stop_it() -> None:
            switch["stop"] = True

        run = asyncio.create_task(Limpet("memory://").run(busy))
        await asyncio.sleep(0)
        other = asyncio.create_task(stop_it())
        await other
        return await run

    assert asyncio.run(main()) > 0


def test_a_coroutine_that_is_thrown_away_in_the_middle_does_no_harm() -> None:
    @tool
    async def hangs() -> None:
        await asyncio.Event().wait()

    @agent
    async def drops() -> int:
        call = hangs()
        contextvars.copy_context().run(call.send, None)
        threading.Thread(target=call.close).start()
        return await double(4)

    assert 8 == Limpet("memory://").run_sync(drops)


def test_a_task_factory_that_was_there_before_is_used_and_put_back() -> None:
    made: list[str] = []

    def factory(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop, **options)

    async def chain() -> list[int]:
        return [await double(1), await double(2)]

    @agent
    async def outer() -> list[Any]:
        return list(await asyncio.gather(chain(), double(3), chain()))

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        result = await Limpet("memory://").run(outer)
        assert loop.get_task_factory() is factory
        return result

    assert [[2, 4], 6, [2, 4]] == asyncio.run(main())
    assert 2 == sum(name.endswith("chain") for name in made)


def test_tasks_in_a_context_of_their_own_are_branches_too() -> None:
    async def chain(number: int) -> list[int]:
        return [await double(number), await double(number + 1)]

    @agent
    async def outer() -> list[Any]:
        tasks = [asyncio.create_task(chain(10 * n), context=contextvars.copy_context()) for n in (1, 2)]
        return [await task for task in tasks]

    limpet = Limpet("memory://")
    assert [[20, 22], [40, 42]] == limpet.run_sync(outer, state_id="contexts")
    assert "outer::task[chain]#2::double#2::tool_call" in limpet.history("contexts")


@pytest.mark.parametrize("patience_s", [9.0, 0.0])
def test_what_wait_for_awaits_has_the_same_addresses_in_every_python(patience_s: float) -> None:
    async def chain(number: int) -> list[int]:
        return [await double(number), await double(number + 1)]

    @agent
    async def outer() -> list[Any]:
        try:
            found = await asyncio.wait_for(chain(1), patience_s)
        except TimeoutError:
            found = []
        return [
            found,
            await asyncio.create_task(asyncio.wait_for(chain(10), 9.0)),
            await asyncio.create_task(chain(20)),
        ]

    limpet = Limpet("memory://")
    limpet.run_sync(outer, state_id="patient")
    own = ["double", "double#2"] if patience_s else []
    in_tasks = [f"task[{task}]::{call}" for task in ("wait_for", "chain") for call in ("double", "double#2")]
    assert sorted(["outer::agent_call", *(f"outer::{call}::tool_call" for call in (*own, *in_tasks))]) == sorted(
        limpet.history("patient").addresses()
    )


def test_what_wait_for_awaits_begins_at_the_same_point_in_every_python() -> None:
    begun: list[str] = []

    async def begin(name: str) -> int:
        begun.append(name)
        return await double(1)

    @agent
    async def outer() -> None:
        await asyncio.gather(asyncio.wait_for(begin("guarded"), 9.0), begin("free"))

    Limpet("memory://").run_sync(outer)
    assert ["guarded", "free"] == begun


def test_an_unknown_state_deleted_meanwhile_is_not_made_by_resuming_it() -> None:
    @agent
    async def fails() -> None:
        raise RuntimeError

    backend = MemoryStateBackend()
    limpet = Limpet(backend)
    with pytest.raises(RuntimeError):
        limpet.run_sync(fails, state_id="gone")

    found = backend.read

    def read_and_delete(state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        records = found(state_id, after, limit)
        backend.delete_state(state_id)
        return records

    backend.read = read_and_delete
    with pytest.raises(UnknownState):
        asyncio.run(limpet.resume("gone", agent=fails))
    assert [] == limpet.list_states()


@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_completed_state_deleted_meanwhile_is_not_taken_for_a_damaged_one(is_resumed: bool) -> None:
    @agent
    async def doubled() -> int:
        return await double(2)

    backend = MemoryStateBackend()
    limpet = Limpet(backend)
    limpet.run_sync(doubled, state_id="gone")
    found, reads = backend.read, iter([False, True] if is_resumed else [True])  # Resuming reads the input first.

    def delete_and_read(state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        if next(reads, False):
            backend.delete_state(state_id)
        return found(state_id, after, limit)

    backend.read = delete_and_read
    if is_resumed:
        with pytest.raises(UnknownState):
            asyncio.run(limpet.resume("gone", agent=doubled))
        assert [] == limpet.list_states()
    else:
        assert 4 == limpet.run_sync(doubled, state_id="gone")
        assert 2 == executions["2"]


def test_the_bus_thread_ends_when_nothing_is_told_and_comes_back() -> None:
    bus = EventBus()
    bus.idle_s = 0.01
    seen: list[Any] = []
    bus.subscribe(seen.append)
    Limpet("memory://").run_sync(agent(lambda: 1), event_bus=bus)
    assert bus.flush()
    for thread in [thread for thread in threading.enumerate() if thread.name == "limpet-bus"]:
        thread.join(10)
        assert not thread.is_alive()
    Limpet("memory://").run_sync(agent(lambda: 2), event_bus=bus)
    assert bus.flush()
    assert 4 == len(seen)
