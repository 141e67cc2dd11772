"""Time and messages are waited for without a process: what is due, and what has come, is kept with the state."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    Awaiting,
    AwaitingAnswer,
    DeadlinePassed,
    EventFailed,
    EventRecord,
    ExecutionInterrupted,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    StateBackend,
    StateStatus,
    UnknownState,
    UsageError,
    agent,
    ask,
    sleep,
    sleep_until,
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


@pytest.fixture
def clock() -> Iterator[Turned]:
    with turned_clock() as clock:
        yield clock


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@agent
async def rests(seconds: float) -> str:
    await step("before")
    await sleep(timedelta(seconds=seconds))
    return await step("after")


def records_of(client: Limpet, kind: str) -> list[EventRecord]:
    return [
        record
        for record in client.history("w")
        if isinstance(record, EventRecord) and record.address.endswith(f"::{kind}")
    ]


def waits(client: Limpet, run: Any, *args: Any, **options: Any) -> Awaiting:
    with pytest.raises(Awaiting) as awaiting:
        client.run_sync(run, *args, state_id="w", **options)
    return awaiting.value


def test_a_short_sleep_is_waited_for_in_memory(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    assert "after" == client.run_sync(rests, 0.05, state_id="w")
    waited, done = records_of(client, "timer")
    assert (ExecutionStatus.AWAITING, ExecutionStatus.COMPLETED) == (waited.status, done.status)
    assert waited.details is not None
    assert done.at >= waited.details.due_at


def test_a_long_sleep_leaves_memory_and_its_end_is_recorded_once(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    awaiting = waits(Limpet(reopen()), rests, 3600.0)
    assert not isinstance(awaiting, AwaitingAnswer)
    assert "UTC" in str(awaiting)
    client = Limpet(reopen())
    (waited,) = records_of(client, "timer")
    assert StateStatus.AWAITING is client.show("w").header.status
    clock.turn(1800)
    waits(Limpet(reopen()), rests, 3600.0)
    assert [waited] == records_of(client, "timer")
    clock.turn(1801)
    assert "after" == Limpet(reopen()).run_sync(rests, 3600.0, state_id="w")
    assert {"before": 1, "after": 1} == executions


def test_how_long_a_run_stays_for_a_time_can_be_said(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    waits(client, rests, 0.5, patience_s=0)
    assert "after" == client.run_sync(rests, 0.5, state_id="w", patience_s=1)
    with pytest.raises(UsageError, match="patience"):
        client.run_sync(rests, 0.5, state_id="x", patience_s=-1)


@agent
async def until() -> str:
    await sleep_until(switch["moment"])
    return "there"


def test_a_moment_is_waited_for(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    switch["moment"] = datetime.now(UTC) + timedelta(days=400)
    waits(client, until)
    clock.turn(400 * 86_400)
    assert "there" == client.run_sync(until, state_id="w")
    assert "there" == client.run_sync(until, state_id="past-is-over", on_drift="error")


def test_a_moment_in_the_past_is_over() -> None:
    switch["moment"] = datetime(2020, 1, 1, tzinfo=UTC)
    assert "there" == Limpet(MemoryStateBackend()).run_sync(until)


@agent
async def both() -> Any:
    async def rested() -> str:
        await sleep(0.1)
        return await step("rested")

    return await asyncio.gather(ask("Sure?", bool), rested())


def test_a_run_stays_for_a_near_time_and_leaves_with_the_question_that_is_left() -> None:
    client = Limpet(MemoryStateBackend())
    awaiting = waits(client, both)
    assert isinstance(awaiting, AwaitingAnswer)
    assert {"rested": 1} == executions
    client.answer("w", True)
    assert [True, "rested"] == client.run_sync(both, state_id="w")
    assert {"rested": 1} == executions


def test_a_time_that_code_gives_its_tasks_is_waited_for_in_memory() -> None:
    @agent
    async def impatient() -> bool:
        asking = asyncio.create_task(ask("Sure?", bool))
        done, _ = await asyncio.wait((asking,), timeout=0.05)
        asking.cancel()
        return asking in done

    assert Limpet(MemoryStateBackend()).run_sync(impatient, state_id="w") is False


@pytest.mark.parametrize("duration", [-1, float("inf"), float("nan"), "1", None])
def test_nobody_sleeps_for_what_is_no_time(duration: Any) -> None:
    @agent
    async def badly() -> None:
        await sleep(duration)

    with pytest.raises(UsageError, match="cannot sleep"):
        Limpet(MemoryStateBackend()).run_sync(badly)


@agent
async def receives(count: int) -> list[Any]:
    return [await wait_for_message("news", int) for _ in range(count)]


def test_messages_are_given_once_and_in_their_order_whenever_they_came(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    awaiting = waits(client, receives, 3)
    assert "a message about 'news'" in str(awaiting)
    client.send("w", "other", 0)
    client.send("w", "news", 1)
    client.send("w", "news", 2)
    waits(Limpet(reopen()), receives, 3)
    client.send("w", "news", 3, key="third")
    client.send("w", "news", 3, key="third")
    assert [1, 2, 3] == Limpet(reopen()).run_sync(receives, 3, state_id="w")
    assert [1, 2, 3] == Limpet(reopen()).run_sync(receives, 3, state_id="w")


def test_a_run_in_memory_gets_a_message_from_another_store_object(reopen: Callable[[], StateBackend]) -> None:
    client, elsewhere = Limpet(reopen()), Limpet(reopen())

    @agent
    async def stays() -> Any:
        return await asyncio.gather(wait_for_message("news", str), sleep(20))

    async def main() -> None:
        running = asyncio.create_task(client.run(stays, state_id="w"))
        while not elsewhere.backend.list_states():
            await asyncio.sleep(0.01)
        elsewhere.send("w", "news", "here")
        while not any(record.status is ExecutionStatus.COMPLETED for record in records_of(elsewhere, "message")):
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises((asyncio.CancelledError, ExecutionInterrupted)):
            await running

    asyncio.run(main())


def test_on_a_new_timeline_messages_are_given_again(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    waits(client, receives, 2)
    client.send("w", "news", 1)
    client.send("w", "news", 2)
    assert [1, 2] == client.run_sync(receives, 2, state_id="w")
    assert [1, 2] == asyncio.run(client.rerun("w", "message[news]", agent=receives))


@agent
async def in_time() -> Any:
    return await wait_for_message("news", int, deadline=timedelta(hours=1), **switch)


def test_a_message_that_does_not_come_in_time(reopen: Callable[[], StateBackend], clock: Turned) -> None:
    waits(Limpet(reopen()), in_time)
    clock.turn(3601)
    with pytest.raises(DeadlinePassed):
        Limpet(reopen()).run_sync(in_time, state_id="w")


def test_a_message_that_does_not_come_in_time_may_have_a_default(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    switch["default"] = 0
    waits(client, in_time)
    clock.turn(3601)
    assert 0 == client.run_sync(in_time, state_id="w")


def test_a_message_that_does_not_fit_fails_where_it_is_waited_for_and_is_gone() -> None:
    client = Limpet(MemoryStateBackend())
    waits(client, receives, 1)
    client.send("w", "news", "no number")
    with pytest.raises(EventFailed, match="does not fit"):
        client.run_sync(receives, 1, state_id="w")
    client.send("w", "news", 4)
    assert [4] == client.run_sync(receives, 1, state_id="w")


def test_what_cannot_be_sent_says_why() -> None:
    client = Limpet(MemoryStateBackend())
    with pytest.raises(UnknownState):
        client.send("w", "news", 1)
    waits(client, receives, 1)
    for topic in ("", "a:b", "a\n", "x" * 101, 3):
        with pytest.raises(UsageError, match="topic"):
            client.send("w", topic, 1)  # pyright: ignore[reportArgumentType]  # that is what is refused
    client.send("w", "news", 1, key="k")
    with pytest.raises(UsageError, match="with the key 'k'"):
        client.send("w", "news", 2, key="k")
    client.run_sync(receives, 1, state_id="w")
    with pytest.raises(UsageError, match="waits for no message"):
        client.send("w", "news", 1)


@agent
async def first_of_two() -> str:
    asked = asyncio.create_task(wait_for_message("never"))
    rested = asyncio.create_task(sleep(0.01))
    done, left = await asyncio.wait((asked, rested), return_when=asyncio.FIRST_COMPLETED)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    await sleep(0.3)  # So long that what is waited for is noted in the header.
    return f"{len(done)} of 2"


def test_what_code_no_longer_waits_for_is_not_waited_for(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())
    assert "1 of 2" == client.run_sync(first_of_two, state_id="w")
    assert {} == client.show("w").header.metadata.waiting
    assert ExecutionStatus.CANCELLED is records_of(client, "message")[-1].status


def test_a_run_that_waits_can_be_interrupted() -> None:
    client = Limpet(MemoryStateBackend())

    async def main() -> None:
        running = asyncio.create_task(client.run(rests, 25.0, state_id="w"))
        while not client.backend.list_states() or not records_of(client, "timer"):
            await asyncio.sleep(0.01)
        assert client.interrupt("w")
        with pytest.raises(ExecutionInterrupted):
            await running

    asyncio.run(main())
    assert StateStatus.INTERRUPTED is client.show("w").header.status
    waits(client, rests, 25.0, patience_s=1)
