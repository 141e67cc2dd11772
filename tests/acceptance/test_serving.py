"""A supervisor takes up every state that can go on, each once, and leaves the others alone."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from crash.stores import opener

from limpet import (
    Awaiting,
    ExecutionInterrupted,
    Limpet,
    Served,
    StateBackend,
    StateStatus,
    UsageError,
    agent,
    ask,
    sleep,
    tool,
    wait_for_message,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@agent
async def approves(name: str) -> str:
    await step(f"{name} before")
    said = await ask("Sure?", bool)
    return await step(f"{name} {said}")


@agent
async def rests(seconds: float) -> str:
    await sleep(timedelta(seconds=seconds))
    return await step("rested")


@agent
async def receives() -> str:
    return await step(f"got {await wait_for_message('news', str)}")


def begin(client: Limpet, run: Any, *args: Any, state_id: str) -> None:
    with pytest.raises(Awaiting):
        client.run_sync(run, *args, state_id=state_id, patience_s=0)


@asynccontextmanager
async def serving(client: Limpet, served: list[Served], **options: Any) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(client.serve(stop=stop, on_served=served.append, **options))
    try:
        yield
    finally:
        stop.set()
        await task


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def ended(served: list[Served]) -> dict[str, Any]:
    return {each.state_id: each.result for each in served if each.error is None}


def test_what_was_waited_for_takes_a_run_up(reopen: Callable[[], StateBackend]) -> None:
    client, elsewhere, served = Limpet(reopen()), Limpet(reopen()), list[Served]()
    begin(client, approves, "early", state_id="early")
    begin(client, approves, "late", state_id="late")
    begin(client, approves, "never", state_id="never")
    begin(client, receives, state_id="mail")
    begin(client, rests, 0.3, state_id="rest")
    client.answer("early", True)

    async def main() -> None:
        async with serving(client, served):
            await until(lambda: {"early", "rest"} <= ended(served).keys())
            elsewhere.answer("late", False)
            client.send("mail", "news", "post")
            await until(lambda: {"late", "mail"} <= ended(served).keys())

    asyncio.run(main())
    expected = {"early": "early True", "late": "late False", "mail": "got post", "rest": "rested"}
    assert expected == ended(served)
    assert len(expected) == len(served), "nothing was taken up in vain"
    assert {1} == set(executions.values())
    assert StateStatus.AWAITING is client.show("never").header.status


def test_a_run_that_waits_again_is_taken_up_again(reopen: Callable[[], StateBackend]) -> None:
    client, served = Limpet(reopen()), list[Served]()

    @agent
    async def twice() -> list[bool]:
        return [await ask("First?", bool), await ask("Second?", bool)]

    switch["kept"] = twice
    begin(client, twice, state_id="twice")

    async def main() -> None:
        async with serving(client, served):
            client.answer("twice", True)
            await until(lambda: [each.prompt for each in client.questions()] == ["Second?"])
            client.answer("twice", False)
            await until(lambda: bool(ended(served)))

    asyncio.run(main())
    assert {"twice": [True, False]} == ended(served)


def test_what_is_not_its_business_is_left_alone(reopen: Callable[[], StateBackend]) -> None:
    client, served = Limpet(reopen()), list[Served]()

    @agent
    async def fails() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError):
        client.run_sync(fails, state_id="failed")

    async def interrupted() -> None:
        running = asyncio.create_task(client.run(rests, 20.0, state_id="stopped"))
        await until(lambda: any(header.state_id == "stopped" for header in client.list_states()))
        client.interrupt("stopped")
        with pytest.raises(ExecutionInterrupted):
            await running

    async def main() -> None:
        await interrupted()
        begin_now = asyncio.to_thread(begin, client, approves, "x", state_id="x")
        await begin_now
        async with serving(client, served):
            client.answer("x", True)
            await until(lambda: "x" in ended(served))

    asyncio.run(main())
    assert ["x"] == [each.state_id for each in served]
    assert StateStatus.FAILED is client.show("failed").header.status
    assert StateStatus.INTERRUPTED is client.show("stopped").header.status


PROGRAM = """
import os, signal, sys
from limpet import Limpet, agent, tool

@tool
async def first() -> str:
    with open("log", "a") as file: file.write("first\\n")
    return "first"

