"""Forks: new states that begin with the records of another and go on by themselves; nothing is copied or disturbed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from acceptance import leasing_program
from acceptance.leasing_program import leasing
from acceptance.rehearsed_programs import forking_program
from acceptance.rehearsed_programs.forking_program import forking
from pydantic import BaseModel

from holdfast import (
    AmbiguousAddress,
    Encryption,
    EventRecord,
    ExecutionEvent,
    ExecutionState,
    Holdfast,
    InvalidStateId,
    MemoryStateBackend,
    StateBackend,
    StateMetadata,
    StateStatus,
    UnknownAddress,
    UnknownCheckpoint,
    UnknownState,
    UnknownTimeline,
    UsageError,
    ValueNotStorable,
    WrongKey,
    WrongReplacement,
    agent,
    new_key,
    tool,
)
from holdfast.testing import CrashingBackend

executions: Counter[str] = Counter()
failing: set[str] = set()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()
    switch.clear()


@dataclass
class Page:
    url: str
    words: list[str] = field(default_factory=list)


class Summary(BaseModel):
    text: str
    score: float = 0.0


@tool
async def step(name: str) -> str:
    executions[name] += 1
    if name in failing:
        raise LookupError(name)
    return f"{name}/{executions[name]}"


@agent
async def flat(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


@agent
async def inner(name: str) -> list[str]:
    return [await step(f"{name}{number}") for number in (1, 2)]


@agent
async def nested() -> list[str]:
    return [await step("first"), *await inner("a"), *await inner("b"), await step("last")]


@tool
async def fetch(url: str) -> Page:
    executions["fetch"] += 1
    return Page(url, ["kelp", "wrack"])


@tool
async def summarise(page: Page) -> Summary:
    executions["summarise"] += 1
    return Summary(text=" ".join(page.words), score=len(page.words))


@tool
async def publish(summary: Summary) -> str:
    executions["publish"] += 1
    return f"{summary.text}: {summary.score}"


@agent
async def research(url: str) -> list[Any]:
    page = await fetch(url)
    summary = await summarise(page)
    return [page, summary, await publish(summary)]


def frames(backend: StateBackend, state_id: str) -> tuple[Any, Any]:
    return backend.read(state_id), backend.find_state(state_id)


def resume(hf: Holdfast, state_id: str) -> Any:
    return asyncio.run(hf.resume(state_id))


def test_a_fork_at_an_event_reuses_what_started_before_and_leaves_its_parent_alone(
    hf: Holdfast, backend: StateBackend
) -> None:
    hf.run_sync(flat, 4, state_id="x")
    before = frames(backend, "x")
    fork = hf.fork("x", "step#3")
    assert before == frames(backend, "x")
    header = backend.find_state(fork)
    assert header is not None
    assert (StateStatus.PAUSED, "x", None) == (header.status, header.metadata.parent_state_id, header.holder)
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(hf, fork)
    assert ["s1/1", "s2/1", "s3/1", "s4/1"] == resume(hf, "x")
    assert Counter(s1=1, s2=1, s3=2, s4=2) == executions
    assert before == frames(backend, "x")


def test_a_fork_deep_in_nested_agents(hf: Holdfast) -> None:
    hf.run_sync(nested, state_id="x")
    fork = hf.fork("x", "nested::inner::step#2::tool_call")
    assert ["first/1", "a1/1", "a2/2", "b1/2", "b2/2", "last/2"] == resume(hf, fork)
    fork = hf.fork("x", "nested::inner#2::agent_call")
    assert ["first/1", "a1/1", "a2/1", "b1/3", "b2/3", "last/3"] == resume(hf, fork)


def test_a_fork_shares_what_was_under_way_and_ended_after_the_event(hf: Holdfast) -> None:
    @tool
    async def slow() -> str:
        executions["slow"] += 1
        await switch["go"].wait()
        return f"slow/{executions['slow']}"

    @tool
    async def quick() -> str:
        executions["quick"] += 1
        return f"quick/{executions['quick']}"

    @agent
    async def both() -> list[str]:
        switch["go"] = asyncio.Event()
        task = asyncio.create_task(slow())
        await asyncio.sleep(0)
        found = await quick()
        switch["go"].set()
        return [await task, found, await step("after")]

    assert ["slow/1", "quick/1", "after/1"] == hf.run_sync(both, state_id="x")
    for at in ("both::quick::tool_call", "quick"):
        assert "slow/1" == resume(hf, hf.fork("x", at))[0]
    assert 1 == executions["slow"]


@pytest.mark.parametrize("at", ["research::fetch::tool_call", "fetch"])
def test_a_fork_gives_an_edited_dataclass_and_runs_what_started_after(hf: Holdfast, at: str) -> None:
    hf.run_sync(research, "u", state_id="x")
    fork = hf.fork("x", at, replace=Page("u", ["edited"]))
    page, summary, told = resume(hf, fork)
    assert (Page("u", ["edited"]), Summary(text="edited", score=1.0), "edited: 1.0") == (page, summary, told)
    assert Counter(fetch=1, summarise=2, publish=2) == executions


def test_a_fork_gives_an_edited_model(hf: Holdfast) -> None:
    hf.run_sync(research, "u", state_id="x")
    fork = hf.fork("x", "summarise", replace=Summary(text="edited", score=9.5))
    assert [Page("u", ["kelp", "wrack"]), Summary(text="edited", score=9.5), "edited: 9.5"] == resume(hf, fork)
    assert Counter(fetch=1, summarise=1, publish=2) == executions


def test_an_edited_fork_equals_an_undisturbed_run_that_had_the_edited_value(hf: Holdfast) -> None:
    edited = Page("u", ["dulse", "laver", "kelp"])
    hf.run_sync(research, "u", state_id="x")
    fork = hf.fork("x", "fetch", replace=edited)
    forked = resume(hf, fork)
    original, fetch.function = fetch.function, lambda url: asyncio.sleep(0, edited)
    try:
        undisturbed = hf.run_sync(research, "u", state_id="y")
    finally:
        fetch.function = original
    assert undisturbed == forked
    assert not hf.diff("y", fork)
    assert hf.history("y").addresses() == hf.history(fork).addresses()


def test_a_large_edited_value_is_an_artifact_of_the_fork(hf: Holdfast) -> None:
    hf.run_sync(research, "u", state_id="x")
    large = Page("u", ["kelp"] * 50_000)
    fork = hf.fork("x", "fetch", replace=large)
    assert 1 <= len(hf.history(fork)["research::fetch::tool_call"].artifacts)
    hf.collect(grace=timedelta(0))
    assert large == resume(hf, fork)[0]
    assert large == hf.history(fork).get_event_result("research::fetch::tool_call")


def test_a_value_of_another_type_is_refused_unless_it_is_wanted(hf: Holdfast) -> None:
    hf.run_sync(research, "u", state_id="x")
    with pytest.raises(WrongReplacement, match="summarise"):
        hf.fork("x", "summarise", replace={"text": "edited"})
    with pytest.raises(ValueNotStorable):
        hf.fork("x", "summarise", replace=lambda: 1, any_type=True)
    assert ["x"] == [state.state_id for state in hf.list_states()]
    hf.run_sync(flat, 3, state_id="y")
    fork = hf.fork("y", "step#2", replace=None, any_type=True)
    assert ["s1/1", None, "s3/2"] == resume(hf, fork)


def test_replacing_needs_an_event(hf: Holdfast) -> None:
    hf.run_sync(flat, 1, state_id="x")
    with pytest.raises(UsageError, match="at="):
        hf.fork("x", replace="edited")
    with pytest.raises(UsageError, match="not at both"):
        hf.fork("x", "step", checkpoint=1)


def test_a_fork_at_the_end_of_a_completed_run_has_its_result(hf: Holdfast) -> None:
    hf.run_sync(flat, 3, state_id="x")
    fork = hf.fork("x")
    assert ["s1/1", "s2/1", "s3/1"] == resume(hf, fork)
    assert Counter(s1=1, s2=1, s3=1) == executions
    assert StateStatus.COMPLETED is hf.show(fork).header.status


def test_a_fork_at_the_end_of_a_failed_run_goes_on_from_there(hf: Holdfast) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        hf.run_sync(flat, 4, state_id="x")
    fork = hf.fork("x")
    failing.clear()
    assert ["s1/1", "s2/1", "s3/2", "s4/1"] == resume(hf, fork)
    assert StateStatus.FAILED is hf.show("x").header.status
    assert ["s1/1", "s2/1", "s3/3", "s4/2"] == resume(hf, "x")


def test_a_fork_at_a_checkpoint_has_storage_and_history_as_they_stood(backend: StateBackend) -> None:
    async def call(state: ExecutionState, *names: str) -> list[str]:
        return [(await ExecutionEvent(step)(name, None, state)).result for name in names]

    hf = Holdfast(backend)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("number", 1)
    asyncio.run(call(state, "s1"))
    mark = state.save_checkpoint()
    state.storage.set("number", 2)
    asyncio.run(call(state, "s2"))
    state.save_checkpoint(StateStatus.PAUSED)
    fork = hf.fork("x", checkpoint=mark)
    loaded = ExecutionState.load_from_state_id(fork, backend)
    assert 1 == loaded.storage.get("number")
    assert ["step::tool_call"] == loaded.history.addresses()
    assert ["s1/1", "other/1"] == asyncio.run(call(loaded, "s1", "other"))
    with pytest.raises(UnknownCheckpoint):
        hf.fork("x", checkpoint=mark + 1)
    assert 2 == ExecutionState.load_from_state_id("x", backend).storage.get("number")


def test_nothing_is_copied(tmp_path: Path) -> None:
    def rows() -> int:
        connection = apsw.Connection(str(tmp_path / "s.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return len(connection.execute("SELECT seq FROM records").fetchall())
        finally:
            connection.close()

    with Holdfast(f"sqlite:///{tmp_path}/s.db") as hf:
        hf.run_sync(flat, 200, state_id="x")
    before = rows()
    with Holdfast(f"sqlite:///{tmp_path}/s.db") as hf:
        plain = hf.fork("x", "flat::step#190::tool_call", new_state_id="plain")
        hf.fork("x", "flat::step#190::tool_call", replace="edited", new_state_id="edited")
        hf.fork(plain, "flat::step#100::tool_call", new_state_id="again")
    assert before + 1 + 2 + 1 == rows()
    with Holdfast(f"sqlite:///{tmp_path}/s.db") as hf:
        assert 200 == len(asyncio.run(hf.resume("again", agent=flat)))
    # The calls that run again, and the end of the whole.
    assert before + 1 + 2 + 1 + 101 + 1 == rows()


def test_a_fork_tells_the_positions_that_it_shares(hf: Holdfast, backend: StateBackend) -> None:
    hf.run_sync(flat, 5, state_id="x")
    fork = hf.fork("x", "step#4")
    parent, shared = backend.read("x"), backend.read(fork)
    assert parent[:4] == shared[:4]
    assert [*range(1, len(shared) + 1)] == [seq for seq, _ in shared]
    header = backend.find_state(fork)
    assert header is not None
    assert [("x", 4)] == [(base.state_id, base.last) for base in header.bases]


def test_a_fork_has_the_metadata_of_its_parent_unless_other_is_given(hf: Holdfast) -> None:
    hf.run_sync(flat, 2, state_id="x", metadata=StateMetadata(tags=["demo"], pipeline_name="p"))
    same, other = hf.fork("x", "step#2"), hf.fork("x", "step#2", metadata=StateMetadata(tags=["what-if"]))
    assert (["demo"], "p", "x") == (
        (shown := hf.show(same).header.metadata).tags,
        shown.pipeline_name,
        shown.parent_state_id,
    )
    assert (["what-if"], "x") == ((shown := hf.show(other).header.metadata).tags, shown.parent_state_id)
    assert {same, other} == {state.state_id for state in hf.list_states(parent_state_id="x")}


def test_the_family_is_a_tree(hf: Holdfast) -> None:
    hf.run_sync(flat, 4, state_id="x")
    for parent, child, at in (("x", "y", "step#3"), ("y", "z", "step#2"), ("x", "w", "step#4")):
        hf.fork(parent, at, new_state_id=child)
        resume(hf, child)
    tree = hf.lineage("z")
    assert tree == hf.lineage("x") == hf.lineage("w")
    assert ("x", None) == (tree.state_id, tree.parent_state_id)
    assert ["y", "w"] == [child.state_id for child in tree.children]
    found = tree.find("z")
    assert found is not None
    assert ("y", ()) == (found.parent_state_id, found.children)
    assert ["x  completed", "├─ y  completed", "│  └─ z  completed", "└─ w  completed"] == str(tree).splitlines()


def test_the_family_of_a_deleted_state_is_still_known(hf: Holdfast) -> None:
    hf.run_sync(flat, 3, state_id="x")
    hf.fork("x", "step#2", new_state_id="y")
    hf.delete("x")
    tree = hf.lineage("y")
    assert ("x", None, ["y"]) == (tree.state_id, tree.status, [child.state_id for child in tree.children])
    assert "x  not in this store" == str(tree).splitlines()[0]


def test_a_fork_of_a_fork_of_a_fork(hf: Holdfast) -> None:
    hf.run_sync(flat, 5, state_id="x")
    y = hf.fork("x", "step#4")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/2"] == resume(hf, y)
    z = hf.fork(y, "step#5")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/3"] == resume(hf, z)
    w = hf.fork(z, "step#2", replace="edited")
    assert ["s1/1", "edited", "s3/2", "s4/3", "s5/4"] == resume(hf, w)
    v = hf.fork(w, "step#3")
    assert ["s1/1", "edited", "s3/3", "s4/4", "s5/5"] == resume(hf, v)
    assert ["s1/1", "s2/1", "s3/1", "s4/1", "s5/1"] == resume(hf, "x")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/2"] == resume(hf, y)


def test_a_fork_of_an_unfinished_fork(hf: Holdfast) -> None:
    hf.run_sync(flat, 4, state_id="x")
    y = hf.fork("x", "step#3")
    z = hf.fork(y, "step#2")
    w = hf.fork(z)
    assert ["s1/1", "s2/2", "s3/2", "s4/2"] == resume(hf, w)
    assert ["s1/1", "s2/3", "s3/3", "s4/3"] == resume(hf, z)
    assert ["s1/1", "s2/1", "s3/4", "s4/4"] == resume(hf, y)


def test_a_fork_can_be_run_on_and_forked_on_its_older_timelines(hf: Holdfast) -> None:
    hf.run_sync(flat, 4, state_id="x")
    y = hf.fork("x", "step#3")
    resume(hf, y)
    assert ["s1/1", "s2/2", "s3/3", "s4/3"] == asyncio.run(hf.rerun(y, "step#2"))
    assert [1, 2] == [timeline.number for timeline in hf.timelines(y)]
    z = hf.fork(y, "step#4", timeline=1)
    assert ["s1/1", "s2/1", "s3/2", "s4/4"] == resume(hf, z)
    with pytest.raises(UnknownTimeline):
        hf.fork(y, "step#4", timeline=3)


def test_a_fork_of_an_older_timeline_of_its_parent(hf: Holdfast) -> None:
    hf.run_sync(flat, 4, state_id="x")
    asyncio.run(hf.rerun("x", "step#2"))
    asyncio.run(hf.rerun("x", "step#3"))
    assert ["s1/1", "s2/1", "s3/1", "s4/4"] == resume(hf, hf.fork("x", "step#4", timeline=1))
    assert ["s1/1", "s2/2", "s3/2", "s4/5"] == resume(hf, hf.fork("x", "step#4", timeline=2))
    assert ["s1/1", "s2/2", "s3/3", "s4/6"] == resume(hf, hf.fork("x", "step#4"))
    assert ["s1/1", "s2/1", "s3/1", "s4/1"] == resume(hf, hf.fork("x", timeline=1))


@pytest.mark.parametrize("is_resumed_before", [True, False])
def test_a_fork_goes_on_after_its_parent_was_deleted(hf: Holdfast, is_resumed_before: bool) -> None:
    hf.run_sync(flat, 4, state_id="x")
    fork = hf.fork("x", "step#3")
    if is_resumed_before:
        resume(hf, fork)
    hf.delete("x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(hf, fork)
    assert 5 == len(hf.history(fork))
    with pytest.raises(UnknownState):
        hf.history("x")
    assert ["s1/2", "s2/2", "s3/3", "s4/3"] == hf.run_sync(flat, 4, state_id="x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(hf, fork)


def test_its_parent_goes_on_after_the_fork(hf: Holdfast) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        hf.run_sync(flat, 5, state_id="x")
    fork = hf.fork("x", "step#2")
    failing.clear()
    assert ["s1/1", "s2/1", "s3/2", "s4/1", "s5/1"] == resume(hf, "x")
    assert ["s1/1", "s2/2", "s3/3", "s4/2", "s5/2"] == resume(hf, fork)
    assert ["s1/1", "s2/1", "s3/2", "s4/1", "s5/1"] == resume(hf, "x")


def test_a_state_is_forked_in_the_middle_of_its_own_run(hf: Holdfast) -> None:
    @agent
    async def forks_itself(count: int) -> list[str]:
        found = [await step("s1"), await step("s2")]
        if "fork" not in switch:
            switch["fork"] = hf.fork("x", "step#2")
        return [*found, *[await step(f"s{number}") for number in range(3, count)]]

    assert ["s1/1", "s2/1", "s3/1"] == hf.run_sync(forks_itself, 4, state_id="x")
    assert ["s1/1", "s2/2", "s3/2"] == resume(hf, switch["fork"])


@contextmanager
def process(*command: str) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of its run."""
    with subprocess.Popen([sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdout is not None
        try:
            assert "inside\n" == one.stdout.readline()
            yield one
        finally:
            one.kill()


def let_go(one: subprocess.Popen[str], line: str) -> str:
    assert one.stdin is not None
    assert one.stdout is not None
    one.stdin.write(f"{line}\n")
    one.stdin.flush()
    return one.stdout.read()


def test_a_state_that_runs_in_another_process_is_forked_without_waiting(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with process(leasing_program.__file__, store, "30") as one, Holdfast(store) as hf:
        fork = hf.fork("leased", "begin", replace="begun elsewhere")
        assert ["begun elsewhere", "elsewhere", "ended"] == asyncio.run(hf.resume(fork, agent=leasing))
        assert "['begun', 'went on', 'ended']\n" == let_go(one, "went on")
        assert ["begun elsewhere", "elsewhere", "ended"] == asyncio.run(hf.resume(fork, agent=leasing))


def test_two_forks_run_at_the_same_time_in_two_processes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Holdfast(store) as hf, ExitStack() as stack:
        original = hf.run_sync(forking, state_id="x")
        before = frames(hf.backend, "x")
        names = ["one", "two"]
        for name in names:
            hf.fork("x", "wait_for_a_line", new_state_id=name)
        running = [stack.enter_context(process(str(forking_program.__file__), store, name)) for name in names]
        said = [let_go(one, name) for one, name in zip(running, names, strict=True)]
        for name, told in zip(names, said, strict=True):
            expected = ["begun", name, *[f"ended after {name} {number}" for number in range(20)]]
            assert f"{expected}\n" == told
            assert expected == asyncio.run(hf.resume(name, agent=forking))
        assert before == frames(hf.backend, "x")
        assert original == asyncio.run(hf.resume("x", agent=forking))


def test_forks_in_an_encrypted_store(backend: StateBackend) -> None:
    key, other = new_key(), new_key()
    hf = Holdfast(backend, encryption=Encryption(key))
    hf.run_sync(research, "u", state_id="x")
    y = hf.fork("x", "summarise", replace=Summary(text="the treasure", score=1.0))
    resume(hf, y)
    z = hf.fork(y, "publish")
    assert all(b"treasure" not in body for state in (y, z) for _, body in backend.read(state))
    assert "the treasure: 1.0" == resume(hf, z)[2]
    hf.delete("x")
    assert "the treasure: 1.0" == resume(hf, y)[2]
    rotated = Holdfast(backend, encryption=Encryption([other, key]))
    w = rotated.fork(y, "summarise", replace=Summary(text="rotated", score=2.0))
    assert "rotated: 2.0" == asyncio.run(rotated.resume(w))[2]
    with pytest.raises(WrongKey):
        Holdfast(backend, encryption=Encryption(other)).fork(y, "publish")
    with pytest.raises(WrongKey):
        Holdfast(backend).history(w)


def test_an_id_that_is_taken_is_refused_and_nothing_changes(hf: Holdfast, backend: StateBackend) -> None:
    hf.run_sync(flat, 3, state_id="x")
    hf.run_sync(flat, 2, state_id="taken")
    before = frames(backend, "x"), frames(backend, "taken")
    for name in ("taken", "x"):
        with pytest.raises(UsageError, match=f"There is a state '{name}' already"):
            hf.fork("x", "step#2", new_state_id=name)
        with pytest.raises(UsageError, match=f"There is a state '{name}' already"):
            hf.fork("x", "step#2", new_state_id=name, replace="edited")
    with pytest.raises(InvalidStateId):
        hf.fork("x", "step#2", new_state_id="../x")
    assert before == (frames(backend, "x"), frames(backend, "taken"))
    assert 2 == len(hf.list_states())


def test_an_id_that_is_taken_and_unfinished_stays_as_it_is(hf: Holdfast, backend: StateBackend) -> None:
    hf.run_sync(flat, 3, state_id="x")
    failing.add("s2")
    with pytest.raises(LookupError):
        hf.run_sync(flat, 2, state_id="taken")
    before = frames(backend, "taken")
    with pytest.raises(UsageError, match="already"):
        hf.fork("x", "step#2", new_state_id="taken")
    assert before == frames(backend, "taken")
    failing.clear()
    assert ["s1/2", "s2/3"] == resume(hf, "taken")


def test_an_unknown_place_is_told_and_nothing_is_made(hf: Holdfast) -> None:
    hf.run_sync(nested, state_id="x")
    with pytest.raises(UnknownAddress, match=r"Nearest: .*'nested::inner::step#2::tool_call'"):
        hf.fork("x", "nested::iner::step#2::tool_call")
    with pytest.raises(AmbiguousAddress, match=r"'nested::inner::step#2::tool_call'.*'nested::inner#2"):
        hf.fork("x", "step#2")
    with pytest.raises(UnknownState):
        hf.fork("y", "step#2")
    assert ["x"] == [state.state_id for state in hf.list_states()]


def test_artifacts_of_a_fork_survive_collecting_after_its_parent_is_gone(hf: Holdfast) -> None:
    @tool
    async def make(number: int) -> bytes:
        executions["make"] += 1
        return bytes([number]) * 100_000

    @agent
    async def makes() -> list[bytes]:
        return [await make(number) for number in range(4)]

    expected = hf.run_sync(makes, state_id="x")
    fork = hf.fork("x", "make#3")
    hf.delete("x")
    collected = hf.collect(grace=timedelta(0))
    assert 2 >= len(collected.deleted)
    assert expected == asyncio.run(hf.resume(fork, agent=makes))
    assert 6 == executions["make"]
    assert [] == hf.collect(grace=timedelta(0)).deleted
    assert expected == hf.history(fork).get_event_result("makes::agent_call")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_forking_leaves_a_whole_fork_or_none(when: Any) -> None:
    stop_at, is_stopped = 0, True
    while is_stopped:
        stop_at += 1
        executions.clear()
        backend = MemoryStateBackend()
        Holdfast(backend).run_sync(research, "u", state_id="x")
        crashing = CrashingBackend(backend, stop_at=stop_at, when=when)
        large = Page("u", ["kelp"] * 50_000)
        try:
            Holdfast(crashing).fork("x", "fetch", replace=large, new_state_id="y")
        except BaseException:
            if not crashing.is_stopped:
                raise
        is_stopped = crashing.is_stopped
        hf = Holdfast(backend)
        if backend.find_state("y") is not None:
            assert large == resume(hf, "y")[0]
        else:
            assert is_stopped
            assert hf.fork("x", "fetch", replace=large, new_state_id="y")
    assert stop_at > 2


def test_a_crash_in_a_fork_goes_on_in_the_fork(backend: StateBackend) -> None:
    hf = Holdfast(backend)
    hf.run_sync(flat, 5, state_id="x")
    fork = hf.fork("x", "step#3")
    crashing = CrashingBackend(backend, stop_at=4, when="after")
    with pytest.raises(BaseException, match=r".*"):
        asyncio.run(Holdfast(crashing).resume(fork, agent=flat))
    assert crashing.is_stopped
    result = resume(hf, fork)
    assert ["s1/1", "s2/1"] == result[:2]
    assert all(name.endswith(("/2", "/3")) for name in result[2:])


def test_a_fork_lists_the_records_of_its_parent_as_its_own(hf: Holdfast) -> None:
    hf.run_sync(flat, 3, state_id="x")
    fork = hf.fork("x", "step#3")
    resume(hf, fork)
    told = [record.address for record in hf.history(fork) if isinstance(record, EventRecord)]
    assert [record.address for record in hf.history("x") if isinstance(record, EventRecord)] == told
    (timeline,) = hf.timelines(fork)
    assert (1, "x", 1, "flat::step#3::tool_call") == (
        timeline.number,
        timeline.forked_from,
        timeline.base,
        timeline.address,
    )
    assert "x:1" == hf.diff(fork).before
