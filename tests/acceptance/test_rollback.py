"""Undoing what a run has done that did not complete: all of it, in reverse, durably, and each thing once."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    EventBus,
    EventNotice,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    Happened,
    LeaseHeld,
    Limpet,
    MemoryStateBackend,
    OnceAgain,
    OutcomeUnknown,
    RetryConfig,
    RolledBack,
    StateBackend,
    StateStatus,
    Tool,
    UnknownState,
    UsageError,
    agent,
    current_event,
    tool,
)
from limpet.testing import CrashingBackend, SimulatedCrash

executed: list[str] = []
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    switch.clear()


def die_here(name: str) -> None:
    """The process dies, if it is to die at this place."""
    dying = switch.pop(name, None)
    if dying is not None:
        dying.is_stopped = True
        raise SimulatedCrash


async def stop_here(name: str) -> None:
    if switch.get(f"{name} waits"):
        executed.append(f"waiting in {name}")
        await asyncio.sleep(3600)
    if error := switch.get(f"{name} fails"):
        raise error


@tool
async def release(item: str, result: str) -> None:
    await stop_here(f"release {item}")
    executed.append(f"release {item} ({result})")
    die_here(f"release {item}")


@tool(undo=release)
async def set_aside(item: str) -> str:
    executed.append(f"set_aside {item}")
    return f"place of {item}"


def refund(item: str, amount: int) -> None:
    executed.append(f"refund {item} {amount}")
    die_here(f"refund {item}")


@tool(undo=refund)
async def bill(item: str, amount: int = 10) -> str:
    executed.append(f"bill {item} {amount}")
    return "receipt"


@tool
async def look_up(item: str) -> str:
    executed.append(f"look up {item}")
    return item


@tool
async def ship(item: str) -> str:
    executed.append(f"ship {item}")
    die_here("ship")
    await stop_here("ship")
    return f"shipped {item}"


@agent
async def buy(item: str) -> str:
    await look_up(item)
    await set_aside(item)
    await bill(item, 7)
    return await ship(item)


DONE = ["look up kelp", "set_aside kelp", "bill kelp 7", "ship kelp"]
UNDONE = ["refund kelp 7", "release kelp (place of kelp)"]
ADDRESSES = ["buy::bill::tool_call", "buy::set_aside::tool_call"]
ROLLBACK = "rollback[buy]::agent_call"


def failed(client: Limpet, actor: Any = buy, *args: Any, state_id: str = "b") -> None:
    """Run an agent that fails when it comes to shipping, and see what it has executed."""
    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(actor, *(args or ("kelp",)), state_id=state_id)
    assert StateStatus.FAILED is client.show(state_id).header.status


def roll_back(client: Limpet, state_id: str = "b", **options: Any) -> list[str]:
    """Roll a state back, and give what was executed for it."""
    before = len(executed)
    asyncio.run(client.roll_back(state_id, **options))
    return executed[before:]


def must_not_go_on(client: Limpet, state_id: str = "b", actor: Any = buy, *args: Any) -> None:
    """See to it that no verb gives the results again that were undone."""
    before = list(executed)
    header = client.show(state_id).header
    with pytest.raises(RolledBack, match=state_id):
        client.run_sync(actor, *(args or ("kelp",)), state_id=state_id)
    with pytest.raises(RolledBack):
        asyncio.run(client.resume(state_id, agent=actor))
    with pytest.raises(RolledBack):
        asyncio.run(client.rerun(state_id, at=ADDRESSES[0], agent=actor))
    with pytest.raises(RolledBack):
        client.fork(state_id)
    with pytest.raises(RolledBack):
        client.fork(state_id, at=ADDRESSES[0])
    assert before == executed
    after = client.show(state_id).header
    assert (header.status, header.position, None) == (after.status, after.position, after.holder)


# What is undone, and in what order.


def test_what_a_failed_run_has_done_is_undone_from_the_newest_to_the_oldest(client: Limpet) -> None:
    failed(client)
    assert DONE == executed
    assert ADDRESSES == asyncio.run(client.roll_back("b"))
    assert DONE + UNDONE == executed
    header = client.show("b").header
    assert (StateStatus.FAILED, None, "rolled_back") == (
        header.status,
        header.holder,
        header.metadata.stopped["reason"],
    )
    must_not_go_on(client)


def test_what_undoes_a_call_is_recorded_with_its_result(client: Limpet) -> None:
    failed(client)
    history = client.history("b")
    undo = {address: record.details for address in history.addresses() if (record := history[address])}
    assert {"buy::set_aside::tool_call": "release", "buy::bill::tool_call": "refund"} == {
        address: details.undo for address, details in undo.items() if details is not None and details.undo
    }


def test_the_undoing_is_recorded_like_other_work(client: Limpet) -> None:
    notices: list[EventNotice] = []

    async def main() -> None:
        bus = EventBus()
        bus.subscribe(notices.append)
        await client.roll_back("b", event_bus=bus)

    failed(client)
    asyncio.run(main())
    found = [address for address in client.history("b").addresses() if address.startswith("rollback")]
    assert [ROLLBACK, "rollback[buy]::refund", "rollback[buy]::release"] == [
        address if address == ROLLBACK else address[: address.index("[", 10)] for address in found
    ]
    assert {ExecutionStatus.COMPLETED} == {client.history("b")[address].status for address in found}
    assert set(found) == {notice.address for notice in notices}


def test_an_interrupted_run_is_rolled_back(client: Limpet) -> None:
    switch["ship waits"] = True
    with pytest.raises(ExecutionInterrupted):
        client.run_sync(buy, "kelp", state_id="b", timeout_s=0.2)
    assert UNDONE == roll_back(client)
    must_not_go_on(client)


def dies(backend: StateBackend, actor: Any = buy, *args: Any, inside: str = "ship", state_id: str = "b") -> Limpet:
    """Run until the process dies inside a call."""
    crashing = CrashingBackend(backend)
    switch[inside] = crashing
    with pytest.raises(SimulatedCrash):
        Limpet(crashing).run_sync(actor, *(args or ("kelp",)), state_id=state_id)
    return Limpet(backend)


def test_a_run_whose_process_died_is_rolled_back(backend: StateBackend) -> None:
    client = dies(backend)
    assert StateStatus.RUNNING is client.show("b").header.status
    assert UNDONE == roll_back(client)
    must_not_go_on(client)


def test_a_run_that_has_done_nothing_that_is_undone_is_rolled_back_as_well(client: Limpet) -> None:
    @agent
    async def only_looks(item: str) -> str:
        return await ship(await look_up(item))

    failed(client, only_looks)
    assert [] == asyncio.run(client.roll_back("b"))
    with pytest.raises(RolledBack):
        client.run_sync(only_looks, "kelp", state_id="b")


def test_calls_that_failed_or_were_cut_off_are_not_undone(client: Limpet) -> None:
    @tool(undo=refund, retry_config=RetryConfig(enabled=False))
    async def tries(item: str, amount: int) -> str:
        executed.append(f"try {item}")
        if amount == 1:
            raise LookupError(item)
        await asyncio.sleep(3600)
        return item

    @agent
    async def tries_all() -> str:
        await set_aside("kelp")
        with pytest.raises(LookupError):
            await tries("fails", 1)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await tries("takes long", 2)
        return await ship("kelp")

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(tries_all, state_id="b")
    assert ["release kelp (place of kelp)"] == roll_back(client)


def test_results_are_undone_in_the_reverse_order_of_their_ends(client: Limpet) -> None:
    @tool(undo=refund)
    async def slowly(item: str, amount: int) -> str:
        for _ in range(amount):
            await asyncio.sleep(0.02)
        return item

    @agent
    async def department(items: list[str]) -> None:
        await asyncio.gather(*(slowly(item, len(items) - number) for number, item in enumerate(items)))

    @agent
    async def buys_all() -> str:
        await set_aside("first")
        await department(["a", "b", "c"])
        await set_aside("last")
        return await ship("kelp")

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(buys_all, state_id="b")
    assert [
        "release last (place of last)",
        "refund a 3",
        "refund b 2",
        "refund c 1",
        "release first (place of first)",
    ] == roll_back(client)


def test_the_same_call_made_often_is_undone_as_often(client: Limpet) -> None:
    @agent
    async def buys_many() -> str:
        for number in range(3):
            await bill("kelp", number)
        await bill.options(key="page::2 [x]")("dulse", 9)
        return await ship("kelp")

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(buys_many, state_id="b")
    assert ["refund dulse 9", "refund kelp 2", "refund kelp 1", "refund kelp 0"] == roll_back(client)
    assert [] == roll_back(client)


# How it is declared.


def plain(item: str) -> None:
    executed.append(f"undo {item}")


def plain_with_result(item: str, result: str) -> None:
    executed.append(f"undo {item} ({result})")


async def awaited(item: str) -> None:
    await asyncio.sleep(0)
    plain(item)


async def awaited_with_result(item: str, *, result: str) -> None:
    await asyncio.sleep(0)
    plain_with_result(item, result)


class Undoes:
    def __call__(self, item: str, result: str) -> None:
        plain_with_result(item, result)


UNDO: dict[str, tuple[Any, str, str]] = {
    "a plain function": (plain, "undo kelp", "plain"),
    "a plain function with the result": (plain_with_result, "undo kelp (did kelp)", "plain_with_result"),
    "an async function": (awaited, "undo kelp", "awaited"),
    "an async function with the result": (awaited_with_result, "undo kelp (did kelp)", "awaited_with_result"),
    "a tool": (tool(plain), "undo kelp", "plain"),
    "a tool with the result": (tool(plain_with_result), "undo kelp (did kelp)", "plain_with_result"),
    "an async tool": (tool(awaited), "undo kelp", "awaited"),
    "a named tool": (tool(name="take back")(awaited_with_result), "undo kelp (did kelp)", "take back"),
    "an agent": (agent(name="undoing")(awaited_with_result), "undo kelp (did kelp)", "undoing"),
    "an object that can be called": (Undoes(), "undo kelp (did kelp)", "Undoes"),
}


@pytest.mark.parametrize("kind", UNDO)
def test_anything_that_can_be_called_undoes(client: Limpet, kind: str) -> None:
    undo, expected, name = UNDO[kind]

    @tool(undo=undo)
    async def does(item: str) -> str:
        return f"did {item}"

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    details = client.history("b")["goes::does::tool_call"].details
    assert details is not None
    assert name == details.undo
    assert [expected] == roll_back(client)
    assert [] == roll_back(client)


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_plain_tool_is_undone_as_well(client: Limpet, is_plain: bool) -> None:
    @tool(undo=plain_with_result)
    def does(item: str) -> str:
        return f"did {item}"

    @agent
    def goes_plainly() -> str:
        return ship.call(does.call("kelp"))

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes_plainly if is_plain else goes, state_id="b")
    assert ["undo kelp (did kelp)"] == roll_back(client)


@pytest.mark.parametrize("kind", UNDO)
def test_a_tool_of_the_class_form_is_undone_with_its_input(client: Limpet, kind: str) -> None:
    undo, expected, _ = UNDO[kind]

    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        return f"did {data}"

    does = Tool(name="does", handler=handler, undo=undo)

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    assert [expected] == roll_back(client)


def test_a_tool_of_the_class_form_undoes_with_the_input_and_the_state(client: Limpet) -> None:
    async def undoes(data: str, context: Any, state: ExecutionState) -> None:
        executed.append(f"undo {data} in {state.state_id}")

    undoing = Tool(name="undoing", handler=undoes)

    @tool(undo=undoing)
    async def does(item: str) -> str:
        return f"did {item}"

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    assert ["undo kelp in b"] == roll_back(client)


@dataclass
class Order:
    item: str
    pages: list[str]


def test_what_undoes_is_given_the_arguments_and_the_result_as_recorded(client: Limpet) -> None:
    given: list[Any] = []

    def undo(*args: Any, **kwargs: Any) -> None:
        given.append((args, kwargs))

    def undo_with_result(order: Order, *rest: int, currency: str, result: Order) -> None:
        given.append((order, rest, currency, result))

    @tool(undo=undo)
    async def first(order: Order, *rest: int, currency: str, note: str = "none") -> Order:
        return Order("other", order.pages)

    @tool(undo=undo_with_result)
    async def second(order: Order, *rest: int, currency: str) -> Order:
        order.item = "changed afterwards"
        return Order("result", order.pages)

    large = ["long " * 50_000]

    @agent
    async def goes() -> str:
        await first(Order("kelp", []), 1, 2, currency="EUR")
        found = await second(Order("dulse", large), 3, currency="SEK")
        found.item = "changed afterwards"
        return await ship("kelp")

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    roll_back(client)
    assert (Order("dulse", large), (3,), "SEK", Order("result", large)) == given[0]
    assert (Order("kelp", []), 1, 2) == given[1][0]
    assert "EUR" == given[1][1]["currency"]


def test_what_undoes_is_a_call_of_its_own_with_a_key(client: Limpet) -> None:
    events: list[Any] = []

    def undo() -> None:
        events.append(current_event())

    @tool(undo=undo)
    async def does() -> None:
        events.append(current_event())

    @agent
    async def goes() -> str:
        await does()
        return await ship("kelp")

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    roll_back(client)
    assert events[1].address.startswith("rollback[goes]::undo[")
    assert events[0].idempotency_key != events[1].idempotency_key


def test_what_undoes_may_call_other_tools(client: Limpet) -> None:
    async def undo(item: str) -> None:
        executed.append(f"undone by {await look_up(item)}")

    @tool(undo=undo)
    async def does(item: str) -> str:
        return item

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    assert ["look up kelp", "undone by kelp"] == roll_back(client)


# Stopped and asked for again.


def counted_writes() -> int:
    """How many writes a rollback makes that nothing disturbs."""
    backend = MemoryStateBackend()
    failed(Limpet(backend))
    counting = CrashingBackend(backend)
    asyncio.run(Limpet(counting).roll_back("b"))
    executed.clear()
    return counting.writes


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rollback_that_is_stopped_at_any_write_undoes_everything_in_the_end(when: Any) -> None:
    for stop_at in range(1, counted_writes() + 1):
        backend = MemoryStateBackend()
        client = Limpet(backend)
        failed(client)
        executed.clear()
        with pytest.raises(SimulatedCrash):
            asyncio.run(Limpet(CrashingBackend(backend, stop_at, when)).roll_back("b"))
        recorded = [
            record.address
            for record in client.history("b").get_event_list()
            if record.status is ExecutionStatus.COMPLETED and record.address.startswith("rollback")
        ]
        before = list(executed)
        assert ADDRESSES == asyncio.run(client.roll_back("b"))
        times = Counter(executed)
        assert set(UNDONE) == set(times)
        assert executed[-1:] == UNDONE[-1:]
        for name, undo in (("bill", UNDONE[0]), ("set_aside", UNDONE[1])):
            if any(name in address for address in recorded):
                assert 1 == times[undo]
            assert times[undo] <= 1 + before.count(undo)
        must_not_go_on(client)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_does_not_go_on_when_anything_of_it_was_undone_wherever_the_rollback_was_stopped(when: Any) -> None:
    for stop_at in range(1, counted_writes() + 1):
        backend = MemoryStateBackend()
        client = Limpet(backend)
        failed(client)
        executed.clear()
        with pytest.raises(SimulatedCrash):
            asyncio.run(Limpet(CrashingBackend(backend, stop_at, when)).roll_back("b"))
        if executed:
            must_not_go_on(client)


def test_a_rollback_whose_process_died_inside_an_undo_goes_on(backend: StateBackend) -> None:
    failed(Limpet(backend))
    crashing = CrashingBackend(backend)
    switch["refund kelp"] = crashing
    with pytest.raises(SimulatedCrash):
        asyncio.run(Limpet(crashing).roll_back("b"))
    client = Limpet(backend)
    must_not_go_on(client)
    assert UNDONE == roll_back(client)


@pytest.mark.parametrize("stop", ["cancel", "interrupt"])
def test_a_rollback_that_was_stopped_goes_on_when_it_is_asked_for_again(client: Limpet, stop: str) -> None:
    async def main() -> None:
        running = asyncio.create_task(client.roll_back("b"))
        async with asyncio.timeout(20):
            while "waiting in release kelp" not in executed:
                await asyncio.sleep(0)
        if stop == "cancel":
            running.cancel()
        else:
            assert client.interrupt("b")
        with pytest.raises((ExecutionInterrupted, asyncio.CancelledError)):
            await running

    failed(client)
    executed.clear()
    switch["release kelp waits"] = True
    asyncio.run(main())
    assert StateStatus.INTERRUPTED is client.show("b").header.status
    switch.clear()
    must_not_go_on(client)
    assert [UNDONE[1]] == roll_back(client)
    assert [] == roll_back(client)
    assert StateStatus.FAILED is client.show("b").header.status
    must_not_go_on(client)


def test_an_undo_that_fails_is_raised_and_tried_again_when_it_is_asked_for_again(client: Limpet) -> None:
    failed(client)
    executed.clear()
    switch["release kelp fails"] = LookupError("no such place")
    for _ in range(2):
        with pytest.raises(LookupError, match="no such place"):
            asyncio.run(client.roll_back("b"))
        header = client.show("b").header
        assert (StateStatus.FAILED, None) == (header.status, header.holder)
        must_not_go_on(client)
    assert [UNDONE[0]] == executed
    switch.clear()
    assert [UNDONE[1]] == roll_back(client)
    assert [] == roll_back(client)


def test_an_undo_is_retried_as_it_is_configured(client: Limpet) -> None:
    @tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0))
    async def undo(item: str) -> None:
        executed.append(f"try {current_event().attempt}")
        if current_event().attempt < 3:
            raise ConnectionError("no answer")

    @tool(undo=undo)
    async def does(item: str) -> str:
        return item

    @agent
    async def goes() -> str:
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(goes, state_id="b")
    assert ["try 1", "try 2", "try 3"] == roll_back(client)


def test_an_undo_that_is_declared_once_is_not_executed_twice_without_a_word(backend: StateBackend) -> None:
    @tool(once=True)
    async def undo(item: str) -> str:
        executed.append(f"undo {item}")
        die_here("undo")
        return "undone"

    @tool(undo=undo)
    async def does(item: str) -> str:
        return item

    @agent
    async def goes() -> str:
        await set_aside("kelp")
        return await ship(await does("kelp"))

    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        Limpet(backend).run_sync(goes, state_id="b")
    crashing = CrashingBackend(backend)
    switch["undo"] = crashing
    with pytest.raises(SimulatedCrash):
        asyncio.run(Limpet(crashing).roll_back("b"))
    client = Limpet(backend)
    for _ in range(2):
        with pytest.raises(OutcomeUnknown):
            asyncio.run(client.roll_back("b"))
    assert 1 == executed.count("undo kelp")
    assert client.settle("b", happened="undone").startswith("rollback[goes]::undo[")
    assert ["release kelp (place of kelp)"] == roll_back(client)
    with pytest.raises(RolledBack):
        client.run_sync(goes, state_id="b")


def test_rolling_back_twice_at_once_undoes_everything_once(client: Limpet) -> None:
    async def main() -> list[Any]:
        return await asyncio.gather(*(client.roll_back("b") for _ in range(3)), return_exceptions=True)

    failed(client)
    executed.clear()
    found = asyncio.run(main())
    assert ADDRESSES in found
    assert {ADDRESSES[0], LeaseHeld} >= {each[0] if isinstance(each, list) else type(each) for each in found}
    assert UNDONE == executed


def test_a_rollback_that_is_under_way_keeps_others_out(client: Limpet) -> None:
    async def main() -> None:
        running = asyncio.create_task(client.roll_back("b"))
        async with asyncio.timeout(20):
            while "waiting in release kelp" not in executed:
                await asyncio.sleep(0)
        with pytest.raises(LeaseHeld):
            await client.run(buy, "kelp", state_id="b")
        with pytest.raises(LeaseHeld):
            await client.roll_back("b")
        with pytest.raises(LeaseHeld):
            await client.rerun("b")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    failed(client)
    switch["release kelp waits"] = True
    asyncio.run(main())
    switch.clear()
    assert [UNDONE[1]] == roll_back(client)


def test_rolling_back_twice_is_harmless(client: Limpet) -> None:
    failed(client)
    assert UNDONE == roll_back(client)
    position = client.show("b").header.position
    for _ in range(2):
        assert ADDRESSES == asyncio.run(client.roll_back("b"))
    assert DONE + UNDONE == executed
    assert position == client.show("b").header.position
    assert StateStatus.FAILED is client.show("b").header.status


# What cannot be rolled back.


def refused(client: Limpet, error: type[Exception], match: str, **options: Any) -> None:
    """Nothing is undone, and nothing is changed."""
    before, header = list(executed), client.show("b").header
    with pytest.raises(error, match=match):
        asyncio.run(client.roll_back("b", **options))
    assert before == executed
    after = client.show("b").header
    assert (header.status, header.position, header.metadata) == (after.status, after.position, after.metadata)


def test_a_run_that_has_completed_is_not_rolled_back(client: Limpet) -> None:
    assert "shipped kelp" == client.run_sync(buy, "kelp", state_id="b")
    refused(client, UsageError, "has completed")


def test_an_unknown_state_is_not_rolled_back(client: Limpet) -> None:
    with pytest.raises(UnknownState):
        asyncio.run(client.roll_back("nobody"))


def test_a_run_that_is_under_way_is_not_rolled_back(client: Limpet) -> None:
    async def main() -> None:
        running = asyncio.create_task(client.run(buy, "kelp", state_id="b"))
        async with asyncio.timeout(20):
            while "waiting in ship" not in executed:
                await asyncio.sleep(0)
        before = list(executed)
        with pytest.raises(LeaseHeld):
            await client.roll_back("b")
        assert before == executed
        assert not running.done()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    switch["ship waits"] = True
    asyncio.run(main())
    assert UNDONE == roll_back(client)


def test_a_run_with_an_unknown_outcome_is_not_rolled_back(backend: StateBackend) -> None:
    @tool(once=True)
    async def pays(item: str) -> str:
        executed.append("pays")
        die_here("pays")
        return "paid"

    @agent
    async def buys(item: str) -> str:
        await set_aside(item)
        return await pays(item)

    client = dies(backend, buys, inside="pays")
    refused(client, OutcomeUnknown, "buys::pays::tool_call")
    client.settle("b", failed="the card was refused")
    assert ["release kelp (place of kelp)"] == roll_back(client)


@pytest.mark.parametrize("by", ["a person", "a probe"])
def test_what_was_said_to_have_happened_is_undone(backend: StateBackend, by: str) -> None:
    options: dict[str, Any] = {"probe": lambda item, amount: Happened("found")} if by == "a probe" else {}

    @tool(once=True, undo=plain_with_amount, **options)
    async def pays(item: str, amount: int) -> str:
        die_here("pays")
        return "paid"

    @agent
    async def buys(item: str) -> str:
        await pays(item, 7)
        return await ship(item)

    client = dies(backend, buys, inside="pays")
    if by == "a person":
        client.settle("b", happened="found")
    failed(client, buys)
    assert ["undo kelp 7 (found)"] == roll_back(client)


def plain_with_amount(item: str, amount: int, result: str) -> None:
    executed.append(f"undo {item} {amount} ({result})")


def test_what_is_not_declared_here_cannot_be_undone_and_is_named(client: Limpet) -> None:
    def elsewhere() -> None:
        @tool(undo=refund, name="vanishing")
        async def vanishing(item: str, amount: int) -> str:
            return item

        @agent
        async def goes(item: str) -> str:
            await set_aside(item)
            return await ship(await vanishing(item, 1))

        failed(client, goes)

    elsewhere()
    switch.clear()  # The traceback of an error holds what is declared there.
    gc.collect()

    @agent
    async def goes(item: str) -> str:
        return item

    refused(client, UsageError, r"goes::vanishing::tool_call is undone by 'refund'.*Import the module")
    refused(client, UsageError, "goes::vanishing::tool_call", agent=goes)

    @tool(undo=refund, name="vanishing")
    async def declared_again(item: str, amount: int) -> str:
        return item

    assert ["refund kelp 1", "release kelp (place of kelp)"] == roll_back(client)
    assert declared_again.undo is refund


def test_tools_of_one_name_are_undone_each_by_its_own(client: Limpet) -> None:
    def cancel_room(item: str) -> None:
        executed.append(f"cancel the room {item}")

    def cancel_flight(item: str) -> None:
        executed.append(f"cancel the flight {item}")

    def agency(cancel: Any) -> Any:
        @tool(undo=cancel, name="reserve_it")
        async def reserve_it(item: str) -> str:
            return item

        @agent(name=f"agency_{cancel.__name__}")
        async def goes(item: str) -> str:
            return await ship(await reserve_it(item))

        return goes

    agencies = {"hotel": agency(cancel_room), "airline": agency(cancel_flight)}
    for state_id, actor in agencies.items():
        failed(client, actor, state_id=state_id)
    executed.clear()
    for state_id in agencies:
        # Where there is no telling which one it was, that is better said than guessed.
        with contextlib.suppress(UsageError):
            asyncio.run(client.roll_back(state_id))
    assert Counter(executed) <= Counter(["cancel the room kelp", "cancel the flight kelp"])
    assert "cancel the flight kelp" == executed[-1]


def test_what_has_no_recorded_input_cannot_be_undone_and_nothing_is(client: Limpet) -> None:
    switch["ship fails"] = LookupError("no ship")
    with pytest.raises(LookupError):
        client.run_sync(buy, "kelp", state_id="b", record_inputs=False)
    refused(client, UsageError, "its input is not recorded")


def test_a_run_that_could_not_be_rolled_back_goes_on(client: Limpet) -> None:
    def elsewhere() -> None:
        @tool(undo=refund, name="vanishing")
        async def vanishing(item: str, amount: int) -> str:
            return item

        @agent(name="goes")
        async def first(item: str) -> str:
            return await ship(await vanishing(item, 1))

        failed(client, first)

    elsewhere()
    switch.clear()  # The traceback of an error holds what is declared there.
    gc.collect()

    @tool(name="vanishing")
    async def without_undo(item: str, amount: int) -> str:
        return item

    @agent
    async def goes(item: str) -> str:
        return await ship(await without_undo(item, 1))

    refused(client, UsageError, "vanishing")
    switch.clear()
    assert "shipped kelp" == client.run_sync(goes, "kelp", state_id="b")


# Afterwards.


def test_a_run_that_was_rolled_back_can_be_run_anew(client: Limpet) -> None:
    failed(client)
    roll_back(client)
    switch.clear()
    executed.clear()
    assert "shipped kelp" == asyncio.run(client.rerun("b"))
    assert DONE == executed
    header = client.show("b").header
    assert (StateStatus.COMPLETED, {}, 2) == (header.status, header.metadata.stopped, len(client.timelines("b")))
    assert "shipped kelp" == client.run_sync(buy, "kelp", state_id="b")
    assert DONE == executed
    refused(client, UsageError, "has completed")


def test_a_run_that_was_run_anew_and_failed_is_rolled_back_again(client: Limpet) -> None:
    failed(client)
    roll_back(client)
    executed.clear()
    with pytest.raises(LookupError):
        asyncio.run(client.rerun("b"))
    assert DONE == executed
    executed.clear()
    with pytest.raises(LookupError):
        client.run_sync(buy, "kelp", state_id="b")
    assert ["ship kelp"] == executed
    assert UNDONE == roll_back(client)
    must_not_go_on(client)
    switch.clear()
    assert "shipped kelp" == asyncio.run(client.rerun("b"))


def test_running_anew_what_is_declared_once_needs_a_word(client: Limpet) -> None:
    @tool(once=True, undo=refund)
    async def pays(item: str, amount: int) -> str:
        executed.append("pays")
        return item

    @agent
    async def buys(item: str) -> str:
        return await ship(await pays(item, 3))

    failed(client, buys)
    assert ["refund kelp 3"] == roll_back(client)
    switch.clear()
    with pytest.raises(OnceAgain):
        asyncio.run(client.rerun("b"))
    assert 1 == executed.count("pays")
    assert "shipped kelp" == asyncio.run(client.rerun("b", again=True))


def test_what_was_undone_on_an_earlier_timeline_is_not_given_again_from_there(client: Limpet) -> None:
    failed(client)
    roll_back(client)
    switch.clear()
    asyncio.run(client.rerun("b"))
    with pytest.raises(RolledBack):
        asyncio.run(client.rerun("b", at="buy::ship::tool_call", timeline=1))
    with pytest.raises(RolledBack):
        client.fork("b", at="buy::ship::tool_call", timeline=1)
    with pytest.raises(RolledBack):
        client.fork("b", timeline=1)
    fork = client.fork("b", at="buy::ship::tool_call")
    assert "shipped kelp" == asyncio.run(client.resume(fork))


def test_what_was_undone_can_still_be_looked_at(client: Limpet) -> None:
    failed(client)
    roll_back(client)
    assert "place of kelp" == client.history("b").get_event_result("buy::set_aside::tool_call")
    switch.clear()
    asyncio.run(client.rerun("b"))
    assert "place of kelp" == client.history("b", timeline=1).get_event_result("buy::set_aside::tool_call")


# Forks.


def test_a_fork_undoes_what_it_has_done_itself_and_nothing_that_it_shares(client: Limpet) -> None:
    failed(client)
    fork = client.fork("b", at="buy::bill::tool_call")
    executed.clear()
    with pytest.raises(LookupError):
        asyncio.run(client.resume(fork))
    assert ["bill kelp 7", "ship kelp"] == executed
    executed.clear()
    assert ["buy::bill::tool_call"] == asyncio.run(client.roll_back(fork))
    assert ["refund kelp 7"] == executed
    with pytest.raises(RolledBack):
        asyncio.run(client.resume(fork))
    switch.clear()
    assert "shipped kelp" == client.run_sync(buy, "kelp", state_id="b")


def test_a_fork_that_has_done_nothing_undoes_nothing(client: Limpet) -> None:
    failed(client)
    fork = client.fork("b")
    executed.clear()
    assert [] == asyncio.run(client.roll_back(fork))
    assert [] == executed


def test_a_fork_of_a_fork_undoes_only_its_own(client: Limpet) -> None:
    failed(client)
    first = client.fork("b", at="buy::bill::tool_call")
    with pytest.raises(LookupError):
        asyncio.run(client.resume(first))
    second = client.fork(first, at="buy::ship::tool_call")
    with pytest.raises(LookupError):
        asyncio.run(client.resume(second))
    executed.clear()
    assert [] == asyncio.run(client.roll_back(second))
    assert ["buy::bill::tool_call"] == asyncio.run(client.roll_back(first))
    assert ["refund kelp 7"] == executed


# In another process.


PROGRAM = """
import asyncio, sys
from limpet import Limpet, agent, tool

def say(text):
    with open("said", "a") as file:
        print(text, file=file)

def give_back(item: str, result: str) -> None:
    say(f"give back {result}")

@tool(undo=give_back)
async def take(item: str) -> str:
    say(f"take {item}")
    return f"the {item}"

@agent
async def shop(item: str) -> None:
    await take(item)
    raise LookupError("closed")

if __name__ == "__main__":
    Limpet("sqlite:///runs.db").run_sync(shop, "kelp", state_id="b")
"""


def test_another_process_rolls_back_what_a_program_has_done(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    rolls_back = "import asyncio, limpet; print(asyncio.run(limpet.Limpet('sqlite:///runs.db').roll_back('b')))"

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=60)

    assert "LookupError: closed" in run("program.py").stderr
    for _ in range(2):
        assert "['shop::take::tool_call']\n" == run("-c", rolls_back).stdout
    assert ["take kelp", "give back the kelp"] == (tmp_path / "said").read_text().splitlines()
    assert "RolledBack" in run("program.py").stderr
