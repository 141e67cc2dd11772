"""A process that ends gracefully hands its runs back: whoever comes next resumes them, as after a kill."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from acceptance import ended_program
from acceptance.stopped_runs import require_handed_back, require_interrupted, statuses
from click.testing import CliRunner
from crash.stores import opener

from limpet import (
    ExecutionInterrupted,
    InterruptSignal,
    Limpet,
    OutcomeUnknown,
    RetryConfig,
    StateBackend,
    StateStatus,
    agent,
    sleep,
    tool,
)
from limpet.cli.main import commands

AFTERWARDS = ["executed last", "executed one", "executed three", "executed two"]
ALL = "['first', 'one', 'two', 'three', 'last']"
executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["sqlite:///{}/runs.db", "file://{}/store"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param.format(tmp_path)


@contextmanager
def inside(store: str, how: str) -> Iterator[subprocess.Popen[str]]:
    """A process in which every tool of its run has begun."""
    command = [sys.executable, ended_program.__file__, store, how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            while "inside\n" != (line := process.stdout.readline()):
                assert line
            yield process
        finally:
            process.kill()


def end(process: subprocess.Popen[str], number: signal.Signals | None) -> list[str]:
    if number is not None:
        process.send_signal(number)
    said, _ = process.communicate(timeout=60)
    return said.splitlines()


def go_on(store: str) -> list[str]:
    command = [sys.executable, ended_program.__file__, store, "direct", "open"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [("server", signal.SIGTERM, 0), ("main", None, 0), ("exit", signal.SIGTERM, 7)],
    ids=["a server that cancels its tasks", "a loop that shuts down", "a handler that exits"],
)
def test_a_process_that_ends_hands_its_run_back(store: str, how: str, number: signal.Signals | None, code: int) -> None:
    with inside(store, how) as process:
        end(process, number)
        assert code == process.returncode
    with Limpet(store) as client:
        require_handed_back(client)
        # What a handler raises may meet any code, and what that was doing has no record then.
        unfinished = {"interrupted", "started"} if how == "exit" else {"interrupted"}
        assert set() == set(statuses(client).values()) - unfinished - {"completed"}
    *again, result = go_on(store)
    assert (ALL, AFTERWARDS) == (result, sorted(again))


def test_the_default_handler_of_sigterm_leaves_the_same_as_a_kill(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "direct") as process:
        end(process, signal.SIGTERM)
        assert -signal.SIGTERM == process.returncode
    with Limpet(store) as client:
        assert StateStatus.RUNNING is client.show("s").header.status
    assert ALL == go_on(store)[-1]


def test_from_the_keyboard_a_run_is_interrupted(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "direct") as process:
        end(process, signal.SIGINT)
    with Limpet(store) as client:
        assert (
            "The program was interrupted from the keyboard."
            == require_interrupted(client, reason="cancelled")["message"]
        )


def test_a_run_in_the_background_is_interrupted_from_the_keyboard_as_well(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "server") as process:
        end(process, signal.SIGINT)
        assert -signal.SIGINT == process.returncode
    with Limpet(store) as client:
        require_interrupted(client, reason="cancelled")


def test_a_supervisor_resumes_what_was_handed_back_and_hands_it_back_when_it_ends_itself(store: str) -> None:
    with inside(store, "main") as process:
        end(process, None)
    with inside(store, "serve") as process:
        assert ["s: ExecutionInterrupted"] == end(process, signal.SIGTERM)
        assert 0 == process.returncode
    with Limpet(store) as client:
        require_handed_back(client, reason="shut_down")
        assert "interrupted" not in [
            status for address, status in statuses(client).items() if address.endswith("tool_call")
        ]
    assert ["executed last", ALL] == go_on(store)


# In this process.


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@tool
async def hold(name: str) -> str:
    executions[name] += 1
    switch[name] = True
    while not switch.get("go"):
        await asyncio.sleep(0.01)
    return name


@tool(once=True)
async def pay(name: str) -> str:
    executions[name] += 1
    switch[name] = True
    while not switch.get("go"):
        await asyncio.sleep(0.01)
    return name


@agent
async def works() -> list[str]:
    return [await step("before"), await hold("here"), await step("after")]


@agent
async def buys() -> str:
    return await pay("here")


async def until(name: str) -> None:
    async with asyncio.timeout(20):
        while name not in switch:
            await asyncio.sleep(0.01)


def left_in_the_middle(client: Limpet, run: Any) -> None:
    """A program that ends while one of its tasks runs the state."""

    async def main() -> None:
        switch["kept"] = asyncio.create_task(client.run(run, state_id="s"))
        await until("here")

    asyncio.run(main())


def test_a_supervisor_in_another_process_takes_up_what_was_handed_back(reopen: Callable[[], StateBackend]) -> None:
    client, elsewhere = Limpet(reopen()), Limpet(reopen())
    left_in_the_middle(client, works)
    require_handed_back(client)
    switch["go"] = True

    async def main() -> None:
        stop = asyncio.Event()
        await elsewhere.serve(stop=stop, on_served=lambda served: (switch.update(served=served), stop.set()))

    asyncio.run(main())
    assert ["before", "here", "after"] == switch["served"].result
    assert {"before": 1, "here": 2, "after": 1} == executions
    assert {} == client.show("s").header.metadata.stopped


def test_what_is_declared_once_and_was_cut_off_is_not_executed_again() -> None:
    client = Limpet("memory://")
    left_in_the_middle(client, buys)
    require_handed_back(client)
    with pytest.raises(OutcomeUnknown):
        client.run_sync(buys, state_id="s")
    assert {"here": 1} == executions


def test_the_attempts_that_were_made_are_kept() -> None:
    client = Limpet("memory://")

    @tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0, jitter=False))
    async def fails() -> str:
        executions["fails"] += 1
        if executions["fails"] == 2:
            await hold.function("here")
        raise ConnectionError

    @agent
    async def calls() -> str:
        return await fails()

    left_in_the_middle(client, calls)
    switch["go"] = True
    with pytest.raises(ConnectionError):
        client.run_sync(calls, state_id="s")
    assert 4 == executions["fails"], "the second attempt was cut off, and is made again"


@pytest.mark.parametrize("is_graceful", [True, False])
def test_whoever_interrupts_a_run_that_is_being_handed_back_has_it_interrupted(is_graceful: bool) -> None:
    client = Limpet("memory://")

    async def main() -> None:
        running = asyncio.create_task(client.run(works, state_id="s"))
        await until("here")
        assert client.interrupt("s", reason="shut_down", finish=True)
        assert client.interrupt("s", by="Ada", finish=is_graceful)
        await asyncio.sleep(0.5)
        switch["go"] = True
        with pytest.raises(ExecutionInterrupted):
            await running

    asyncio.run(main())
    assert "Ada" == require_interrupted(client)["triggered_by"]


def test_a_run_that_was_interrupted_gracefully_stays_so_when_its_loop_shuts_down() -> None:
    client = Limpet("memory://")

    async def main() -> None:
        switch["kept"] = asyncio.create_task(client.run(works, state_id="s", interrupt_checker=wanted))
        await until("here")
        switch["wanted"] = True
        await asyncio.sleep(0.2)

    def wanted() -> object:
        return InterruptSignal("lunch", is_graceful=True) if "wanted" in switch else None

    asyncio.run(main())
    require_interrupted(client, reason="lunch")


def test_a_run_that_waits_is_left_as_waiting() -> None:
    client = Limpet("memory://")

    @agent
    async def rests() -> None:
        switch["here"] = True
        await sleep(3600)

    left_in_the_middle(client, rests)
    header = client.show("s").header
    assert None is header.holder
    assert header.status in (StateStatus.RUNNING, StateStatus.AWAITING)
    assert header.metadata.waiting["due_at"] > 0


def test_a_run_that_is_cancelled_twice_is_handed_back() -> None:
    client = Limpet("memory://")

    async def main() -> None:
        running = asyncio.create_task(client.run(works, state_id="s"))
        await until("here")
        for _ in range(3):
            running.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    require_handed_back(client)


def test_a_rollback_that_is_cut_off_is_not_taken_up_as_a_run() -> None:
    client = Limpet("memory://")

    async def cancel(name: str) -> None:
        await hold.function("here")

    @tool(undo=cancel)
    async def book(name: str) -> str:
        return name

    @agent
    async def travels() -> None:
        await book("hotel")
        raise LookupError

    with pytest.raises(LookupError):
        client.run_sync(travels, state_id="s")

    async def main() -> None:
        switch["kept"] = asyncio.create_task(client.roll_back("s"))
        await until("here")

    asyncio.run(main())
    header = client.show("s").header
    assert (StateStatus.INTERRUPTED, None, "rolled_back") == (
        header.status,
        header.holder,
        header.metadata.stopped["reason"],
    )


def test_people_are_told_that_no_process_holds_it_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    with Limpet("sqlite:///runs.db") as client:
        left_in_the_middle(client, works)
    listed = CliRunner().invoke(commands, ["list", "--store", "sqlite:///runs.db"])
    assert "stopped" in listed.output
    shown = CliRunner().invoke(commands, ["show", "s", "--store", "sqlite:///runs.db"])
    assert "stopped: no process holds it; go on with `limpet resume s" in shown.output
    assert "The task that awaited it was cancelled." in shown.output
