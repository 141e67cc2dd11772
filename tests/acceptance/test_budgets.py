"""A run that has only so much to use is stopped when that is used up, and goes on when it is given more."""

from __future__ import annotations

import asyncio
import pickle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from crash.stores import opener

from limpet import (
    LLM,
    Budget,
    BudgetExceeded,
    EventRecord,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    LLMResult,
    MemoryStateBackend,
    ModelUsage,
    ReplayMode,
    RetryConfig,
    StateBackend,
    StateStatus,
    Tool,
    Usage,
    UsageError,
    agent,
    llm,
    register_usage,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    """Opens the same store again and again, as new processes would."""
    return opener(request.param, tmp_path / "store")


@tool
async def step(number: int) -> int:
    executions[f"step {number}"] += 1
    return number


@llm
async def think(number: int) -> LLMResult:
    executions[f"think {number}"] += 1
    return LLMResult(f"thought {number}", 100, "some-model", 0.1)


@agent
async def steps(count: int) -> list[int]:
    executions["steps"] += 1
    return [await step(number) for number in range(count)]


@agent
async def thoughts(count: int) -> list[str]:
    executions["thoughts"] += 1
    return [(await think(number)).content for number in range(count)]


@agent
async def waits_for_ever(count: int) -> list[int]:
    found = [await step(number) for number in range(count)]
    if switch.get("hang", True):
        await asyncio.Event().wait()
    return found


@agent
async def loops(count: int) -> list[int]:
    """What a model does that asks for the same tool call again and again."""
    return [await step(7) for _ in range(count)]


def stopped(backend: StateBackend, actor: Any, count: int, budget: Budget) -> BudgetExceeded:
    """Run until the budget is used up, and see to how the run was left."""
    client = Limpet(backend)

    async def run() -> None:
        async with asyncio.timeout(20):
            await client.run(actor, count, state_id="b", budget=budget)

    with pytest.raises(BudgetExceeded) as caught:
        asyncio.run(run())
    header = client.show("b").header
    assert (StateStatus.INTERRUPTED, None) == (header.status, header.holder)
    assert "budget" == header.metadata.stopped["reason"] == caught.value.reason
    assert caught.value.message == header.metadata.stopped["message"]
    assert "b" == caught.value.state_id
    return caught.value


# Each of the limits.

LIMITS = [
    pytest.param(
        *(steps, Budget(events=4), Budget(events=11), ["steps", "step 0", "step 1", "step 2"]),
        "steps::step#4::tool_call was not executed: its budget of 4 events is used up",
        id="events",
    ),
    pytest.param(
        *(thoughts, Budget(model_calls=3), Budget(model_calls=10), ["thoughts", "think 0", "think 1", "think 2"]),
        "thoughts::think#4::llm_call was not executed: its budget of 3 model calls is used up",
        id="model_calls",
    ),
    pytest.param(
        *(thoughts, Budget(tokens=250), Budget(tokens=1000), ["thoughts", "think 0", "think 1", "think 2"]),
        "it has used 300 tokens of the 250 in its budget",
        id="tokens",
    ),
    pytest.param(
        *(thoughts, Budget(cost=0.3), Budget(cost=1.0), ["thoughts", "think 0", "think 1", "think 2"]),
        "its cost is 0.3, and its budget allows 0.3",
        id="cost",
    ),
]
"""An agent of ten calls, a budget, a larger one, what the first allows, and what is said of the first that it does
not."""


@pytest.mark.parametrize(("actor", "budget", "larger", "allowed", "said"), LIMITS)
def test_a_run_stops_before_the_call_that_its_budget_does_not_allow(
    actor: Any, budget: Budget, larger: Budget, allowed: list[str], said: str, reopen: Callable[[], StateBackend]
) -> None:
    error = stopped(reopen(), actor, 10, budget)
    assert said in error.message
    assert Counter(allowed) == executions


@pytest.mark.parametrize(("actor", "budget", "larger", "allowed", "said"), LIMITS)
def test_going_on_with_a_larger_budget_executes_nothing_twice(
    actor: Any, budget: Budget, larger: Budget, allowed: list[str], said: str, reopen: Callable[[], StateBackend]
) -> None:
    stopped(reopen(), actor, 10, budget)
    client = Limpet(reopen())
    assert 10 == len(asyncio.run(client.run(actor, 10, state_id="b", budget=larger)))
    assert 2 == executions.pop(actor.name)
    assert [1] * 10 == list(executions.values())
    header = client.show("b").header
    assert (StateStatus.COMPLETED, {}) == (header.status, header.metadata.stopped)


@pytest.mark.parametrize(("actor", "budget", "larger", "allowed", "said"), LIMITS)
def test_going_on_without_a_budget_is_without_limits(
    actor: Any, budget: Budget, larger: Budget, allowed: list[str], said: str
) -> None:
    backend = MemoryStateBackend()
    stopped(backend, actor, 10, budget)
    assert 10 == len(Limpet(backend).run_sync(actor, 10, state_id="b"))


@pytest.mark.parametrize(("actor", "budget", "larger", "allowed", "said"), LIMITS)
def test_what_was_used_counts_for_every_process_that_takes_the_run_up(
    actor: Any, budget: Budget, larger: Budget, allowed: list[str], said: str, reopen: Callable[[], StateBackend]
) -> None:
    first = stopped(reopen(), actor, 10, budget)
    calls = Counter({name: count for name, count in executions.items() if name != actor.name})
    for _ in range(2):
        why = stopped(reopen(), actor, 10, budget).message.partition(" was not executed: ")[2]
        assert first.message.endswith(why)
    executions.pop(actor.name)
    assert calls == executions, "what is given again is not executed, and no further call is"


def test_small_additions_to_a_budget_bring_a_run_to_its_end_one_call_at_a_time(
    reopen: Callable[[], StateBackend],
) -> None:
    for allowed in range(1, 6):
        stopped(reopen(), thoughts, 6, Budget(model_calls=allowed))
        executions.pop("thoughts")
        assert allowed == executions.total()
    budget = Budget(model_calls=6)
    assert 6 == len(asyncio.run(Limpet(reopen()).run(thoughts, 6, state_id="b", budget=budget)))


def test_a_budget_of_nothing_executes_nothing(reopen: Callable[[], StateBackend]) -> None:
    error = stopped(reopen(), steps, 3, Budget(events=0))
    assert "steps::agent_call was not executed: its budget of 0 events is used up" in error.message
    assert Counter() == executions
    assert [0, 1, 2] == Limpet(reopen()).run_sync(steps, 3, state_id="b")


def test_a_budget_that_is_just_enough_does_not_stop_a_run() -> None:
    budget = Budget(events=11, model_calls=10, tokens=1000, cost=1.0, repeats=1)
    for _ in range(2):
        backend = MemoryStateBackend()
        assert 10 == len(asyncio.run(Limpet(backend).run(thoughts, 10, state_id="b", budget=budget)))
        assert StateStatus.COMPLETED is Limpet(backend).show("b").header.status


def test_an_empty_budget_limits_nothing() -> None:
    assert 20 == len(asyncio.run(Limpet("memory://").run(steps, 20, budget=Budget())))


def test_a_run_is_stopped_that_calls_the_same_with_the_same_input_again_and_again(
    reopen: Callable[[], StateBackend],
) -> None:
    error = stopped(reopen(), loops, 10, Budget(repeats=3))
    assert "loops::step#4::tool_call was not executed: step was called 3 times with the same input" in error.message
    assert {"step 7": 3} == executions
    stopped(reopen(), loops, 10, Budget(repeats=4))
    assert {"step 7": 4} == executions
    assert [7] * 10 == asyncio.run(Limpet(reopen()).run(loops, 10, state_id="b", budget=Budget(repeats=10)))
    assert {"step 7": 10} == executions


def test_calls_with_other_inputs_are_no_repeats_and_calls_with_other_keys_are() -> None:
    @agent
    async def keyed(count: int) -> None:
        for number in range(count):
            await step(number)
        for number in range(count):
            await step.options(key=f"again {number}")(7)

    error = stopped(MemoryStateBackend(), keyed, 5, Budget(repeats=2))
    assert "step[again 2]" in error.message
    assert {**{f"step {number}": 1 for number in range(5)}, "step 7": 2} == executions


def test_trying_again_is_no_repeat_and_no_new_event() -> None:
    @tool(retry_config=RetryConfig(5, initial_delay=0))
    async def shaky() -> str:
        executions["shaky"] += 1
        if executions["shaky"] < 5:
            raise ConnectionError("down")
        return "there"

    @agent
    async def calls() -> str:
        return await shaky()

    assert "there" == asyncio.run(Limpet("memory://").run(calls, budget=Budget(events=2, repeats=1)))


def test_every_attempt_of_a_model_is_a_model_call(reopen: Callable[[], StateBackend]) -> None:
    @llm(retry_config=RetryConfig(5, initial_delay=0))
    async def shaky() -> str:
        executions["shaky"] += 1
        if executions["shaky"] < 4:
            raise ConnectionError("down")
        return "there"

    @agent
    async def calls(count: int) -> str:
        return await shaky()

    error = stopped(reopen(), calls, 1, Budget(model_calls=2))
    assert "its budget of 2 model calls is used up" in error.message
    assert 2 == executions["shaky"]
    client = Limpet(reopen())
    assert "there" == asyncio.run(client.run(calls, 1, state_id="b", budget=Budget(model_calls=4)))
    records = [record for record in client.history("b").get_event_list() if record.address == "calls::shaky::llm_call"]
    assert [1, 2, 3] == [record.attempt for record in records if record.status is ExecutionStatus.RETRYING]
    assert 4 == records[-1].attempt


# The time of a run.


def test_a_run_is_stopped_when_it_has_taken_the_time_of_its_budget(reopen: Callable[[], StateBackend]) -> None:
    error = stopped(reopen(), waits_for_ever, 2, Budget(wall_time_s=0.3))
    assert "It has taken the 0.3 s in its budget" in error.message
    assert {"step 0": 1, "step 1": 1} == executions
    switch["hang"] = False
    client = Limpet(reopen())
    assert [0, 1] == asyncio.run(client.run(waits_for_ever, 2, state_id="b", budget=Budget(wall_time_s=60)))
    assert {"step 0": 1, "step 1": 1} == executions


def test_the_time_that_earlier_processes_have_taken_counts_and_the_time_between_them_does_not(
    reopen: Callable[[], StateBackend],
) -> None:
    @agent
    async def two_parts(count: int) -> list[int]:
        first = await step(1)
        await switch["may go on"].wait()
        return [first, await step(2)]

    def run(budget: Budget, *, goes_on: bool = False) -> Any:
        async def main() -> Any:
            switch["may go on"] = asyncio.Event()
            if goes_on:
                switch["may go on"].set()
            return await Limpet(reopen()).run(two_parts, 1, state_id="b", budget=budget)

        return asyncio.run(main())

    with pytest.raises(BudgetExceeded):
        run(Budget(wall_time_s=0.3))
    with pytest.raises(BudgetExceeded):
        run(Budget(wall_time_s=0.3), goes_on=True)
    assert {"step 1": 1} == executions, "the time was over before it was taken up"
    assert [1, 2] == run(Budget(wall_time_s=60), goes_on=True)
    assert {"step 1": 1, "step 2": 1} == executions


# Calls side by side.


@agent
async def gathers(count: int) -> list[int]:
    return list(await asyncio.gather(*(yields(number) for number in range(count))))


@tool
async def yields(number: int) -> int:
    executions[f"yields {number}"] += 1
    await asyncio.sleep(0)
    return number


@llm
async def slow_thought(number: int) -> LLMResult:
    executions[f"slow_thought {number}"] += 1
    await asyncio.sleep(0)
    return LLMResult("thought", 100, "some-model", 0.1)


@agent
async def gathers_thoughts(count: int) -> int:
    return len(await asyncio.gather(*(slow_thought(number) for number in range(count))))


@tool
def plain(number: int) -> int:
    executions[f"plain {number}"] += 1
    return number


@agent
async def gathers_plain(count: int) -> list[int]:
    return list(await asyncio.gather(*(plain(number) for number in range(count))))


@pytest.mark.parametrize("actor", [gathers, gathers_plain])
def test_twenty_calls_side_by_side_do_not_all_take_the_last_place(
    actor: Any, reopen: Callable[[], StateBackend]
) -> None:
    stopped(reopen(), actor, 20, Budget(events=5))
    assert 4 == executions.total(), "the run itself is the fifth"
    client = Limpet(reopen())
    completed = [
        record for record in client.history("b") if isinstance(record, EventRecord) and record.status == "completed"
    ]
    assert 4 == len(completed), "what was being executed came to its end"
    assert list(range(20)) == asyncio.run(client.run(actor, 20, state_id="b", budget=Budget(events=21)))
    assert 20 == executions.total()
    assert {1} == set(executions.values())


def test_model_calls_side_by_side_do_not_all_take_the_last_place(reopen: Callable[[], StateBackend]) -> None:
    stopped(reopen(), gathers_thoughts, 20, Budget(model_calls=5))
    assert 5 == executions.total()
    assert 5 == Limpet(reopen()).usage("b").model_calls
    assert 20 == Limpet(reopen()).run_sync(gathers_thoughts, 20, state_id="b")
    assert 20 == executions.total()


def test_a_group_of_tasks_is_stopped_as_well(reopen: Callable[[], StateBackend]) -> None:
    @agent
    async def groups(count: int) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(yields(number)) for number in range(count)]
        return [task.result() for task in tasks]

    stopped(reopen(), groups, 20, Budget(events=5))
    assert 4 == executions.total()
    assert list(range(20)) == Limpet(reopen()).run_sync(groups, 20, state_id="b")
    assert {1} == set(executions.values())


