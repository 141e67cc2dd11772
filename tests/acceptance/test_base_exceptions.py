"""Exceptions that derive from BaseException end a run in a defined state, with its lease given back."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from acceptance.stopped_runs import statuses

from limpet import (
    ExecutionEvent,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    Served,
    StateStatus,
    agent,
    sleep,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


class Abort(BaseException):
    """What a program may have of its own."""


class Quit(asyncio.CancelledError):
    """A cancellation of a program's own."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


def fail(kind: type[BaseException]) -> str:
    executions["fail"] += 1
    if not switch.get("mended"):
        raise kind("no")
    return "mended"


@tool(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(Abort, LookupError)))
async def fails(kind: str) -> str:
    return fail(KINDS[kind])


@tool
def fails_in_thread(kind: str) -> str:
    return fail(KINDS[kind])


@tool(timeout_s=60)
async def fails_in_time(kind: str) -> str:
    return fail(KINDS[kind])


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@agent
async def inner(kind: str) -> str:
    return await fails(kind)


@agent
async def calls(kind: str, where: str) -> list[str]:
    before = await step("before")
    match where:
        case "an agent":
            found = fail(KINDS[kind])
        case "a nested agent":
            found = await inner(kind)
        case "a thread":
            found = await fails_in_thread(kind)
        case "a time limit":
            found = await fails_in_time(kind)
        case "gather":
            found, _ = await asyncio.gather(fails(kind), step("beside"))
        case "a task group":
            async with asyncio.TaskGroup() as group:
                task = group.create_task(fails(kind))
            found = task.result()
        case _:
            found = await fails(kind)
    return [before, found]


KINDS: dict[str, type[BaseException]] = {
    each.__name__: each for each in (Abort, Quit, GeneratorExit, RuntimeError, SystemExit, KeyboardInterrupt)
}
PLACES = ["a tool", "an agent", "a nested agent", "a thread", "a time limit", "gather", "a task group"]


@pytest.mark.parametrize("where", PLACES)
def test_an_exception_of_a_programs_own_fails_the_run_which_is_tried_again(where: str) -> None:
    client = Limpet("memory://")
    with pytest.raises((Abort, BaseExceptionGroup)) as raised:
        client.run_sync(calls, "Abort", where, state_id="s")
    assert isinstance(raised.value, Abort) or raised.group_contains(Abort)
    header = client.show("s").header
    assert (StateStatus.FAILED, None) == (header.status, header.holder)
    assert 1 == executions["fail"], "it is not tried again"
    assert "failed" == statuses(client)["calls::agent_call"]
    switch["mended"] = True
    assert ["before", "mended"] == client.run_sync(calls, "Abort", where, state_id="s")
    assert {"fail": 2, "before": 1} == {name: executions[name] for name in ("fail", "before")}


@pytest.mark.parametrize("kind", ["Quit", "GeneratorExit", "SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", PLACES)
def test_whatever_ends_a_run_gives_its_lease_back_and_it_goes_on(where: str, kind: str) -> None:
    client = Limpet("memory://")
    ended_by = KINDS["RuntimeError" if kind == "GeneratorExit" else kind]
    with pytest.raises((ended_by, asyncio.CancelledError, ExceptionGroup)):
        client.run_sync(calls, kind, where, state_id="s")
    header = client.show("s").header
    wanted = {"SystemExit": StateStatus.RUNNING, "KeyboardInterrupt": StateStatus.INTERRUPTED}
    assert (wanted.get(kind, StateStatus.FAILED), None) == (header.status, header.holder)
    switch["mended"] = True
    assert ["before", "mended"] == client.run_sync(calls, kind, where, state_id="s")
    assert {"fail": 2, "before": 1} == {name: executions[name] for name in ("fail", "before")}


@agent
async def catches(kind: str, where: str) -> list[Any]:
    try:
        found: list[Any] = [await calls(kind, where)]
    except BaseException as error:
        found = [await step(f"caught {type(error).__name__}")]
    await step("after")
    if "mended" not in switch:
        raise LookupError
    return found


@pytest.mark.parametrize("kind", ["Abort", "Quit", "GeneratorExit", "SystemExit", "KeyboardInterrupt"])
@pytest.mark.parametrize("where", ["a tool", "an agent", "a nested agent", "a thread"])
def test_one_that_the_code_caught_is_raised_again_by_replay(where: str, kind: str) -> None:
    client = Limpet("memory://", on_drift="error")
    with pytest.raises(LookupError):
        client.run_sync(catches, kind, where, state_id="s")
    before = dict(executions)
    switch["mended"] = True
    caught = "RuntimeError" if kind == "GeneratorExit" else kind
    assert [f"caught {caught}"] == client.run_sync(catches, kind, where, state_id="s")
    assert before == executions


@pytest.mark.parametrize("kind", ["Abort", "Quit", "SystemExit"])
def test_an_event_of_the_explicit_form_fails_of_it_and_is_executed_again(kind: str) -> None:
    backend = MemoryStateBackend()

    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        event = ExecutionEvent(fails)
        with pytest.raises(KINDS[kind]):
            await event(kind, None, state)
        assert ExecutionStatus.FAILED is event.execution_status
        switch["mended"] = True
        loaded = ExecutionState.load_from_state_id("s", backend)
        again = ExecutionEvent(fails)
        assert "mended" == (await again(kind, None, loaded)).result
        assert event.address == again.address

    asyncio.run(main())


def test_a_supervisor_outlives_it() -> None:
    client, served = Limpet("memory://"), list[Served]()

    @agent
    async def rests(state: str) -> None:
        await sleep(0.01)
        raise Abort(state)

    async def main() -> None:
        stop = asyncio.Event()

        def told(each: Served) -> None:
            served.append(each)
            if len(served) == 2:
                stop.set()

        for name in ("one", "two"):
            with pytest.raises(Exception, match="waits for"):
                await client.run(rests, name, state_id=name, patience_s=0)
        await client.serve(stop=stop, on_served=told)

    asyncio.run(main())
    assert [Abort, Abort] == [type(each.error) for each in served]
    assert {StateStatus.FAILED} == {header.status for header in client.list_states()}


def test_an_undo_that_raises_one_gives_the_lease_back() -> None:
    client = Limpet("memory://")

    async def cancel(name: str) -> None:
        raise Abort(name)

    @tool(undo=cancel)
    async def book(name: str) -> str:
        return name

    @agent
    async def travels() -> None:
        await book("hotel")
        raise LookupError

    with pytest.raises(LookupError):
        client.run_sync(travels, state_id="s")
    with pytest.raises(Abort):
        asyncio.run(client.roll_back("s"))
    assert None is client.show("s").header.holder
