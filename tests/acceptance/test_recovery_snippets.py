"""State recovery as users of the explicit form write it: save, restore, replay, run on from an address, validate."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from acceptance.recovery_actors import (
    AddOneActor,
    AddTenActor,
    AnalyzeDataActor,
    APITimeoutError,
    MultiplyByTwoActor,
    ProcessDataActor,
    ProcessDecisionActor,
    ReportActor,
    SimpleInput,
    ValidateDataActor,
    executions,
    failing,
)

from limpet import (
    EventNotice,
    ExecutionEvent,
    ExecutionState,
    FileSystemArtifactBackend,
    FileSystemStateBackend,
    ReplayMode,
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
    Tool,
)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each story begins in an empty folder."""
    monkeypatch.chdir(tmp_path)
    executions.clear()
    failing.clear()


def backends() -> tuple[StateBackend, FileSystemArtifactBackend]:
    return FileSystemStateBackend(".state_store"), FileSystemArtifactBackend(".state_store/artifacts")


def test_000_basic_save_and_restore() -> None:
    # Create state with backends
    state = ExecutionState(state_backend=FileSystemStateBackend(), artifact_backend=FileSystemArtifactBackend())

    # Do work
    state.storage.set("step1", "completed")
    state.storage.set_artifact("embedding", [1.0, 2.0, 3.0])

    # Save checkpoint
    state.save_checkpoint(
        status=StateStatus.PAUSED, metadata=StateMetadata(tags=["checkpoint"], pipeline_name="my_pipeline")
    )

    # Later: Restore state
    restored = ExecutionState.load_from_state_id(
        state_id=state.state_id,
        state_backend=FileSystemStateBackend(),
        artifact_backend=FileSystemArtifactBackend(),
    )

    # Continue from where we left off
    assert restored.storage.get("step1") == "completed"
    assert restored.storage.get_artifact("embedding") == [1.0, 2.0, 3.0]


def test_000_state_querying() -> None:
    for name, tags, status in (
        ("wanted", ["production", "eu"], StateStatus.RUNNING),
        ("paused", ["production"], StateStatus.PAUSED),
        ("untagged", [], StateStatus.RUNNING),
    ):
        state = ExecutionState(state_backend=FileSystemStateBackend(), state_id=name)
        state.save_checkpoint(status, StateMetadata(tags=tags, pipeline_name="agent_workflow"))
    # List states with filters
    backend = FileSystemStateBackend()
    states = backend.list_states(tags=["production"], status=StateStatus.RUNNING, pipeline_name="agent_workflow")
    assert ["wanted"] == [state.state_id for state in states]


def test_000_state_comparison() -> None:
    state = ExecutionState(state_backend=FileSystemStateBackend(), artifact_backend=FileSystemArtifactBackend())
    state.storage.set("step1", "begun")
    snapshot1 = state.to_snapshot()
    asyncio.run(ExecutionEvent(actor=AddOneActor())(SimpleInput(value=5), None, state))
    state.storage.set("step1", "completed")
    artifact_id = state.storage.set_artifact("embedding", [1.0, 2.0, 3.0])
    snapshot2 = state.to_snapshot()

    # Compare two snapshots
    diff = StateSnapshot.diff(snapshot1, snapshot2)
    assert "New events: 1" == f"New events: {len(diff.new_events)}"
    assert "storage['step1']: 'begun' -> 'completed'" in f"Changed storage: {diff.changed_storage['step1']}"
    assert f"New artifacts: ('{artifact_id}',)" == f"New artifacts: {diff.new_artifacts}"


def test_001_test_1_basic_replay() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)

        # Execute 2 steps and save
        event1 = ExecutionEvent(actor=AddOneActor())
        result1 = await event1(SimpleInput(value=5), None, state)
        event2 = ExecutionEvent(actor=MultiplyByTwoActor())
        result2 = await event2(SimpleInput(value=6), None, state)
        assert (result1.result.result, result2.result.result) == (6, 12)
        state.save_checkpoint()

        # Restore and replay
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )
        event1_replay = ExecutionEvent(actor=AddOneActor())
        result1_replay = await event1_replay(SimpleInput(value=5), None, restored_state)

        assert result1_replay.result.result == 6
        assert event1_replay.is_replayed == True  # noqa: E712  # as users write it
        assert event1_replay.execution_time == 0.0

    asyncio.run(main())
    assert Counter(add_one=1, multiply_by_two=1) == executions