def test_what_is_being_executed_when_the_budget_is_used_up_is_finished_first() -> None:
    @tool
    async def slow() -> str:
        executions["slow"] += 1
        await asyncio.sleep(0.05)
        return "slow"

    @agent
    async def both(count: int) -> None:
        await asyncio.gather(slow(), step(1), step(2))

    backend = MemoryStateBackend()
    stopped(backend, both, 0, Budget(events=3))
    assert {"slow": 1, "step 1": 1} == executions
    assert Limpet(backend).history("b").has_completed_event("both::slow::tool_call")


# Code that would go on all the same.


def test_code_that_catches_everything_does_not_outlive_its_budget(reopen: Callable[[], StateBackend]) -> None:
    @agent
    async def swallows(count: int) -> str:
        try:
            for number in range(count):
                await step(number)
        except BaseException:
            executions["swallowed"] += 1
            try:
                await step(1000)
            except BaseException:
                executions["swallowed"] += 1
        return "went on"

    stopped(reopen(), swallows, 10, Budget(events=3))
    assert {"step 0": 1, "step 1": 1} == {name: count for name, count in executions.items() if name != "swallowed"}


def test_a_budget_is_no_failure_that_a_pipeline_could_catch_and_its_cleaning_up_is_done() -> None:
    told: list[str] = []

    @agent
    async def careful(count: int) -> None:
        try:
            for number in range(count):
                await step(number)
        except Exception:
            told.append("caught")
        finally:
            told.append("cleaned up")

    stopped(MemoryStateBackend(), careful, 10, Budget(events=3))
    assert ["cleaned up"] == told


