"""Running a state on from an address: what started before it is reused, the rest runs again, the old timeline stays."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any, Literal

import pytest

from limpet import (
    Agent,
    AmbiguousAddress,
    Drift,
    DriftWarning,
    EventBus,
    EventNotice,
    ExecutionEvent,
    ExecutionState,
    LeaseHeld,
    Limpet,
    MemoryStateBackend,
    StateBackend,
    StateStatus,
    UnknownAddress,
    UnknownState,
    UnknownTimeline,
    UsageError,
    WrongReplacement,
    agent,
    llm,
    tool,
)
from limpet.testing import CrashingBackend

executions: Counter[str] = Counter()
failing: set[str] = set()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()
    switch.clear()


@tool
async def step(name: str) -> str:
    """Says how often it was executed, so that no result of one timeline looks like that of another."""
    executions[name] += 1
    if name in failing:
        raise LookupError(name)
    return f"{name}/{executions[name]}"


@tool
def plain_step(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]}"


@agent
async def flat(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


@agent
async def leaf(name: str) -> list[str]:
    executions["leaf"] += 1
    return [await step(f"{name}{number}") for number in (1, 2, 3)]


@agent
async def middle(name: str) -> list[str]:
    executions["middle"] += 1
    return [*await leaf(f"{name}a"), *await leaf(f"{name}b")]


@agent
async def nested() -> list[str]:
    executions["nested"] += 1
    return [await step("first"), *await middle("x"), *await middle("y"), await step("last")]


def ran() -> set[str]:
    """What was executed since this was asked last."""
    before: Counter[str] = switch.get("counted", Counter())
    switch["counted"] = Counter(executions)
    return set(executions - before)


def frames_of(backend: StateBackend, state_id: str) -> list[tuple[int, bytes]]:
    return backend.read(state_id)


def test_rerun_skips_what_started_before_and_executes_the_event_and_all_after_it(client: Limpet) -> None:
    assert ["s1/1", "s2/1", "s3/1", "s4/1"] == client.run_sync(flat, 4, state_id="x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == asyncio.run(client.rerun("x", "flat::step#3::tool_call"))
    assert Counter(s1=1, s2=1, s3=2, s4=2) == executions


def test_the_explicit_form_resumes_from_an_address_in_a_loop(backend: StateBackend) -> None:
    async def loop(state: ExecutionState) -> tuple[list[str], list[bool]]:
        events = [ExecutionEvent(step) for _ in range(4)]
        results = [(await event(f"s{number}", None, state)).result for number, event in enumerate(events, 1)]
        return results, [event.is_replayed for event in events]

    asyncio.run(loop(ExecutionState(state_backend=backend, state_id="x")))
    again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#3::tool_call")
    assert (["s1/1", "s2/1", "s3/2", "s4/2"], [True, True, False, False]) == asyncio.run(loop(again))
    loaded = ExecutionState.load_from_state_id("x", backend)
    assert (["s1/1", "s2/1", "s3/2", "s4/2"], [True, True, True, True]) == asyncio.run(loop(loaded))


def test_an_address_deep_in_nested_agents_enters_what_encloses_it_and_skips_the_rest(client: Limpet) -> None:
    client.run_sync(nested, state_id="x")
    ran()
    result = asyncio.run(client.rerun("x", "nested::middle::leaf#2::step#2::tool_call"))
    assert ["first/1", "xa1/1", "xa2/1", "xa3/1", "xb1/1", "xb2/2", "xb3/2"] == result[:7]
    assert ["ya1/2", "ya2/2", "ya3/2", "yb1/2", "yb2/2", "yb3/2", "last/2"] == result[7:]
    # The leaf before it was skipped; the one that it stands in was entered, and so were those after it.
    assert Counter(nested=2, middle=2 + 2, leaf=4 + 3) == Counter(
        {name: executions[name] for name in ("nested", "middle", "leaf")}
    )


def test_running_on_from_an_agent_runs_all_of_it_again(client: Limpet) -> None:
    client.run_sync(nested, state_id="x")
    ran()
    asyncio.run(client.rerun("x", "nested::middle#2::leaf#2::agent_call"))
    assert {"yb1", "yb2", "yb3", "last", "leaf", "middle", "nested"} == ran()


@agent
async def two_chains(kind: str) -> list[list[str]]:
    """The chain b has ended before a begins."""
    b_has_ended = asyncio.Event()

    async def chain(name: str) -> list[str]:
        if name == "a":
            await b_has_ended.wait()
        found = [await step(f"{name}{number}") for number in (1, 2, 3)]
        b_has_ended.set()
        return found

    if kind == "gather":
        return list(await asyncio.gather(chain("a"), chain("b")))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain("a")), group.create_task(chain("b"))]
    return [task.result() for task in tasks]


@pytest.mark.parametrize("kind", ["gather", "group"])
def test_inside_a_branch_the_branches_that_had_finished_before_are_left_alone(client: Limpet, kind: str) -> None:
    client.run_sync(two_chains, kind, state_id="x")
    result = asyncio.run(client.rerun("x", "two_chains::task[chain]::step#2::tool_call"))
    assert [["a1/1", "a2/2", "a3/2"], ["b1/1", "b2/1", "b3/1"]] == result


@pytest.mark.parametrize("kind", ["gather", "group"])
def test_inside_a_branch_the_branches_that_began_after_run_again(client: Limpet, kind: str) -> None:
    client.run_sync(two_chains, kind, state_id="x")
    result = asyncio.run(client.rerun("x", "two_chains::task[chain]#2::step#2::tool_call"))
    assert [["a1/2", "a2/2", "a3/2"], ["b1/1", "b2/2", "b3/2"]] == result


def test_what_was_under_way_when_the_event_started_is_skipped_too(client: Limpet) -> None:
    @tool
    async def slow() -> str:
        await switch["go"].wait()
        return await_count("slow")

    @tool
    async def quick() -> str:
        switch["go"].set()
        return await_count("quick")

    def await_count(name: str) -> str:
        executions[name] += 1
        return f"{name}/{executions[name]}"

    @agent
    async def both() -> list[str]:
        switch["go"] = asyncio.Event()
        return [*await asyncio.gather(slow(), quick()), await step("after")]

    assert ["slow/1", "quick/1", "after/1"] == client.run_sync(both, state_id="x")
    assert ["slow/1", "quick/2", "after/2"] == asyncio.run(client.rerun("x", "both::quick::tool_call"))
    assert ["slow/2", "quick/3", "after/3"] == asyncio.run(client.rerun("x", "both::slow::tool_call"))


def test_an_agent_that_was_under_way_is_entered_again_for_what_it_did_after(client: Limpet) -> None:
    @agent
    async def around() -> list[str]:
        before = await step("before")
        switch["begun"].set()
        await switch["go"].wait()
        return [before, await step("after")]

    @tool
    async def quick() -> str:
        executions["quick"] += 1
        switch["go"].set()
        return f"quick/{executions['quick']}"

    @agent
    async def both() -> list[Any]:
        switch.update(begun=asyncio.Event(), go=asyncio.Event())
        task = asyncio.create_task(around())
        await switch["begun"].wait()
        found = await quick()
        return [await task, found]

    assert [["before/1", "after/1"], "quick/1"] == client.run_sync(both, state_id="x")
    assert [["before/1", "after/2"], "quick/2"] == asyncio.run(client.rerun("x", "quick"))


@tool
async def fetch(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]}"


@tool
async def fetch_all(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]}"


@agent
async def fetches() -> list[str]:
    return [
        await fetch.options(key="page-2")("early page"),
        await fetch_all("early all"),
        await fetch("bare"),
        await fetch_all("late all"),
        await fetch.options(key="page-3")("late page"),
    ]


def test_an_address_does_not_mean_those_that_begin_alike(client: Limpet) -> None:
    client.run_sync(fetches, state_id="x")
    ran()
    for at in ("fetches::fetch::tool_call", "fetch::tool_call", "fetch"):
        asyncio.run(client.rerun("x", at))
        assert {"bare", "late all", "late page"} == ran()
    for at in ("fetches::fetch[page-3]::tool_call", "fetch[page-3]"):
        asyncio.run(client.rerun("x", at))
        assert {"late page"} == ran()
    asyncio.run(client.rerun("x", "fetch_all#2"))
    assert {"late all", "late page"} == ran()


def test_in_the_explicit_form_an_address_does_not_mean_those_that_begin_alike(backend: StateBackend) -> None:
    async def loop(state: ExecutionState) -> list[bool]:
        events = [ExecutionEvent(fetch_all), ExecutionEvent(fetch, tag="page-2"), ExecutionEvent(fetch)]
        for event in events:
            await event(event.tag or event.actor.name, None, state)
        return [event.is_replayed for event in events]

    asyncio.run(loop(ExecutionState(state_backend=backend, state_id="x")))
    for address, expected in {
        "fetch::tool_call": [True, True, False],
        "fetch[page-2]::tool_call": [True, False, False],
        "fetch_all::tool_call": [False, False, False],
    }.items():
        state = ExecutionState.load_from_state_id("x", backend, resume_from_address=address)
        assert expected == asyncio.run(loop(state))


def test_the_old_timeline_is_listed_and_can_be_loaded_and_compared(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    asyncio.run(client.rerun("x", "step#2"))
    first, second = client.timelines("x")
    assert (1, None, None, False) == (first.number, first.base, first.address, first.is_current)
    assert (2, 1, "flat::step#2::tool_call", True) == (second.number, second.base, second.address, second.is_current)
    assert ["s1/1", "s2/1", "s3/1"] == client.history("x", timeline=1).get_event_result("flat::agent_call")
    assert ["s1/1", "s2/2", "s3/2"] == client.history("x", timeline=2).get_event_result("flat::agent_call")
    assert ["s1/1", "s2/2", "s3/2"] == client.history("x").get_event_result("flat::agent_call")
    assert "s2/1" == client.show("x", timeline=1).history.get_event_result("flat::step#2::tool_call")
    diff = client.diff("x:1", "x:2")
    assert ["flat::step#2::tool_call", "flat::step#3::tool_call", "flat::agent_call"] == [
        change.address for change in diff.changed_events
    ]
    assert "result: 's2/1' -> 's2/2'" in str(diff)
    assert diff.changed_events == client.diff("x").changed_events
    with pytest.raises(UnknownTimeline):
        client.history("x", timeline=3)


def test_the_explicit_form_lists_and_loads_old_timelines(backend: StateBackend) -> None:
    async def two(state: ExecutionState) -> list[str]:
        return [(await ExecutionEvent(step)(name, None, state)).result for name in ("s1", "s2")]

    asyncio.run(two(ExecutionState(state_backend=backend, state_id="x")))
    again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#2::tool_call")
    assert [1] == [timeline.number for timeline in again.timelines]
    assert ["s1/1", "s2/2"] == asyncio.run(two(again))
    assert [(1, None), (2, "step#2::tool_call")] == [(each.number, each.address) for each in again.timelines]
    old = ExecutionState.load_from_state_id("x", backend, timeline=1)
    assert "s2/1" == old.history.get_event_result("step#2::tool_call")
    assert ["s1/1", "s2/1"] == asyncio.run(two(old))
    assert Counter(s1=1, s2=2) == executions
    with pytest.raises(UnknownTimeline):
        ExecutionState.load_from_state_id("x", backend, timeline=7)


def test_writing_to_an_older_timeline_begins_a_new_one(backend: StateBackend) -> None:
    async def calls(state: ExecutionState, count: int) -> list[str]:
        return [(await ExecutionEvent(step)(f"s{n}", None, state)).result for n in range(1, count + 1)]

    asyncio.run(calls(ExecutionState(state_backend=backend, state_id="x"), 2))
    again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#2::tool_call")
    asyncio.run(calls(again, 2))
    old = ExecutionState.load_from_state_id("x", backend, timeline=1)
    assert ["s1/1", "s2/1", "s3/1"] == asyncio.run(calls(old, 3))
    assert [(1, None), (2, 1), (3, 1)] == [(each.number, each.base) for each in old.timelines]
    now = ExecutionState.load_from_state_id("x", backend)
    assert ["s1/1", "s2/1", "s3/1"] == asyncio.run(calls(now, 3))


def test_a_failure_after_the_address_goes_on_on_the_new_timeline_with_nothing_of_the_old(client: Limpet) -> None:
    client.run_sync(flat, 5, state_id="x")
    failing.add("s4")
    with pytest.raises(LookupError, match="s4"):
        asyncio.run(client.rerun("x", "step#2"))
    assert StateStatus.FAILED is client.list_states()[0].status
    failing.clear()
    assert ["s1/1", "s2/2", "s3/2", "s4/3", "s5/2"] == asyncio.run(client.resume("x"))
    assert ["s1/1", "s2/2", "s3/2", "s4/3", "s5/2"] == client.run_sync(flat, 5, state_id="x")
    assert [1, 2] == [timeline.number for timeline in client.timelines("x")]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_write_resumes_on_one_timeline_and_never_mixes_two(when: Literal["before", "after"]) -> None:
    old = ["s1/1", "s2/1", "s3/1", "s4/1"]
    results: list[list[str]] = []
    is_stopped = True
    while is_stopped:
        executions.clear()
        backend = MemoryStateBackend()
        Limpet(backend).run_sync(flat, 4, state_id="x")
        crashing = CrashingBackend(backend, stop_at=len(results) + 1, when=when)
        try:
            asyncio.run(Limpet(crashing).rerun("x", "step#2", agent=flat))
        except BaseException:
            if not crashing.is_stopped:
                raise
        is_stopped = crashing.is_stopped
        result = asyncio.run(Limpet(backend).resume("x", agent=flat))
        is_new = len(Limpet(backend).timelines("x")) == 2
        assert is_new == (result != old)
        if is_new:
            assert "s1/1" == result[0]
            assert all(name.endswith(("/2", "/3")) for name in result[1:])
        results.append(result)
    assert old == results[0]
    assert len(results) > 5
    assert sum(result == old for result in results) <= 2


def test_a_crash_in_nested_agents_resumes_on_the_new_timeline() -> None:
    at = "nested::middle::leaf#2::step#2::tool_call"
    expected_old = ["first/1", "xa1/1", "xa2/1", "xa3/1", "xb1/1"]
    for stop_at in range(3, 25):
        executions.clear()
        backend = MemoryStateBackend()
        Limpet(backend).run_sync(nested, state_id="x")
        crashing = CrashingBackend(backend, stop_at=stop_at, when="after")
        try:
            asyncio.run(Limpet(crashing).rerun("x", at, agent=nested))
        except BaseException:
            if not crashing.is_stopped:
                raise
        result = asyncio.run(Limpet(backend).resume("x", agent=nested))
        assert expected_old == result[:5]
        assert all(name.endswith(("/2", "/3")) for name in result[5:])


def test_an_explicit_state_that_stops_after_the_address_is_loaded_on_the_new_timeline(backend: StateBackend) -> None:
    async def calls(state: ExecutionState, count: int) -> list[str]:
        return [(await ExecutionEvent(step)(f"s{n}", None, state)).result for n in range(1, count + 1)]

    asyncio.run(calls(ExecutionState(state_backend=backend, state_id="x"), 4))
    again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#2::tool_call")
    asyncio.run(calls(again, 2))
    loaded = ExecutionState.load_from_state_id("x", backend)
    assert ["s1/1", "s2/2", "s3/2", "s4/2"] == asyncio.run(calls(loaded, 4))


def test_the_address_is_cleared_when_it_is_reached_and_not_before(backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="x")
        for name in ("s1", "s2", "s3"):
            await ExecutionEvent(step)(name, None, state)
        again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#3::tool_call")
        told: list[str | None] = []
        for name in ("s1", "s2", "s3"):
            told.append(again.resume_from_address)
            await ExecutionEvent(step)(name, None, again)
        assert ["step#3::tool_call"] * 3 == told
        assert again.resume_from_address is None

    asyncio.run(main())


def test_handlers_see_the_address_until_it_is_reached(client: Limpet) -> None:
    seen: list[str | None] = []

    class Sees(Agent):
        async def handler(self, data: str, context: Any, state: ExecutionState) -> None:
            for name in ("s1", "s2"):
                seen.append(state.resume_from_address)
                await step(name)
            seen.append(state.resume_from_address)

    sees = Sees(name="sees")
    client.run_sync(sees, "", state_id="x")
    seen.clear()
    asyncio.run(client.rerun("x", "step#2", agent=sees))
    assert ["sees::step#2::tool_call", "sees::step#2::tool_call", None] == seen


@pytest.mark.parametrize(
    "at",
    [
        pytest.param("flat::stepp#2::tool_call", id="whole"),
        pytest.param("flat::step#2::llm_call", id="kind"),
        pytest.param("stepp#2", id="abbreviated"),
        pytest.param("flat::stpe#2", id="without-its-kind"),
    ],
)
def test_an_unknown_address_names_the_nearest_and_nothing_runs_or_is_written(
    client: Limpet, backend: StateBackend, at: str
) -> None:
    client.run_sync(flat, 3, state_id="x")
    before = frames_of(backend, "x"), backend.find_state("x")
    ran()
    for verb in (
        lambda: asyncio.run(client.rerun("x", at)),
        lambda: client.plan_rerun("x", at),
        lambda: client.fork("x", at),
    ):
        with pytest.raises(UnknownAddress, match=r"Nearest: .*'flat::step#2::tool_call'"):
            verb()
    with pytest.raises(UnknownAddress, match=r"Nearest: .*'flat::step#2::tool_call'"):
        ExecutionState.load_from_state_id("x", backend, resume_from_address=at)
    assert set() == ran()
    assert before == (frames_of(backend, "x"), backend.find_state("x"))
    assert ["x"] == [state.state_id for state in client.list_states()]


def test_an_ambiguous_address_names_all_that_it_may_mean_and_nothing_runs(
    client: Limpet, backend: StateBackend
) -> None:
    client.run_sync(nested, state_id="x")
    before = frames_of(backend, "x"), backend.find_state("x")
    ran()
    both = r"'nested::middle::leaf::step#2::tool_call', 'nested::middle#2::leaf::step#2::tool_call'"
    with pytest.raises(AmbiguousAddress, match=both):
        asyncio.run(client.rerun("x", "leaf::step#2"))
    with pytest.raises(AmbiguousAddress, match=both):
        client.plan_rerun("x", "leaf::step#2")
    with pytest.raises(AmbiguousAddress, match=both):
        client.fork("x", "leaf::step#2")
    with pytest.raises(AmbiguousAddress, match=r"nested::middle::leaf::step#2.*nested::middle#2::leaf#2::step#2"):
        ExecutionState.load_from_state_id("x", backend, resume_from_address="step#2")
    assert set() == ran()
    assert before == (frames_of(backend, "x"), backend.find_state("x"))


def test_a_name_that_ends_like_a_kind_of_event_can_be_abbreviated(client: Limpet) -> None:
    @tool
    async def log_tool_call() -> str:
        return "logged"

    @agent
    async def logs() -> str:
        return await log_tool_call()

    client.run_sync(logs, state_id="x")
    assert "logged" == asyncio.run(client.rerun("x", "log_tool_call"))


def test_an_unknown_state_or_timeline_is_told(client: Limpet) -> None:
    client.run_sync(flat, 1, state_id="x")
    with pytest.raises(UnknownState):
        asyncio.run(client.rerun("y"))
    with pytest.raises(UnknownTimeline):
        asyncio.run(client.rerun("x", timeline=2))


def test_storage_on_the_new_timeline_is_as_it_stood_when_the_event_started(backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="x")
        for number in (1, 2, 3):
            state.storage.set("number", number)
            state.storage.set(f"only{number}", True)
            await ExecutionEvent(step)(f"s{number}", None, state)
        state.storage.set("number", "end")
        state.storage.delete("only1")
        again = ExecutionState.load_from_state_id("x", backend, resume_from_address="step#2::tool_call")
        assert (2, ["number", "only1", "only2"]) == (again.storage.get("number"), again.storage.keys())
        for number in (1, 2):
            await ExecutionEvent(step)(f"s{number}", None, again)
        assert (2, ["number", "only1", "only2"]) == (again.storage.get("number"), again.storage.keys())
        again.storage.set("number", "new")
        loaded = ExecutionState.load_from_state_id("x", backend)
        assert ("new", ["number", "only1", "only2"]) == (loaded.storage.get("number"), loaded.storage.keys())
        old = ExecutionState.load_from_state_id("x", backend, timeline=1)
        assert ("end", ["number", "only2", "only3"]) == (old.storage.get("number"), old.storage.keys())

    asyncio.run(main())


def test_what_a_handler_stored_itself_goes_with_its_event(backend: StateBackend) -> None:
    class Stores(Agent):
        async def handler(self, data: str, context: Any, state: ExecutionState) -> list[Any]:
            seen: list[Any] = []
            for name in ("s1", "s2", "s3"):
                seen.append(state.storage.get("last"))
                state.storage.set("last", (await ExecutionEvent(step)(name, None, state)).result)
            return seen

    client = Limpet(backend)
    stores = Stores(name="stores")
    assert [None, "s1/1", "s2/1"] == client.run_sync(stores, "", state_id="x")
    asyncio.run(client.rerun("x", "step#3", agent=stores))
    assert "s3/2" == ExecutionState.load_from_state_id("x", backend).storage.get("last")
    assert "s3/1" == ExecutionState.load_from_state_id("x", backend, timeline=1).storage.get("last")


@pytest.mark.parametrize("at", ["step", "step#2", "step#3"])
def test_a_failed_run_can_be_run_on_from_anywhere(client: Limpet, at: str) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(flat, 4, state_id="x")
    failing.clear()
    first = int(at.partition("#")[2] or 1)
    expected = [f"s{n}/{2 if n in range(first, 4) or n == 3 else 1}" for n in (1, 2, 3, 4)]
    assert expected == asyncio.run(client.rerun("x", at))
    assert StateStatus.COMPLETED is client.list_states()[0].status


def test_an_event_that_once_failed_and_was_tried_again_can_be_run_on_from(client: Limpet) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(flat, 4, state_id="x")
    failing.clear()
    assert ["s1/1", "s2/1", "s3/2", "s4/1"] == asyncio.run(client.resume("x"))
    assert ["s1/1", "s2/1", "s3/3", "s4/2"] == asyncio.run(client.rerun("x", "step#3"))
    assert ["s1/1", "s2/2", "s3/4", "s4/3"] == asyncio.run(client.rerun("x", "step#2"))
    assert ["s1/1", "s2/1", "s3/2", "s4/1"] == client.history("x", timeline=1).get_event_result("flat::agent_call")


@pytest.mark.parametrize("at", [None, "flat", "flat::step::tool_call"])
def test_a_run_that_once_failed_runs_again_as_a_whole(client: Limpet, at: str | None) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(flat, 4, state_id="x")
    failing.clear()
    asyncio.run(client.resume("x"))
    assert 4 == client.plan_rerun("x", at).calls_again - (at is None or at == "flat")
    assert ["s1/2", "s2/2", "s3/3", "s4/2"] == asyncio.run(client.rerun("x", at))


def test_a_nested_agent_that_once_failed_runs_again_as_a_whole(client: Limpet) -> None:
    failing.add("xb2")
    with pytest.raises(LookupError):
        client.run_sync(nested, state_id="x")
    failing.clear()
    asyncio.run(client.resume("x"))
    ran()
    asyncio.run(client.rerun("x", "nested::middle::agent_call"))
    assert {"xa1", "xa2", "xa3", "xb1", "xb2", "xb3"} <= ran()


def test_a_caught_failure_before_the_address_is_replayed_and_one_after_it_runs_again(client: Limpet) -> None:
    @agent
    async def catches() -> list[str]:
        found: list[str] = []
        for name in ("s1", "s2", "s3"):
            try:
                found.append(await step(name))
            except LookupError as error:
                found.append(f"failed {error}")
        return found

    failing.update(("s1", "s3"))
    assert ["failed s1", "s2/1", "failed s3"] == client.run_sync(catches, state_id="x")
    failing.clear()
    assert ["failed s1", "s2/2", "s3/2"] == asyncio.run(client.rerun("x", "step#2"))
    assert 1 == executions["s1"]


def test_a_completed_run_is_running_in_between(client: Limpet) -> None:
    @tool
    async def looks() -> StateStatus:
        return client.list_states()[0].status

    @agent
    async def looking() -> list[StateStatus]:
        return [await looks(), await looks()]

    client.run_sync(looking, state_id="x")
    assert StateStatus.COMPLETED is client.list_states()[0].status
    assert [StateStatus.RUNNING] * 2 == asyncio.run(client.rerun("x", "looks"))
    header = client.list_states()[0]
    assert (StateStatus.COMPLETED, None) == (header.status, header.holder)


@pytest.mark.parametrize("at", [None, "flat", "flat::agent_call", "flat::step::tool_call"])
def test_from_the_top_everything_runs_again(client: Limpet, at: str | None) -> None:
    client.run_sync(flat, 3, state_id="x")
    assert ["s1/2", "s2/2", "s3/2"] == asyncio.run(client.rerun("x", at))
    assert ["s1/2", "s2/2", "s3/2"] == asyncio.run(client.resume("x"))
    assert ["s1/1", "s2/1", "s3/1"] == client.history("x", timeline=1).get_event_result("flat::agent_call")


def test_again_and_again_from_the_same_address(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    for times in (2, 3, 4):
        assert ["s1/1", "s2/1", f"s3/{times}", f"s4/{times}"] == asyncio.run(client.rerun("x", "step#3"))
    assert [(1, None), (2, 1), (3, 2), (4, 3)] == [(each.number, each.base) for each in client.timelines("x")]
    for number in (1, 2, 3, 4):
        expected = ["s1/1", "s2/1", f"s3/{number}", f"s4/{number}"]
        assert expected == client.history("x", timeline=number).get_event_result("flat::agent_call")


def test_earlier_and_later_addresses_in_turn(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == asyncio.run(client.rerun("x", "step#3"))
    assert ["s1/1", "s2/2", "s3/3", "s4/3"] == asyncio.run(client.rerun("x", "step#2"))
    assert ["s1/1", "s2/2", "s3/3", "s4/4"] == asyncio.run(client.rerun("x", "step#4"))
    assert ["s1/1", "s2/2", "s3/4", "s4/5"] == asyncio.run(client.rerun("x", "step#3"))
    assert ["s1/2", "s2/3", "s3/5", "s4/6"] == asyncio.run(client.rerun("x"))


def test_an_older_timeline_can_be_run_on_from(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    asyncio.run(client.rerun("x", "step#2"))
    assert ["s1/1", "s2/1", "s3/3", "s4/3"] == asyncio.run(client.rerun("x", "step#3", timeline=1))
    assert ["s1/1", "s2/2", "s3/4", "s4/4"] == asyncio.run(client.rerun("x", "step#3", timeline=2))
    assert [(1, None), (2, 1), (3, 1), (4, 2)] == [(each.number, each.base) for each in client.timelines("x")]


def test_addresses_are_those_of_the_timeline_that_is_run_on_from(client: Limpet) -> None:
    @agent
    async def grows() -> list[str]:
        return [await step(f"s{number}") for number in range(switch["count"])]

    switch["count"] = 2
    client.run_sync(grows, state_id="x")
    switch["count"] = 4
    asyncio.run(client.rerun("x", "step#2"))
    with pytest.raises(UnknownAddress):
        asyncio.run(client.rerun("x", "step#4", timeline=1))
    ran()
    asyncio.run(client.rerun("x", "step#4"))
    assert {"s3"} == ran()


def test_an_unfinished_state_can_be_run_on(backend: StateBackend) -> None:
    crashing = CrashingBackend(backend, stop_at=5, when="after")
    with pytest.raises(BaseException, match=r".*"):
        Limpet(crashing).run_sync(flat, 6, state_id="x")
    assert crashing.is_stopped
    client = Limpet(backend)
    assert StateStatus.RUNNING is client.list_states()[0].status
    result = asyncio.run(client.rerun("x", "step#2", agent=flat))
    assert ["s1/1", "s2/2"] == result[:2]
    assert StateStatus.COMPLETED is client.list_states()[0].status


def test_replacing_a_result_runs_only_what_started_after_it(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    assert ["s1/1", "edited", "s3/2", "s4/2"] == asyncio.run(client.rerun("x", "step#2", replace="edited"))
    assert Counter(s1=1, s2=1, s3=2, s4=2) == executions
    assert ["s1/1", "edited", "s3/2", "s4/2"] == asyncio.run(client.resume("x"))
    assert "edited" == client.history("x").get_event_result("flat::step#2::tool_call")
    assert "s2/1" == client.history("x", timeline=1).get_event_result("flat::step#2::tool_call")


def test_replacing_a_result_that_stays_replaced_through_a_failure(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    failing.add("s4")
    with pytest.raises(LookupError):
        asyncio.run(client.rerun("x", "step#2", replace="edited"))
    failing.clear()
    assert ["s1/1", "edited", "s3/2", "s4/3"] == asyncio.run(client.resume("x"))


def test_replacing_by_another_type_is_refused_unless_it_is_wanted(client: Limpet, backend: StateBackend) -> None:
    client.run_sync(flat, 3, state_id="x")
    before = frames_of(backend, "x"), backend.find_state("x")
    for value in (5, None, b"bytes"):
        with pytest.raises(WrongReplacement, match=r"flat::step#2::tool_call.*any_type=True"):
            asyncio.run(client.rerun("x", "step#2", replace=value))
    assert before == (frames_of(backend, "x"), backend.find_state("x"))
    assert ["s1/1", None, "s3/2"] == asyncio.run(client.rerun("x", "step#2", replace=None, any_type=True))
    assert ["s1/1", None, "s3/3"] == asyncio.run(client.rerun("x", "step#3"))


def test_replacing_the_result_of_an_agent_does_not_enter_it(client: Limpet) -> None:
    client.run_sync(nested, state_id="x")
    ran()
    result = asyncio.run(client.rerun("x", "nested::middle#2::agent_call", replace=["edited"]))
    assert ["first/1", "xa1/1", "xa2/1", "xa3/1", "xb1/1", "xb2/1", "xb3/1", "edited", "last/2"] == result
    assert {"last", "nested"} == ran()


def test_replacing_the_result_of_the_whole_runs_nothing(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    ran()
    assert ["edited"] == asyncio.run(client.rerun("x", replace=["edited"]))
    assert set() == ran()
    assert StateStatus.COMPLETED is client.list_states()[0].status
    assert ["edited"] == asyncio.run(client.resume("x"))


def test_what_failed_can_be_replaced_by_what_it_should_have_given(client: Limpet) -> None:
    failing.add("s2")
    with pytest.raises(LookupError):
        client.run_sync(flat, 3, state_id="x")
    assert ["s1/1", "by hand", "s3/1"] == asyncio.run(client.rerun("x", "step#2", replace="by hand"))
    assert 1 == executions["s2"]


def test_a_large_replacement_is_an_artifact(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    large = "kelp " * 100_000
    assert ["s1/1", large, "s3/2"] == asyncio.run(client.rerun("x", "step#2", replace=large))
    assert 1 == len(client.history("x")["flat::step#2::tool_call"].artifacts)
    assert ["s1/1", large, "s3/3"] == asyncio.run(client.rerun("x", "step#3"))


def unreached(client: Limpet) -> None:
    @agent
    async def shrinks() -> list[str]:
        return [await step(f"s{number}") for number in range(switch["count"])]

    switch["shrinks"] = shrinks
    switch["count"] = 3
    client.run_sync(shrinks, state_id="x")
    switch["count"] = 2


def test_an_address_that_the_code_no_longer_reaches_is_told(client: Limpet) -> None:
    unreached(client)
    with pytest.warns(DriftWarning, match=r"without reaching 'shrinks::step#3::tool_call'"):
        assert ["s0/1", "s1/1"] == asyncio.run(client.rerun("x", "step#3"))


def test_an_address_that_is_not_reached_follows_the_setting_for_drift(client: Limpet) -> None:
    unreached(client)
    assert ["s0/1", "s1/1"] == asyncio.run(client.rerun("x", "step#3", on_drift="ignore"))
    unreached_again = Limpet(MemoryStateBackend())
    unreached(unreached_again)
    with pytest.raises(Drift, match="shrinks::step#3::tool_call"):
        asyncio.run(unreached_again.rerun("x", "step#3", on_drift="error"))


def test_a_state_that_another_holds_is_not_run_on(client: Limpet, backend: StateBackend) -> None:
    @agent
    async def holds() -> str:
        await step("s1")
        before = frames_of(backend, "x")
        with pytest.raises(LeaseHeld):
            await client.rerun("x", "step", agent=holds)
        assert before == frames_of(backend, "x")
        return await step("s2")

    assert "s2/1" == client.run_sync(holds, state_id="x")
    assert [1] == [timeline.number for timeline in client.timelines("x")]


def test_the_bus_is_told_of_what_runs_on_the_new_timeline(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    told: list[EventNotice] = []
    bus = EventBus()
    bus.subscribe(told.append)
    asyncio.run(client.rerun("x", "step#3", event_bus=bus))
    bus.flush()
    assert [
        ("flat::agent_call", "started"),
        ("flat::step#3::tool_call", "started"),
        ("flat::step#3::tool_call", "completed"),
        ("flat::agent_call", "completed"),
    ] == [(notice.address, notice.status) for notice in told]
    assert not any(notice.is_replayed for notice in told)


def test_plain_actors_are_run_on_just_so(client: Limpet) -> None:
    @agent
    def plainly() -> list[str]:
        return [plain_step.call(name) for name in ("s1", "s2", "s3")]

    client.run_sync(plainly, state_id="x")
    assert ["s1/1", "s2/2", "s3/2"] == asyncio.run(client.rerun("x", "plain_step#2"))


def test_a_state_of_the_explicit_form_has_no_agent_to_run(client: Limpet, backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="x")
    asyncio.run(ExecutionEvent(step)("s1", None, state))
    state.save_checkpoint(StateStatus.PAUSED)
    before = frames_of(backend, "x")
    with pytest.raises(UsageError, match="explicit form"):
        asyncio.run(client.rerun("x", "step"))
    assert before == frames_of(backend, "x")


@llm
async def model(prompt: str) -> str:
    executions[prompt] += 1
    return f"{prompt}/{executions[prompt]}"


@agent
async def asks_a_model() -> list[str]:
    found = [await step("s1"), await model("m1")]
    found += await leaf("x")
    return [*found, await model("m2"), await step("s2"), await model("m3")]


def test_a_plan_counts_what_is_reused_and_what_runs_again_and_does_neither(
    client: Limpet, backend: StateBackend
) -> None:
    client.run_sync(asks_a_model, state_id="x")
    before = frames_of(backend, "x"), backend.find_state("x")
    ran()
    plan = client.plan_rerun("x", "leaf::step#2")
    assert {"step": 2, "model": 1} == {each.actor: each.calls for each in plan.reused}
    assert {"step": 3, "model": 2} == {each.actor: each.calls for each in plan.again}
    assert (5, 2, False) == (plan.calls_again, plan.model_calls_again, plan.replaces)
    assert ("asks_a_model::agent_call", "asks_a_model::leaf::agent_call") == plan.entered_again
    assert plan.duration_again_s > 0
    assert "model (llm_call): 2 calls" in str(plan)
    assert "costs money" in str(plan)
    assert set() == ran()
    assert before == (frames_of(backend, "x"), backend.find_state("x"))


def test_a_plan_of_a_replacement_does_not_count_what_is_replaced(client: Limpet) -> None:
    client.run_sync(asks_a_model, state_id="x")
    plan = client.plan_rerun("x", "model#2", replace="edited")
    assert {"step": 1, "model": 1} == {each.actor: each.calls for each in plan.again}
    assert (True, 1) == (plan.replaces, plan.model_calls_again)


def test_a_plan_is_what_a_rerun_then_does(client: Limpet) -> None:
    client.run_sync(asks_a_model, state_id="x")
    for at in ("asks_a_model::step", "model", "leaf", "leaf::step#3", "model#2", "model#3", None):
        ran()
        plan = client.plan_rerun("x", at)
        asyncio.run(client.rerun("x", at))
        calls = {each.actor: each.calls for each in plan.again}
        done = ran() - {"leaf"}
        assert calls.get("model", 0) == sum(name.startswith("m") for name in done)
        assert calls.get("step", 0) == sum(not name.startswith("m") for name in done)


def test_a_plan_of_an_older_timeline_counts_that_one(client: Limpet) -> None:
    @agent
    async def grows() -> list[str]:
        return [await step(f"s{number}") for number in range(switch["count"])]

    switch["count"] = 3
    client.run_sync(grows, state_id="x")
    switch["count"] = 6
    asyncio.run(client.rerun("x", "step#2"))
    assert 5 == client.plan_rerun("x", "step#2").calls_again
    assert 2 == client.plan_rerun("x", "step#2", timeline=1).calls_again


def test_a_call_that_was_cancelled_behind_the_address_is_cancelled_there_again() -> None:
    @tool
    async def watch(what: str) -> None:
        executions[what] += 1
        await asyncio.Event().wait()

    @agent
    async def watched() -> list[str]:
        watching = asyncio.create_task(watch("queue"))
        done = [await step("a"), await step("b"), await step("c")]
        watching.cancel()
        await asyncio.wait([watching])
        return [*done, await step("d")]

    with Limpet("memory://", on_drift="error") as client:
        assert ["a/1", "b/1", "c/1", "d/1"] == client.run_sync(watched, state_id="w")
        assert ["a/1", "b/2", "c/2", "d/2"] == asyncio.run(client.rerun("w", "watched::step#2"))
        assert ["a/1", "b/2", "c/2", "d/3"] == asyncio.run(client.rerun("w", "watched::step#4"))
    assert 2 == executions["queue"]