def test_001_test_2_resume_from_specific_address() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        event1 = ExecutionEvent(actor=AddOneActor())
        event2 = ExecutionEvent(actor=MultiplyByTwoActor())
        event3 = ExecutionEvent(actor=AddTenActor())

        # Execute 3 steps and save
        result1 = await event1(SimpleInput(value=10), None, state)
        result2 = await event2(SimpleInput(value=11), None, state)
        result3 = await event3(SimpleInput(value=22), None, state)
        assert [result.result.result for result in (result1, result2, result3)] == [11, 22, 32]
        state.save_checkpoint()

        # Restore with resume_from_address at step 2
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id,
            state_backend=state_backend,
            artifact_backend=artifact_backend,
            resume_from_address="multiply_by_two::tool_call",  # Step 2
        )
        assert restored_state.resume_from_address == "multiply_by_two::tool_call"

        # Replay with DIFFERENT input at step 2
        event1_replay = ExecutionEvent(actor=AddOneActor())
        result1_replay = await event1_replay(SimpleInput(value=10), None, restored_state)
        assert result1_replay.result.result == 11  # Cached
        assert event1_replay.is_replayed == True  # noqa: E712  # as users write it

        event2_replay = ExecutionEvent(actor=MultiplyByTwoActor())
        result2_replay = await event2_replay(SimpleInput(value=100), None, restored_state)  # NEW INPUT!
        assert result2_replay.result.result == 200  # Re-executed with new input
        assert event2_replay.is_replayed == False  # noqa: E712  # as users write it

        event3_replay = ExecutionEvent(actor=AddTenActor())
        result3_replay = await event3_replay(SimpleInput(value=200), None, restored_state)
        assert result3_replay.result.result == 210  # NEW TIMELINE
        assert event3_replay.is_replayed == False  # noqa: E712  # as users write it
        assert restored_state.resume_from_address is None  # Cleared

    asyncio.run(main())
    assert Counter(add_one=1, multiply_by_two=2, add_ten=2) == executions


def test_001_test_3_validation_mode() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        event1 = ExecutionEvent(actor=AddOneActor())
        event2 = ExecutionEvent(actor=MultiplyByTwoActor())

        # Execute and save
        await event1(SimpleInput(value=5), None, state)
        await event2(SimpleInput(value=6), None, state)
        state.save_checkpoint()

        # Restore in VALIDATION mode
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id,
            state_backend=state_backend,
            artifact_backend=artifact_backend,
            replay_mode=ReplayMode.VALIDATION,
        )

        # All events re-execute (not skipped)
        event1_val = ExecutionEvent(actor=AddOneActor())
        result1_val = await event1_val(SimpleInput(value=5), None, restored_state)
        assert result1_val.result.result == 6
        assert event1_val.is_replayed == False  # noqa: E712  # as users write it

        event2_val = ExecutionEvent(actor=MultiplyByTwoActor())
        result2_val = await event2_val(SimpleInput(value=6), None, restored_state)
        assert result2_val.result.result == 12
        assert event2_val.is_replayed == False  # noqa: E712  # as users write it

        # Results compared with historical values
        assert restored_state.validation is not None
        assert restored_state.validation.is_ok

    asyncio.run(main())
    assert Counter(add_one=2, multiply_by_two=2) == executions


def test_001_test_4_selective_event_publishing() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)

        # Execute and save
        await ExecutionEvent(actor=AddOneActor())(SimpleInput(value=5), None, state)
        await ExecutionEvent(actor=MultiplyByTwoActor())(SimpleInput(value=6), None, state)
        state.save_checkpoint()
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )

        # Track published events during replay
        published_events: list[EventNotice] = []
        restored_state.event_bus.subscribe(lambda e: published_events.append(e))

        # Replay old events
        event1_replay = ExecutionEvent(actor=AddOneActor())
        event2_replay = ExecutionEvent(actor=MultiplyByTwoActor())
        await event1_replay(SimpleInput(value=5), None, restored_state)
        await event2_replay(SimpleInput(value=6), None, restored_state)

        # Execute new event
        event3_new = ExecutionEvent(actor=AddTenActor())
        await event3_new(SimpleInput(value=12), None, restored_state)

        # Only new events published
        restored_state.event_bus.flush()
        replayed_events = [e for e in published_events if e["is_replayed"]]
        new_events = [e for e in published_events if not e["is_replayed"]]

        assert len(new_events) >= 2  # STARTED + COMPLETED for new event
        assert [] == replayed_events
        assert {"add_ten::tool_call"} == {event.address for event in new_events}
        assert not any(event.is_replayed for event in new_events)

    asyncio.run(main())


def test_001_replayed_events_are_published_as_recovered_where_all_is_asked_for() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        await ExecutionEvent(actor=AddOneActor())(SimpleInput(value=5), None, state)
        state.save_checkpoint()
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id,
            state_backend=state_backend,
            artifact_backend=artifact_backend,
            replay_mode=ReplayMode.REPUBLISH_ALL,
        )
        published_events: list[EventNotice] = []
        restored_state.event_bus.subscribe(lambda e: published_events.append(e))
        await ExecutionEvent(actor=AddOneActor())(SimpleInput(value=5), None, restored_state)
        restored_state.event_bus.flush()
        assert [("recovered", True)] == [(e["status"], e["is_replayed"]) for e in published_events]

    asyncio.run(main())