@tool
async def second() -> str:
    if not os.path.exists("go"):
        print("there", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return "second"

@agent
async def dies() -> list[str]:
    return [await first(), await second()]

if __name__ == "__main__":
    Limpet(sys.argv[1]).run_sync(dies, state_id="dead")
"""


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db", "file://{}/store"])
def test_the_run_of_a_dead_process_is_taken_up(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = tmp_path / f"{tmp_path.name}.py"
    program.write_text(PROGRAM)
    store = url.format(tmp_path)
    died = subprocess.run([sys.executable, str(program), store], capture_output=True)
    assert -signal.SIGKILL == died.returncode
    Path("go").touch()
    served: list[Served] = []

    async def main() -> None:
        with Limpet(store) as client:
            assert StateStatus.RUNNING is client.show("dead").header.status
            async with serving(client, served):
                await until(lambda: bool(ended(served)))

    asyncio.run(main())
    assert {"dead": ["first", "second"]} == ended(served)
    assert "first\n" == Path("log").read_text()


def test_two_supervisors_start_nothing_twice(reopen: Callable[[], StateBackend]) -> None:
    client, other = Limpet(reopen()), Limpet(reopen())
    served: list[Served] = []
    names = [f"s{number}" for number in range(20)]
    for name in names:
        begin(client, approves, name, state_id=name)

    async def main() -> None:
        async with serving(client, served, concurrency=3), serving(other, served, concurrency=3):
            for name in names:
                client.answer(name, True)
            await until(lambda: len(ended(served)) == len(names))

    asyncio.run(main())
    assert {name: f"{name} True" for name in names} == ended(served)
    assert {1} == set(executions.values())


def test_no_more_states_are_run_at_once_than_was_said() -> None:
    client, served, most = Limpet("memory://"), list[Served](), [0, 0]

    @tool
    async def counted() -> None:
        most[0] += 1
        most[1] = max(most)
        await asyncio.sleep(0.02)
        most[0] -= 1

    @agent
    async def asks() -> None:
        await ask("Sure?", bool)
        await counted()

    for number in range(10):
        begin(client, asks, state_id=f"s{number}")

    async def main() -> None:
        async with serving(client, served, concurrency=2):
            for number in range(10):
                client.answer(f"s{number}", True)
            await until(lambda: len(ended(served)) == 10)

    asyncio.run(main())
    assert 2 == most[1]


def test_at_the_end_what_is_executed_is_finished_and_the_next_supervisor_goes_on(
    reopen: Callable[[], StateBackend],
) -> None:
    client, served = Limpet(reopen()), list[Served]()

    @tool
    async def slow(name: str) -> str:
        executions[name] += 1
        switch[f"in {name}"] = True
        while not switch.get("go"):
            await asyncio.sleep(0.01)
        return name

    @agent
    async def works() -> list[str]:
        await ask("Sure?", bool)
        return [await slow("one"), await slow("two")]

    switch["kept"] = works
    begin(client, works, state_id="w")

    async def first() -> None:
        stop = asyncio.Event()
        task = asyncio.create_task(client.serve(stop=stop, on_served=served.append))
        client.answer("w", True)
        await until(lambda: "in one" in switch)
        stop.set()
        await asyncio.sleep(0.5)
        assert not task.done(), "what is being executed is finished first"
        switch["go"] = True
        await task

    async def second() -> None:
        async with serving(client, served):
            await until(lambda: bool(ended(served)))

    asyncio.run(first())
    header = client.show("w").header
    assert (StateStatus.RUNNING, None, "shut_down") == (header.status, header.holder, header.metadata.stopped["reason"])
    asyncio.run(second())
    assert {"w": ["one", "two"]} == ended(served)
    assert {"one": 1, "two": 1} == executions


def test_a_state_whose_agent_is_not_there_is_reported_and_no_hindrance(caplog: pytest.LogCaptureFixture) -> None:
    client, served = Limpet("memory://"), list[Served]()

    @agent
    async def vanishes() -> None:
        await ask("Sure?", bool)

    begin(client, vanishes, state_id="v")
    begin(client, approves, "x", state_id="x")
    del vanishes
    gc.collect()

    async def main() -> None:
        async with serving(client, served):
            client.answer("v", True)
            client.answer("x", True)
            await until(lambda: bool(ended(served)))

    asyncio.run(main())
    assert {"x": "x True"} == ended(served)
    assert StateStatus.AWAITING is client.show("v").header.status
    assert 1 == caplog.text.count("State v cannot be taken up here")


@pytest.mark.parametrize("concurrency", [0, -1, "2", 1.5])
def test_a_supervisor_runs_at_least_one_state(concurrency: Any) -> None:
    with pytest.raises(UsageError, match="at a time"):
        asyncio.run(Limpet("memory://").serve(concurrency=concurrency))


def test_one_that_is_cancelled_shuts_down_as_well() -> None:
    client = Limpet("memory://")

    async def main() -> None:
        task = asyncio.create_task(client.serve())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
