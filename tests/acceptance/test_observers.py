"""Observers see what happens, and cannot hurt it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from pathlib import Path

import pytest

from limpet import (
    DriftWarning,
    EventBus,
    EventNotice,
    EventRecord,
    ExecutionEvent,
    ExecutionState,
    ExecutionStatus,
    Happened,
    Limpet,
    MemoryStateBackend,
    ReplayMode,
    RetryConfig,
    SQLiteStateBackend,
    StateBackend,
    agent,
    tool,
)

executions: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()


@tool
async def pay(amount: int) -> int:
    executions["pay"] += 1
    return amount


@agent
async def shop(count: int) -> int:
    return sum([await pay(amount) for amount in range(count)])


@agent
async def breaks() -> None:
    await pay(1)
    raise ValueError("broken")


def test_a_subscriber_sees_every_event_in_order() -> None:
    bus = EventBus()
    seen: list[EventNotice] = []
    bus.subscribe(seen.append)
    Limpet("memory://").run_sync(shop, 2, state_id="seen", event_bus=bus)
    assert bus.flush()
    assert [
        ("shop::agent_call", "started"),
        ("shop::pay::tool_call", "started"),
        ("shop::pay::tool_call", "completed"),
        ("shop::pay#2::tool_call", "started"),
        ("shop::pay#2::tool_call", "completed"),
        ("shop::agent_call", "completed"),
    ] == [(notice.address, notice.status) for notice in seen]
    assert {"seen"} == {notice["state_id"] for notice in seen}


def test_a_quick_subscriber_has_seen_an_event_when_its_call_returns() -> None:
    bus = EventBus()
    seen: list[str] = []
    bus.subscribe(lambda notice: seen.append(notice.status))
    bus.patience_s = 60.0  # However busy the machine is, a quick subscriber is quicker than this.
    counts: list[int] = []

    @agent
    async def counts_along() -> None:
        for amount in range(20):
            await pay(amount)
            counts.append(len(seen))

    Limpet("memory://").run_sync(counts_along, event_bus=bus)
    assert [1 + 2 * (number + 1) for number in range(20)] == counts


def test_a_subscriber_that_raises_changes_nothing_and_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    bus = EventBus()
    seen: list[EventNotice] = []

    def raises(notice: EventNotice) -> None:
        raise RuntimeError("subscriber")

    bus.subscribe(raises)
    bus.subscribe(seen.append)
    with caplog.at_level(logging.ERROR, "limpet.bus"):
        assert 3 == Limpet("memory://").run_sync(shop, 3, event_bus=bus)
        assert bus.flush()
    assert Counter(pay=3) == executions
    assert 8 == len(seen)
    assert 8 == len(caplog.records)


def test_a_subscriber_that_never_returns_does_not_hold_a_run_up() -> None:
    bus = EventBus()
    gate = threading.Event()
    bus.subscribe(lambda notice: gate.wait(60))
    try:
        assert 4950 == Limpet("memory://").run_sync(shop, 100, event_bus=bus)
        assert not bus.flush(0.0)
    finally:
        gate.set()
    assert Counter(pay=100) == executions


def test_the_time_given_to_slow_subscribers_adds_up_to_next_to_nothing() -> None:
    bus = EventBus()
    waits: list[float] = []

    def never(timeout_s: float = 5.0) -> bool:
        waits.append(timeout_s)
        return False

    bus.flush = never
    bus.subscribe(lambda notice: None)
    for _ in range(1000):
        bus.give_a_moment()
    assert sum(waits) <= 0.04


def test_async_subscribers_and_streams_run_on_their_loop() -> None:
    async def main() -> tuple[list[str], list[str]]:
        bus = EventBus()
        called: list[str] = []
        streamed: list[str] = []

        async def handler(notice: EventNotice) -> None:
            await asyncio.sleep(0)
            called.append(notice.status)

        async def follow() -> None:
            async for notice in bus.stream():
                streamed.append(notice.status)
                if notice.address == "shop::agent_call" and notice.status is ExecutionStatus.COMPLETED:
                    return

        bus.subscribe(handler, name="async")
        follower = asyncio.create_task(follow())
        await asyncio.sleep(0)
        await Limpet("memory://").run(shop, 1, event_bus=bus)
        await follower
        while len(called) < len(streamed):
            await asyncio.sleep(0)
        bus.unsubscribe("async")
        await asyncio.sleep(0)
        assert not bus.is_heard
        return called, streamed

    called, streamed = asyncio.run(main())
    assert ["started", "started", "completed", "completed"] == called == streamed


def test_an_async_subscriber_that_raises_is_reported_and_called_again(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> int:
        bus = EventBus()
        called: list[EventNotice] = []

        async def handler(notice: EventNotice) -> None:
            called.append(notice)
            raise RuntimeError("subscriber")

        bus.subscribe(handler, name="async")
        await Limpet("memory://").run(shop, 1, event_bus=bus)
        while len(called) < 4:
            await asyncio.sleep(0)
        bus.unsubscribe("async")
        await asyncio.sleep(0)
        return len(called)

    with caplog.at_level(logging.ERROR, "limpet.bus"):
        assert 4 == asyncio.run(main())
    assert 4 == len(caplog.records)


def test_failures_and_cancellations_are_told() -> None:
    bus = EventBus()
    seen: list[EventNotice] = []
    bus.subscribe(seen.append)
    with pytest.raises(ValueError, match="broken"):
        Limpet("memory://").run_sync(breaks, event_bus=bus)
    assert bus.flush()
    assert "ValueError: broken" == seen[-1].original_error
    assert ExecutionStatus.FAILED is seen[-1].status

    @agent
    async def cancelled() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hangs(), 0.01)

    @tool
    async def hangs() -> None:
        await asyncio.Event().wait()

    Limpet("memory://").run_sync(cancelled, event_bus=bus)
    assert bus.flush()
    assert ExecutionStatus.CANCELLED in [notice.status for notice in seen]


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> StateBackend:
    return MemoryStateBackend() if request.param == "memory" else SQLiteStateBackend(tmp_path / "runs.db")


def recorded(store: StateBackend, state_id: str, *statuses: ExecutionStatus) -> Counter[tuple[str, str, int]]:
    """The outcomes in the journal, by address and attempt."""
    records = [record for record in Limpet(store).history(state_id) if isinstance(record, EventRecord)]
    return Counter((each.address, each.status, each.attempt) for each in records if each.status in statuses)


def told(seen: list[EventNotice], *statuses: ExecutionStatus) -> Counter[tuple[str, str, int]]:
    return Counter((each.address, each.status, each.attempt) for each in seen if each.status in statuses)


def test_what_was_recorded_of_a_run_that_is_cancelled_from_outside_is_told(store: StateBackend) -> None:
    seen: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(seen.append)

    @tool
    async def load(number: int) -> int:
        if number == 3:
            # The others are recorded, and wait for each other: their code is given one result after the other.
            running.cancel()
        return number

    @agent
    async def load_all() -> list[int]:
        return await asyncio.gather(*map(load, range(5)))

    async def main() -> None:
        nonlocal running
        running = asyncio.create_task(Limpet(store).run(load_all, state_id="loads", event_bus=bus))
        with pytest.raises(asyncio.CancelledError):
            await running

    running: asyncio.Task[list[int]]
    asyncio.run(main())
    assert [0, 1, 2, 3, 4] == Limpet(store).run_sync(load_all, state_id="loads", event_bus=bus)
    assert bus.flush()
    assert recorded(store, "loads", ExecutionStatus.COMPLETED) == told(seen, ExecutionStatus.COMPLETED)


def test_an_attempt_that_is_cut_off_before_it_begins_is_told_with_its_number(store: StateBackend) -> None:
    seen: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(seen.append)

    @tool(retry_config=RetryConfig(max_attempts=3, initial_delay=60))
    async def is_down() -> None:
        failed.set()
        raise ConnectionError("down")

    @tool
    async def quick() -> str:
        await failed.wait()
        return "quick"

    @agent
    async def race() -> str:
        slow, fast = asyncio.create_task(is_down()), asyncio.create_task(quick())
        await asyncio.wait((slow, fast), return_when=asyncio.FIRST_COMPLETED)
        if is_killed:
            raise KeyboardInterrupt
        slow.cancel()
        await asyncio.wait((slow,))
        return await fast

    failed, is_killed = asyncio.Event(), True
    with pytest.raises(KeyboardInterrupt):
        Limpet(store).run_sync(race, state_id="race")
    is_killed = False
    assert "quick" == Limpet(store).run_sync(race, state_id="race", event_bus=bus)
    assert bus.flush()
    outcomes = [(each.status, each.attempt) for each in seen if "is_down" in each.address]
    assert [("cancelled", 2)] == outcomes
    assert recorded(store, "race", ExecutionStatus.CANCELLED) == told(seen, ExecutionStatus.CANCELLED)


def test_a_result_that_a_probe_has_found_is_told() -> None:
    store = MemoryStateBackend()
    seen: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(seen.append)

    @tool(once=True, probe=lambda *_: Happened("receipt"))
    async def send() -> str:
        raise KeyboardInterrupt

    @agent
    async def order() -> str:
        return await send()

    with pytest.raises(KeyboardInterrupt):
        Limpet(store).run_sync(order, state_id="order")
    assert "receipt" == Limpet(store).run_sync(order, state_id="order", event_bus=bus)
    assert bus.flush()
    assert ("order::send::tool_call", "completed") in [(notice.address, notice.status) for notice in seen]


def test_only_what_is_new_is_published_unless_all_is_asked_for() -> None:
    backend = MemoryStateBackend()

    async def event(state: ExecutionState, number: int) -> None:
        await ExecutionEvent(pay)(number, None, state)

    async def main(mode: ReplayMode) -> list[tuple[str, bool]]:
        seen: list[EventNotice] = []
        state = ExecutionState.load_from_state_id("published", backend, replay_mode=mode)
        state.event_bus.subscribe(seen.append)
        await event(state, 1)
        await event(state, 2)
        assert state.event_bus.flush()
        return [(notice.status, notice.is_replayed) for notice in seen]

    asyncio.run(event(ExecutionState(state_backend=backend, state_id="published"), 1))
    assert [("recovered", True), ("started", False), ("completed", False)] == asyncio.run(
        main(ReplayMode.REPUBLISH_ALL)
    )
    assert [] == asyncio.run(main(ReplayMode.NORMAL))


def test_drift_is_told_to_observers() -> None:
    backend = MemoryStateBackend()
    seen: list[EventNotice] = []

    async def main(number: int) -> ExecutionEvent:
        state = (
            ExecutionState.load_from_state_id("drift", backend)
            if backend.find_state("drift")
            else ExecutionState(state_backend=backend, state_id="drift")
        )
        state.event_bus.subscribe(seen.append)
        event = ExecutionEvent(pay)
        await event(number, None, state)
        assert state.event_bus.flush()
        return event

    asyncio.run(main(1))
    seen.clear()
    with pytest.warns(DriftWarning):
        event = asyncio.run(main(2))
    assert "its input changed" == event.drift == seen[0].drift


def test_subscribers_have_names_and_can_be_replaced_and_removed() -> None:
    bus = EventBus()
    seen: list[str] = []

    def first(notice: EventNotice) -> None:
        seen.append("first")

    assert "log" == bus.subscribe(first, name="log")
    bus.subscribe(lambda notice: seen.append("second"), name="log")
    bus.publish(EventNotice(state_id="s", address="a", status=ExecutionStatus.STARTED))
    assert bus.flush()
    assert ["second"] == seen
    bus.unsubscribe("log")
    bus.subscribe(first)
    bus.unsubscribe(first)
    bus.unsubscribe("nobody")
    assert not bus.is_heard