def test_001_example_1_user_in_the_loop() -> None:
    async def main() -> None:
        user_input, user_decision = {"user": "123"}, {"approved": True}

        # Step 1: Execute pipeline until user input needed
        state = ExecutionState(
            state_backend=FileSystemStateBackend("./states"),
            artifact_backend=FileSystemArtifactBackend("./artifacts"),
        )

        # Process initial data
        event1 = ExecutionEvent(actor=ValidateDataActor())
        result1 = await event1(user_input, None, state)

        event2 = ExecutionEvent(actor=AnalyzeDataActor())
        result2 = await event2(result1, None, state)
        assert {"user": "123", "validate_data": 1, "analyze_data": 1} == result2.result

        # Save checkpoint before expensive operation
        state.save_checkpoint(
            status=StateStatus.AWAITING,
            metadata=StateMetadata(
                tags=["awaiting-user-approval"], custom_data={"checkpoint_reason": "awaiting_user_decision"}
            ),
        )

        # Step 3: Resume with user's decision
        state_backend = FileSystemStateBackend("./states")
        artifact_backend = FileSystemArtifactBackend("./artifacts")
        (waiting,) = state_backend.list_states(status=StateStatus.AWAITING)
        assert {"checkpoint_reason": "awaiting_user_decision"} == waiting.metadata.custom_data
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )

        # Replay completed steps (instant)
        await event1(user_input, None, restored_state)  # Skipped
        await event2(result1, None, restored_state)  # Skipped
        assert (True, True) == (event1.is_replayed, event2.is_replayed)

        # Continue with user's decision
        event3 = ExecutionEvent(actor=ProcessDecisionActor())
        result3 = await event3(user_decision, None, restored_state)  # New work
        assert {"approved": True, "process_decision": 1} == result3.result

    asyncio.run(main())
    assert Counter(validate_data=1, analyze_data=1, process_decision=1) == executions


async def three_steps(data: dict[str, Any], state: ExecutionState) -> list[Any]:
    event1, event2, event3 = (
        ExecutionEvent(actor=actor()) for actor in (ValidateDataActor, AnalyzeDataActor, ProcessDataActor)
    )
    result1 = await event1(data, None, state)
    result2 = await event2(result1, None, state)
    result3 = await event3(result2, None, state)
    return [result1, result2, result3]


@pytest.mark.parametrize(
    ("caught", "tag"), [(APITimeoutError, "failed-api-timeout"), (Exception, "failed-at-event3")], ids=["001", "003"]
)
def test_001_example_2_and_003_error_recovery(caught: type[Exception], tag: str) -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        data = {"n": 1}
        event1, event2, event3 = (
            ExecutionEvent(actor=actor()) for actor in (ValidateDataActor, AnalyzeDataActor, ProcessDataActor)
        )
        failing.add("process_data")
        result1 = result2 = None

        # Pipeline fails at step 3 due to external API timeout
        try:
            result1 = await event1(data, None, state)
            result2 = await event2(result1, None, state)
            await event3(result2, None, state)  # FAILS
        except caught:
            state.save_checkpoint(status=StateStatus.FAILED, metadata=StateMetadata(tags=[tag]))

        # Later: retry from checkpoint
        failing.clear()
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )
        assert (StateStatus.FAILED, [tag]) == (restored_state.status, restored_state.metadata.tags)

        # Replay steps 1-2 (instant)
        await event1(data, None, restored_state)
        await event2(result1, None, restored_state)

        # Retry step 3 (maybe API is back up)
        result3 = await event3(result2, None, restored_state)  # Retry
        assert {"n": 1, "validate_data": 1, "analyze_data": 1, "process_data": 2, "debug_mode": False} == result3.result

    asyncio.run(main())
    assert Counter(validate_data=1, analyze_data=1, process_data=2) == executions


def test_001_example_3_and_003_selective_replay_for_debugging() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        data = {"n": 1}
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        result1, result2, result3 = await three_steps(data, state)
        event4 = ExecutionEvent(actor=ReportActor())
        await event4(result3, None, state)
        state.save_checkpoint(status=StateStatus.COMPLETED)
        reported_state_id = state.state_id

        # Developer wants to re-run step 3 with different parameters
        restored_state = ExecutionState.load_from_state_id(
            state_id=reported_state_id,
            state_backend=state_backend,
            artifact_backend=artifact_backend,
            resume_from_address="process_data::tool_call",  # Step 3
        )

        # Steps 1-2: skipped (cached)
        event1, event2 = ExecutionEvent(actor=ValidateDataActor()), ExecutionEvent(actor=AnalyzeDataActor())
        await event1(data, None, restored_state)
        await event2(result1, None, restored_state)
        assert (True, True) == (event1.is_replayed, event2.is_replayed)

        # Step 3: re-executed with modified parameters
        event3_debug = ExecutionEvent(actor=ProcessDataActor(debug_mode=True))
        result3_debug = await event3_debug(result2, None, restored_state)
        assert result3_debug.result["debug_mode"]

        # All subsequent steps also re-execute with new data
        report = await event4(result3_debug, None, restored_state)
        assert (True, 2) == (report.result["debug_mode"], report.result["report"])

    asyncio.run(main())
    assert Counter(validate_data=1, analyze_data=1, process_data=2, report=2) == executions


