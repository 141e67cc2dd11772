"""Calls that end after the actor that made them: nothing is recorded of them, and nothing is damaged."""

from __future__ import annotations

import asyncio
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    EventRecord,
    ExecutionStatus,
    LateCallWarning,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    UsageError,
    agent,
    ask,
    tool,
    wait_for_message,
)
from limpet.backends.contract import Claim, Grant

executed: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()


@pytest.fixture(params=["memory", "sqlite", "files"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/runs.db", "files": f"file://{tmp_path}/states"}
    with Limpet(url[request.param]) as opened:
        yield opened


class Gate:
    """Lets calls end when the test says so."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.forgotten: list[asyncio.Task[Any]] = []

    def forget(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.forgotten.append(task)
        return task


gates: list[Gate] = []


@tool
async def charge(item: str) -> str:
    executed[item] += 1
    return f"charged {item}"


@tool
async def slow(item: str) -> str:
    await gates[-1].opened.wait()
    executed[item] += 1
    return f"{item} at last"


async def late_of(run: Callable[[], Awaitable[Any]]) -> tuple[Any, list[Any], list[warnings.WarningMessage]]:
    """What a run gives, what the calls give that it has left behind, and what is warned of."""
    gate = Gate()
    gates.append(gate)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = await run()
        gate.opened.set()
        late = await asyncio.gather(*gate.forgotten, return_exceptions=True)
    return result, late, [each for each in caught if issubclass(each.category, LateCallWarning)]


async def in_a_task(item: str) -> str:
    return await slow(item)  # this line is named


@agent
async def forgets_a_task() -> str:
    first = await charge("a")
    gates[-1].forget(in_a_task("b"))
    await asyncio.sleep(0)
    return first


@agent
async def waits_with_a_timeout() -> str:
    first = await charge("a")
    await asyncio.wait([gates[-1].forget(in_a_task("b"))], timeout=0.001)
    return first


@agent
async def shields() -> str:
    first = await charge("a")
    try:
        await asyncio.wait_for(asyncio.shield(gates[-1].forget(in_a_task("b"))), 0.001)
    except TimeoutError:
        return first
    raise AssertionError("it was to be late")


@agent
async def in_an_agent(inner: str) -> str:
    first = {"forgets": forgets_a_task, "waits": waits_with_a_timeout, "shields": shields}[inner]
    return f"{await first()}, {await charge('c')}"


ALL = pytest.mark.parametrize("work", [forgets_a_task, waits_with_a_timeout, shields], ids=lambda work: work.name)


@ALL
def test_a_late_call_is_refused_in_its_task_and_warned_of_with_its_line(client: Limpet, work: Any) -> None:
    result, late, told = asyncio.run(late_of(lambda: client.run(work, state_id="x")))
    assert "charged a" == result
    assert [UsageError] == [type(each) for each in late]
    assert "Await every call and every task before the enclosing actor returns." in str(late[0])
    lines = Path(__file__).read_text().splitlines()
    assert {__file__} == {each.filename for each in told}
    assert {"this line is named"} == {lines[each.lineno - 1].partition("# ")[2] for each in told}


@ALL
def test_a_state_with_a_late_call_is_sound_and_gives_its_result(client: Limpet, work: Any) -> None:
    asyncio.run(late_of(lambda: client.run(work, state_id="x")))
    assert client.verify("x").is_sound
    assert f"{work.name}::task[in_a_task]::slow::tool_call" not in client.history("x").addresses()
    assert "charged a" == client.run_sync(work, state_id="x")
    assert {"a": 1, "b": 1} == executed


@pytest.mark.parametrize("inner", ["forgets", "waits", "shields"])
def test_a_run_goes_on_behind_a_late_call_of_an_agent_inside_it(client: Limpet, inner: str) -> None:
    result, late, told = asyncio.run(late_of(lambda: client.run(in_an_agent, inner, state_id="x")))
    assert "charged a, charged c" == result
    assert [UsageError] == [type(each) for each in late]
    assert told
    assert client.verify("x").is_sound
    assert result == client.run_sync(in_an_agent, inner, state_id="x")
    assert {"a": 1, "b": 1, "c": 1} == executed


@pytest.mark.parametrize("ending", [ExecutionStatus.CANCELLED, ExecutionStatus.COMPLETED])
def test_an_agent_that_has_ended_is_not_started_again_by_calls_that_it_left_behind(
    client: Limpet, ending: ExecutionStatus
) -> None:
    @agent
    async def asks() -> str:
        return await slow("b")

    @agent
    async def leaves() -> None:
        task = gates[-1].forget(asks())
        if ending is ExecutionStatus.CANCELLED:
            await asyncio.wait([task])  # Who is cancelled here does not cancel the task.
        await asyncio.sleep(0.001)  # The task begins meanwhile.

    @agent
    async def around() -> str:
        leaving = asyncio.create_task(leaves())
        await charge("a")
        if ending is ExecutionStatus.CANCELLED:
            leaving.cancel()
        await asyncio.wait([leaving])
        gates[-1].opened.set()
        await asyncio.wait(gates[-1].forgotten)
        return await charge("c")

    result, late, _ = asyncio.run(late_of(lambda: client.run(around, state_id="x")))
    assert ("charged c", [UsageError]) == (result, [type(each) for each in late])
    events = [each for each in client.history("x") if isinstance(each, EventRecord)]
    life = [each.status for each in events if each.address == "around::leaves::agent_call"]
    assert [ExecutionStatus.STARTED, ending] == life
    assert client.verify("x").is_sound
    assert {"a": 1, "b": 1, "c": 1} == executed


def test_a_call_that_a_shield_has_kept_is_recorded_while_its_agent_goes_on(client: Limpet) -> None:
    @agent
    async def comes_back() -> str:
        asking = asyncio.ensure_future(in_a_task("b"))
        try:
            return await asyncio.wait_for(asyncio.shield(asking), 0.001)
        except TimeoutError:
            gates[-1].opened.set()
            return await asking

    result, _, told = asyncio.run(late_of(lambda: client.run(comes_back, state_id="x")))
    assert ("b at last", []) == (result, told)
    assert "comes_back::task[in_a_task]::slow::tool_call" in client.history("x").addresses()


def test_a_call_that_is_made_after_its_agent_has_ended_is_refused(client: Limpet) -> None:
    async def makes_it_late() -> str:
        await gates[-1].opened.wait()
        return await charge("b")

    @agent
    async def leaves() -> str:
        gates[-1].forget(makes_it_late())
        return "left"

    result, late, _ = asyncio.run(late_of(lambda: client.run(leaves, state_id="x")))
    assert "left" == result
    assert "'charge' was called inside 'leaves' after that call had ended." in str(late[0])
    assert {} == executed


@ALL
def test_a_late_call_is_warned_of_once(client: Limpet, work: Any) -> None:
    _, _, told = asyncio.run(late_of(lambda: client.run(work, state_id="x")))
    assert 1 == len(told)


class Claimed(MemoryStateBackend):
    """Counts how often a state was claimed."""

    claims = 0

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        self.claims += len(claims)
        return super().acquire(claims)


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0.02, jitter=False))
async def unsure(item: str) -> str:
    executed[item] += 1
    raise ConnectionError(item)


@agent
async def begins_late(inner: str) -> str:
    gates[-1].forget({"tool": charge, "agent": forgets_a_task}[inner](*["b"] if inner == "tool" else []))
    return "left"


@agent
async def retries() -> str:
    gates[-1].forget(unsure("b"))
    return await charge("a")


@agent
async def goes_on() -> str:
    await charge("b")
    await gates[-1].opened.wait()
    return await charge("c")


@agent
async def forgets_an_agent() -> str:
    gates[-1].forget(goes_on())
    await asyncio.sleep(0.01)
    return await charge("a")


@agent
async def is_broken(work: str) -> str:
    await {"retries": retries, "forgets_an_agent": forgets_an_agent}[work]()
    raise ValueError("a bug")


@pytest.mark.parametrize("is_nested", [False, True])
@pytest.mark.parametrize("inner", ["tool", "agent"])
def test_a_call_that_has_not_begun_when_its_agent_ends_is_not_executed(
    client: Limpet, inner: str, is_nested: bool
) -> None:
    @agent
    async def around() -> str:
        return f"{await begins_late(inner)}, {await charge('c')}"

    work, args = (around, ()) if is_nested else (begins_late, (inner,))
    result, late, told = asyncio.run(late_of(lambda: client.run(work, *args, state_id="x")))
    assert result == client.run_sync(work, *args, state_id="x")
    assert ([UsageError], 1) == ([type(each) for each in late], len(told))
    assert ({"c": 1} if is_nested else {}) == executed
    assert client.verify("x").is_sound


@pytest.mark.parametrize("work", ["retries", "forgets_an_agent"])
@pytest.mark.parametrize("is_top", [False, True])
def test_what_a_run_has_left_behind_neither_takes_its_lease_again_nor_records(work: str, is_top: bool) -> None:
    backend = Claimed()
    client = Limpet(backend)

    async def run() -> None:
        if is_top:
            assert "charged a" == await client.run(globals()[work], state_id="x")
        else:
            with pytest.raises(ValueError, match="a bug"):
                await client.run(is_broken, work, state_id="x")
        before.append(len(client.history("x")))

    before: list[int] = []
    _, late, told = asyncio.run(late_of(run))
    assert ([UsageError], 1) == ([type(each) for each in late], len(told))
    assert (1, before) == (backend.claims, [len(client.history("x"))])
    assert {"a": 1, "b": 1} == executed
    assert client.verify("x").is_sound


@pytest.mark.parametrize("is_nested", [False, True])
def test_a_wait_that_is_left_behind_ends_with_its_agent(client: Limpet, is_nested: bool) -> None:
    @agent
    async def asks() -> str:
        gates[-1].forget(ask("May I?"))
        gates[-1].forget(wait_for_message("news"))
        return await charge("a")

    @agent
    async def around() -> str:
        return f"{await asks()}, {await charge('c')}"

    work = around if is_nested else asks
    result, late, _ = asyncio.run(asyncio.wait_for(late_of(lambda: client.run(work, state_id="x")), 20))
    assert [UsageError, UsageError] == [type(each) for each in late]
    assert result == client.run_sync(work, state_id="x")
    assert client.verify("x").is_sound


def test_a_call_of_unknown_outcome_that_is_left_behind_does_not_wait_for_ever(client: Limpet) -> None:
    is_killed = True

    @tool(once=True)
    async def pay() -> str:
        executed["pay"] += 1
        await gates[-1].opened.wait()
        return "paid"

    @tool
    async def look() -> str:
        await asyncio.sleep(0.01)
        if is_killed:
            raise KeyboardInterrupt
        return "looked"

    @agent
    async def forgets_a_payment() -> str:
        gates[-1].forget(pay())
        return await look()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(late_of(lambda: client.run(forgets_a_payment, state_id="x")))
    is_killed = False
    run = late_of(lambda: client.run(forgets_a_payment, state_id="x"))
    result, late, _ = asyncio.run(asyncio.wait_for(run, 20))
    assert ("looked", [True]) == (result, [isinstance(each, asyncio.CancelledError) for each in late])
    assert {"pay": 1} == executed