def test_a_call_that_was_not_allowed_leaves_no_record() -> None:
    backend = MemoryStateBackend()
    stopped(backend, steps, 10, Budget(events=3))
    assert ["steps::agent_call", "steps::step::tool_call", "steps::step#2::tool_call"] == (
        Limpet(backend).history("b").addresses()
    )


def test_a_budget_holds_inside_plain_functions_too(reopen: Callable[[], StateBackend]) -> None:
    @tool
    def outer(count: int) -> list[int]:
        return [step.call(number) for number in range(count)]

    @agent
    def plainly(count: int) -> list[int]:
        return outer.call(count)

    stopped(reopen(), plainly, 10, Budget(events=5))
    assert {"step 0": 1, "step 1": 1, "step 2": 1} == executions
    assert list(range(10)) == Limpet(reopen()).run_sync(plainly, 10, state_id="b")
    assert {1} == set(executions.values())


@pytest.mark.parametrize("is_gathered", [False, True])
def test_a_budget_holds_for_what_tools_call(is_gathered: bool, reopen: Callable[[], StateBackend]) -> None:
    @tool
    async def outer(count: int) -> list[int]:
        if is_gathered:
            return list(await asyncio.gather(*(step(number) for number in range(count))))
        return [await step(number) for number in range(count)]

    @agent
    async def calls(count: int) -> list[int]:
        return await outer(count)

    stopped(reopen(), calls, 10, Budget(events=5))
    assert {"step 0": 1, "step 1": 1, "step 2": 1} == executions
    assert list(range(10)) == Limpet(reopen()).run_sync(calls, 10, state_id="b")
    assert {1} == set(executions.values())