def test_003_after_state_recovery_system() -> None:
    async def main() -> None:
        state_backend = FileSystemStateBackend(".state_store")
        artifact_backend = FileSystemArtifactBackend(".state_store/artifacts")

        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)
        input_data = {"n": 1}
        event1, event2, event3 = (
            ExecutionEvent(actor=actor()) for actor in (ValidateDataActor, AnalyzeDataActor, ProcessDataActor)
        )

        # Execute events
        result1 = await event1(input_data, None, state)
        result2 = await event2(result1, None, state)

        # Save checkpoint manually
        state.save_checkpoint(status=StateStatus.PAUSED, metadata=StateMetadata(tags=["checkpoint1"]))

        # Later: restore and replay
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )

        # Events automatically skip if already executed
        result1_replayed = await event1(input_data, None, restored_state)  # Skipped, instant
        result2_replayed = await event2(result1, None, restored_state)  # Skipped, instant
        await event3(result2, None, restored_state)  # Executes fresh
        assert [result1.result, result2.result] == [result1_replayed.result, result2_replayed.result]
        assert [True, True, False] == [event.is_replayed for event in (event1, event2, event3)]

    asyncio.run(main())
    assert Counter(validate_data=1, analyze_data=1, process_data=1) == executions


def test_003_user_in_the_loop_workflows() -> None:
    async def main() -> None:
        state_backend, artifact_backend = backends()
        user_input, user_decision = {"user": "123"}, {"approved": False}
        validate_data_event = ExecutionEvent(actor=ValidateDataActor())
        analyze_data_event = ExecutionEvent(actor=AnalyzeDataActor())
        process_decision_event = ExecutionEvent(actor=ProcessDecisionActor())

        # Step 1: Execute until user input needed
        state = ExecutionState(state_backend=state_backend, artifact_backend=artifact_backend)

        result1 = await validate_data_event(user_input, None, state)
        await analyze_data_event(result1, None, state)

        # Save and wait for user decision
        state.save_checkpoint(
            status=StateStatus.AWAITING,
            metadata=StateMetadata(tags=["awaiting-user-approval"], custom_data={"user_id": "123"}),
        )

        # Step 2: Resume with user's decision
        restored_state = ExecutionState.load_from_state_id(
            state_id=state.state_id, state_backend=state_backend, artifact_backend=artifact_backend
        )

        # Previous events skipped instantly
        await validate_data_event(user_input, None, restored_state)
        await analyze_data_event(result1, None, restored_state)

        # New work with user's decision
        result3 = await process_decision_event(user_decision, None, restored_state)
        assert not result3.result["approved"]

    asyncio.run(main())
    assert Counter(validate_data=1, analyze_data=1, process_decision=1) == executions


def test_003_faq_how_do_i_query_saved_states() -> None:
    for number in range(12):
        state = ExecutionState(state_backend=FileSystemStateBackend(".state_store"), state_id=f"state-{number}")
        metadata = StateMetadata(tags=["production"], description=f"run {number}")
        state.save_checkpoint(status=StateStatus.PAUSED, metadata=metadata)

    # List states with filters
    backend = FileSystemStateBackend(".state_store")
    states = backend.list_states(tags=["production"], status=StateStatus.PAUSED, limit=10)

    told = [f"State {snapshot.state_id}: {snapshot.metadata.description}" for snapshot in states]
    assert [f"State state-{number}: run {number}" for number in range(11, 1, -1)] == told


def test_003_faq_how_do_i_delete_old_states() -> None:
    state = ExecutionState(state_backend=FileSystemStateBackend(".state_store"))
    state.save_checkpoint(status=StateStatus.PAUSED)
    state_id = state.state_id

    backend = FileSystemStateBackend(".state_store")
    backend.delete_state(state_id)
    assert [] == backend.list_states()


def test_003_remove_actor_caching_configuration() -> None:
    with pytest.warns(DeprecationWarning, match="cacheable"):
        Tool(name="my_tool", handler=print, cacheable=True, cache_ttl=3600)
    assert "my_tool" == Tool(name="my_tool", handler=print).name
