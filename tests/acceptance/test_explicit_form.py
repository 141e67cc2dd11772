"""The explicit form: states and events made by hand, saved, loaded and replayed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from limpet import (
    LLM,
    Agent,
    CheckpointRecord,
    ExecutionEvent,
    ExecutionResult,
    ExecutionState,
    ExecutionStatus,
    LeaseLost,
    Limpet,
    MemoryStateBackend,
    NotRecorded,
    ReplayMode,
    RetryConfig,
    SQLiteStateBackend,
    StateBackend,
    StateMetadata,
    StateStatus,
    Tool,
    UnknownAddress,
    UnknownState,
    UsageError,
    ValueNotStorable,
    tool,
)
from limpet.model import FORMAT_VERSION

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture(params=["memory", "full", "normal"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateBackend]:
    made = MemoryStateBackend() if request.param == "memory" else SQLiteStateBackend(tmp_path / "s.db", request.param)
    with made as opened:
        yield opened


class SimpleInput(BaseModel):
    value: int


class SimpleOutput(BaseModel):
    result: int


class AddOne(Tool):
    def __init__(self) -> None:
        async def handler(data: SimpleInput, context: Any, state: ExecutionState) -> SimpleOutput:
            executions["add_one"] += 1
            return SimpleOutput(result=data.value + 1 + switch.get("off", 0))

        super().__init__(
            name="add_one",
            description="Adds one.",
            input_model=SimpleInput,
            output_model=SimpleOutput,
            handler=handler,
        )


class MultiplyByTwo(Tool):
    def __init__(self) -> None:
        super().__init__(name="multiply_by_two", retry_config=RetryConfig(enabled=False))

    def handler(self, data: SimpleInput, context: Any, state: ExecutionState) -> SimpleOutput:
        executions["multiply"] += 1
        if switch.get("break"):
            raise TimeoutError("api")
        return SimpleOutput(result=data.value * 2)


async def add_then_multiply(state: ExecutionState) -> tuple[list[ExecutionEvent], list[Any]]:
    events = [ExecutionEvent(actor=AddOne()), ExecutionEvent(actor=MultiplyByTwo())]
    first = await events[0](SimpleInput(value=5), None, state)
    second = await events[1](SimpleInput(value=first.result.result), None, state)
    return events, [first, second]


def test_an_event_tells_what_became_of_it(backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend)
        events, results = await add_then_multiply(state)
        assert [SimpleOutput(result=6), SimpleOutput(result=12)] == [result.result for result in results]
        assert ["add_one::tool_call", "multiply_by_two::tool_call"] == [event.address for event in events]
        assert all(event.execution_status is ExecutionStatus.COMPLETED for event in events)
        assert results[0].ok
        assert results[0].execution_time == events[0].execution_time > 0

    asyncio.run(main())


def test_a_restored_state_replays_what_is_recorded_and_executes_what_is_not(backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend)
        await add_then_multiply(state)
        state.save_checkpoint(
            status=StateStatus.PAUSED, metadata=StateMetadata(tags=["checkpoint"], pipeline_name="my_pipeline")
        )
        restored = ExecutionState.load_from_state_id(state_id=state.state_id, state_backend=backend)
        assert StateStatus.PAUSED is restored.status
        assert ["checkpoint"] == restored.metadata.tags
        events, results = await add_then_multiply(restored)
        assert [True, True] == [event.is_replayed for event in events]
        assert [0.0, 0.0] == [event.execution_time for event in events]
        assert ExecutionStatus.RECOVERED is events[0].execution_status
        assert SimpleOutput(result=12) == results[1].result
        third = ExecutionEvent(actor=AddOne())
        await third(SimpleInput(value=1), None, restored)
        assert "add_one#2::tool_call" == third.address
        assert not third.is_replayed

    asyncio.run(main())
    assert Counter(add_one=2, multiply=1) == executions


def test_without_any_checkpoint_nothing_that_returned_is_lost(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="unsaved")
    asyncio.run(add_then_multiply(state))
    asyncio.run(add_then_multiply(ExecutionState.load_from_state_id("unsaved", backend)))
    assert Counter(add_one=1, multiply=1) == executions


def test_taking_a_state_up_again_in_the_same_process_fences_the_earlier_object_off(backend: StateBackend) -> None:
    first = ExecutionState(state_backend=backend, state_id="twice")
    first.storage.set("who", "first")
    second = ExecutionState.load_from_state_id("twice", backend)
    second.storage.set("who", "second")
    with pytest.raises(LeaseLost, match="may no longer write"):
        first.storage.set("who", "first again")
    assert "second" == ExecutionState.load_from_state_id("twice", backend).storage.get("who")


def test_a_failing_event_raises_and_is_tried_again_after_loading(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="fails")
    switch["break"] = True
    with pytest.raises(TimeoutError):
        asyncio.run(add_then_multiply(state))
    state.save_checkpoint(status=StateStatus.FAILED, metadata=StateMetadata(tags=["failed-api-timeout"]))
    switch["break"] = False
    restored = ExecutionState.load_from_state_id("fails", backend)
    events, results = asyncio.run(add_then_multiply(restored))
    assert SimpleOutput(result=12) == results[1].result
    assert [True, False] == [event.is_replayed for event in events]
    assert Counter(add_one=1, multiply=2) == executions


def test_a_checkpoint_inside_a_handler_can_be_resumed(backend: StateBackend) -> None:
    class Reviews(Agent):
        def __init__(self) -> None:
            super().__init__(name="reviews")

        async def handler(self, data: SimpleInput, context: Any, state: ExecutionState) -> int:
            first = await ExecutionEvent(actor=AddOne())(data, None, state)
            if not state.storage.has("answer"):
                state.save_checkpoint(status=StateStatus.AWAITING)
                raise KeyboardInterrupt
            second = await ExecutionEvent(actor=MultiplyByTwo())(SimpleInput(value=first.result.result), None, state)
            return second.result.result + state.storage.get("answer")

    async def run(state: ExecutionState) -> ExecutionResult:
        return await ExecutionEvent(actor=Reviews())(SimpleInput(value=5), None, state)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(run(ExecutionState(state_backend=backend, state_id="reviews")))
    restored = ExecutionState.load_from_state_id("reviews", backend)
    assert StateStatus.AWAITING is restored.status
    restored.storage.set("answer", 100)
    assert 112 == asyncio.run(run(restored)).result
    assert Counter(add_one=1, multiply=1) == executions


def test_results_can_be_handed_on_as_they_are(backend: StateBackend) -> None:
    class Length(Tool):
        async def handler(self, data: SimpleOutput, context: Any, state: ExecutionState) -> int:
            return data.result

    async def main() -> Any:
        state = ExecutionState(state_backend=backend)
        first = await ExecutionEvent(actor=AddOne())(SimpleInput(value=5), None, state)
        return (await ExecutionEvent(actor=Length(name="length"))(first, None, state)).result

    assert 6 == asyncio.run(main())


def test_handlers_get_the_context_and_the_state_and_can_call_actors_directly(backend: StateBackend) -> None:
    model = LLM(name="model", handler=lambda data, context, state: f"{data}-{context}")

    class Talks(Agent):
        async def handler(self, data: str, context: Any, state: ExecutionState) -> list[Any]:
            return [await model(data, context), state.state_id, model.event_type]

    async def main() -> Any:
        state = ExecutionState(state_backend=backend, state_id="talks")
        await ExecutionEvent(actor=Talks(name="talks"))("hello", "there", state)
        return state

    state = asyncio.run(main())
    assert ["hello-there", "talks", "llm_call"] == state.history.get_event_result("talks::agent_call")
    assert state.history.has_completed_event("talks::model::llm_call")


def test_an_agent_of_the_explicit_form_can_be_run(tmp_path: Path) -> None:
    class Runs(Agent):
        def __init__(self) -> None:
            super().__init__(name="runs")

        async def handler(self, data: SimpleInput, context: Any, state: ExecutionState) -> SimpleOutput:
            return (await ExecutionEvent(actor=AddOne())(data, None, state)).result

    store = f"sqlite:///{tmp_path}/runs.db"
    runs = Runs()
    assert SimpleOutput(result=2) == asyncio.run(runs.run(SimpleInput(value=1), state_id="runs", store=store))
    with Limpet(store) as limpet:
        assert SimpleOutput(result=2) == asyncio.run(limpet.resume("runs"))
    assert SimpleOutput(result=2) == asyncio.run(AddOne()(SimpleInput(value=1)))
    assert SimpleOutput(result=2) == AddOne().call(SimpleInput(value=1))
    assert Counter(add_one=3) == executions


def test_an_event_without_a_state_is_refused() -> None:
    with pytest.raises(UsageError, match="without a state"):
        asyncio.run(ExecutionEvent(AddOne())(SimpleInput(value=1), None, None))  # pyright: ignore[reportArgumentType]


def test_decorated_functions_and_tags_work_in_events(backend: StateBackend) -> None:
    @tool
    async def shout(text: str) -> str:
        return text.upper()

    async def main() -> list[str]:
        state = ExecutionState(state_backend=backend)
        events = [ExecutionEvent(shout, tag=tag) for tag in ("", "page-2", "page-2")]
        for event in events:
            await event("kelp", None, state)
        return [event.address for event in events]

    assert ["shout::tool_call", "shout[page-2]::tool_call", "shout[page-2]#2::tool_call"] == asyncio.run(main())


def test_storage_is_part_of_the_journal(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="stores")
    state.storage.set("step1", "completed")
    state.storage.set("page", SimpleInput(value=3))
    state.storage.set("gone", 1)
    assert state.storage.delete("gone")
    assert not state.storage.delete("gone")
    with pytest.raises(ValueNotStorable, match=r"storage\['bad'\]\[0\]"):
        state.storage.set("bad", [lambda: None])
    restored = ExecutionState.load_from_state_id("stores", backend)
    assert "completed" == restored.storage.get("step1")
    assert SimpleInput(value=3) == restored.storage.get("page")
    assert ["step1", "page"] == restored.storage.keys()
    assert not restored.storage.has("gone")
    assert 7 == restored.storage.get("gone", 7)
    restored.storage.get("page").value = 99
    assert SimpleInput(value=3) == restored.storage.get("page")


def test_storage_can_be_set_from_a_plain_handler(backend: StateBackend) -> None:
    class Stores(Tool):
        def handler(self, data: int, context: Any, state: ExecutionState) -> int:
            state.storage.set("seen", data)
            return data

    async def main(state: ExecutionState) -> None:
        await asyncio.gather(
            *(ExecutionEvent(Stores(name="stores"), tag=str(number))(number, None, state) for number in range(8))
        )

    state = ExecutionState(state_backend=backend, state_id="threads")
    asyncio.run(main(state))
    restored = ExecutionState.load_from_state_id("threads", backend)
    assert restored.storage.has("seen")
    assert 8 == len(restored.history)


def test_checkpoints_are_marks_in_the_journal(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="marks", metadata=StateMetadata(description="d"))
    assert 1 == state.save_checkpoint()
    assert 2 == state.save_checkpoint(StateStatus.COMPLETED, StateMetadata(tags=["end"]))
    with pytest.raises(UsageError, match="is completed and cannot become paused"):
        state.save_checkpoint(StateStatus.PAUSED)
    marks = [record for record in state.history if isinstance(record, CheckpointRecord)]
    assert [StateStatus.RUNNING, StateStatus.COMPLETED] == [mark.status for mark in marks]
    header = backend.find_state("marks")
    assert header is not None
    assert (StateStatus.COMPLETED, ["end"]) == (header.status, header.metadata.tags)


def test_a_snapshot_is_the_whole_state_without_its_backend(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="snap", metadata=StateMetadata(tags=["x"]))
    asyncio.run(add_then_multiply(state))
    state.storage.set("key", "value")
    snapshot = state.to_snapshot()
    assert ("snap", ["x"], FORMAT_VERSION) == (snapshot.state_id, snapshot.metadata.tags, snapshot.version)
    assert snapshot.created_at <= snapshot.updated_at
    assert StateStatus.RUNNING is snapshot.status
    elsewhere = MemoryStateBackend()
    copied = ExecutionState.from_snapshot(snapshot, state_backend=elsewhere)
    assert "value" == copied.storage.get("key")
    asyncio.run(add_then_multiply(copied))
    assert Counter(add_one=1, multiply=1) == executions
    copied.storage.set("key", "other")
    assert "other" == ExecutionState.load_from_state_id("snap", elsewhere).storage.get("key")
    assert "value" == ExecutionState.load_from_state_id("snap", backend).storage.get("key")


def test_what_another_process_recorded_meanwhile_is_not_written_over(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="meanwhile")
    state.storage.set("number", 1)
    state.save_checkpoint(StateStatus.PAUSED)
    early = ExecutionState.load_from_state_id("meanwhile", backend)
    other = ExecutionState.load_from_state_id("meanwhile", backend)
    other.storage.set("number", 2)
    other.save_checkpoint(StateStatus.PAUSED)
    early.storage.set("mine", True)
    assert 2 == early.storage.get("number")


def test_validation_executes_again_and_reports_what_differs(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="valid")
    asyncio.run(add_then_multiply(state))
    state.save_checkpoint(StateStatus.COMPLETED)
    position = backend.find_state("valid")

    same = ExecutionState.load_from_state_id("valid", backend, replay_mode=ReplayMode.VALIDATION)
    events, _ = asyncio.run(add_then_multiply(same))
    assert [False, False] == [event.is_replayed for event in events]
    assert same.validation is not None
    assert same.validation.is_ok
    assert ["add_one::tool_call", "multiply_by_two::tool_call"] == same.validation.matched

    switch["off"] = 1
    differs = ExecutionState.load_from_state_id("valid", backend, replay_mode=ReplayMode.VALIDATION)
    asyncio.run(add_then_multiply(differs))
    asyncio.run(add_then_multiply(differs))
    assert differs.validation is not None
    assert not differs.validation.is_ok
    assert ["add_one::tool_call", "multiply_by_two::tool_call"] == [m.address for m in differs.validation.mismatches]
    assert (SimpleOutput(result=6), SimpleOutput(result=7)) == (
        differs.validation.mismatches[0].recorded,
        differs.validation.mismatches[0].actual,
    )
    assert ["add_one#2::tool_call", "multiply_by_two#2::tool_call"] == differs.validation.extra
    differs.storage.set("only", "here")
    assert "here" == differs.storage.get("only")
    with pytest.raises(UsageError, match="nothing is recorded"):
        differs.save_checkpoint()
    assert position == backend.find_state("valid")


def test_validation_compares_failures_too(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="valid")
    switch["break"] = True
    with pytest.raises(TimeoutError):
        asyncio.run(add_then_multiply(state))
    again = ExecutionState.load_from_state_id("valid", backend, replay_mode=ReplayMode.VALIDATION)
    with pytest.raises(TimeoutError):
        asyncio.run(add_then_multiply(again))
    assert again.validation is not None
    assert again.validation.is_ok
    switch["break"] = False
    mended = ExecutionState.load_from_state_id("valid", backend, replay_mode=ReplayMode.VALIDATION)
    asyncio.run(add_then_multiply(mended))
    assert mended.validation is not None
    (mismatch,) = mended.validation.mismatches
    assert ("TimeoutError", SimpleOutput(result=12)) == (mismatch.recorded.type_name, mismatch.actual)
    switch["break"] = True
    extra = ExecutionState.load_from_state_id("valid", backend, replay_mode=ReplayMode.VALIDATION)
    for _ in range(2):
        with pytest.raises(TimeoutError):
            asyncio.run(add_then_multiply(extra))
    assert extra.validation is not None
    assert ["add_one#2::tool_call", "multiply_by_two#2::tool_call"] == extra.validation.extra


def test_a_rehearsal_executes_nothing_and_refuses_what_is_not_recorded(backend: StateBackend) -> None:
    asyncio.run(add_then_multiply(ExecutionState(state_backend=backend, state_id="rehearsed")))
    executions.clear()
    rehearsal = ExecutionState.load_from_state_id("rehearsed", backend, replay_mode=ReplayMode.REHEARSAL)
    asyncio.run(add_then_multiply(rehearsal))
    with pytest.raises(NotRecorded, match="add_one#2"):
        asyncio.run(add_then_multiply(rehearsal))
    assert Counter() == executions


def test_history_answers_questions_about_addresses(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="asked")
    asyncio.run(add_then_multiply(state))
    history = state.history
    assert state.should_skip_event("add_one::tool_call")
    assert not state.should_skip_event("add_one#2::tool_call")
    assert history.has_completed_event("add_one::tool_call")
    assert SimpleOutput(result=6) == history.get_event_result("add_one::tool_call")
    assert history.get_event_result("nothing::tool_call") is None
    assert "add_one::tool_call" in history
    assert 4 == len(history.get_event_list())
    with pytest.raises(UnknownAddress, match="Nearest: 'add_one::tool_call'"):
        history["ad_one::tool_call"]


def test_an_unknown_state_is_named_with_those_that_look_like_it(backend: StateBackend) -> None:
    ExecutionState(state_backend=backend, state_id="kelp-42").storage.set("a", 1)
    with pytest.raises(UnknownState, match="Nearest: 'kelp-42'"):
        ExecutionState.load_from_state_id("kelp-43", backend)


def test_an_actor_needs_a_name_and_a_handler() -> None:
    with pytest.raises(UsageError, match="needs a name"):
        Tool(name="", handler=print)
    with pytest.raises(UsageError, match="has no handler"):
        Tool(name="empty")


def test_an_option_that_is_not_known_is_named_with_those_that_are() -> None:
    with pytest.raises(
        UsageError, match=r"retries is no option of an actor\. The options are name, description, version"
    ):
        tool(retries=3)(print)  # pyright: ignore[reportCallIssue]
    with pytest.raises(UsageError, match="retries is no option"):
        Tool(name="x", handler=print, retries=3)
    with pytest.raises(UsageError, match="is no function"):
        tool("fetch")  # pyright: ignore[reportCallIssue, reportArgumentType]


def test_options_of_the_old_cache_are_accepted_with_a_warning() -> None:
    with pytest.warns(DeprecationWarning, match="do nothing"):
        Tool(name="old", handler=print, cacheable=True, cache_ttl=3600)


def test_a_generator_cannot_be_an_actor() -> None:
    def yields() -> Iterator[int]:
        yield 1

    with pytest.raises(UsageError, match="Return a list"):
        tool(yields)
