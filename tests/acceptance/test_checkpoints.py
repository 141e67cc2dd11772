"""Checkpoints are marks in the journal that can be gone back to; snapshots are whole states that travel alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from limpet import (
    Agent,
    ArtifactMissing,
    Encryption,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    ReplayMode,
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
    Tool,
    UnknownCheckpoint,
    UsageError,
    agent,
    new_key,
    tool,
)

executions: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]}"


@tool
async def large(name: str) -> str:
    executions[name] += 1
    return f"{name}/{executions[name]} " * 20_000


@agent
async def flat(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


async def call(state: ExecutionState, *names: str) -> list[str]:
    return [(await ExecutionEvent(step)(name, None, state)).result for name in names]


def marked(backend: StateBackend) -> tuple[ExecutionState, int, int]:
    """A state with two checkpoints: storage and history differ at each."""
    state = ExecutionState(state_backend=backend, state_id="x", metadata=StateMetadata(description="d"))
    state.storage.set("number", 1)
    asyncio.run(call(state, "s1"))
    first = state.save_checkpoint(metadata=StateMetadata(tags=["first"]))
    state.storage.set("number", 2)
    state.storage.set("late", True)
    state.storage.set_artifact("embedding", [2.0])
    asyncio.run(call(state, "s2"))
    second = state.save_checkpoint(StateStatus.PAUSED, StateMetadata(tags=["second"]))
    state.storage.set("number", 3)
    asyncio.run(call(state, "s3"))
    state.save_checkpoint(StateStatus.PAUSED)
    return state, first, second


def test_a_checkpoint_costs_one_record(backend: StateBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    # It repeats the metadata, and so what is captured of the environment, which is long on some machines.
    monkeypatch.setenv("LIMPET_CAPTURE", "minimal")
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("large", "kelp " * 100_000)
    asyncio.run(call(state, *(f"s{number}" for number in range(50))))
    before = backend.read("x")
    position = state.save_checkpoint(metadata=StateMetadata(tags=["here"]))
    after = backend.read("x")
    assert before == after[:-1]
    assert position == after[-1][0] == len(before) + 1
    assert len(after[-1][1]) < 1000


def test_checkpoints_are_listed_with_what_they_say(backend: StateBackend) -> None:
    state, first, second = marked(backend)
    listed = state.checkpoints
    assert listed == Limpet(backend).checkpoints("x")
    assert [first, second] == [checkpoint.position for checkpoint in listed][:2]
    assert [StateStatus.RUNNING, StateStatus.PAUSED, StateStatus.PAUSED] == [each.status for each in listed]
    assert [["first"], ["second"]] == [each.metadata.tags for each in listed][:2]
    assert [1, 1, 1] == [each.timeline for each in listed]
    assert sorted(each.saved_at for each in listed) == [each.saved_at for each in listed]


def test_each_checkpoint_can_be_loaded_as_it_stood(backend: StateBackend) -> None:
    _, first, second = marked(backend)
    before = backend.read("x"), backend.find_state("x")
    at_first = ExecutionState.load_from_state_id("x", backend, checkpoint=first)
    assert (1, ["number"], ["step::tool_call"]) == (
        at_first.storage.get("number"),
        at_first.storage.keys(),
        at_first.history.addresses(),
    )
    assert not at_first.storage.has_artifact("embedding")
    at_second = ExecutionState.load_from_state_id("x", backend, checkpoint=second)
    assert (2, ["step::tool_call", "step#2::tool_call"]) == (
        at_second.storage.get("number"),
        at_second.history.addresses(),
    )
    assert [2.0] == at_second.storage.get_artifact("embedding")
    assert ["step::tool_call"] == Limpet(backend).history("x", checkpoint=first).addresses()
    assert before == (backend.read("x"), backend.find_state("x"))


def test_going_on_from_a_checkpoint_begins_a_new_timeline(backend: StateBackend) -> None:
    _, first, _ = marked(backend)
    state = ExecutionState.load_from_state_id("x", backend, checkpoint=first)
    assert ["s1/1", "s2/2"] == asyncio.run(call(state, "s1", "s2"))
    state.storage.set("number", "new")
    assert [(1, None, None), (2, 1, None)] == [(each.number, each.base, each.address) for each in state.timelines]
    now = ExecutionState.load_from_state_id("x", backend)
    assert ("new", ["number"]) == (now.storage.get("number"), now.storage.keys())
    assert ["s1/1", "s2/2"] == asyncio.run(call(now, "s1", "s2"))
    old = ExecutionState.load_from_state_id("x", backend, timeline=1)
    assert (3, ["number", "late"]) == (old.storage.get("number"), old.storage.keys())
    assert ["s1/1", "s2/1", "s3/1"] == asyncio.run(call(old, "s1", "s2", "s3"))


def test_checkpoints_of_old_timelines_can_still_be_loaded(backend: StateBackend) -> None:
    _, first, second = marked(backend)
    state = ExecutionState.load_from_state_id("x", backend, checkpoint=first)
    asyncio.run(call(state, "s1", "s2"))
    third = state.save_checkpoint(StateStatus.PAUSED)
    assert [1, 1, 1, 2] == [each.timeline for each in state.checkpoints]
    for position, expected in ((second, ["s1/1", "s2/1"]), (third, ["s1/1", "s2/2"])):
        loaded = ExecutionState.load_from_state_id("x", backend, checkpoint=position)
        assert expected == asyncio.run(call(loaded, "s1", "s2"))


def test_checkpoints_can_be_compared(backend: StateBackend) -> None:
    _, first, second = marked(backend)
    client = Limpet(backend)
    diff = client.diff(f"x:c{first}", f"x:c{second}")
    assert ["step#2::tool_call"] == [record.address for record in diff.new_events]
    assert {"number", "late"} == set(diff.changed_storage)
    assert 1 == len(diff.new_artifacts)
    assert not client.diff(f"x:c{second}", f"x:c{second}")
    back = client.diff(f"x:c{second}", f"x:c{first}")
    assert (["step#2::tool_call"], diff.new_artifacts) == (
        [record.address for record in back.removed_events],
        back.removed_artifacts,
    )


def test_checkpoints_can_be_forked_from(backend: StateBackend) -> None:
    _, first, second = marked(backend)
    client = Limpet(backend)
    for position, number in ((first, 1), (second, 2)):
        fork = ExecutionState.load_from_state_id(client.fork("x", checkpoint=position), backend)
        assert number == fork.storage.get("number")
        assert ["s1/1", f"s2/{3 - number}"] == asyncio.run(call(fork, "s1", "s2"))
        executions["s2"] = 1


def test_an_unknown_checkpoint_is_told_with_those_that_are_known(backend: StateBackend) -> None:
    _, first, second = marked(backend)
    client = Limpet(backend)
    for position in (0, first - 1, 99):
        with pytest.raises(UnknownCheckpoint, match=f"{first}, {second}"):
            ExecutionState.load_from_state_id("x", backend, checkpoint=position)
        with pytest.raises(UnknownCheckpoint, match=f"{first}, {second}"):
            client.history("x", checkpoint=position)
        with pytest.raises(UnknownCheckpoint, match=f"{first}, {second}"):
            client.diff("x", f"x:c{position}")
    with pytest.raises(UsageError, match="not at both"):
        ExecutionState.load_from_state_id("x", backend, checkpoint=first, resume_from_address="step::tool_call")


def test_a_checkpoint_inside_a_run_can_be_gone_back_to(backend: StateBackend) -> None:
    class Marks(Agent):
        async def handler(self, data: str, context: Any, state: ExecutionState) -> list[str]:
            first = await step("s1")
            state.storage.set("seen", first)
            state.save_checkpoint()
            return [first, await step("s2")]

    client = Limpet(backend)
    marks = Marks(name="marks")
    assert ["s1/1", "s2/1"] == client.run_sync(marks, "", state_id="x")
    (checkpoint,) = client.checkpoints("x")
    fork = client.fork("x", checkpoint=checkpoint.position)
    assert ["s1/1", "s2/2"] == asyncio.run(client.resume(fork, agent=marks))


def test_a_snapshot_goes_on_in_another_store_without_the_first(backend: StateBackend) -> None:
    elsewhere = MemoryStateBackend()
    state = ExecutionState(state_backend=MemoryStateBackend(), state_id="x", metadata=StateMetadata(tags=["t"]))
    asyncio.run(call(state, "s1"))
    state.storage.set("number", 1)
    state.save_checkpoint(StateStatus.PAUSED)
    snapshot = state.to_snapshot()
    for target in (backend, elsewhere):
        copied = ExecutionState.from_snapshot(snapshot, state_backend=target)
        assert (1, ["t"], StateStatus.PAUSED) == (copied.storage.get("number"), copied.metadata.tags, copied.status)
        assert target.find_state("x") is None
        executions["s2"] = 0
        assert ["s1/1", "s2/1"] == asyncio.run(call(copied, "s1", "s2"))
        again = ExecutionState.load_from_state_id("x", target)
        assert ["s1/1", "s2/1"] == asyncio.run(call(again, "s1", "s2"))
        assert len(snapshot.records) == len(state.to_snapshot().records)


def over_the_wire(snapshot: StateSnapshot) -> StateSnapshot:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot), type=StateSnapshot)


@pytest.mark.parametrize("travels", [False, True])
def test_a_snapshot_brings_its_large_values_along(backend: StateBackend, travels: bool) -> None:
    async def both(state: ExecutionState) -> list[Any]:
        return [(await ExecutionEvent(large)(name, None, state)).result for name in ("a", "b")]

    origin = ExecutionState(state_backend=backend, state_id="x")
    expected = asyncio.run(both(origin))
    origin.storage.set("text", "kelp " * 20_000)
    artifact_id = origin.storage.set_artifact("embedding", [1.0, 2.0])
    snapshot = over_the_wire(origin.to_snapshot()) if travels else origin.to_snapshot()
    assert 4 == len(snapshot.artifacts)
    assert artifact_id in snapshot.artifacts
    target = MemoryStateBackend()
    copied = ExecutionState.from_snapshot(snapshot, state_backend=target)
    assert "kelp " * 20_000 == copied.storage.get("text")
    assert [1.0, 2.0] == copied.storage.get_artifact("embedding")
    assert expected == asyncio.run(both(copied))
    copied.save_checkpoint(StateStatus.PAUSED)
    loaded = ExecutionState.load_from_state_id("x", target)
    assert expected == asyncio.run(both(loaded))
    assert [1.0, 2.0] == loaded.storage.get_artifact("embedding")
    assert Counter(a=1, b=1) == executions


def test_a_snapshot_can_leave_its_artifacts_out(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set_artifact("embedding", [1.0])
    snapshot = state.to_snapshot(with_artifacts=False)
    assert {} == snapshot.artifacts
    bare = ExecutionState.from_snapshot(snapshot, artifact_backend=MemoryArtifactBackend())
    with pytest.raises(ArtifactMissing):
        bare.storage.get_artifact("embedding")


def test_a_snapshot_has_every_timeline_and_checkpoint(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(flat, 3, state_id="x")
    asyncio.run(client.rerun("x", "step#2"))
    origin = ExecutionState.load_from_state_id("x", backend)
    snapshot = over_the_wire(origin.to_snapshot())
    target = MemoryStateBackend()
    copied = ExecutionState.from_snapshot(snapshot, state_backend=target)
    assert origin.timelines == copied.timelines
    assert ["s1/1", "s2/2", "s3/2"] == copied.history.get_event_result("flat::agent_call")
    copied.save_checkpoint()
    there = Limpet(target)
    assert [1, 2] == [timeline.number for timeline in there.timelines("x")]
    assert ["s1/1", "s2/1", "s3/1"] == there.history("x", timeline=1).get_event_result("flat::agent_call")
    assert ["s1/1", "s2/1", "s3/3"] == asyncio.run(there.rerun("x", "step#3", timeline=1, agent=flat))


def test_a_snapshot_of_a_fork_needs_no_parent(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(flat, 3, state_id="x")
    fork = client.fork("x", "step#3", new_state_id="y")
    asyncio.run(client.resume(fork))
    snapshot = over_the_wire(ExecutionState.load_from_state_id("y", backend).to_snapshot())
    target = MemoryStateBackend()
    copied = ExecutionState.from_snapshot(snapshot, state_backend=target)
    copied.save_checkpoint()
    assert ["s1/1", "s2/1", "s3/2"] == Limpet(target).history("y").get_event_result("flat::agent_call")
    assert ["s1/1", "s2/2", "s3/3"] == asyncio.run(Limpet(target).rerun("y", "step#2", agent=flat))


def test_a_snapshot_of_an_older_point_is_of_that_point(backend: StateBackend) -> None:
    _, first, _ = marked(backend)
    at_first = ExecutionState.load_from_state_id("x", backend, checkpoint=first)
    copied = ExecutionState.from_snapshot(over_the_wire(at_first.to_snapshot()))
    assert (1, ["number"]) == (copied.storage.get("number"), copied.storage.keys())
    assert ["step::tool_call"] == copied.history.addresses()


def test_a_snapshot_can_be_rehearsed_and_validated_without_a_store(backend: StateBackend) -> None:
    state = ExecutionState(state_backend=backend, state_id="x")
    asyncio.run(call(state, "s1", "s2"))
    snapshot = state.to_snapshot()
    rehearsed = ExecutionState.from_snapshot(snapshot, replay_mode=ReplayMode.REHEARSAL)
    assert ["s1/1", "s2/1"] == asyncio.run(call(rehearsed, "s1", "s2"))
    assert rehearsed.rehearsal is not None
    assert rehearsed.rehearsal.is_ok
    validated = ExecutionState.from_snapshot(snapshot, replay_mode=ReplayMode.VALIDATION)
    assert ["s1/2", "s2/2"] == asyncio.run(call(validated, "s1", "s2"))
    assert validated.validation is not None
    assert 2 == len(validated.validation.mismatches)


def test_an_encrypted_snapshot_needs_its_key(backend: StateBackend) -> None:
    key = new_key()
    state = ExecutionState(state_backend=backend, state_id="x", encryption=Encryption(key))
    state.storage.set_artifact("map", "the treasure")
    snapshot = over_the_wire(state.to_snapshot())
    assert all(b"treasure" not in content for content in snapshot.artifacts.values())
    copied = ExecutionState.from_snapshot(snapshot, encryption=Encryption(key))
    assert "the treasure" == copied.storage.get_artifact("map")


def test_an_actor_of_the_explicit_form_gives_its_recorded_result_from_a_snapshot() -> None:
    class Doubles(Tool):
        async def handler(self, data: int, context: Any, state: ExecutionState) -> int:
            executions["doubles"] += 1
            return data * 2

    async def double(state: ExecutionState) -> int:
        return (await ExecutionEvent(Doubles(name="doubles"))(4, None, state)).result

    state = ExecutionState()
    assert 8 == asyncio.run(double(state))
    assert 8 == asyncio.run(double(ExecutionState.from_snapshot(over_the_wire(state.to_snapshot()))))
    assert 1 == executions["doubles"]
