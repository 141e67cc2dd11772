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

from limpet import (
    AmbiguousAddress,
    Encryption,
    EventRecord,
    ExecutionEvent,
    ExecutionState,
    InvalidStateId,
    Limpet,
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
from limpet.testing import CrashingBackend

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


def resume(client: Limpet, state_id: str) -> Any:
    return asyncio.run(client.resume(state_id))


def test_a_fork_at_an_event_reuses_what_started_before_and_leaves_its_parent_alone(
    client: Limpet, backend: StateBackend
) -> None:
    client.run_sync(flat, 4, state_id="x")
    before = frames(backend, "x")
    fork = client.fork("x", "step#3")
    assert before == frames(backend, "x")
    header = backend.find_state(fork)
    assert header is not None
    assert (StateStatus.PAUSED, "x", None) == (header.status, header.metadata.parent_state_id, header.holder)
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(client, fork)
    assert ["s1/1", "s2/1", "s3/1", "s4/1"] == resume(client, "x")
    assert Counter(s1=1, s2=1, s3=2, s4=2) == executions
    assert before == frames(backend, "x")


def test_a_fork_deep_in_nested_agents(client: Limpet) -> None:
    client.run_sync(nested, state_id="x")
    fork = client.fork("x", "nested::inner::step#2::tool_call")
    assert ["first/1", "a1/1", "a2/2", "b1/2", "b2/2", "last/2"] == resume(client, fork)
    fork = client.fork("x", "nested::inner#2::agent_call")
    assert ["first/1", "a1/1", "a2/1", "b1/3", "b2/3", "last/3"] == resume(client, fork)


def test_a_fork_shares_what_was_under_way_and_ended_after_the_event(client: Limpet) -> None:
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

    assert ["slow/1", "quick/1", "after/1"] == client.run_sync(both, state_id="x")
    for at in ("both::quick::tool_call", "quick"):
        assert "slow/1" == resume(client, client.fork("x", at))[0]
    assert 1 == executions["slow"]


@pytest.mark.parametrize("at", ["research::fetch::tool_call", "fetch"])
def test_a_fork_gives_an_edited_dataclass_and_runs_what_started_after(client: Limpet, at: str) -> None:
    client.run_sync(research, "u", state_id="x")
    fork = client.fork("x", at, replace=Page("u", ["edited"]))
    page, summary, told = resume(client, fork)
    assert (Page("u", ["edited"]), Summary(text="edited", score=1.0), "edited: 1.0") == (page, summary, told)
    assert Counter(fetch=1, summarise=2, publish=2) == executions


def test_a_fork_gives_an_edited_model(client: Limpet) -> None:
    client.run_sync(research, "u", state_id="x")
    fork = client.fork("x", "summarise", replace=Summary(text="edited", score=9.5))
    assert [Page("u", ["kelp", "wrack"]), Summary(text="edited", score=9.5), "edited: 9.5"] == resume(client, fork)
    assert Counter(fetch=1, summarise=1, publish=2) == executions


def test_an_edited_fork_equals_an_undisturbed_run_that_had_the_edited_value(client: Limpet) -> None:
    edited = Page("u", ["dulse", "laver", "kelp"])
    client.run_sync(research, "u", state_id="x")
    fork = client.fork("x", "fetch", replace=edited)
    forked = resume(client, fork)
    original, fetch.function = fetch.function, lambda url: asyncio.sleep(0, edited)
    try:
        undisturbed = client.run_sync(research, "u", state_id="y")
    finally:
        fetch.function = original
    assert undisturbed == forked
    assert not client.diff("y", fork)
    assert client.history("y").addresses() == client.history(fork).addresses()


def test_a_large_edited_value_is_an_artifact_of_the_fork(client: Limpet) -> None:
    client.run_sync(research, "u", state_id="x")
    large = Page("u", ["kelp"] * 50_000)
    fork = client.fork("x", "fetch", replace=large)
    assert 1 <= len(client.history(fork)["research::fetch::tool_call"].artifacts)
    client.collect(grace=timedelta(0))
    assert large == resume(client, fork)[0]
    assert large == client.history(fork).get_event_result("research::fetch::tool_call")


def test_a_value_of_another_type_is_refused_unless_it_is_wanted(client: Limpet) -> None:
    client.run_sync(research, "u", state_id="x")
    with pytest.raises(WrongReplacement, match="summarise"):
        client.fork("x", "summarise", replace={"text": "edited"})
    with pytest.raises(ValueNotStorable):
        client.fork("x", "summarise", replace=lambda: 1, any_type=True)
    assert ["x"] == [state.state_id for state in client.list_states()]
    client.run_sync(flat, 3, state_id="y")
    fork = client.fork("y", "step#2", replace=None, any_type=True)
    assert ["s1/1", None, "s3/2"] == resume(client, fork)


def test_replacing_needs_an_event(client: Limpet) -> None:
    client.run_sync(flat, 1, state_id="x")
    with pytest.raises(UsageError, match="at="):
        client.fork("x", replace="edited")
    with pytest.raises(UsageError, match="not at both"):
        client.fork("x", "step", checkpoint=1)


def test_a_fork_at_the_end_of_a_completed_run_has_its_result(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    fork = client.fork("x")
    assert ["s1/1", "s2/1", "s3/1"] == resume(client, fork)
    assert Counter(s1=1, s2=1, s3=1) == executions
    assert StateStatus.COMPLETED is client.show(fork).header.status


def test_a_fork_at_the_end_of_a_failed_run_goes_on_from_there(client: Limpet) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(flat, 4, state_id="x")
    fork = client.fork("x")
    failing.clear()
    assert ["s1/1", "s2/1", "s3/2", "s4/1"] == resume(client, fork)
    assert StateStatus.FAILED is client.show("x").header.status
    assert ["s1/1", "s2/1", "s3/3", "s4/2"] == resume(client, "x")


def test_a_fork_at_a_checkpoint_has_storage_and_history_as_they_stood(backend: StateBackend) -> None:
    async def call(state: ExecutionState, *names: str) -> list[str]:
        return [(await ExecutionEvent(step)(name, None, state)).result for name in names]

    client = Limpet(backend)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("number", 1)
    asyncio.run(call(state, "s1"))
    mark = state.save_checkpoint()
    state.storage.set("number", 2)
    asyncio.run(call(state, "s2"))
    state.save_checkpoint(StateStatus.PAUSED)
    fork = client.fork("x", checkpoint=mark)
    loaded = ExecutionState.load_from_state_id(fork, backend)
    assert 1 == loaded.storage.get("number")
    assert ["step::tool_call"] == loaded.history.addresses()
    assert ["s1/1", "other/1"] == asyncio.run(call(loaded, "s1", "other"))
    with pytest.raises(UnknownCheckpoint):
        client.fork("x", checkpoint=mark + 1)
    assert 2 == ExecutionState.load_from_state_id("x", backend).storage.get("number")


def test_nothing_is_copied(tmp_path: Path) -> None:
    def rows() -> int:
        connection = apsw.Connection(str(tmp_path / "s.db"), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return len(connection.execute("SELECT seq FROM records").fetchall())
        finally:
            connection.close()

    with Limpet(f"sqlite:///{tmp_path}/s.db") as client:
        client.run_sync(flat, 200, state_id="x")
    before = rows()
    with Limpet(f"sqlite:///{tmp_path}/s.db") as client:
        plain = client.fork("x", "flat::step#190::tool_call", new_state_id="plain")
        client.fork("x", "flat::step#190::tool_call", replace="edited", new_state_id="edited")
        client.fork(plain, "flat::step#100::tool_call", new_state_id="again")
    assert before + 1 + 2 + 1 == rows()
    with Limpet(f"sqlite:///{tmp_path}/s.db") as client:
        assert 200 == len(asyncio.run(client.resume("again", agent=flat)))
    # The calls that run again, and the end of the whole.
    assert before + 1 + 2 + 1 + 101 + 1 == rows()


def test_a_fork_tells_the_positions_that_it_shares(client: Limpet, backend: StateBackend) -> None:
    client.run_sync(flat, 5, state_id="x")
    fork = client.fork("x", "step#4")
    parent, shared = backend.read("x"), backend.read(fork)
    assert parent[:4] == shared[:4]
    assert [*range(1, len(shared) + 1)] == [seq for seq, _ in shared]
    header = backend.find_state(fork)
    assert header is not None
    assert [("x", 4)] == [(base.state_id, base.last) for base in header.bases]


def test_a_fork_has_the_metadata_of_its_parent_unless_other_is_given(client: Limpet) -> None:
    client.run_sync(flat, 2, state_id="x", metadata=StateMetadata(tags=["demo"], pipeline_name="p"))
    same, other = client.fork("x", "step#2"), client.fork("x", "step#2", metadata=StateMetadata(tags=["what-if"]))
    assert (["demo"], "p", "x") == (
        (shown := client.show(same).header.metadata).tags,
        shown.pipeline_name,
        shown.parent_state_id,
    )
    assert (["what-if"], "x") == ((shown := client.show(other).header.metadata).tags, shown.parent_state_id)
    assert {same, other} == {state.state_id for state in client.list_states(parent_state_id="x")}


def test_the_family_is_a_tree(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    for parent, child, at in (("x", "y", "step#3"), ("y", "z", "step#2"), ("x", "w", "step#4")):
        client.fork(parent, at, new_state_id=child)
        resume(client, child)
    tree = client.lineage("z")
    assert tree == client.lineage("x") == client.lineage("w")
    assert ("x", None) == (tree.state_id, tree.parent_state_id)
    assert ["y", "w"] == [child.state_id for child in tree.children]
    found = tree.find("z")
    assert found is not None
    assert ("y", ()) == (found.parent_state_id, found.children)
    assert ["x  completed", "├─ y  completed", "│  └─ z  completed", "└─ w  completed"] == str(tree).splitlines()


def test_the_family_of_a_deleted_state_is_still_known(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    client.fork("x", "step#2", new_state_id="y")
    client.delete("x")
    tree = client.lineage("y")
    assert ("x", None, ["y"]) == (tree.state_id, tree.status, [child.state_id for child in tree.children])
    assert "x  not in this store" == str(tree).splitlines()[0]


def test_a_fork_of_a_fork_of_a_fork(client: Limpet) -> None:
    client.run_sync(flat, 5, state_id="x")
    y = client.fork("x", "step#4")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/2"] == resume(client, y)
    z = client.fork(y, "step#5")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/3"] == resume(client, z)
    w = client.fork(z, "step#2", replace="edited")
    assert ["s1/1", "edited", "s3/2", "s4/3", "s5/4"] == resume(client, w)
    v = client.fork(w, "step#3")
    assert ["s1/1", "edited", "s3/3", "s4/4", "s5/5"] == resume(client, v)
    assert ["s1/1", "s2/1", "s3/1", "s4/1", "s5/1"] == resume(client, "x")
    assert ["s1/1", "s2/1", "s3/1", "s4/2", "s5/2"] == resume(client, y)


def test_a_fork_of_an_unfinished_fork(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    y = client.fork("x", "step#3")
    z = client.fork(y, "step#2")
    w = client.fork(z)
    assert ["s1/1", "s2/2", "s3/2", "s4/2"] == resume(client, w)
    assert ["s1/1", "s2/3", "s3/3", "s4/3"] == resume(client, z)
    assert ["s1/1", "s2/1", "s3/4", "s4/4"] == resume(client, y)


def test_a_fork_can_be_run_on_and_forked_on_its_older_timelines(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    y = client.fork("x", "step#3")
    resume(client, y)
    assert ["s1/1", "s2/2", "s3/3", "s4/3"] == asyncio.run(client.rerun(y, "step#2"))
    assert [1, 2] == [timeline.number for timeline in client.timelines(y)]
    z = client.fork(y, "step#4", timeline=1)
    assert ["s1/1", "s2/1", "s3/2", "s4/4"] == resume(client, z)
    with pytest.raises(UnknownTimeline):
        client.fork(y, "step#4", timeline=3)


def test_a_fork_of_an_older_timeline_of_its_parent(client: Limpet) -> None:
    client.run_sync(flat, 4, state_id="x")
    asyncio.run(client.rerun("x", "step#2"))
    asyncio.run(client.rerun("x", "step#3"))
    assert ["s1/1", "s2/1", "s3/1", "s4/4"] == resume(client, client.fork("x", "step#4", timeline=1))
    assert ["s1/1", "s2/2", "s3/2", "s4/5"] == resume(client, client.fork("x", "step#4", timeline=2))
    assert ["s1/1", "s2/2", "s3/3", "s4/6"] == resume(client, client.fork("x", "step#4"))
    assert ["s1/1", "s2/1", "s3/1", "s4/1"] == resume(client, client.fork("x", timeline=1))


@pytest.mark.parametrize("is_resumed_before", [True, False])
def test_a_fork_goes_on_after_its_parent_was_deleted(client: Limpet, is_resumed_before: bool) -> None:
    client.run_sync(flat, 4, state_id="x")
    fork = client.fork("x", "step#3")
    if is_resumed_before:
        resume(client, fork)
    client.delete("x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(client, fork)
    assert 5 == len(client.history(fork))
    with pytest.raises(UnknownState):
        client.history("x")
    assert ["s1/2", "s2/2", "s3/3", "s4/3"] == client.run_sync(flat, 4, state_id="x")
    assert ["s1/1", "s2/1", "s3/2", "s4/2"] == resume(client, fork)


def test_its_parent_goes_on_after_the_fork(client: Limpet) -> None:
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(flat, 5, state_id="x")
    fork = client.fork("x", "step#2")
    failing.clear()
    assert ["s1/1", "s2/1", "s3/2", "s4/1", "s5/1"] == resume(client, "x")
    assert ["s1/1", "s2/2", "s3/3", "s4/2", "s5/2"] == resume(client, fork)
    assert ["s1/1", "s2/1", "s3/2", "s4/1", "s5/1"] == resume(client, "x")


def test_a_state_is_forked_in_the_middle_of_its_own_run(client: Limpet) -> None:
    @agent
    async def forks_itself(count: int) -> list[str]:
        found = [await step("s1"), await step("s2")]
        if "fork" not in switch:
            switch["fork"] = client.fork("x", "step#2")
        return [*found, *[await step(f"s{number}") for number in range(3, count)]]

    assert ["s1/1", "s2/1", "s3/1"] == client.run_sync(forks_itself, 4, state_id="x")
    assert ["s1/1", "s2/2", "s3/2"] == resume(client, switch["fork"])


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
    with process(leasing_program.__file__, store, "30") as one, Limpet(store) as client:
        fork = client.fork("leased", "begin", replace="begun elsewhere")
        assert ["begun elsewhere", "elsewhere", "ended"] == asyncio.run(client.resume(fork, agent=leasing))
        assert "['begun', 'went on', 'ended']\n" == let_go(one, "went on")
        assert ["begun elsewhere", "elsewhere", "ended"] == asyncio.run(client.resume(fork, agent=leasing))


def test_two_forks_run_at_the_same_time_in_two_processes(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Limpet(store) as client, ExitStack() as stack:
        original = client.run_sync(forking, state_id="x")
        before = frames(client.backend, "x")
        names = ["one", "two"]
        for name in names:
            client.fork("x", "wait_for_a_line", new_state_id=name)
        running = [stack.enter_context(process(str(forking_program.__file__), store, name)) for name in names]
        said = [let_go(one, name) for one, name in zip(running, names, strict=True)]
        for name, told in zip(names, said, strict=True):
            expected = ["begun", name, *[f"ended after {name} {number}" for number in range(20)]]
            assert f"{expected}\n" == told
            assert expected == asyncio.run(client.resume(name, agent=forking))
        assert before == frames(client.backend, "x")
        assert original == asyncio.run(client.resume("x", agent=forking))


def test_forks_in_an_encrypted_store(backend: StateBackend) -> None:
    key, other = new_key(), new_key()
    client = Limpet(backend, encryption=Encryption(key))
    client.run_sync(research, "u", state_id="x")
    y = client.fork("x", "summarise", replace=Summary(text="the treasure", score=1.0))
    resume(client, y)
    z = client.fork(y, "publish")
    assert all(b"treasure" not in body for state in (y, z) for _, body in backend.read(state))
    assert "the treasure: 1.0" == resume(client, z)[2]
    client.delete("x")
    assert "the treasure: 1.0" == resume(client, y)[2]
    rotated = Limpet(backend, encryption=Encryption([other, key]))
    w = rotated.fork(y, "summarise", replace=Summary(text="rotated", score=2.0))
    assert "rotated: 2.0" == asyncio.run(rotated.resume(w))[2]
    with pytest.raises(WrongKey):
        Limpet(backend, encryption=Encryption(other)).fork(y, "publish")
    with pytest.raises(WrongKey):
        Limpet(backend).history(w)


def test_an_id_that_is_taken_is_refused_and_nothing_changes(client: Limpet, backend: StateBackend) -> None:
    client.run_sync(flat, 3, state_id="x")
    client.run_sync(flat, 2, state_id="taken")
    before = frames(backend, "x"), frames(backend, "taken")
    for name in ("taken", "x"):
        with pytest.raises(UsageError, match=f"There is a state '{name}' already"):
            client.fork("x", "step#2", new_state_id=name)
        with pytest.raises(UsageError, match=f"There is a state '{name}' already"):
            client.fork("x", "step#2", new_state_id=name, replace="edited")
    with pytest.raises(InvalidStateId):
        client.fork("x", "step#2", new_state_id="../x")
    assert before == (frames(backend, "x"), frames(backend, "taken"))
    assert 2 == len(client.list_states())


def test_an_id_that_is_taken_and_unfinished_stays_as_it_is(client: Limpet, backend: StateBackend) -> None:
    client.run_sync(flat, 3, state_id="x")
    failing.add("s2")
    with pytest.raises(LookupError):
        client.run_sync(flat, 2, state_id="taken")
    before = frames(backend, "taken")
    with pytest.raises(UsageError, match="already"):
        client.fork("x", "step#2", new_state_id="taken")
    assert before == frames(backend, "taken")
    failing.clear()
    assert ["s1/2", "s2/3"] == resume(client, "taken")


def test_an_unknown_place_is_told_and_nothing_is_made(client: Limpet) -> None:
    client.run_sync(nested, state_id="x")
    with pytest.raises(UnknownAddress, match=r"Nearest: .*'nested::inner::step#2::tool_call'"):
        client.fork("x", "nested::iner::step#2::tool_call")
    with pytest.raises(AmbiguousAddress, match=r"'nested::inner::step#2::tool_call'.*'nested::inner#2"):
        client.fork("x", "step#2")
    with pytest.raises(UnknownState):
        client.fork("y", "step#2")
    assert ["x"] == [state.state_id for state in client.list_states()]


def test_artifacts_of_a_fork_survive_collecting_after_its_parent_is_gone(client: Limpet) -> None:
    @tool
    async def make(number: int) -> bytes:
        executions["make"] += 1
        return bytes([number]) * 100_000

    @agent
    async def makes() -> list[bytes]:
        return [await make(number) for number in range(4)]

    expected = client.run_sync(makes, state_id="x")
    fork = client.fork("x", "make#3")
    client.delete("x")
    collected = client.collect(grace=timedelta(0))
    assert 2 >= len(collected.deleted)
    assert expected == asyncio.run(client.resume(fork, agent=makes))
    assert 6 == executions["make"]
    assert [] == client.collect(grace=timedelta(0)).deleted
    assert expected == client.history(fork).get_event_result("makes::agent_call")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_while_forking_leaves_a_whole_fork_or_none(when: Any) -> None:
    stop_at, is_stopped = 0, True
    while is_stopped:
        stop_at += 1
        executions.clear()
        backend = MemoryStateBackend()
        Limpet(backend).run_sync(research, "u", state_id="x")
        crashing = CrashingBackend(backend, stop_at=stop_at, when=when)
        large = Page("u", ["kelp"] * 50_000)
        try:
            Limpet(crashing).fork("x", "fetch", replace=large, new_state_id="y")
        except BaseException:
            if not crashing.is_stopped:
                raise
        is_stopped = crashing.is_stopped
        client = Limpet(backend)
        if backend.find_state("y") is not None:
            assert large == resume(client, "y")[0]
        else:
            assert is_stopped
            assert client.fork("x", "fetch", replace=large, new_state_id="y")
    assert stop_at > 2


def test_a_crash_in_a_fork_goes_on_in_the_fork(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(flat, 5, state_id="x")
    fork = client.fork("x", "step#3")
    crashing = CrashingBackend(backend, stop_at=4, when="after")
    with pytest.raises(BaseException, match=r".*"):
        asyncio.run(Limpet(crashing).resume(fork, agent=flat))
    assert crashing.is_stopped
    result = resume(client, fork)
    assert ["s1/1", "s2/1"] == result[:2]
    assert all(name.endswith(("/2", "/3")) for name in result[2:])


def test_a_fork_lists_the_records_of_its_parent_as_its_own(client: Limpet) -> None:
    client.run_sync(flat, 3, state_id="x")
    fork = client.fork("x", "step#3")
    resume(client, fork)
    told = [record.address for record in client.history(fork) if isinstance(record, EventRecord)]
    assert [record.address for record in client.history("x") if isinstance(record, EventRecord)] == told
    (timeline,) = client.timelines(fork)
    assert (1, "x", 1, "flat::step#3::tool_call") == (
        timeline.number,
        timeline.forked_from,
        timeline.base,
        timeline.address,
    )
    assert "x:1" == client.diff(fork).before
