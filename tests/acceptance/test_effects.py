"""Calls whose effects must not be repeated: never executed twice without a word, of a person or of a probe."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    AmbiguousAddress,
    ConditionFailed,
    CurrentEvent,
    DidNotHappen,
    EventFailed,
    EventTimedOut,
    EventType,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    Happened,
    LeaseHeld,
    Limpet,
    MemoryStateBackend,
    OnceAgain,
    OutcomeUnknown,
    ReplayError,
    ReplayMode,
    RetryConfig,
    Settled,
    StateBackend,
    StateStatus,
    Tool,
    UnknownAddress,
    UnknownState,
    UsageError,
    ValueNotStorable,
    agent,
    current_event,
    tool,
)
from limpet.testing import CrashingBackend, SimulatedCrash

executions: Counter[str] = Counter()
keys: list[str] = []
events: list[CurrentEvent] = []
probed: list[Any] = []
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()
    for noted in (keys, events, probed):
        noted.clear()


def die_here(name: str) -> None:
    """The process dies, if it is to die at this place."""
    dying = switch.get(name)
    if dying is not None:
        del switch[name]
        dying.is_stopped = True
        raise SimulatedCrash


async def charge_card(item: str) -> str:
    executions[item] += 1
    keys.append(current_event().idempotency_key)
    events.append(current_event())
    die_here(item)
    if error := switch.get(f"{item} fails"):
        raise error
    if switch.get(f"{item} waits"):
        await asyncio.sleep(3600)
    return f"receipt {item}/{executions[item]}"


charge = tool(once=True, name="charge")(charge_card)


@tool
async def pack(item: str) -> str:
    executions[f"pack {item}"] += 1
    return f"packed {item}"


@agent
async def order(item: str) -> list[str]:
    return [await pack(item), await charge(item), await pack("all")]


CHARGE = "order::charge::tool_call"


def dies(backend: StateBackend, actor: Any, *args: Any, inside: str = "kelp", state_id: str = "o") -> Limpet:
    """Run until the process dies inside a call, and give what others see afterwards."""
    crashing = CrashingBackend(backend)
    switch[inside] = crashing
    with pytest.raises((SimulatedCrash, BaseExceptionGroup)):
        Limpet(crashing).run_sync(actor, *args, state_id=state_id)
    assert crashing.is_stopped
    return Limpet(backend)


def details(client: Limpet, address: str = CHARGE, state_id: str = "o") -> Any:
    return client.history(state_id)[address].details


def is_unknown(client: Limpet, actor: Any = order, *args: Any, state_id: str = "o") -> OutcomeUnknown:
    """Run, and see to it that the state awaits what a person says."""
    with pytest.raises(OutcomeUnknown) as caught:
        client.run_sync(actor, *(args or ("kelp",)), state_id=state_id)
    header = client.show(state_id).header
    assert (StateStatus.AWAITING, None) == (header.status, header.holder)
    assert "unknown_outcome" == header.metadata.stopped["reason"]
    return caught.value


# What is left of a call that was cut off.


def test_the_state_awaits_what_a_person_says(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    record = client.history("o")[CHARGE]
    assert ExecutionStatus.STARTED is record.status
    assert record.details is not None
    assert keys == [record.details.key]
    for _ in range(3):
        error = is_unknown(client)
        assert (CHARGE, "o") == (error.address, error.state_id)
        assert "settle('o'" in str(error)
        assert isinstance(error, ReplayError)
    record = client.history("o")[CHARGE]
    assert ExecutionStatus.AWAITING is record.status
    assert record.details is not None
    assert (keys[0], "", "") == (record.details.key, record.details.settled, record.details.by)
    assert CHARGE in client.show("o").header.metadata.stopped["message"]
    assert {"pack kelp": 1, "kelp": 1} == executions
    assert ["o"] == [header.state_id for header in client.list_states(status=StateStatus.AWAITING)]


def test_asking_again_and_again_does_not_let_the_journal_grow_without_end(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    positions = []
    for _ in range(4):
        is_unknown(client)
        positions.append(client.show("o").header.position)
    awaiting = [record for record in client.history("o").get_event_list() if record.status is ExecutionStatus.AWAITING]
    assert 1 == len(awaiting)
    assert positions[-1] - positions[0] <= 2 * 3


async def catching(item: str) -> Any:
    try:
        return await charge(item)
    except Exception:
        return "swallowed"


async def gathering(item: str) -> Any:
    return await asyncio.gather(charge(item), return_exceptions=True)


async def grouping(item: str) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(charge(item))
        group.create_task(pack("beside"))
    return task.result()


async def swallowing(item: str) -> Any:
    try:
        return await charge(item)
    except BaseException:
        return await pack("swallowed")


async def creating(item: str) -> Any:
    task = asyncio.create_task(charge(item))
    await asyncio.wait([task])
    return "swallowed" if task.cancelled() or task.exception() else task.result()


async def shielding(item: str) -> Any:
    return await asyncio.shield(charge(item))


async def limiting(item: str) -> Any:
    async with asyncio.timeout(1000):
        return await asyncio.wait_for(charge(item), 1000)


@agent
async def assistant(item: str) -> Any:
    return await catching(item)


async def delegating(item: str) -> Any:
    try:
        return await assistant(item)
    except Exception:
        return "swallowed"


@tool
async def ordering(item: str) -> Any:
    return await charge(item)


@tool
def ordering_plainly(item: str) -> Any:
    return charge.call(item)


@agent
def assistant_in_plain_code(item: str) -> Any:
    try:
        return charge.call(item)
    except BaseException:
        return "swallowed"


WAYS: list[Callable[[str], Awaitable[Any]]] = [
    catching,
    gathering,
    grouping,
    swallowing,
    creating,
    shielding,
    limiting,
    delegating,
    ordering,
    ordering_plainly,
    assistant_in_plain_code,
]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_no_code_swallows_that_an_outcome_is_unknown(
    backend: StateBackend, way: Callable[[str], Awaitable[Any]]
) -> None:
    @agent
    async def ways(item: str) -> list[Any]:
        return [await way(item), await pack("after")]

    client = dies(backend, ways, "kelp")
    executions.clear()

    async def main() -> None:
        running = asyncio.create_task(client.run(ways, "kelp", state_id="o"))
        await asyncio.wait((running,), timeout=10)
        assert running.done(), "it waits for ever"
        with pytest.raises(OutcomeUnknown):
            await running
        task = asyncio.current_task()
        assert task is not None
        assert 0 == task.cancelling()

    asyncio.run(main())
    assert StateStatus.AWAITING is client.show("o").header.status
    assert (0, 0, 0) == (executions["kelp"], executions["pack after"], executions["pack swallowed"])
    client.settle("o", happened="found")
    assert "packed after" == client.run_sync(ways, "kelp", state_id="o")[-1]
    assert 0 == executions["kelp"]


def test_cleaning_up_is_not_disturbed_where_a_run_waits_for_a_person(
    backend: StateBackend, caplog: pytest.LogCaptureFixture
) -> None:
    cleaned: list[str] = []

    async def cleaning(item: str) -> str:
        try:
            return await charge(item)
        finally:
            if "kelp" not in switch:
                for _ in range(10):
                    await asyncio.sleep(0)
                cleaned.append(item)

    @agent
    async def cleans(items: list[str]) -> list[str]:
        return list(await asyncio.gather(*map(cleaning, items)))

    client = dies(backend, cleans, ["kelp", "dulse"])
    cleaned.clear()
    is_unknown(client, cleans, ["kelp", "dulse"])
    assert ["dulse", "kelp"] == sorted(cleaned)
    assert "has not stopped" not in caplog.text


def test_what_goes_on_elsewhere_is_finished_before_the_run_waits_for_a_person(backend: StateBackend) -> None:
    is_there = asyncio.Event()

    @tool
    async def slow() -> str:
        executions["slow"] += 1
        if "kelp" in switch:
            await asyncio.sleep(3600)
        is_there.set()
        for _ in range(50):
            await asyncio.sleep(0)
        return "slowly"

    async def later() -> str:
        if "kelp" not in switch:
            await is_there.wait()
        return await charge("kelp")

    @agent
    async def both() -> list[str]:
        return list(await asyncio.gather(slow(), later()))

    client = dies(backend, both)
    with pytest.raises(OutcomeUnknown):
        client.run_sync(both, state_id="o")
    assert "slowly" == client.history("o").get_event_result("both::slow::tool_call")
    client.settle("o", happened="found")
    assert ["slowly", "found"] == client.run_sync(both, state_id="o")
    assert {"slow": 2, "kelp": 1} == executions


def test_nothing_begins_once_the_run_waits_for_a_person(backend: StateBackend) -> None:
    @tool
    async def ship(item: str) -> None:
        executions[f"ship {item}"] += 1
        if "kelp" in switch:
            await asyncio.sleep(3600)
        await asyncio.sleep(0)

    @agent
    async def both() -> str:
        is_packed, are_all_packed = asyncio.Event(), asyncio.Event()

        async def pack_and_charge() -> str:
            await pack("kelp")
            is_packed.set()
            if "kelp" in switch:
                await are_all_packed.wait()
            return await charge("kelp")

        async def ship_later() -> None:
            await is_packed.wait()
            await ship("kelp")

        async def pack_more() -> None:
            await is_packed.wait()
            await pack("dulse")
            are_all_packed.set()

        receipt, *_ = await asyncio.gather(pack_and_charge(), ship_later(), pack_more())
        return receipt

    client = dies(backend, both)
    executions.clear()
    with pytest.raises(OutcomeUnknown):
        client.run_sync(both, state_id="o")
    assert {} == executions
    client.settle("o", happened="found")
    assert "found" == client.run_sync(both, state_id="o")
    assert {"ship kelp": 1} == executions


@agent
async def orders(items: list[str]) -> list[str]:
    return list(await asyncio.gather(*(charge.options(key=item)(item) for item in items)))


def test_several_unknown_outcomes_are_settled_one_by_one(backend: StateBackend) -> None:
    items = ["kelp", "dulse", "nori"]
    for item in items:
        switch[f"{item} waits"] = True
    switch["nori waits"] = False
    client = dies(backend, orders, items, inside="nori")
    switch.clear()
    is_unknown(client, orders, items)
    with pytest.raises(AmbiguousAddress, match="any of 3 events"):
        client.settle("o", happened="found")
    assert "orders::charge[dulse]::tool_call" == client.settle("o", "charge[dulse]", happened="found dulse")
    assert StateStatus.AWAITING is client.show("o").header.status
    is_unknown(client, orders, items)
    assert "orders::charge[kelp]::tool_call" == client.settle("o", "orders::charge[kelp]::tool_call", again=True)
    assert StateStatus.AWAITING is client.show("o").header.status
    assert "orders::charge[nori]::tool_call" == client.settle("o", happened="found nori")
    assert StateStatus.PAUSED is client.show("o").header.status
    assert ["receipt kelp/2", "found dulse", "found nori"] == client.run_sync(orders, items, state_id="o")
    assert {"kelp": 2, "dulse": 1, "nori": 1} == executions


def test_the_rest_of_a_run_is_not_held_up_by_a_settled_call(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", happened="found")
    assert ["packed kelp", "found", "packed all"] == asyncio.run(client.resume("o"))
    assert StateStatus.COMPLETED is client.show("o").header.status
    assert {} == client.show("o").header.metadata.stopped


# What a person says.


@pytest.mark.parametrize("is_asked_before", [False, True])
def test_a_person_says_that_it_happened(backend: StateBackend, is_asked_before: bool) -> None:
    client = dies(backend, order, "kelp")
    if is_asked_before:
        is_unknown(client)
    assert CHARGE == client.settle("o", happened="found", by="Ada")
    assert StateStatus.PAUSED is client.show("o").header.status
    record = client.history("o")[CHARGE]
    assert (ExecutionStatus.COMPLETED, Settled.HAPPENED, "Ada", keys[0]) == (
        record.status,
        details(client).settled,
        details(client).by,
        details(client).key,
    )
    assert "found" == client.history("o").get_event_result(CHARGE)
    assert ["packed kelp", "found", "packed all"] == client.run_sync(order, "kelp", state_id="o")
    assert {"pack kelp": 1, "kelp": 1, "pack all": 1} == executions


def test_nothing_can_be_what_happened(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", happened=None)
    assert ["packed kelp", None, "packed all"] == client.run_sync(order, "kelp", state_id="o")


def test_what_happened_may_be_large(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", happened="long " * 50_000)
    assert "long " * 50_000 == client.run_sync(order, "kelp", state_id="o")[1]


def test_what_happened_must_be_storable(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    is_unknown(client)
    before = client.show("o").header
    with pytest.raises(ValueNotStorable):
        client.settle("o", happened=lambda: None)
    after = client.show("o").header
    assert (before.status, before.position, None) == (after.status, after.position, after.holder)
    client.settle("o", happened="found")


@pytest.mark.parametrize("is_asked_before", [False, True])
def test_a_person_says_that_it_is_to_be_executed_again(backend: StateBackend, is_asked_before: bool) -> None:
    client = dies(backend, order, "kelp")
    if is_asked_before:
        is_unknown(client)
    assert CHARGE == client.settle("o", again=True, by="Ada")
    record = client.history("o")[CHARGE]
    assert (ExecutionStatus.CANCELLED, Settled.AGAIN, "Ada") == (
        record.status,
        details(client).settled,
        details(client).by,
    )
    assert ["packed kelp", "receipt kelp/2", "packed all"] == client.run_sync(order, "kelp", state_id="o")
    assert {"pack kelp": 1, "kelp": 2, "pack all": 1} == executions
    assert keys[0] == keys[1]


def test_a_word_counts_for_one_execution(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    for number in (2, 3):
        client.settle("o", again=True)
        client = dies(backend, order, "kelp")
        assert number == executions["kelp"]
        is_unknown(client)
        is_unknown(client)
    assert 3 == executions["kelp"]
    assert 1 == len(set(keys))
    client.settle("o", happened="found")
    assert "found" == client.run_sync(order, "kelp", state_id="o")[1]


def test_a_word_is_not_forgotten_when_the_run_is_stopped_before_it_gets_there(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", again=True)
    with pytest.raises(ExecutionInterrupted):
        client.run_sync(order, "kelp", state_id="o", interrupt_checker=lambda: True)
    assert 1 == executions["kelp"]
    assert "receipt kelp/2" == client.run_sync(order, "kelp", state_id="o")[1]


def test_a_person_says_that_it_failed(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    assert CHARGE == client.settle("o", failed="the card was refused", by="Ada")
    record = client.history("o")[CHARGE]
    assert (ExecutionStatus.FAILED, Settled.FAILED, "Ada") == (
        record.status,
        details(client).settled,
        details(client).by,
    )
    assert record.error is not None
    assert "the card was refused" in record.error.message
    with pytest.raises(EventFailed, match="the card was refused") as caught:
        client.run_sync(order, "kelp", state_id="o")
    assert CHARGE == caught.value.address
    assert StateStatus.FAILED is client.show("o").header.status
    assert 1 == executions["kelp"]


def test_what_a_person_has_said_to_have_failed_is_not_executed_when_it_is_run_again(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", failed="the card was refused")
    for _ in range(3):
        with pytest.raises((EventFailed, OutcomeUnknown)):
            client.run_sync(order, "kelp", state_id="o")
    assert 1 == executions["kelp"]


def test_code_can_catch_what_a_person_has_said_to_have_failed(backend: StateBackend) -> None:
    @agent
    async def falls_back(item: str) -> str:
        try:
            return await charge(item)
        except EventFailed as error:
            return f"{error.why}: {await pack('instead')}"

    client = dies(backend, falls_back, "kelp")
    client.settle("o", failed="refused")
    for _ in range(2):
        assert "refused: packed instead" == client.run_sync(falls_back, "kelp", state_id="o")
    assert {"kelp": 1, "pack instead": 1} == executions


@pytest.mark.parametrize(
    "word",
    [
        {},
        {"happened": 1, "again": True},
        {"happened": None, "failed": "no"},
        {"again": True, "failed": "no"},
        {"happened": 1, "again": True, "failed": "no"},
        {"again": False},
        {"failed": None},
    ],
)
def test_exactly_one_of_three_things_is_said(backend: StateBackend, word: dict[str, Any]) -> None:
    client = dies(backend, order, "kelp")
    before = client.show("o").header
    with pytest.raises(UsageError, match="one of three"):
        client.settle("o", **word)
    assert before == client.show("o").header


def test_there_must_be_something_to_settle(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    with pytest.raises(UnknownState, match="'nobody'"):
        client.settle("nobody", again=True)
    with pytest.raises(UnknownAddress, match=r"'order::charge#2::tool_call'.*Nearest: 'order::charge::tool_call'"):
        client.settle("o", "order::charge#2::tool_call", again=True)
    with pytest.raises(UnknownAddress):
        client.settle("o", "order::pack::tool_call", again=True)
    client.settle("o", again=True)
    with pytest.raises(UsageError, match="no call whose outcome is unknown"):
        client.settle("o", again=True)
    client.run_sync(order, "kelp", state_id="o")
    with pytest.raises(UsageError, match="no call whose outcome is unknown"):
        client.settle("o", happened="other")
    assert 2 == executions["kelp"]


@asynccontextmanager
async def under_way(client: Limpet) -> AsyncIterator[None]:
    """While this lasts, a run is inside its charge."""
    switch["kelp waits"] = True
    running = asyncio.create_task(client.run(order, "kelp", state_id="o"))
    async with asyncio.timeout(20):
        while not executions["kelp"]:
            await asyncio.sleep(0)
    yield
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    switch.clear()


def test_a_state_that_is_being_run_cannot_be_settled(client: Limpet) -> None:
    async def main() -> None:
        async with under_way(client):
            with pytest.raises(LeaseHeld):
                client.settle("o", again=True)

    asyncio.run(main())
    assert 1 == executions["kelp"]


def test_a_word_survives_being_stopped_at_every_write(backend: StateBackend) -> None:
    dies(backend, order, "kelp", state_id="counted")
    counting = CrashingBackend(backend)
    Limpet(counting).settle("counted", happened="found")
    for stop_at, when in product(range(1, counting.writes + 1), ("before", "after")):
        state_id = f"o-{when}-{stop_at}"
        before = executions["kelp"]
        client = dies(backend, order, "kelp", state_id=state_id)
        with pytest.raises(SimulatedCrash):
            Limpet(CrashingBackend(backend, stop_at, when)).settle(state_id, happened="found")
        if (stop_at, when) != (counting.writes, "after"):
            is_unknown(client, state_id=state_id)
            client.settle(state_id, happened="found")
        assert "found" == client.run_sync(order, "kelp", state_id=state_id)[1]
        assert before + 1 == executions["kelp"]


# What a probe finds out.


def probing(answer: Callable[[], object], *, is_async: bool) -> Any:
    def probe(item: str) -> object:
        probed.append((item, current_event().address, current_event().idempotency_key))
        return answer()

    async def probe_slowly(item: str) -> object:
        await asyncio.sleep(0)
        return probe(item)

    probed_charge = tool(once=True, name="charge", probe=probe_slowly if is_async else probe)(charge_card)

    @agent(name="order")
    async def probed_order(item: str) -> list[str]:
        return [await pack(item), await probed_charge(item), await pack("all")]

    return probed_order


def raises() -> object:
    raise ConnectionError("the bank does not answer")


PROBES = pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])


@PROBES
def test_a_probe_that_finds_a_result_gives_it(backend: StateBackend, is_async: bool) -> None:
    probed_order = probing(lambda: Happened("found"), is_async=is_async)
    client = dies(backend, probed_order, "kelp")
    assert [] == probed
    assert ["packed kelp", "found", "packed all"] == client.run_sync(probed_order, "kelp", state_id="o")
    assert [("kelp", CHARGE, keys[0])] == probed
    assert (Settled.HAPPENED, "probe", keys[0]) == (details(client).settled, details(client).by, details(client).key)
    assert {"pack kelp": 1, "kelp": 1, "pack all": 1} == executions
    assert ["packed kelp", "found", "packed all"] == client.run_sync(probed_order, "kelp", state_id="o")
    assert 1 == len(probed)


@PROBES
def test_what_a_probe_has_found_is_not_asked_for_again(backend: StateBackend, is_async: bool) -> None:
    probed_order = probing(lambda: Happened({"n": 1}), is_async=is_async)
    client = dies(backend, probed_order, "kelp")
    with pytest.raises(SimulatedCrash):
        Limpet(CrashingBackend(backend, stop_at=4)).run_sync(probed_order, "kelp", state_id="o")
    assert ["packed kelp", {"n": 1}, "packed all"] == client.run_sync(probed_order, "kelp", state_id="o")
    assert 1 == executions["kelp"]


@PROBES
def test_a_probe_that_says_that_it_did_not_happen_lets_it_be_executed(backend: StateBackend, is_async: bool) -> None:
    probed_order = probing(DidNotHappen, is_async=is_async)
    client = dies(backend, probed_order, "kelp")
    assert ["packed kelp", "receipt kelp/2", "packed all"] == client.run_sync(probed_order, "kelp", state_id="o")
    assert 1 == len(probed)
    assert keys[0] == keys[1]


@PROBES
def test_a_probe_is_asked_after_every_crash(backend: StateBackend, is_async: bool) -> None:
    probed_order = probing(DidNotHappen, is_async=is_async)
    for _ in range(3):
        dies(backend, probed_order, "kelp")
    assert (3, 2) == (executions["kelp"], len(probed))
    assert 1 == len(set(keys))


@PROBES
@pytest.mark.parametrize("answer", [None, True, "yes", Happened, DidNotHappen], ids=repr)
def test_a_probe_that_does_not_know_leaves_it_to_a_person(
    backend: StateBackend, answer: object, is_async: bool
) -> None:
    probed_order = probing(lambda: answer, is_async=is_async)
    client = dies(backend, probed_order, "kelp")
    is_unknown(client, probed_order)
    is_unknown(client, probed_order)
    assert (1, 2) == (executions["kelp"], len(probed))
    client.settle("o", happened="found")
    assert "found" == client.run_sync(probed_order, "kelp", state_id="o")[1]
    assert 2 == len(probed)


@PROBES
def test_a_probe_that_raises_is_reported_and_leaves_it_to_a_person(
    backend: StateBackend, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    probed_order = probing(raises, is_async=is_async)
    client = dies(backend, probed_order, "kelp")
    with caplog.at_level(logging.DEBUG, "limpet.effects"):
        is_unknown(client, probed_order)
    (report,) = [record for record in caplog.records if record.name == "limpet.effects"]
    assert f"The probe of {CHARGE} in state o raised" in report.getMessage()
    assert "the bank does not answer" in caplog.text
    assert 1 == executions["kelp"]


def test_a_probe_that_finds_what_cannot_be_stored_does_not_let_it_be_executed_again(backend: StateBackend) -> None:
    probed_order = probing(lambda: Happened(lambda: None), is_async=False)
    client = dies(backend, probed_order, "kelp")
    for _ in range(2):
        with pytest.raises((ValueNotStorable, OutcomeUnknown)):
            client.run_sync(probed_order, "kelp", state_id="o")
    assert 1 == executions["kelp"]
    client.settle("o", happened="found")
    assert "found" == client.run_sync(probed_order, "kelp", state_id="o")[1]


def test_a_probe_gets_the_arguments_as_they_were_given(backend: StateBackend) -> None:
    def probe(*args: Any, **kwargs: Any) -> None:
        probed.append((args, kwargs))

    @tool(once=True, probe=probe)
    async def pay(amount: int, *rest: int, currency: str, note: str = "") -> str:
        die_here("kelp")
        return "paid"

    @agent
    async def pays() -> str:
        return await pay(1, 2, 3, currency="EUR")

    client = dies(backend, pays)
    with pytest.raises(OutcomeUnknown):
        client.run_sync(pays, state_id="o")
    assert [((1, 2, 3), {"currency": "EUR"})] == probed


def test_a_probe_of_the_class_form_gets_what_its_handler_gets(backend: StateBackend) -> None:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["pay"] += 1
        die_here("kelp")
        return "paid"

    def probe(data: str, context: Any, state: ExecutionState) -> Happened:
        probed.append((data, state.state_id))
        return Happened("found")

    pay = Tool(name="pay", handler=handler, once=True, probe=probe)

    @agent
    async def pays() -> str:
        return await pay("kelp")

    client = dies(backend, pays)
    assert "found" == client.run_sync(pays, state_id="o")
    assert [("kelp", "o")] == probed
    assert 1 == executions["pay"]


def test_a_probe_that_nothing_would_ask_is_refused() -> None:
    with pytest.raises(UsageError, match=r"has a probe, and is not declared once.*Add `once=True`"):
        tool(probe=lambda: None)(charge_card)
    with pytest.raises(UsageError, match="has a probe"):
        Tool(name="pay", handler=charge_card, probe=lambda: None)
    probed_charge = tool(once=True, probe=lambda item: None)(charge_card)
    with pytest.raises(UsageError, match="has a probe"):
        probed_charge.options(once=False)


def test_what_is_declared_once_cannot_be_retried() -> None:
    with pytest.raises(UsageError, match="declared once, and is to be tried 3 times"):
        tool(once=True, retry_config=RetryConfig(max_attempts=3))(charge_card)
    with pytest.raises(UsageError, match="declared once"):
        charge.options(retry_config=RetryConfig(max_attempts=2))
    with pytest.raises(UsageError, match="declared once"):
        ExecutionEvent(charge, retry_config=RetryConfig(max_attempts=2))
    tool(once=True, retry_config=RetryConfig(max_attempts=1))(charge_card)
    tool(once=True, retry_config=RetryConfig(enabled=False))(charge_card)


# Failing.


def test_a_failure_is_raised_and_the_handler_is_executed_once(client: Limpet) -> None:
    switch["kelp fails"] = ConnectionError("no answer")
    with pytest.raises(ConnectionError, match="no answer"):
        client.run_sync(order, "kelp", state_id="o")
    assert (StateStatus.FAILED, 1) == (client.show("o").header.status, executions["kelp"])
    record = client.history("o")[CHARGE]
    assert (ExecutionStatus.FAILED, 1, keys[0]) == (record.status, record.attempt, details(client).key)


def test_no_configuration_of_the_store_retries_it(backend: StateBackend) -> None:
    often = RetryConfig(max_attempts=5, initial_delay=0)
    client = Limpet(backend, retry_config_by_actor_type={EventType.TOOL_CALL: often})
    switch["kelp fails"] = ConnectionError("no answer")
    with pytest.raises(ConnectionError):
        client.run_sync(order, "kelp", state_id="o")
    assert 1 == executions["kelp"]


@pytest.mark.parametrize("error", [ConnectionError("no answer"), LookupError("no")])
def test_a_failed_call_is_asked_for_when_the_run_is_run_again(client: Limpet, error: Exception) -> None:
    switch["kelp fails"] = error
    with pytest.raises(type(error)):
        client.run_sync(order, "kelp", state_id="o")
    switch.clear()
    is_unknown(client)
    is_unknown(client)
    assert 1 == executions["kelp"]
    client.settle("o", again=True)
    assert "receipt kelp/2" == client.run_sync(order, "kelp", state_id="o")[1]
    assert keys[0] == keys[1]


def test_a_failed_call_can_be_settled_at_once(client: Limpet) -> None:
    switch["kelp fails"] = LookupError("no")
    with pytest.raises(LookupError):
        client.run_sync(order, "kelp", state_id="o")
    client.settle("o", happened="found")
    assert ["packed kelp", "found", "packed all"] == client.run_sync(order, "kelp", state_id="o")
    assert 1 == executions["kelp"]


def test_a_probe_is_asked_for_a_failed_call_as_well(client: Limpet) -> None:
    probed_order = probing(lambda: Happened("found"), is_async=False)
    switch["kelp fails"] = ConnectionError("no answer")
    with pytest.raises(ConnectionError):
        client.run_sync(probed_order, "kelp", state_id="o")
    assert ["packed kelp", "found", "packed all"] == client.run_sync(probed_order, "kelp", state_id="o")
    assert 1 == executions["kelp"]


def test_a_call_that_failed_before_its_handler_ran_is_executed_when_the_run_is_run_again(client: Limpet) -> None:
    @tool(once=True, preconditions=[lambda item: switch.get("may", False)])
    async def guarded(item: str) -> str:
        executions["guarded"] += 1
        return item

    @agent
    async def guards() -> str:
        return await guarded("kelp")

    for _ in range(2):
        with pytest.raises(ConditionFailed):
            client.run_sync(guards, state_id="o")
        assert Settled.NOT_EXECUTED == details(client, "guards::guarded::tool_call").settled
    assert 0 == executions["guarded"]
    with pytest.raises(UsageError, match="nothing to settle"):
        client.settle("o", again=True)
    switch["may"] = True
    assert "kelp" == client.run_sync(guards, state_id="o")
    assert 1 == executions["guarded"]


def test_a_call_whose_result_was_refused_has_been_executed(client: Limpet) -> None:
    @tool(once=True, postconditions=[lambda result: False])
    async def guarded() -> str:
        executions["guarded"] += 1
        return "kelp"

    @agent
    async def guards() -> str:
        return await guarded()

    with pytest.raises(ConditionFailed):
        client.run_sync(guards, state_id="o")
    with pytest.raises(OutcomeUnknown):
        client.run_sync(guards, state_id="o")
    assert 1 == executions["guarded"]


def test_a_call_whose_result_cannot_be_stored_has_been_executed(client: Limpet) -> None:
    @tool(once=True)
    async def gives_no_value() -> Any:
        executions["gives"] += 1
        return lambda: None

    @agent
    async def takes() -> None:
        await gives_no_value()

    with pytest.raises(ValueNotStorable):
        client.run_sync(takes, state_id="o")
    with pytest.raises(OutcomeUnknown):
        client.run_sync(takes, state_id="o")
    assert 1 == executions["gives"]


def test_a_failure_that_the_program_has_caught_is_given_again(client: Limpet) -> None:
    @agent
    async def falls_back(item: str) -> str:
        try:
            return await charge(item)
        except LookupError as error:
            found = await pack(str(error))
        await breaks()
        return found

    @tool
    async def breaks() -> None:
        if not switch.get("mended"):
            raise ValueError("later")

    switch["kelp fails"] = LookupError("no card")
    for _ in range(2):
        with pytest.raises(ValueError, match="later"):
            client.run_sync(falls_back, "kelp", state_id="o")
    switch.update({"mended": True, "kelp fails": None})
    assert "packed no card" == client.run_sync(falls_back, "kelp", state_id="o")
    assert {"kelp": 1, "pack no card": 1} == executions
    with pytest.raises(UsageError, match="nothing to settle"):
        client.settle("o", again=True)


class Unstorable(Exception):
    """An exception that cannot be built again."""

    def __init__(self, one: object, two: object) -> None:
        super().__init__("unstorable")
        self.handle = lambda: (one, two)


def test_a_caught_failure_that_cannot_be_built_exactly_is_given_again_as_well(client: Limpet) -> None:
    @agent
    async def falls_back(item: str) -> str:
        try:
            return await charge(item)
        except Unstorable as error:
            found = await pack(str(error))
        if not switch.get("mended"):
            raise ValueError("later")
        return found

    switch["kelp fails"] = Unstorable(1, 2)
    with pytest.raises(ValueError, match="later"):
        client.run_sync(falls_back, "kelp", state_id="o")
    switch.update({"mended": True, "kelp fails": None})
    assert "packed unstorable" == client.run_sync(falls_back, "kelp", state_id="o")
    assert 1 == executions["kelp"]


@pytest.mark.parametrize("how", ["fails", "is cancelled", "times out"])
def test_an_agent_that_is_tried_again_does_not_execute_it_again(client: Limpet, how: str) -> None:
    retry = RetryConfig(max_attempts=3, initial_delay=0)

    @agent(retry_config=retry, timeout_s=0.2 if how == "times out" else 1000)
    async def tries(item: str) -> str:
        executions["tries"] += 1
        if how == "is cancelled" and executions["tries"] == 1:
            async with asyncio.timeout(0.05):
                return await charge(item)
        return await charge(item)

    @agent
    async def delegates(item: str) -> str:
        return await tries(item)

    switch["kelp fails" if how == "fails" else "kelp waits"] = ConnectionError("no answer")
    is_unknown(client, delegates)
    assert (2, 1) == (executions["tries"], executions["kelp"])
    switch.clear()
    client.settle("o", happened="found")
    assert "found" == client.run_sync(delegates, "kelp", state_id="o")
    assert 1 == executions["kelp"]


def test_an_agent_that_is_tried_again_is_given_what_it_has_done(client: Limpet) -> None:
    @agent(retry_config=RetryConfig(max_attempts=3, initial_delay=0))
    async def tries(item: str) -> str:
        found = await charge(item)
        executions["tries"] += 1
        if executions["tries"] < 3:
            raise ConnectionError("no answer")
        return found

    assert "receipt kelp/1" == client.run_sync(tries, "kelp", state_id="o")
    assert (3, 1) == (executions["tries"], executions["kelp"])


# Being cut off.


@pytest.mark.parametrize("how", ["interrupted", "cancelled", "cut off by the code", "beside a failure", "keyboard"])
def test_a_call_that_was_cut_off_is_unknown(client: Limpet, how: str) -> None:
    async def stops_it() -> None:
        while not executions["kelp"]:
            await asyncio.sleep(0)
        raise LookupError("beside")

    @agent
    async def cut_off(item: str) -> str:
        match how:
            case "cut off by the code":
                async with asyncio.timeout(0.1):
                    return await charge(item)
            case "beside a failure" if not executions["kelp"]:
                async with asyncio.TaskGroup() as group:
                    group.create_task(stops_it())
                    task = group.create_task(charge(item))
                return task.result()
            case "beside a failure":
                return (await asyncio.gather(charge.options(key="unused")(item)))[0]
            case _:
                return await charge(item)

    async def main() -> None:
        running = asyncio.create_task(
            client.run(cut_off, "kelp", state_id="o", timeout_s=0.3 if how == "interrupted" else None)
        )
        while not executions["kelp"]:
            await asyncio.sleep(0)
        if how == "cancelled":
            running.cancel()
        if how == "keyboard":
            raise KeyboardInterrupt
        await running

    switch["kelp waits"] = True
    with pytest.raises((ExecutionInterrupted, asyncio.CancelledError, TimeoutError, ExceptionGroup, KeyboardInterrupt)):
        asyncio.run(main())
    switch.clear()
    (address,) = (address for address in client.history("o").addresses() if "charge" in address)
    assert client.history("o")[address].status in (ExecutionStatus.INTERRUPTED, ExecutionStatus.CANCELLED)
    assert keys[0] == details(client, address).key
    if how == "beside a failure":
        assert address == client.settle("o", again=True)
        return
    is_unknown(client, cut_off)
    assert 1 == executions["kelp"]
    assert address == client.settle("o", again=True)
    assert "receipt kelp/2" == client.run_sync(cut_off, "kelp", state_id="o")
    assert keys[0] == keys[1]


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_call_that_took_too_long_is_unknown(client: Limpet, is_plain: bool) -> None:
    async def waits() -> str:
        executions["slow"] += 1
        await asyncio.sleep(0 if switch.get("quick") else 3600)
        return "quick"

    def waits_plainly() -> str:
        executions["slow"] += 1
        if not switch.get("quick"):
            is_over.wait(20)
        return "quick"

    is_over = threading.Event()
    handler: Any = waits_plainly if is_plain else waits
    slow = tool(once=True, timeout_s=0.1, name="slow")(handler)

    @agent
    async def hurries() -> str:
        return await slow()

    try:
        with pytest.raises(EventTimedOut):
            client.run_sync(hurries, state_id="o")
        switch["quick"] = True
        with pytest.raises(OutcomeUnknown):
            client.run_sync(hurries, state_id="o")
        assert 1 == executions["slow"]
        client.settle("o", again=True)
        assert "quick" == client.run_sync(hurries, state_id="o")
    finally:
        is_over.set()


def test_an_agent_that_is_declared_once_is_not_entered_again(backend: StateBackend) -> None:
    @agent(once=True)
    async def buys(item: str) -> str:
        executions["buys"] += 1
        first = await pack(item)
        die_here("kelp")
        return first

    @agent
    async def shops() -> str:
        return await buys("kelp")

    client = dies(backend, shops)
    with pytest.raises(OutcomeUnknown):
        client.run_sync(shops, state_id="o")
    assert {"buys": 1, "pack kelp": 1} == executions
    client.settle("o", again=True)
    assert "packed kelp" == client.run_sync(shops, state_id="o")
    assert {"buys": 2, "pack kelp": 1} == executions


def test_a_run_that_is_itself_declared_once_completes(client: Limpet) -> None:
    @agent(once=True)
    async def buys(item: str) -> str:
        return await pack(item)

    assert "packed kelp" == client.run_sync(buys, "kelp", state_id="o")
    assert "packed kelp" == client.run_sync(buys, "kelp", state_id="o")
    assert {"pack kelp": 1} == executions


def test_a_run_that_is_itself_declared_once_is_not_begun_again(backend: StateBackend) -> None:
    @agent(once=True)
    async def buys(item: str) -> str:
        executions["buys"] += 1
        die_here("kelp")
        return item

    client = dies(backend, buys, "kelp")
    is_unknown(client, buys)
    assert 1 == executions["buys"]
    client.settle("o", again=True)
    assert "kelp" == client.run_sync(buys, "kelp", state_id="o")


def test_one_call_can_be_declared_once(backend: StateBackend) -> None:
    @agent
    async def packs(item: str) -> str:
        die = tool(name="pack")(charge_card)
        return await die.options(once=True)(item)

    client = dies(backend, packs, "kelp")
    is_unknown(client, packs)
    assert 1 == executions["kelp"]


# The explicit form.


def test_an_event_whose_outcome_is_unknown_is_not_executed_again(backend: StateBackend) -> None:
    crashing = CrashingBackend(backend)
    switch["kelp"] = crashing
    state = ExecutionState(state_backend=crashing, state_id="o")
    with pytest.raises(SimulatedCrash):
        asyncio.run(ExecutionEvent(charge)("kelp", None, state))
    client = Limpet(backend)
    loaded = ExecutionState.load_from_state_id("o", backend)
    event = ExecutionEvent(charge)
    with pytest.raises(OutcomeUnknown):
        asyncio.run(event("kelp", None, loaded))
    assert (StateStatus.AWAITING, StateStatus.AWAITING) == (loaded.status, client.show("o").header.status)
    with pytest.raises(OutcomeUnknown):
        asyncio.run(ExecutionEvent(pack)("kelp", None, loaded))
    assert "charge::tool_call" == client.settle("o", happened="found")
    again = ExecutionState.load_from_state_id("o", backend)
    assert "found" == asyncio.run(ExecutionEvent(charge)("kelp", None, again)).result
    assert {"kelp": 1} == executions


# The key.


def test_a_handler_knows_its_call(client: Limpet) -> None:
    client.run_sync(order, "kelp", state_id="o")
    (event,) = events
    assert ("o", CHARGE, 1, False) == (event.state_id, event.address, event.attempt, event.is_retry)
    assert 32 == len(event.idempotency_key)


@pytest.mark.parametrize("place", ["a plain tool", "an agent", "a task", "a nested function", "a thread of asyncio"])
def test_the_current_event_is_known_everywhere_inside_a_call(client: Limpet, place: str) -> None:
    def here() -> str:
        return current_event().address

    @tool
    def plain() -> str:
        return here()

    @tool
    async def nested() -> str:
        async def deeper() -> str:
            await asyncio.sleep(0)
            return here()

        if place == "a task":
            return await asyncio.create_task(deeper())
        if place == "a thread of asyncio":
            return await asyncio.to_thread(here)
        return await deeper()

    @agent
    async def asks() -> str:
        match place:
            case "a plain tool":
                return await plain()
            case "an agent":
                await pack("before")
                return here()
            case _:
                return await nested()

    expected = {"a plain tool": "asks::plain::tool_call", "an agent": "asks::agent_call"}
    assert expected.get(place, "asks::nested::tool_call") == client.run_sync(asks)


def test_there_is_no_current_event_outside_of_a_run() -> None:
    with pytest.raises(UsageError, match=r"No event is being executed here.*inside a tool"):
        current_event()
    with pytest.raises(UsageError, match="No event"):
        asyncio.run(charge("kelp"))


def test_every_attempt_has_the_same_key_and_its_own_number(client: Limpet) -> None:
    @tool(retry_config=RetryConfig(max_attempts=4, initial_delay=0))
    async def fails_often() -> str:
        events.append(current_event())
        if len(events) < 3:
            raise ConnectionError("no answer")
        return "done"

    @agent
    async def tries() -> str:
        return await fails_often()

    assert "done" == client.run_sync(tries)
    assert [(1, False), (2, True), (3, True)] == [(event.attempt, event.is_retry) for event in events]
    assert 1 == len({event.idempotency_key for event in events})


@agent
async def shopping(items: list[str]) -> list[str]:
    found = []
    for item in items:
        found.append(await note(item))
        found.append(await charge(item))
    return found


@tool
async def note(item: str) -> str:
    executions[f"note {item}"] += 1
    noted_keys.setdefault(item, set()).add(current_event().idempotency_key)
    return item


noted_keys: dict[str, set[str]] = {}


def test_every_call_has_a_key_of_its_own(client: Limpet) -> None:
    noted_keys.clear()
    client.run_sync(shopping, ["kelp", "dulse"], state_id="one")
    client.run_sync(shopping, ["kelp", "dulse"], state_id="two")
    assert 4 == len(set(keys))
    assert [2, 2] == [len(found) for found in noted_keys.values()]
    assert 8 == len(set(keys).union(*noted_keys.values()))


def test_the_key_of_a_call_outlives_a_crash_at_every_write() -> None:
    def count() -> int:
        counting = CrashingBackend(MemoryStateBackend())
        Limpet(counting).run_sync(shopping, ["kelp", "dulse"], state_id="o")
        return counting.writes

    total = count()
    expected = keys[:]
    noted_keys.clear()
    for stop_at, when in product(range(1, total + 1), ("before", "after")):
        executions.clear()
        keys.clear()
        backend = MemoryStateBackend()
        with pytest.raises(SimulatedCrash):
            Limpet(CrashingBackend(backend, stop_at, when)).run_sync(shopping, ["kelp", "dulse"], state_id="o")
        client = Limpet(backend)
        try:
            result = client.run_sync(shopping, ["kelp", "dulse"], state_id="o")
        except OutcomeUnknown:
            client.settle("o", again=True)
            result = client.run_sync(shopping, ["kelp", "dulse"], state_id="o")
        assert ["kelp", "dulse"] == result[::2]
        assert expected == list(dict.fromkeys(keys))
        assert all(1 == len(found) for found in noted_keys.values())
        assert executions["kelp"] + executions["dulse"] <= 3


def test_nothing_that_is_declared_once_is_executed_twice_by_a_crash_at_any_write() -> None:
    counting = CrashingBackend(MemoryStateBackend())
    Limpet(counting).run_sync(shopping, ["kelp", "dulse"], state_id="o")
    for stop_at, when in product(range(1, counting.writes + 1), ("before", "after")):
        executions.clear()
        backend = MemoryStateBackend()
        with pytest.raises(SimulatedCrash):
            Limpet(CrashingBackend(backend, stop_at, when)).run_sync(shopping, ["kelp", "dulse"], state_id="o")
        client = Limpet(backend)
        try:
            client.run_sync(shopping, ["kelp", "dulse"], state_id="o")
        except OutcomeUnknown as error:
            client.settle("o", error.address, happened="found")
            client.run_sync(shopping, ["kelp", "dulse"], state_id="o")
        assert StateStatus.COMPLETED is client.show("o").header.status
        assert max(executions["kelp"], executions["dulse"]) <= 1


def test_the_key_of_a_call_outlives_an_interrupt(client: Limpet) -> None:
    switch["kelp waits"] = True
    with pytest.raises(ExecutionInterrupted):
        client.run_sync(order, "kelp", state_id="o", timeout_s=0.2)
    switch.clear()
    client.settle("o", again=True)
    client.run_sync(order, "kelp", state_id="o")
    assert (2, 1) == (len(keys), len(set(keys)))


def test_on_another_timeline_the_same_address_is_another_call(client: Limpet) -> None:
    client.run_sync(order, "kelp", state_id="o")
    asyncio.run(client.rerun("o", again=True))
    asyncio.run(client.rerun("o", at=CHARGE, again=True))
    assert (3, 3) == (len(keys), len(set(keys)))


def test_a_call_that_is_unknown_keeps_its_key_in_a_fork(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    fork = client.fork("o", new_state_id="fork")
    with pytest.raises(OutcomeUnknown):
        asyncio.run(client.resume(fork))
    assert keys[0] == details(client, state_id=fork).key
    client.settle(fork, again=True)
    assert "receipt kelp/2" == asyncio.run(client.resume(fork))[1]
    assert (2, 1) == (len(keys), len(set(keys)))


def test_a_call_that_a_fork_makes_itself_has_another_key(client: Limpet) -> None:
    client.run_sync(order, "kelp", state_id="o")
    fork = client.fork("o", CHARGE, again=True)
    asyncio.run(client.resume(fork))
    assert (2, 2) == (len(keys), len(set(keys)))


def test_a_probe_in_a_fork_is_given_the_key_that_the_handler_was_given(backend: StateBackend) -> None:
    probed_order = probing(lambda: Happened("found"), is_async=False)
    client = dies(backend, probed_order, "kelp")
    fork = client.fork("o")
    assert "found" == asyncio.run(client.resume(fork, agent=probed_order))[1]
    assert [("kelp", CHARGE, keys[0])] == probed


# No other verb executes it either.


def test_a_rehearsal_and_a_validation_do_not_execute_it(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    client.settle("o", happened="found")
    client.run_sync(order, "kelp", state_id="o")
    report = asyncio.run(client.validate("o"))
    assert 1 == executions["kelp"], report
    loaded = ExecutionState.load_from_state_id("o", backend, replay_mode=ReplayMode.REHEARSAL)
    asyncio.run(ExecutionEvent(order)("kelp", None, loaded))
    assert 1 == executions["kelp"]


def test_running_on_from_before_an_unknown_call_needs_a_word(backend: StateBackend) -> None:
    client = dies(backend, order, "kelp")
    with pytest.raises(OnceAgain):
        asyncio.run(client.rerun("o"))
    with pytest.raises(OnceAgain):
        asyncio.run(client.rerun("o", at="pack"))
    with pytest.raises(OnceAgain):
        client.fork("o", at="pack")
    assert 1 == executions["kelp"]
    assert "receipt kelp/2" == asyncio.run(client.rerun("o", at="pack", again=True))[1]


def test_running_on_from_behind_an_unknown_call_in_another_branch_does_not_execute_it(backend: StateBackend) -> None:
    @agent
    async def beside() -> list[str]:
        first = await pack("first")
        return [first, *await asyncio.gather(charge("kelp"), pack("second"))]

    client = dies(backend, beside)
    with pytest.raises((OutcomeUnknown, OnceAgain)):
        asyncio.run(client.rerun("o", at="first" if "first" in client.history("o") else "pack"))
    assert 1 == executions["kelp"]


PROGRAM = """
import os, signal, sys
from limpet import Happened, Limpet, agent, current_event, tool

def was_charged(amount):
    with open("charges") as file:
        return Happened("found") if current_event().idempotency_key in file.read() else None

@tool(once=True, probe=was_charged)
def charge(amount: int) -> str:
    with open("charges", "a") as file:
        print(current_event().idempotency_key, file=file)
    if "kill" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)
    return "receipt"

@agent
async def order(amount: int) -> str:
    return await charge(amount)

if __name__ == "__main__":
    print(Limpet("sqlite:///runs.db").run_sync(order, 5, state_id="o"))
"""


def test_a_probe_finds_out_by_the_key_what_a_killed_process_has_done(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "program.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, timeout=60)

    assert -9 == run("kill").returncode
    assert "found\n" == run().stdout
    assert 1 == len((tmp_path / "charges").read_text().splitlines())
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as client:
        assert ("happened", "probe") == (details(client).settled, details(client).by)