def test_resuming_takes_a_budget_as_running_does() -> None:
    client = Limpet("memory://")
    with pytest.raises(BudgetExceeded):
        asyncio.run(client.run(steps, 10, state_id="b", budget=Budget(events=3)))
    with pytest.raises(BudgetExceeded):
        asyncio.run(client.resume("b", agent=steps, budget=Budget(events=6)))
    assert 5 == executions.total() - executions["steps"]
    assert list(range(10)) == asyncio.run(client.resume("b", agent=steps))


def test_the_error_says_what_to_do_is_an_interruption_and_can_be_sent_to_another_process() -> None:
    error = stopped(MemoryStateBackend(), steps, 10, Budget(events=3))
    assert isinstance(error, ExecutionInterrupted)
    assert "State 'b' was interrupted by its budget" in str(error)
    assert "Run it again with a larger budget" in str(error)
    assert str(error) == str(pickle.loads(pickle.dumps(error)))


# The explicit form.


async def one(number: int, context: Any, state: ExecutionState) -> int:
    executions[f"one {number}"] += 1
    return number


async def thought(number: int, context: Any, state: ExecutionState) -> LLMResult:
    executions[f"thought {number}"] += 1
    return LLMResult("thought", 100, "some-model", 0.1)


async def many(state: ExecutionState, actor: Any, count: int) -> int:
    for number in range(count):
        await ExecutionEvent(actor)(number, None, state)
    return count


