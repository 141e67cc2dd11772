"""What a run promises: its own results, nothing done twice, and the same end however it gets there."""

from __future__ import annotations

import asyncio
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    ConditionFailed,
    DriftWarning,
    EventRecord,
    ExecutionStatus,
    Limpet,
    StateMetadata,
    StateMismatch,
    StateStatus,
    UsageError,
    ValueNotStorable,
    agent,
    llm,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["memory://", "sqlite:///{}/runs.db", "sqlite:///{}/runs.db?synchronous=normal"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Limpet]:
    with Limpet(request.param.format(tmp_path)) as limpet:
        yield limpet


@dataclass
class Page:
    url: str
    words: list[str] = field(default_factory=list)


@tool
async def double(number: int) -> int:
    executions["double"] += 1
    return number * 2


@tool
async def fetch(url: str) -> Page:
    executions["fetch"] += 1
    return Page(url, ["kelp"])


@tool
async def breaks_once(name: str) -> str:
    executions[name] += 1
    if switch.get(name, True):
        raise LookupError(name)
    return name


@agent
async def doubles(count: int) -> list[int]:
    found = [await double(number) for number in range(1, count + 1)]
    if switch.get("break"):
        raise RuntimeError("stopped")
    return found


def test_a_tool_in_a_loop_gives_each_call_its_own_result(client: Limpet) -> None:
    assert [2, 4, 6, 8, 10, 12, 14, 16] == client.run_sync(doubles, 8)
    assert 8 == executions["double"]


def test_a_model_tool_loop_ends_after_as_many_turns_as_it_has(client: Limpet) -> None:
    @llm
    async def model(turn: int) -> str:
        executions["model"] += 1
        return "done" if turn == 4 else "go on"

    @agent
    async def talk() -> int:
        turn = 0
        while await model(turn) != "done":
            await double(turn)
            turn += 1
        return turn

    assert 4 == client.run_sync(talk)
    assert Counter(model=5, double=4) == executions


def test_every_later_run_of_an_unfinished_state_executes_nothing_recorded_and_adds_nothing_that_grows(
    client: Limpet,
) -> None:
    switch["break"] = True
    positions: list[int] = []
    for _ in range(4):
        with pytest.raises(RuntimeError):
            client.run_sync(doubles, 50, state_id="again")
        positions.append(client.list_states()[0].position)
    assert 50 == executions["double"]
    assert max(b - a for a, b in itertools.pairwise(positions)) <= 2
    switch["break"] = False
    assert [number * 2 for number in range(1, 51)] == client.run_sync(doubles, 50, state_id="again")
    assert 50 == executions["double"]


