"""Event loops that plain agents run themselves: what happens there has its addresses and its order, as everywhere."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from typing import Any

import anyio
import pytest
import uvloop

from limpet import EventRecord, ExecutionStatus, Limpet, MemoryStateBackend, agent, tool
from limpet.codec import values
from limpet.testing import CrashingBackend, SimulatedCrash

NAMES = ["a", "b", "c"]

executed: Counter[str] = Counter()
delays = random.Random(0)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    executed.clear()
    yield
    gc.collect()


async def pause() -> None:
    await asyncio.sleep(delays.choice((0, 0, 0.001, 0.002, 0.004)))


@tool
async def step(text: str) -> str:
    executed[text] += 1
    await pause()
    return text + "."


async def work(name: str) -> str:
    await pause()
    first = await step(f"{name}1")
    await pause()
    return await step(f"{first}2")


async def gathered() -> list[str]:
    return await asyncio.gather(*(work(name) for name in NAMES))


async def grouped() -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(work(name)) for name in NAMES]
    return [task.result() for task in tasks]


async def as_completed() -> list[str]:
    return sorted([await each for each in asyncio.as_completed([work(name) for name in NAMES])])


async def in_anyio_group() -> list[str]:
    found: list[str] = []

    async def add(name: str) -> None:
        found.append(await work(name))

    async with anyio.create_task_group() as group:
        for name in NAMES:
            group.start_soon(add, name)
    return sorted(found)


def by_runner(main: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    with asyncio.Runner() as runner:
        return runner.run(main())


def by_loop(main: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


def by_loop_of_uvloop(main: Callable[[], Coroutine[Any, Any, list[str]]]) -> list[str]:
    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(main())
    finally:
        loop.close()


MAINS = {main.__name__: main for main in (gathered, grouped, as_completed, in_anyio_group)}
RUNS: dict[str, Callable[[Callable[[], Coroutine[Any, Any, list[str]]]], list[str]]] = {
    "asyncio.run": lambda main: asyncio.run(main()),
    "Runner": by_runner,
    "loop": by_loop,
    "anyio.run": anyio.run,
    "uvloop.run": lambda main: uvloop.run(main()),
    "loop of uvloop": by_loop_of_uvloop,
}
WAYS = [("asyncio.run", main) for main in MAINS] + [(run, "gathered") for run in RUNS if run != "asyncio.run"]
RESULT = ["a1.2.", "b1.2.", "c1.2."]


@agent
def plain(run: str, main: str) -> list[str]:
    return RUNS[run](MAINS[main])


@agent
async def around(run: str, main: str) -> list[str]:
    before = await step("before")
    return [before, *await plain(run, main), await step("after")]


@agent
async def side_by_side() -> list[list[str]]:
    return list(await asyncio.gather(plain("asyncio.run", "gathered"), plain("asyncio.run", "grouped")))


@agent
def one_after_the_other() -> list[str]:
    first = step.call("first")
    found = asyncio.run(gathered())
    return [first, *found, step.call("last"), *asyncio.run(gathered())]


@tool
def counted_on_a_loop(number: int) -> int:
    async def count() -> int:
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(number)))
        return number

    return asyncio.run(count())


@agent
def counts() -> int:
    return counted_on_a_loop.call(3) + counted_on_a_loop.call(4)


def inputs_by_address(client: Limpet, state_id: str) -> dict[str, Any]:
    """What the tools that have a recorded result were called with, by the addresses of their calls."""
    return {
        event.address: values.decode(event.input)
        for event in client.history(state_id)
        if isinstance(event, EventRecord)
        and event.address.endswith("::tool_call")
        and event.status is ExecutionStatus.COMPLETED
        and event.input
    }


def run_in(seed: int, actor: Any, *args: str) -> tuple[Any, dict[str, Any]]:
    """The result of a run whose timings are those of a seed, and what it called at each address."""
    delays.seed(seed)
    client = Limpet("memory://")
    result = client.run_sync(actor, *args, state_id="plain")
    return result, inputs_by_address(client, "plain")


@pytest.mark.parametrize(("run", "main"), WAYS)
def test_a_loop_of_a_plain_agent_gives_every_task_a_branch_whatever_the_timing_is(run: str, main: str) -> None:
    expected, addresses = run_in(0, plain, run, main)
    assert RESULT == expected
    for seed in range(1, 6):
        assert (expected, addresses) == run_in(seed, plain, run, main)


def test_the_coroutine_that_a_plain_agent_runs_is_numbered_with_its_own_calls() -> None:
    _, addresses = run_in(0, one_after_the_other)
    labels = [address.removesuffix("::tool_call") for address in addresses if address.endswith("::tool_call")]
    inside = {
        f"one_after_the_other::task[work]{n}::step{m}" for n in ("", "#2", "#3", "#4", "#5", "#6") for m in ("", "#2")
    }
    assert {"one_after_the_other::step", "one_after_the_other::step#2", *inside} == set(labels)


PROGRAMS: dict[str, tuple[Any, tuple[str, ...], Any]] = {
    "asyncio.run": (plain, ("asyncio.run", "gathered"), RESULT),
    "as_completed": (plain, ("asyncio.run", "as_completed"), RESULT),
    "anyio": (plain, ("anyio.run", "in_anyio_group"), RESULT),
    "uvloop": (plain, ("uvloop.run", "gathered"), RESULT),
    "inside an async agent": (around, ("asyncio.run", "grouped"), ["before.", *RESULT, "after."]),
    "side by side": (side_by_side, (), [RESULT, RESULT]),
    "one after the other": (one_after_the_other, (), ["first.", *RESULT, "last.", *RESULT]),
}


def recorded(backend: MemoryStateBackend) -> Counter[str]:
    """The inputs of the calls of ``step`` that have a recorded result."""
    if backend.find_state("swept") is None:
        return Counter()
    return Counter(text for (text,) in inputs_by_address(Limpet(backend), "swept").values())


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_stopped_at_any_write_and_resumed_under_other_timings_every_result_goes_to_its_branch(
    name: str, when: Any
) -> None:
    actor, args, expected = PROGRAMS[name]
    stop_at, has_ended = 0, False
    while not has_ended:
        stop_at += 1
        backend = MemoryStateBackend()
        delays.seed(stop_at)
        crashing = CrashingBackend(backend, stop_at=stop_at, when=when)
        try:
            Limpet(crashing).run_sync(actor, *args, state_id="swept")
            has_ended = True
        except* SimulatedCrash:
            pass
        executed.clear()
        done = recorded(backend)
        delays.seed(1000 + stop_at)
        assert expected == Limpet(backend).run_sync(actor, *args, state_id="swept")
        assert recorded(backend) == done + executed
    assert stop_at > 6


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_run_with_loops_of_plain_agents_goes_through_a_rehearsal_and_a_validation(name: str) -> None:
    actor, args, expected = PROGRAMS[name]
    client = Limpet("memory://")
    assert expected == client.run_sync(actor, *args, state_id="checked")
    rehearsed = asyncio.run(client.rehearse("checked"))["checked"]
    assert rehearsed.is_ok, str(rehearsed)
    validated = asyncio.run(client.validate("checked"))["checked"]
    assert validated.is_ok, str(validated)


def test_a_tool_that_runs_a_loop_without_calls_has_one_record() -> None:
    client = Limpet("memory://")
    assert 7 == client.run_sync(counts, state_id="counts")
    assert ["counts", "counts::counted_on_a_loop", "counts::counted_on_a_loop#2"] == sorted(
        address.rpartition("::")[0] for address in client.history("counts").addresses()
    )


OWNERS = [(asyncio.Runner, "run"), (asyncio.BaseEventLoop, "run_until_complete"), (uvloop.Loop, "run_until_complete")]


def methods() -> list[Any]:
    return [vars(owner).get(name) for owner, name in OWNERS]


def loop_looks() -> dict[str, Any]:
    """What of us can be seen on the loop that runs."""
    loop = asyncio.get_running_loop()
    return {"factory": loop.get_task_factory(), "methods": {"call_soon", "call_at", "time"} & set(vars(loop))}


UNTOUCHED = {"factory": None, "methods": set[str]()}


def test_after_the_run_the_hooks_are_gone() -> None:
    seen: list[Any] = []

    async def look() -> None:
        seen.append(loop_looks())

    @agent
    def looks() -> list[str]:
        seen.append(methods())
        loop = asyncio.new_event_loop()
        try:
            loop.run_until_complete(look())
            seen.append((loop.get_task_factory(), set(vars(loop)) & {"call_soon", "call_at", "time"}))
        finally:
            loop.close()
        return [step.call("a")]

    before = methods()
    assert ["a."] == Limpet("memory://").run_sync(looks)
    during, on_loop, behind = seen
    assert all(was is not now for was, now in zip(before, during, strict=True))
    assert UNTOUCHED != on_loop
    assert (None, set()) == behind
    assert before == methods()


def test_a_loop_of_a_thread_that_is_in_no_run_is_left_alone() -> None:
    is_under_way, is_done, found = threading.Event(), threading.Event(), Future[Any]()

    async def serve() -> Any:
        return [loop_looks(), await asyncio.create_task(step("served"))]

    def serve_in_thread() -> None:
        is_under_way.wait()
        found.set_result(asyncio.run(serve()))
        is_done.set()

    @agent
    def waits_for_it() -> str:
        is_under_way.set()
        is_done.wait()
        return step.call("a")

    server = threading.Thread(target=serve_in_thread)
    server.start()
    client = Limpet("memory://")
    assert "a." == client.run_sync(waits_for_it, state_id="beside")
    server.join()
    assert [UNTOUCHED, "served."] == found.result()
    assert ["waits_for_it::step::tool_call"] == list(inputs_by_address(client, "beside"))


@agent
def runs_another_run(store: str) -> list[str]:
    """A run inside a run, on the loop of a plain agent."""

    async def both() -> list[str]:
        mine = asyncio.gather(*(work(name) for name in NAMES))
        inner = await Limpet(store).run(around, "asyncio.run", "gathered", state_id="inner")
        return [*await mine, *inner]

    return asyncio.run(both())


def test_a_run_on_the_loop_of_a_plain_agent_is_a_run_of_its_own() -> None:
    client = Limpet("memory://")
    result = client.run_sync(runs_another_run, "memory://", state_id="outer")
    assert [*RESULT, "before.", *RESULT, "after."] == result
    prefixes = {address.rpartition("::step")[0] for address in inputs_by_address(client, "outer")}
    assert {f"runs_another_run::task[work]{n}" for n in ("", "#2", "#3")} == prefixes


def test_what_a_runner_keeps_in_its_context_stays_there() -> None:
    kept: ContextVar[str] = ContextVar("kept", default="nothing")

    async def put() -> None:
        kept.set("something")

    async def get() -> str:
        return kept.get()

    @agent
    def keeps() -> str:
        with asyncio.Runner() as runner:
            runner.run(put())
            return runner.run(get())

    assert "something" == Limpet("memory://").run_sync(keeps)