EXPLICIT = [
    pytest.param(Tool(name="one", handler=one), Budget(events=3), id="events"),
    pytest.param(LLM(name="thought", handler=thought), Budget(model_calls=3), id="model_calls"),
    pytest.param(LLM(name="thought", handler=thought), Budget(tokens=300), id="tokens"),
    pytest.param(LLM(name="thought", handler=thought), Budget(cost=0.3), id="cost"),
]


@pytest.mark.parametrize(("actor", "budget"), EXPLICIT)
def test_a_state_in_the_explicit_form_can_have_a_budget(
    actor: Any, budget: Budget, reopen: Callable[[], StateBackend]
) -> None:
    state = ExecutionState(state_backend=reopen(), state_id="b", budget=budget)
    with pytest.raises(BudgetExceeded):
        asyncio.run(many(state, actor, 10))
    assert 3 == executions.total()
    assert (StateStatus.INTERRUPTED, "budget") == (state.status, state.metadata.stopped["reason"])
    with pytest.raises(BudgetExceeded):
        asyncio.run(many(state, actor, 10))
    again = ExecutionState.load_from_state_id("b", reopen(), budget=budget)
    with pytest.raises(BudgetExceeded):
        asyncio.run(many(again, actor, 10))
    assert 3 == executions.total()
    more = ExecutionState.load_from_state_id("b", reopen(), budget=Budget(events=10))
    assert 10 == asyncio.run(many(more, actor, 10))
    assert {1} == set(executions.values())


