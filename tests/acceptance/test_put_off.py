"""A server that asks to be left alone for long: the run waits durably, and leaves the memory of its process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acceptance import put_off_program
from acceptance.stopped_runs import require_handed_back, statuses
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    Awaiting,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    Served,
    StateBackend,
    StateStatus,
    agent,
    tool,
)

HOUR_S = 3600
executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


class Busy(Exception):
    http_status = 429

    def __init__(self, retry_after: float) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after


@pytest.fixture(autouse=True)
def clock() -> Iterator[Turned]:
    executions.clear()
    switch.clear()
    with turned_clock() as clock:
        yield clock


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@tool
async def fetch(asked_s: float, times: int = 1) -> str:
    executions["fetch"] += 1
    if executions["fetch"] <= times:
        raise Busy(asked_s)
    return "fetched"


@tool
async def step(name: str) -> str:
    executions[name] += 1
    await asyncio.sleep(0.05)
    return name


@agent
async def research(asked_s: float, times: int = 1) -> list[str]:
    return [await step("before"), await fetch(asked_s, times)]


def test_the_run_leaves_memory_and_goes_on_at_that_time(reopen: Callable[[], StateBackend], clock: Turned) -> None:
    client = Limpet(reopen())
    with pytest.raises(Awaiting, match="the next attempt of research::fetch::tool_call at 20") as waits:
        client.run_sync(research, HOUR_S, state_id="s")
    assert "s" == waits.value.state_id
    header = client.show("s").header
    assert (StateStatus.AWAITING, None) == (header.status, header.holder)
    assert "retrying" == statuses(client)["research::fetch::tool_call"]
    with pytest.raises(Awaiting):
        Limpet(reopen()).run_sync(research, HOUR_S, state_id="s")
    clock.turn(HOUR_S + 1)
    assert ["before", "fetched"] == Limpet(reopen()).run_sync(research, HOUR_S, state_id="s")
    assert {"before": 1, "fetch": 2} == executions
    assert 2 == client.history("s")["research::fetch::tool_call"].attempt
    assert [] == clock.waits


def test_each_time_that_it_is_put_off_counts_as_an_attempt(clock: Turned) -> None:
    client = Limpet("memory://")
    for _ in range(2):
        with pytest.raises(Awaiting):
            client.run_sync(research, HOUR_S, 5, state_id="s")
        clock.turn(HOUR_S + 1)
    with pytest.raises(Busy):
        client.run_sync(research, HOUR_S, 5, state_id="s")
    assert 3 == executions["fetch"]


@pytest.mark.parametrize(("asked_s", "config"), [(300, None), (HOUR_S, RetryConfig(max_delay=HOUR_S, jitter=False))])
def test_some_minutes_and_what_the_configuration_allows_are_waited_for_in_the_process(
    clock: Turned, asked_s: float, config: RetryConfig | None
) -> None:
    client = Limpet("memory://", default_retry_config=config)
    assert ["before", "fetched"] == client.run_sync(research, asked_s, state_id="s")
    assert [asked_s] == clock.waits


def test_the_time_of_the_event_bounds_it() -> None:
    client = Limpet("memory://", default_retry_config=RetryConfig(retry_timeout=60))
    with pytest.raises(Busy):
        client.run_sync(research, HOUR_S, state_id="s")
    assert StateStatus.FAILED is client.show("s").header.status


def test_what_goes_on_beside_it_is_finished_first(clock: Turned) -> None:
    client = Limpet("memory://")

    @agent
    async def both() -> list[str]:
        return [*await asyncio.gather(fetch(HOUR_S), step("one"), step("two"))]

    with pytest.raises(Awaiting):
        client.run_sync(both, state_id="s")
    assert {"fetch": 1, "one": 1, "two": 1} == executions
    clock.turn(HOUR_S + 1)
    assert ["fetched", "one", "two"] == client.run_sync(both, state_id="s")
    assert {"fetch": 2, "one": 1, "two": 1} == executions


def test_of_several_that_are_put_off_the_nearest_time_counts(clock: Turned) -> None:
    client = Limpet("memory://")

    @tool
    async def look_up(asked_s: float) -> str:
        executions[f"{asked_s}"] += 1
        if executions[f"{asked_s}"] == 1:
            raise Busy(asked_s)
        return f"{asked_s}"

    @agent
    async def both() -> list[str]:
        return [*await asyncio.gather(look_up(HOUR_S), look_up(2 * HOUR_S))]

    for _ in range(2):
        with pytest.raises(Awaiting):
            client.run_sync(both, state_id="s")
        clock.turn(HOUR_S + 1)
    assert ["3600", "7200"] == client.run_sync(both, state_id="s")
    assert {"3600": 2, "7200": 2} == executions


def test_a_supervisor_resumes_it_at_that_time(reopen: Callable[[], StateBackend], clock: Turned) -> None:
    client, served = Limpet(reopen()), list[Served]()

    async def main() -> None:
        stop = asyncio.Event()
        serving = asyncio.create_task(
            Limpet(reopen()).serve(stop=stop, on_served=lambda each: (served.append(each), stop.set()))
        )
        await asyncio.sleep(0.3)
        assert {"before": 1, "fetch": 1} == executions
        clock.turn(HOUR_S + 1)
        await asyncio.wait_for(serving, 60)

    with pytest.raises(Awaiting):
        client.run_sync(research, HOUR_S, state_id="s")
    asyncio.run(main())
    assert [["before", "fetched"]] == [each.result for each in served]


def test_one_that_is_handed_back_meanwhile_does_not_sleep_when_it_is_resumed(clock: Turned) -> None:
    client = Limpet("memory://")

    async def main() -> None:
        switch["kept"] = asyncio.create_task(client.run(research, HOUR_S, state_id="s", patience_s=2 * HOUR_S))
        while not executions["fetch"]:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)

    asyncio.run(main())
    require_handed_back(client)
    with pytest.raises(Awaiting):
        client.run_sync(research, HOUR_S, state_id="s")
    clock.turn(HOUR_S + 1)
    assert ["before", "fetched"] == client.run_sync(research, HOUR_S, state_id="s")
    assert {"before": 1, "fetch": 2} == executions


def test_an_event_of_the_explicit_form_says_until_when(clock: Turned) -> None:
    backend = MemoryStateBackend()

    async def call() -> Any:
        state = ExecutionState(state_backend=backend, state_id="s")
        return (await ExecutionEvent(fetch)(HOUR_S, None, state)).result

    async def go_on() -> Any:
        state = ExecutionState.load_from_state_id("s", backend)
        return (await ExecutionEvent(fetch)(HOUR_S, None, state)).result

    with pytest.raises(Awaiting, match="the next attempt of fetch::tool_call at"):
        asyncio.run(call())
    clock.turn(HOUR_S + 1)
    assert "fetched" == asyncio.run(go_on())
    assert 2 == executions["fetch"]


@pytest.mark.parametrize("is_killed", [True, False])
def test_another_process_goes_on_with_the_attempts_that_are_left(
    tmp_path: Path, clock: Turned, is_killed: bool
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    command = [sys.executable, put_off_program.__file__, store, "100000" if is_killed else "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, Limpet(store) as client:
        assert process.stdout is not None
        assert "put off\n" == process.stdout.readline()
        if is_killed:
            while "retrying" not in statuses(client).values():
                pass
            process.kill()
        else:
            assert "waits for the next attempt of research::fetch::tool_call" in process.stdout.readline()
        process.wait(60)
        assert (StateStatus.RUNNING if is_killed else StateStatus.AWAITING) is client.show("s").header.status
        for error in (Awaiting, put_off_program.Busy):
            clock.turn(HOUR_S + 1)
            with pytest.raises(error):
                client.run_sync(put_off_program.research, state_id="s")
        assert 3 == client.history("s")["research::fetch::tool_call"].attempt
