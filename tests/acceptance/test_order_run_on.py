"""A run whose code goes by what comes first, run on from an event: up to that event it goes the way it had gone."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from limpet import (
    Agent,
    DriftWarning,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    Tool,
    agent,
    now,
    tool,
)

executed: list[str] = []
gates: dict[str, asyncio.Event] = {}
naps_s: list[float] = []


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    executed.clear()
    gates.clear()
    naps_s[:] = [0.0001]
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        yield


@pytest.fixture
def client() -> Limpet:
    return Limpet(MemoryStateBackend())


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


async def run_on(client: Limpet, at: str, **options: Any) -> Any:
    """The result of a fork of the run, which must execute what it has to by itself."""
    executed.clear()
    gates.clear()
    return await client.resume(client.fork("run", at=at, **options))


@tool
async def answer(question: str) -> str:
    executed.append(question)
    await gate("answer").wait()
    return f"answer to {question}"


@tool
async def remind(whom: str) -> str:
    executed.append(f"remind {whom}")
    gate("answer").set()
    return f"reminded {whom}"


# What timers made the code do


@agent
async def waits_with_a_reminder() -> list[str]:
    asking = asyncio.create_task(answer("kelp"))
    done, _ = await asyncio.wait([asking], timeout=0.001)
    return [*([] if done else [await remind("Ada")]), await asking]


@agent
async def shields_with_a_reminder() -> list[str]:
    asking = asyncio.create_task(answer("kelp"))
    try:
        return [await asyncio.wait_for(asyncio.shield(asking), 0.001)]
    except TimeoutError:
        return [await remind("Ada"), await asking]


@pytest.mark.parametrize("program", [waits_with_a_reminder, shields_with_a_reminder])
def test_a_call_that_a_timer_had_led_to_is_reached_again(program: Any, client: Limpet) -> None:
    async def main() -> None:
        assert ["reminded Ada", "answer to kelp"] == await client.run(program, state_id="run")
        assert ["reminded Ada", "answer to kelp"] == await run_on(client, "remind")
        assert ["remind Ada"] == executed
        assert ["edited", "answer to kelp"] == await run_on(client, "remind", replace="edited")
        assert [] == executed

    asyncio.run(main())


@agent
async def naps() -> str:
    await asyncio.sleep(naps_s[0])
    gate("answer").set()
    return await answer("kelp")


def test_a_timer_that_fired_before_the_event_fires_at_once(client: Limpet) -> None:
    async def main() -> None:
        await client.run(naps, state_id="run")
        naps_s[:] = [3600.0]
        assert "answer to kelp" == await asyncio.wait_for(run_on(client, "answer"), 10)
        assert "edited" == await asyncio.wait_for(run_on(client, "answer", replace="edited"), 10)

    asyncio.run(main())


@agent
async def naps_beside() -> list[str]:
    log: list[str] = []

    async def nap(name: str, after: str) -> None:
        await gate(after).wait()
        await asyncio.sleep(0)
        await asyncio.sleep(naps_s[0])
        log.append(name)
        gate(name).set()

    async def call() -> None:
        log.append(await remind("Ada"))
        gate("begin").set()
        await gate("second").wait()
        log.append(await remind("Bo"))

    await asyncio.gather(nap("first", "begin"), nap("second", "first"), call())
    return log


def test_a_timer_that_fired_behind_the_event_fires_anew(client: Limpet) -> None:
    async def main() -> None:
        expected = ["reminded Ada", "first", "second", "reminded Bo"]
        assert expected == await client.run(naps_beside, state_id="run")
        assert expected == await run_on(client, "remind")
        naps_s[:] = [3600.0]
        assert expected == await asyncio.wait_for(run_on(client, "remind#2"), 10)

    asyncio.run(main())


# What code had read


async def _write(_: str, context: object, state: ExecutionState) -> str:
    state.storage.set("news", "old")
    gate("written").set()
    await gate("read").wait()
    state.storage.set("news", "new")
    return "written"


async def _publish(news: str, context: object, state: ExecutionState) -> str:
    executed.append(f"publish {news}")
    gate("read").set()
    return f"published {news}"


async def _reads_beside(_: str, context: object, state: ExecutionState) -> list[str]:
    async def call(tool: Tool, given: str) -> str:
        return (await ExecutionEvent(tool)(given, None, state)).result

    async def read() -> str:
        await gate("written").wait()
        news = state.storage.get("news")
        return await call(publish if news == "old" else correct, news)

    reading = asyncio.create_task(read())
    return [await call(write, ""), await reading]


write = Tool(name="write", handler=_write)
publish = Tool(name="publish", handler=_publish)
correct = Tool(name="correct", handler=_publish)
reads_beside = Agent(name="reads_beside", handler=_reads_beside)


def test_a_call_that_a_read_had_led_to_is_reached_again(client: Limpet) -> None:
    async def main() -> None:
        assert ["written", "published old"] == await client.run(reads_beside, "", state_id="run")
        for options, result in (({}, "published old"), ({"replace": "edited"}, "edited")):
            running = asyncio.ensure_future(run_on(client, "publish", **options))
            await asyncio.sleep(0)
            gate("written").set()
            assert ["written", result] == await running

    asyncio.run(main())


# What came first


@tool
async def offer(shop: str) -> str:
    executed.append(f"ask {shop}")
    await gate(f"offer of {shop}").wait()
    return shop


@tool
async def order(shop: str) -> str:
    executed.append(f"order from {shop}")
    return f"ordered from {shop}"


@agent
async def buys_from_the_first() -> list[str]:
    came: list[str] = []
    gate("offer of east").set()
    for coming in asyncio.as_completed([offer.options(key=shop)(shop) for shop in ("north", "south", "east")]):
        came.append(await coming)
        if len(came) == 1:
            came.append(await order(came[0]))
            gate("offer of south").set()
        gate("offer of north").set() if len(came) == 3 else None
    return came


def test_a_result_that_came_first_comes_first_when_it_is_replaced(client: Limpet) -> None:
    async def main() -> None:
        expected = ["east", "ordered from east", "south", "north"]
        assert expected == await client.run(buys_from_the_first, state_id="run")
        assert ["west", "ordered from west", "south", "north"] == await run_on(client, "offer[east]", replace="west")
        assert ["order from west"] == executed

    asyncio.run(main())


# What a tool does inside itself


@agent
async def hands_over_to_a_tool() -> str:
    return await fetches_and_asks()


@tool
async def fetches_and_asks() -> str:
    """Like one with an HTTP client, which sets other timers whenever it is executed."""
    asked_at = now()
    gate("answer").set()
    first = await answer("kelp")
    for nap_s in naps_s:
        await asyncio.sleep(nap_s)
    second = await answer(f"wrack since {asked_at:%Y}")
    if len(naps_s) == 3:
        raise KeyboardInterrupt
    return f"{first}, {second.partition(' since')[0]}"


def test_a_tool_that_is_executed_again_may_set_other_timers(client: Limpet) -> None:
    naps_s[:] = [0.0001, 0.0001, 0.0001]
    with pytest.raises(KeyboardInterrupt):
        client.run_sync(hands_over_to_a_tool, state_id="run")
    naps_s.clear()
    executed.clear()
    assert "answer to kelp, answer to wrack" == client.run_sync(hands_over_to_a_tool, state_id="run")
    assert [] == executed