def test_what_another_process_has_used_since_a_state_was_loaded_counts(reopen: Callable[[], StateBackend]) -> None:
    actor = Tool(name="one", handler=one)
    ExecutionState(state_backend=reopen(), state_id="b").save_checkpoint(StateStatus.PAUSED)
    early = ExecutionState.load_from_state_id("b", reopen(), budget=Budget(events=3), on_drift="ignore")
    other = ExecutionState.load_from_state_id("b", reopen())
    asyncio.run(many(other, actor, 3))
    other.save_checkpoint(StateStatus.PAUSED)
    with pytest.raises(BudgetExceeded):
        asyncio.run(many_new(early, actor, 10))
    assert 3 == executions.total()


async def many_new(state: ExecutionState, actor: Any, count: int) -> None:
    """Calls that nothing is recorded of."""
    for number in range(count):
        await ExecutionEvent(actor, tag="new")(number, None, state)


def test_the_time_of_a_state_in_the_explicit_form_can_be_limited(reopen: Callable[[], StateBackend]) -> None:
    async def hangs(number: int, context: Any, state: ExecutionState) -> int:
        if switch.get("hang", True):
            await asyncio.Event().wait()
        return number

    actor = Tool(name="hangs", handler=hangs)
    state = ExecutionState(state_backend=reopen(), state_id="b", budget=Budget(wall_time_s=0.3))
    with pytest.raises(BudgetExceeded, match="taken the 0\\.3 s"):
        asyncio.run(many(state, actor, 1))
    switch["hang"] = False
    restored = ExecutionState.load_from_state_id("b", reopen())
    assert "budget" == restored.metadata.stopped["reason"]
    assert 1 == asyncio.run(many(restored, actor, 1))


# What was used.


@dataclass
class Reply:
    """What the client of a model gives, which knows nothing of Limpet."""

    text: str
    spent: int


@dataclass
class Vague:
    text: str


def test_what_model_calls_used_is_recorded_and_summed(reopen: Callable[[], StateBackend]) -> None:
    @llm
    async def other(number: int) -> LLMResult:
        return LLMResult("other", 7, "other-model", 0.5)

    @llm
    async def unknown() -> str:
        return "nobody knows what this used"

    @agent
    async def talks() -> None:
        for number in range(3):
            await think(number)
        await asyncio.gather(other(1), other(2))
        await unknown()
        await step(1)

    Limpet(reopen()).run_sync(talks, state_id="b")
    used = Limpet(reopen()).usage("b")
    assert (6, 314, pytest.approx(1.3)) == (used.model_calls, used.tokens, used.cost)
    assert {
        "some-model": ModelUsage(3, 300, pytest.approx(0.3)),  # pyright: ignore[reportArgumentType]
        "other-model": ModelUsage(2, 14, 1.0),
        "": ModelUsage(1, 0, 0.0),
    } == used.by_model
    assert ModelUsage() == used.replayed
    details = Limpet(reopen()).history("b")["talks::think::llm_call"].details
    assert details is not None
    assert Usage(100, 0.1, "some-model") == details.usage


def test_a_hook_tells_what_a_class_of_ones_own_has_used(reopen: Callable[[], StateBackend]) -> None:
    register_usage(Reply, lambda reply: Usage(reply.spent, reply.spent / 1000, "own-model"))

    @llm
    async def replies(number: int) -> Reply:
        executions["replies"] += 1
        return Reply("text", 200)

    @agent
    async def talks(count: int) -> list[Reply]:
        return [await replies(number) for number in range(count)]

    stopped(reopen(), talks, 10, Budget(tokens=500))
    used = Limpet(reopen()).usage("b")
    assert (3, 600, pytest.approx(0.6), ["own-model"]) == (
        used.model_calls,
        used.tokens,
        used.cost,
        list(used.by_model),
    )
    assert [Reply("text", 200)] * 10 == Limpet(reopen()).run_sync(talks, 10, state_id="b")


