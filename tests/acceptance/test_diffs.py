"""What became different between two states, timelines, checkpoints or snapshots, told so that a person sees it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from click.testing import CliRunner
from pydantic import BaseModel

from limpet import (
    DifferenceKind,
    Encryption,
    ExecutionEvent,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    Secret,
    StateBackend,
    StateDiff,
    StatePoint,
    StateSnapshot,
    StateStatus,
    UnknownCheckpoint,
    UnknownState,
    UnknownTimeline,
    UsageError,
    agent,
    compute_artifact_id,
    new_key,
    tool,
)
from limpet.cli.main import commands

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@dataclass
class Page:
    title: str
    words: list[str] = field(default_factory=list)


class Book(BaseModel):
    pages: list[Page]
    index: dict[str, int] = {}


@tool
async def read(title: str) -> Book:
    return Book(pages=[Page("one"), Page(title, ["kelp", "wrack"])], index={"kelp": 1})


@tool
async def note(text: str) -> str:
    executions["note"] += 1
    if switch.get("fails"):
        raise LookupError(text)
    return text.upper()


@agent
async def reads(names: list[str], title: str) -> list[str]:
    await read(title)
    return [await note.options(key=name)(f"{name} of {title}") for name in names]


def changes(diff: StateDiff) -> list[str]:
    return [str(each) for change in diff.changed_events for each in change.differences]


def test_states_that_do_not_differ_are_false_and_say_so(client: Limpet) -> None:
    for state_id in ("x", "y"):
        client.run_sync(reads, ["a", "b"], "two", state_id=state_id)
    diff = client.diff("x", "y")
    assert not diff
    assert "x and y do not differ (4 events)." == str(diff)
    assert ((), (), (), {}) == (diff.new_events, diff.removed_events, diff.changed_events, diff.changed_storage)
    assert not client.diff("x", "x")


def test_new_and_removed_events_are_told(client: Limpet) -> None:
    client.run_sync(reads, ["a", "b"], "two", state_id="x")
    client.run_sync(reads, ["b", "c"], "two", state_id="y")
    diff = client.diff("x", "y")
    assert diff
    assert ["reads::note[c]::tool_call"] == [record.address for record in diff.new_events]
    assert ["reads::note[a]::tool_call"] == [record.address for record in diff.removed_events]
    assert ["reads::agent_call"] == [change.address for change in diff.changed_events]
    told = str(diff).splitlines()
    assert "x -> y" == told[0]
    assert {"- reads::note[a]::tool_call", "+ reads::note[c]::tool_call", "~ reads::agent_call"} <= set(told)
    assert diff.summary == told[-1]
    assert diff.summary.startswith("events: 4 -> 4 (1 changed, 1 removed, 1 new); retries: 0 -> 0;")


def test_changed_events_name_the_place_inside_the_value(client: Limpet) -> None:
    client.run_sync(reads, ["a"], "two", state_id="x")
    client.run_sync(reads, ["a"], "other", state_id="y")
    diff = client.diff("x", "y")
    assert [
        "reads::read::tool_call",
        "reads::note[a]::tool_call",
        "reads::agent_call",
    ] == [change.address for change in diff.changed_events]
    assert [
        "result.pages[1].title: 'two' -> 'other'",
        "input[0]: 'two' -> 'other'",
        "result: 'A OF TWO' -> 'A OF OTHER'",
        "input[0]: 'a of two' -> 'a of other'",
        "result[0]: 'A OF TWO' -> 'A OF OTHER'",
        "input[1]: 'two' -> 'other'",
    ] == changes(diff)
    assert "~ reads::read::tool_call\n    result.pages[1].title: 'two' -> 'other'" in str(diff)


def test_a_changed_status_and_error_are_told(client: Limpet) -> None:
    client.run_sync(reads, ["a"], "two", state_id="x")
    switch["fails"] = True
    with pytest.raises(LookupError):
        client.run_sync(reads, ["a"], "two", state_id="y")
    told = changes(client.diff("x", "y"))
    assert "status: completed -> failed" in told
    assert "error:  -> LookupError: a of two" in told
    back = changes(client.diff("y", "x"))
    assert "status: failed -> completed" in back


def test_an_event_that_has_only_started_is_told_with_its_status(client: Limpet) -> None:
    @agent
    async def stops(name: str) -> str:
        first = await note(name)
        if switch.get("stops"):
            raise asyncio.CancelledError
        return first

    @agent
    async def outer(name: str) -> str:
        return await stops(name)

    client.run_sync(outer, "a", state_id="x")
    switch["stops"] = True
    with pytest.raises(asyncio.CancelledError):
        client.run_sync(outer, "a", state_id="y")
    diff = client.diff("x", "y")
    assert diff
    assert {"outer::stops::agent_call", "outer::agent_call"} <= {
        *(change.address for change in diff.changed_events),
        *(record.address for record in diff.removed_events),
    }


def test_retries_are_counted(client: Limpet) -> None:
    client.run_sync(reads, ["a", "b"], "two", state_id="x")
    switch["fails"] = True
    for _ in range(2):
        with pytest.raises(LookupError):
            client.run_sync(reads, ["a", "b"], "two", state_id="y")
    switch.clear()
    client.run_sync(reads, ["a", "b"], "two", state_id="y")
    diff = client.diff("x", "y")
    assert not diff
    assert (0, 0) == (diff.totals_before.retries, diff.totals_before.failures)
    assert (4, 4) == (diff.totals_before.events, diff.totals_after.events)
    # The note and the run as a whole, each failed twice before it went well.
    assert (4, 4) == (diff.totals_after.failures, diff.totals_after.retries)


def test_retries_of_an_event_that_differs_are_counted_on_both_sides(client: Limpet) -> None:
    for state_id, names in (("x", ["a"]), ("y", ["b"])):
        switch["fails"] = True
        with pytest.raises(LookupError):
            client.run_sync(reads, names, "two", state_id=state_id)
        switch.clear()
        client.run_sync(reads, names, "two", state_id=state_id)
    diff = client.diff("x", "y")
    assert ((3, 2, 2), (3, 2, 2)) == tuple(
        (totals.events, totals.failures, totals.retries) for totals in (diff.totals_before, diff.totals_after)
    )


def test_totals_sum_the_time_of_tools_and_models_up(client: Limpet) -> None:
    client.run_sync(reads, ["a"], "two", state_id="x")
    client.run_sync(reads, ["a", "b"], "two", state_id="y")
    diff = client.diff("x", "y")
    for state_id, totals in (("x", diff.totals_before), ("y", diff.totals_after)):
        tools = [
            record.duration_s
            for record in client.history(state_id).get_event_list()
            if record.status is ExecutionStatus.COMPLETED and record.address.endswith("tool_call")
        ]
        assert pytest.approx(sum(tools)) == totals.duration_s
    change = diff.changed_events[-1]
    assert change.after.duration_s - change.before.duration_s == change.duration_change_s


def test_timelines_are_compared(client: Limpet) -> None:
    client.run_sync(reads, ["a", "b"], "two", state_id="x")
    asyncio.run(client.rerun("x", "note[a]", replace="EDITED"))
    diff = client.diff("x:1", "x:2")
    assert ["result: 'A OF TWO' -> 'EDITED'", "result[0]: 'A OF TWO' -> 'EDITED'"] == changes(diff)
    assert ("x:1", "x:2") == (diff.before, diff.after)
    assert changes(diff) == changes(client.diff("x"))
    assert changes(diff) == changes(client.diff(StatePoint("x", 1), StatePoint("x")))
    fork = client.fork("x", "note[b]", replace="FORKED")
    asyncio.run(client.resume(fork))
    assert ["result: 'B OF TWO' -> 'FORKED'", "result[1]: 'B OF TWO' -> 'FORKED'"] == changes(client.diff(fork))


def test_a_state_alone_has_nothing_to_be_compared_with(client: Limpet) -> None:
    client.run_sync(reads, [], "two", state_id="x")
    with pytest.raises(UsageError, match="nothing to compare it with"):
        client.diff("x")


def storage(backend: StateBackend, state_id: str, **entries: Any) -> ExecutionState:
    state = ExecutionState(state_backend=backend, state_id=state_id)
    for key, value in entries.items():
        state.storage.set(key, value)
    return state


def test_storage_is_compared_entry_by_entry(client: Limpet, backend: StateBackend) -> None:
    storage(backend, "x", same=1, page=Page("one", ["a"]), gone=[1, 2], text="kelp")
    storage(backend, "y", same=1, page=Page("one", ["b"]), text="kelp", new={"a": 1})
    diff = client.diff("x", "y")
    assert ["page", "gone", "new"] == list(diff.changed_storage)
    assert [
        ("storage['page'].words[0]: 'a' -> 'b'", DifferenceKind.CHANGED),
        ("storage['gone']: removed [1, 2]", DifferenceKind.REMOVED),
        ("storage['new']: added {'a': 1}", DifferenceKind.ADDED),
    ] == [(str(change.differences[0]), change.differences[0].kind) for change in diff.changed_storage.values()]
    assert "~ storage\n    storage['page'].words[0]: 'a' -> 'b'" in str(diff)


def test_an_entry_that_was_changed_and_changed_back_is_the_same(client: Limpet, backend: StateBackend) -> None:
    storage(backend, "x", number=1)
    state = storage(backend, "y", number=2, passing=1)
    state.storage.set("number", 1)
    state.storage.delete("passing")
    assert not client.diff("x", "y")


def test_artifacts_are_compared(client: Limpet, backend: StateBackend) -> None:
    old, new, kept = (np.full(20_000, value) for value in (1.0, 2.0, 3.0))
    for state_id, changed in (("x", old), ("y", new)):
        state = ExecutionState(state_backend=backend, state_id=state_id)
        state.storage.set_artifact("array", changed)
        state.storage.set_artifact("kept", kept)
    diff = client.diff("x", "y")
    assert ((compute_artifact_id(new),), (compute_artifact_id(old),)) == (diff.new_artifacts, diff.removed_artifacts)
    assert {} == diff.changed_storage
    assert f"+ artifact {compute_artifact_id(new)} in storage['array']" in str(diff)
    assert len(str(diff)) < 2000


def test_an_artifact_of_the_storage_is_told_alike_wherever_states_are_compared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with Limpet(url) as client:
        state = ExecutionState(state_backend=client.backend, state_id="x")
        for key in ("changed", "deleted", "kept", "moved"):
            state.storage.set_artifact(key, f"{key} before")
        first = state.save_checkpoint()
        snapshot = state.to_snapshot()
        state.storage.set_artifact("changed", "changed after")
        state.storage.delete_artifact("deleted")
        state.storage.delete_artifact("moved")
        state.storage.set_artifact("elsewhere", "moved before")
        state.storage.set("number", 1)
        second = state.save_checkpoint(status=StateStatus.PAUSED)
        found = [
            client.diff(f"x:c{first}", f"x:c{second}"),
            StateSnapshot.diff(snapshot, state.to_snapshot()),
            client.diff(snapshot, "x"),
        ]
    new = {"changed": "changed after", "elsewhere": "moved before"}
    gone = {key: f"{key} before" for key in ("changed", "deleted", "moved")}
    expected = [sorted(compute_artifact_id(value) for value in each.values()) for each in (new, gone)]
    for diff in found:
        assert expected == [list(diff.new_artifacts), list(diff.removed_artifacts)]
        assert ["number"] == list(diff.changed_storage)
    result = CliRunner().invoke(commands, ["diff", f"x:c{first}", f"x:c{second}", "--json", "--store", url])
    told = json.loads(result.stdout)
    assert expected == [told["new_artifacts"], told["removed_artifacts"]]
    assert ["number"] == [each["key"] for each in told["changed_storage"]]
    assert "deleted" == told["artifact_keys"][compute_artifact_id("deleted before")]


def test_artifacts_of_results_are_compared(client: Limpet) -> None:
    @tool
    async def make(value: float) -> Any:
        return np.full(20_000, value)

    @agent
    async def makes(values: list[float]) -> int:
        return sum([len(await make.options(key=str(value))(value)) for value in values])

    client.run_sync(makes, [1.0, 2.0], state_id="x")
    client.run_sync(makes, [2.0, 3.0], state_id="y")
    diff = client.diff("x", "y")
    expected = [(compute_artifact_id(np.full(20_000, value)),) for value in (3.0, 1.0)]
    assert expected == [diff.new_artifacts, diff.removed_artifacts]


def test_snapshots_are_compared_without_their_store(backend: StateBackend) -> None:
    async def call(state: ExecutionState, *texts: str) -> None:
        for text in texts:
            await ExecutionEvent(note)(text, None, state)

    state = ExecutionState(state_backend=backend, state_id="x")
    asyncio.run(call(state, "a"))
    before = state.to_snapshot()
    asyncio.run(call(state, "b"))
    state.storage.set("number", 1)
    artifact_id = state.storage.set_artifact("embedding", [1.0])
    after = state.to_snapshot()
    diff = StateSnapshot.diff(before, after)
    assert ["note#2::tool_call"] == [record.address for record in diff.new_events]
    assert {"number"} == set(diff.changed_storage)
    assert (artifact_id,) == diff.new_artifacts
    assert not StateSnapshot.diff(after, after)
    back = StateSnapshot.diff(after, before)
    assert ["note#2::tool_call"] == [record.address for record in back.removed_events]
    assert (artifact_id,) == back.removed_artifacts


def test_a_snapshot_is_compared_with_a_stored_state(client: Limpet, backend: StateBackend) -> None:
    state = storage(backend, "x", number=1)
    snapshot = state.to_snapshot()
    assert not client.diff(snapshot, "x")
    state.storage.set("number", 2)
    assert ["storage['number']: 1 -> 2"] == [
        str(each) for each in client.diff(snapshot, "x").changed_storage["number"].differences
    ]
    with pytest.raises(UsageError, match="only one state"):
        client.diff(snapshot)


def test_snapshots_on_other_timelines_are_compared_on_their_own(client: Limpet, backend: StateBackend) -> None:
    client.run_sync(reads, ["a"], "two", state_id="x")
    first = ExecutionState.load_from_state_id("x", backend).to_snapshot()
    asyncio.run(client.rerun("x", "note[a]", replace="EDITED"))
    second = ExecutionState.load_from_state_id("x", backend).to_snapshot()
    assert "result: 'A OF TWO' -> 'EDITED'" == changes(StateSnapshot.diff(first, second))[0]


def test_a_snapshot_of_an_encrypted_state_is_compared(backend: StateBackend) -> None:
    encryption = Encryption(new_key())
    state = ExecutionState(state_backend=backend, state_id="x", encryption=encryption)
    state.storage.set("a", [1])
    before = state.to_snapshot()
    state.storage.set("a", [2])
    diff = StateSnapshot.diff(before, state.to_snapshot())
    assert "storage['a'][0]: 1 -> 2" == str(diff.changed_storage["a"].differences[0])


def test_checkpoints_are_compared_with_the_end(client: Limpet, backend: StateBackend) -> None:
    state = storage(backend, "x", number=1)
    position = state.save_checkpoint()
    state.storage.set("number", 2)
    state.save_checkpoint(StateStatus.PAUSED)
    diff = client.diff(f"x:c{position}", "x")
    assert (f"x:c{position}", "x", ["number"]) == (diff.before, diff.after, list(diff.changed_storage))
    assert str(diff) == str(client.diff(StatePoint("x", checkpoint=position), StatePoint("x")))


def test_the_text_of_a_point_that_is_none_is_told(client: Limpet) -> None:
    client.run_sync(reads, [], "two", state_id="x")
    for text in ("x:", "x:two", "x:c", "x:c1x", "x:-1", "x:1:2"):
        with pytest.raises(UsageError, match=r"names no point of a state\. Write ID, ID:2"):
            client.diff("x", text)
    for text in ("x:2", "x:0"):
        with pytest.raises(UnknownTimeline):
            client.diff("x", text)
    with pytest.raises(UnknownCheckpoint):
        client.diff("x", "x:c2")
    with pytest.raises(UnknownState, match="'xx'"):
        client.diff("x", "xx")
    assert ["x", "x:2", "x:c17"] == [str(StatePoint("x")), str(StatePoint("x", 2)), str(StatePoint("x", None, 17))]


def test_a_long_diff_is_cut_for_people_and_whole_for_programs(client: Limpet) -> None:
    client.run_sync(reads, [], "two", state_id="x")
    client.run_sync(reads, [str(number) for number in range(50)], "two", state_id="y")
    diff = client.diff("x", "y")
    assert 50 == len(diff.new_events)
    assert "  … and 40 more new events" in str(diff).splitlines()
    assert len(str(diff).splitlines()) < 60


def test_no_secret_is_shown(client: Limpet) -> None:
    @tool
    async def log_in(password: Annotated[str, Secret], user: str) -> str:
        return user

    @agent
    async def logs_in(user: str) -> str:
        return await log_in(f"hunter-{user}", user)

    client.run_sync(logs_in, "a", state_id="x")
    client.run_sync(logs_in, "b", state_id="y")
    diff = client.diff("x", "y")
    assert diff
    assert "hunter" not in str(diff)


def test_states_of_concurrent_runs_do_not_differ_by_their_timing(client: Limpet) -> None:
    @agent
    async def spreads() -> list[str]:
        async def chain(name: str) -> str:
            for _ in range(switch["pauses"][name]):
                await asyncio.sleep(0)
            return await note(name) + await note(f"{name}2")

        return list(await asyncio.gather(chain("a"), chain("b"), note("c")))

    switch["pauses"] = {"a": 5, "b": 0}
    client.run_sync(spreads, state_id="x")
    switch["pauses"] = {"a": 0, "b": 5}
    client.run_sync(spreads, state_id="y")
    assert not client.diff("x", "y")