@pytest.mark.parametrize("value", [None, False, 0, "", math.nan, [], {}])
def test_an_empty_result_is_a_result(client: Limpet, value: Any) -> None:
    @tool
    async def give() -> Any:
        executions["give"] += 1
        return value

    @agent
    async def once_more() -> list[Any]:
        found = [await give(), await give()]
        if switch.get("break"):
            raise RuntimeError
        return found

    switch["break"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(once_more, state_id="empty")
    switch["break"] = False
    assert repr([value, value]) == repr(client.run_sync(once_more, state_id="empty"))
    assert 2 == executions["give"]


def test_changing_a_returned_object_does_not_change_what_replay_gives(client: Limpet) -> None:
    @agent
    async def spoils() -> Page:
        page = await fetch("u")
        before = Page(page.url, list(page.words))
        page.words.append("spoilt")
        page.url = "elsewhere"
        if switch.get("break"):
            raise RuntimeError
        return before

    switch["break"] = True
    for _ in range(2):
        with pytest.raises(RuntimeError):
            client.run_sync(spoils, state_id="spoils")
    switch["break"] = False
    assert Page("u", ["kelp"]) == client.run_sync(spoils, state_id="spoils")
    assert 1 == executions["fetch"]


def test_a_replayed_result_has_the_type_of_the_live_one(client: Limpet) -> None:
    kinds: list[type] = []

    @agent
    async def looks() -> None:
        kinds.append(type(await fetch("u")))
        if switch.pop("break", None):
            raise RuntimeError

    switch["break"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(looks, state_id="types")
    client.run_sync(looks, state_id="types")
    assert [Page, Page] == kinds


def test_a_plain_function_keeps_the_scope_when_it_calls_other_actors(client: Limpet) -> None:
    @tool
    def plain(number: int) -> int:
        executions["plain"] += 1
        return double.call(number) + double.call(number + 1)

    @agent
    def plainly(number: int) -> int:
        return plain.call(number) + double.call(number)

    assert 2 * 3 + 2 * 4 + 2 * 3 == client.run_sync(plainly, 3, state_id="plain")
    assert [
        "plainly::agent_call",
        "plainly::plain::tool_call",
        "plainly::plain::double::tool_call",
        "plainly::plain::double#2::tool_call",
        "plainly::double::tool_call",
    ] == client.history("plain").addresses()


def test_many_nested_plain_functions_do_not_wait_for_each_others_threads(client: Limpet) -> None:
    @tool
    def down(depth: int) -> int:
        return 1 + down.call(depth - 1) if depth else 0

    @agent
    async def deep() -> list[int]:
        return list(await asyncio.gather(*(down(20) for _ in range(3))))

    assert [20, 20, 20] == client.run_sync(deep)


def test_outside_a_run_an_actor_just_executes() -> None:
    @tool
    def plain(number: int) -> int:
        return number + 1

    async def awaited() -> tuple[int, int]:
        return await double(2), await plain(2)

    assert (4, 3) == asyncio.run(awaited())
    assert 4 == double.call(2)
    assert 3 == plain.call(2)


def test_blocking_calls_are_refused_in_async_code(client: Limpet) -> None:
    @agent
    async def blocks() -> int:
        return double.call(2)

    with pytest.raises(UsageError, match="Await the call"):
        client.run_sync(blocks)


def test_a_completed_run_gives_its_recorded_result_without_running_anything(client: Limpet) -> None:
    first = client.run_sync(doubles, 3, state_id="done")
    executions.clear()
    assert first == client.run_sync(doubles, 3, state_id="done")
    assert first == asyncio.run(client.resume("done"))
    assert first == asyncio.run(client.resume("done", agent=doubles))
    assert Counter() == executions


@pytest.mark.parametrize("is_finished", [True, False])
def test_the_same_id_with_another_agent_or_input_is_refused_and_changes_nothing(
    client: Limpet, is_finished: bool
) -> None:
    @agent
    async def another(count: int) -> int:
        return count

    switch["break"] = not is_finished
    try:
        client.run_sync(doubles, 3, state_id="taken")
    except RuntimeError:
        assert not is_finished
    before = client.list_states()
    with pytest.raises(StateMismatch, match="another input"):
        client.run_sync(doubles, 4, state_id="taken")
    with pytest.raises(StateMismatch, match="'doubles', not 'another'"):
        client.run_sync(another, 3, state_id="taken")
    assert before == client.list_states()
    switch["break"] = False
    assert [2, 4, 6] == client.run_sync(doubles, 3, state_id="taken")


def test_naming_an_argument_is_no_change_of_the_input(client: Limpet) -> None:
    assert client.run_sync(doubles, 3, state_id="named") == client.run_sync(doubles, count=3, state_id="named")


def test_an_uncaught_failure_fails_the_run_and_is_tried_again_from_there(client: Limpet) -> None:
    @agent
    async def inner() -> str:
        return await breaks_once("inner")

    @agent
    async def fails() -> list[Any]:
        return [await double(1), await inner(), await double(2)]

    with pytest.raises(LookupError, match="inner"):
        client.run_sync(fails, state_id="fails")
    header = client.list_states()[0]
    assert StateStatus.FAILED is header.status
    assert header.holder is None
    switch["inner"] = False
    assert [2, "inner", 4] == client.run_sync(fails, state_id="fails")
    assert Counter(double=2, inner=2) == executions


def test_a_caught_failure_is_replayed_as_the_same_exception(client: Limpet) -> None:
    @agent
    async def catches() -> list[Any]:
        try:
            found: Any = await breaks_once("caught")
        except LookupError as error:
            found = repr(error)
        later = await breaks_once("later")
        return [found, later]

    for _ in range(2):
        with pytest.raises(LookupError, match="later"):
            client.run_sync(catches, state_id="catches")
    switch.update(caught=False, later=False)
    assert ["LookupError('caught')", "later"] == client.run_sync(catches, state_id="catches")
    assert Counter(caught=1, later=3) == executions


def test_a_failure_in_the_wake_of_a_caught_one_is_the_one_tried_again(client: Limpet) -> None:
    @agent
    async def falls_back() -> str:
        try:
            return await breaks_once("cheap")
        except LookupError:
            return await breaks_once("dear")

    with pytest.raises(LookupError, match="dear"):
        client.run_sync(falls_back, state_id="falls-back")
    switch.update(cheap=False, dear=False)
    assert "dear" == client.run_sync(falls_back, state_id="falls-back")
    assert Counter(cheap=1, dear=2) == executions


def test_options_add_up(client: Limpet) -> None:
    assert "double[a]" == double.options(key="a").options(version="2").label


def test_a_failure_in_a_task_group_is_tried_again(client: Limpet) -> None:
    @agent
    async def groups() -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(breaks_once("grouped")), group.create_task(double(4))]
        return [task.result() for task in tasks]

    with pytest.raises(ExceptionGroup):
        client.run_sync(groups, state_id="groups")
    switch["grouped"] = False
    assert ["grouped", 8] == client.run_sync(groups, state_id="groups")


def test_a_result_that_cannot_be_stored_fails_its_event_and_names_the_place(client: Limpet) -> None:
    @tool
    async def gives_a_function() -> dict[str, Any]:
        executions["function"] += 1
        return {"items": [1, lambda: None]} if switch.get("bad", True) else {"items": [1]}

    @agent
    async def wants() -> Any:
        return await gives_a_function()

    with pytest.raises(ValueNotStorable, match=r"result\['items'\]\[1\] cannot be stored: function"):
        client.run_sync(wants, state_id="unstorable")
    assert ExecutionStatus.FAILED is client.history("unstorable")["wants::gives_a_function::tool_call"].status
    switch["bad"] = False
    assert {"items": [1]} == client.run_sync(wants, state_id="unstorable")


def test_an_argument_that_cannot_be_stored_is_noted_and_does_no_harm(client: Limpet) -> None:
    @tool
    async def uses(client: object, number: int) -> int:
        executions["uses"] += 1
        return number

    @agent
    async def connects() -> int:
        found = await uses(object(), 4)
        if switch.pop("break", None):
            raise RuntimeError
        return found

    switch["break"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(connects, state_id="client")
    assert 4 == client.run_sync(connects, state_id="client")
    assert 1 == executions["uses"]


def test_the_input_of_a_run_must_be_storable(client: Limpet) -> None:
    with pytest.raises(ValueNotStorable, match=r"input\[0\] cannot be stored"):
        client.run_sync(doubles, lambda: 1)
    assert [] == client.list_states()


def test_a_changed_input_or_version_is_reported_and_the_recorded_result_is_given(client: Limpet) -> None:
    @agent
    async def drifts() -> list[int]:
        found = [await double(switch["number"]), await double.options(version=switch["version"])(1)]
        if switch.get("break"):
            raise RuntimeError
        return found

    switch.update({"number": 5, "version": "1", "break": True})
    with pytest.raises(RuntimeError):
        client.run_sync(drifts, state_id="drifts")
    switch.update({"number": 6, "version": "2", "break": False})
    with pytest.warns(DriftWarning) as caught:
        assert [10, 2] == client.run_sync(drifts, state_id="drifts")
    assert [
        "State 'drifts' gave the recorded result at 'drifts::double::tool_call' although its input changed.",
        "State 'drifts' gave the recorded result at 'drifts::double#2::tool_call' although its version was 1 and is 2.",
    ] == [str(warning.message) for warning in caught]
    assert {__file__} == {warning.filename for warning in caught}


def test_drift_can_be_made_an_error(client: Limpet) -> None:
    @agent
    async def drifts() -> int:
        found = await double(switch["number"])
        if switch.get("break"):
            raise RuntimeError
        return found

    switch.update({"number": 5, "break": True})
    with pytest.raises(RuntimeError):
        client.run_sync(drifts, state_id="drifts")
    switch["number"] = 6
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        with pytest.raises(DriftWarning):
            client.run_sync(drifts, state_id="drifts")


def test_inputs_are_recorded_as_values_unless_switched_off(client: Limpet) -> None:
    async def both() -> None:
        await client.run(doubles, 1, state_id="with")
        await client.run(doubles, 1, state_id="without", record_inputs=False)

    asyncio.run(both())
    with_values = client.history("with")["doubles::double::tool_call"]
    without = client.history("without")["doubles::double::tool_call"]
    assert with_values.input is not None
    assert without.input is None
    assert with_values.input_fingerprint == without.input_fingerprint == without.fingerprint


def test_conditions_guard_an_event(client: Limpet) -> None:
    def is_positive(number: int) -> bool:
        return number > 0

    @tool(preconditions=[is_positive], postconditions=[lambda result: result < 10])
    async def guarded(number: int) -> int:
        return number * 2

    @agent
    async def asks(number: int) -> int:
        return await guarded(number)

    assert 4 == client.run_sync(asks, 2)
    with pytest.raises(ConditionFailed, match="precondition is_positive"):
        client.run_sync(asks, -1)
    with pytest.raises(ConditionFailed, match="postcondition"):
        client.run_sync(asks, 7)


def test_a_key_names_the_address_of_a_call(client: Limpet) -> None:
    @agent
    async def keyed() -> list[Page]:
        return [await fetch.options(key=key)("u") for key in ("page-2", "a::b", "page-2")]

    client.run_sync(keyed, state_id="keyed")
    assert [
        "keyed::fetch[page-2]::tool_call",
        "keyed::fetch[a%3A%3Ab]::tool_call",
        "keyed::fetch[page-2]#2::tool_call",
    ] == client.history("keyed").addresses()[1:]


def test_an_address_is_taken_when_the_call_is_made(client: Limpet) -> None:
    @agent
    async def backwards() -> list[int]:
        calls = [double(number) for number in (1, 2, 3)]
        return [await call for call in reversed(calls)]

    assert [6, 4, 2] == client.run_sync(backwards, state_id="backwards")
    assert 6 == client.history("backwards").get_event_result("backwards::double#3::tool_call")


def test_a_call_after_its_agent_has_ended_is_refused(client: Limpet) -> None:
    late: list[Any] = []

    @agent
    async def leaves_early() -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await double(1)

        late.append(asyncio.create_task(later()))

    @agent
    async def outer() -> None:
        await leaves_early()
        with pytest.raises(UsageError, match="after that call had ended"):
            await late[0]

    client.run_sync(outer)
    assert 0 == executions["double"]


def test_methods_can_be_actors(client: Limpet) -> None:
    class Shop:
        def __init__(self, factor: int) -> None:
            self.factor = factor

        @tool
        async def price(self, number: int) -> int:
            executions["price"] += 1
            return number * self.factor

    shop = Shop(3)

    @agent
    async def buys() -> list[int]:
        found = [await shop.price(1), await shop.price(2)]
        if switch.pop("break", None):
            raise RuntimeError
        return found

    switch["break"] = True
    with pytest.raises(RuntimeError):
        client.run_sync(buys, state_id="shop")
    assert [3, 6] == client.run_sync(buys, state_id="shop")
    assert 2 == executions["price"]


def test_a_cancelled_run_is_handed_back_and_goes_on_later(client: Limpet) -> None:
    @agent
    async def waits() -> list[int]:
        first = await double(1)
        if switch.get("wait", True):
            switch["waiting"].set()
            await asyncio.Event().wait()
        return [first, await double(2)]

    async def cancel() -> None:
        switch["waiting"] = asyncio.Event()
        task = asyncio.create_task(client.run(waits, state_id="waits"))
        await switch["waiting"].wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    header = client.list_states()[0]
    assert (StateStatus.RUNNING, None) == (header.status, header.holder)
    switch["wait"] = False
    assert [2, 4] == client.run_sync(waits, state_id="waits")
    assert 2 == executions["double"]


def test_a_cancelled_call_has_no_outcome_and_runs_again(client: Limpet) -> None:
    @tool
    async def slow() -> str:
        executions["slow"] += 1
        if switch.get("slow", True):
            await asyncio.Event().wait()
        return "done"

    @agent
    async def times_out() -> str:
        try:
            return await asyncio.wait_for(slow(), 0.01 if switch.get("slow", True) else None)
        except TimeoutError:
            raise RuntimeError("too slow") from None

    with pytest.raises(RuntimeError, match="too slow"):
        client.run_sync(times_out, state_id="slow")
    switch["slow"] = False
    assert "done" == client.run_sync(times_out, state_id="slow")
    assert 2 == executions["slow"]


def test_a_run_inside_a_run_is_a_state_of_its_own(client: Limpet) -> None:
    @agent
    async def outer() -> list[Any]:
        return [await double(1), await client.run(doubles, 2, state_id="inside"), await double(2)]

    assert [2, [2, 4], 4] == client.run_sync(outer, state_id="outside")
    assert {"inside", "outside"} == {state.state_id for state in client.list_states()}
    assert 3 == len(client.history("outside"))


def test_states_are_listed_the_newest_first_and_found_by_what_they_carry(client: Limpet) -> None:
    for name, tags in (("first", ["a"]), ("second", ["a", "b"]), ("third", [])):
        metadata = StateMetadata(tags=tags, pipeline_name=name, custom_data={"number": 1})
        client.run_sync(doubles, 1, state_id=name, metadata=metadata)
    assert ["third", "second", "first"] == [state.state_id for state in client.list_states()]
    assert ["second", "first"] == [state.state_id for state in client.list_states(tags=["a"])]
    assert ["second"] == [state.state_id for state in client.list_states(tags=["b", "a"])]
    assert ["third"] == [state.state_id for state in client.list_states(pipeline_name="third")]
    assert [] == client.list_states(status=StateStatus.FAILED)
    assert ["third"] == [state.state_id for state in client.list_states(limit=1)]
    header = client.show("second").header
    assert {"number": 1} == header.metadata.custom_data
    assert "python" in header.metadata.environment
    assert header.created_at.tzinfo is not None


def test_deleting_removes_a_state_and_nothing_else(client: Limpet) -> None:
    client.run_sync(doubles, 1, state_id="one")
    client.run_sync(doubles, 1, state_id="two")
    client.delete("one")
    assert ["two"] == [state.state_id for state in client.list_states()]
    assert [2] == client.run_sync(doubles, 1, state_id="one")


def test_records_tell_the_whole_life_of_each_event_in_order(client: Limpet) -> None:
    client.run_sync(doubles, 2, state_id="life")
    told = [(record.address, record.status) for record in client.history("life") if isinstance(record, EventRecord)]
    assert [
        ("doubles::agent_call", ExecutionStatus.STARTED),
        ("doubles::double::tool_call", ExecutionStatus.STARTED),
        ("doubles::double::tool_call", ExecutionStatus.COMPLETED),
        ("doubles::double#2::tool_call", ExecutionStatus.STARTED),
        ("doubles::double#2::tool_call", ExecutionStatus.COMPLETED),
        ("doubles::agent_call", ExecutionStatus.COMPLETED),
    ] == told