def test_a_hook_that_raises_does_no_harm(caplog: pytest.LogCaptureFixture) -> None:
    def raises(reply: Vague) -> Usage:
        raise LookupError("no usage here")

    register_usage(Vague, raises)

    @llm
    async def replies() -> Vague:
        return Vague("text")

    @agent
    async def talks() -> Vague:
        await replies()
        return await replies()

    client = Limpet("memory://")
    assert Vague("text") == client.run_sync(talks, state_id="b")
    assert (2, 0) == (client.usage("b").model_calls, client.usage("b").tokens)
    assert 1 == len([told for told in caplog.records if told.name == "limpet.usage"])


def test_a_result_that_says_what_it_used_comes_back_equal(reopen: Callable[[], StateBackend]) -> None:
    @agent
    async def talks() -> list[LLMResult]:
        found = [await think(1), await think(2)]
        if switch.get("break"):
            raise RuntimeError
        return found

    switch["break"] = True
    with pytest.raises(RuntimeError):
        Limpet(reopen()).run_sync(talks, state_id="b")
    switch["break"] = False
    assert [LLMResult("thought 1", 100, "some-model", 0.1), LLMResult("thought 2", 100, "some-model", 0.1)] == (
        Limpet(reopen()).run_sync(talks, state_id="b")
    )


@pytest.mark.parametrize("size", [1, 300_000])
def test_what_replay_has_saved_is_told(size: int, reopen: Callable[[], StateBackend]) -> None:
    @llm
    async def long_thought(number: int) -> LLMResult:
        executions["long thought"] += 1
        return LLMResult("x" * size, 100, "some-model", 0.1)

    @agent
    async def talks() -> int:
        for number in range(4):
            await long_thought(number)
        if switch.get("break"):
            raise RuntimeError
        return 4

    switch["break"] = True
    for replayed in (0, 4, 8):
        with pytest.raises(RuntimeError):
            Limpet(reopen()).run_sync(talks, state_id="b")
        assert replayed == Limpet(reopen()).usage("b").replayed.calls
    switch["break"] = False
    assert 4 == Limpet(reopen()).run_sync(talks, state_id="b")
    used = Limpet(reopen()).usage("b")
    assert (4, 400, pytest.approx(0.4)) == (used.model_calls, used.tokens, used.cost)
    assert (12, 1200, pytest.approx(1.2)) == (used.replayed.calls, used.replayed.tokens, used.replayed.cost)
    assert "4 model calls, 400 tokens, cost 0.4; replay saved 12 calls, 1,200 tokens, cost 1.20" == str(used)
    assert 4 == Limpet(reopen()).run_sync(talks, state_id="b")
    assert used == Limpet(reopen()).usage("b"), "a completed run replays nothing"
    assert 4 == executions["long thought"]


def test_what_replay_has_saved_is_told_of_a_run_that_is_stopped_by_its_budget(
    reopen: Callable[[], StateBackend],
) -> None:
    for allowed in (2, 3, 5):
        stopped(reopen(), thoughts, 6, Budget(model_calls=allowed))
    assert (5, 500) == (Limpet(reopen()).usage("b").model_calls, Limpet(reopen()).usage("b").tokens)
    assert 2 + 3 == Limpet(reopen()).usage("b").replayed.calls


def test_what_a_state_in_the_explicit_form_has_used_and_saved_is_told(reopen: Callable[[], StateBackend]) -> None:
    actor = LLM(name="thought", handler=thought)
    state = ExecutionState(state_backend=reopen(), state_id="b")
    asyncio.run(many(state, actor, 3))
    assert (3, 300, 0) == (state.usage.model_calls, state.usage.tokens, state.usage.replayed.calls)
    state.save_checkpoint(StateStatus.PAUSED)
    restored = ExecutionState.load_from_state_id("b", reopen())
    asyncio.run(many(restored, actor, 4))
    assert (4, 400, 3) == (restored.usage.model_calls, restored.usage.tokens, restored.usage.replayed.calls)
    assert {1} == set(executions.values())
    restored.save_checkpoint(StateStatus.COMPLETED)
    used = Limpet(reopen()).usage("b")
    assert (4, 400, 3) == (used.model_calls, used.tokens, used.replayed.calls)
    assert used == restored.usage


def test_validation_and_rehearsal_save_nothing_and_use_nothing_that_is_recorded() -> None:
    backend = MemoryStateBackend()
    actor = LLM(name="thought", handler=thought)
    state = ExecutionState(state_backend=backend, state_id="b")
    asyncio.run(many(state, actor, 3))
    state.save_checkpoint(StateStatus.COMPLETED)
    before = backend.find_state("b")
    for mode in (ReplayMode.VALIDATION, ReplayMode.REHEARSAL):
        asyncio.run(many(ExecutionState.load_from_state_id("b", backend, replay_mode=mode), actor, 3))
    assert before == backend.find_state("b")
    assert (3, 0) == (Limpet(backend).usage("b").model_calls, Limpet(backend).usage("b").replayed.calls)


def test_an_attempt_that_used_something_and_failed_afterwards_is_a_model_call_of_the_budget() -> None:
    @llm(postconditions=[lambda reply: executions["bad"] > 2], retry_config=RetryConfig(enabled=False))
    async def bad() -> LLMResult:
        executions["bad"] += 1
        return LLMResult("not what was asked for", 100, "some-model", 0.1)

    @agent
    async def asks_again(count: int) -> str:
        for _ in range(count):
            try:
                return (await bad()).content
            except Exception:
                executions["caught"] += 1
        return "gave up"

    error = stopped(MemoryStateBackend(), asks_again, 10, Budget(model_calls=2))
    assert "its budget of 2 model calls is used up" in error.message
    assert 2 == executions["bad"]


def test_usage_is_that_of_all_timelines_and_the_budget_of_the_current_one() -> None:
    client = Limpet("memory://")
    client.run_sync(thoughts, 6, state_id="b")
    with pytest.raises(BudgetExceeded, match=r"think#5::llm_call was not executed"):
        asyncio.run(client.rerun("b", at="think#3", budget=Budget(model_calls=4)))
    assert (6 + 2, 800) == (client.usage("b").model_calls, client.usage("b").tokens)
    assert 6 == len(asyncio.run(client.resume("b", agent=thoughts, budget=Budget(model_calls=6))))


def test_a_fork_of_a_run_that_was_stopped_has_not_been_stopped_itself_and_has_saved_nothing_yet() -> None:
    backend = MemoryStateBackend()
    for allowed in (2, 4):
        stopped(backend, thoughts, 6, Budget(model_calls=allowed))
    client = Limpet(backend)
    fork = client.fork("b", at="think#2")
    assert {} == client.show(fork).header.metadata.stopped
    assert ModelUsage() == client.usage(fork).replayed


# What cannot be.


@pytest.mark.parametrize("field", ["events", "model_calls", "tokens", "repeats", "cost", "wall_time_s"])
@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "3", True, -0.5])
def test_a_limit_is_a_number_from_zero_on(field: str, wrong: object) -> None:
    limits: Any = {field: wrong}
    with pytest.raises(UsageError, match=f"A budget cannot have {field}="):
        Budget(**limits)


@pytest.mark.parametrize("wrong", [{"events": 3}, 3, Budget])
def test_what_is_no_budget_is_refused_before_anything_runs(wrong: Any) -> None:
    backend = MemoryStateBackend()
    with pytest.raises(UsageError, match="Give a Budget"):
        Limpet(backend).run_sync(steps, 3, budget=wrong)
    with pytest.raises(UsageError, match="Give a Budget"):
        ExecutionState(state_backend=backend, budget=wrong)
    assert [] == backend.list_states()
