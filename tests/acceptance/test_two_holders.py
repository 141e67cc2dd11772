"""One state in the explicit form, loaded twice: whoever goes on with it knows all that the other one has recorded."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from limpet import (
    ExecutionEvent,
    ExecutionState,
    FileSystemStateBackend,
    LeaseHeld,
    LeaseLost,
    Limpet,
    MemoryStateBackend,
    RolledBack,
    SQLiteStateBackend,
    StateBackend,
    StateStatus,
    agent,
    tool,
)
from limpet.stores import open_store

executed: list[str] = []
waiting: list[asyncio.Event] = []


@tool
async def work(name: str) -> str:
    executed.append(name)
    if waiting:
        await waiting[0].wait()
    return name


@tool
async def fails(name: str) -> str:
    executed.append(name)
    if len(executed) == 1:
        raise ValueError(name)
    return name


@agent
async def outer(name: str) -> str:
    return await work(f"{name}/1") + await work(f"{name}/2")


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    waiting.clear()


@pytest.fixture(params=["memory", "sqlite", "files"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateBackend]:
    made: StateBackend
    match request.param:
        case "memory":
            made = MemoryStateBackend()
        case "sqlite":
            made = SQLiteStateBackend(tmp_path / "s.db")
        case _:
            made = FileSystemStateBackend(tmp_path / "states")
    with made as opened:
        yield opened


def loaded(backend: StateBackend) -> ExecutionState:
    return ExecutionState.load_from_state_id("s", backend)


def begun(backend: StateBackend) -> ExecutionState:
    """A state with one recorded call."""
    state = ExecutionState(state_backend=backend, state_id="s")
    assert "a" == do(state, "a")
    return state


async def perform(state: ExecutionState, name: str, actor: object = work) -> str:
    return (await ExecutionEvent(actor)(name, None, state)).result  # pyright: ignore[reportArgumentType]


def do(state: ExecutionState, name: str, actor: object = work) -> str:
    return asyncio.run(perform(state, name, actor))


def is_sound(backend: StateBackend, *addresses: str) -> None:
    client = Limpet(backend)
    assert client.verify("s").is_sound
    assert list(addresses) == client.history("s").addresses()


def test_what_another_object_recorded_meanwhile_is_given_and_not_executed(backend: StateBackend) -> None:
    first = begun(backend)
    second = loaded(backend)
    assert "b" == do(first, "b")
    assert ["a", "b", "c"] == [do(second, name) for name in "abc"]
    assert ["a", "b", "c"] == executed
    is_sound(backend, "work::tool_call", "work#2::tool_call", "work#3::tool_call")


def test_an_object_that_was_made_and_not_loaded_begins_with_what_stands(backend: StateBackend) -> None:
    begun(backend)
    second = ExecutionState(state_backend=backend, state_id="s")
    assert ["a", "b"] == [do(second, name) for name in "ab"]
    assert ["a", "b"] == executed
    is_sound(backend, "work::tool_call", "work#2::tool_call")


def test_what_failed_and_was_tried_again_elsewhere_is_not_tried_again(backend: StateBackend) -> None:
    first = ExecutionState(state_backend=backend, state_id="s")
    with pytest.raises(ValueError, match="a"):
        do(first, "a", fails)
    second, third = loaded(backend), loaded(backend)
    assert "a" == do(second, "a", fails)
    assert "a" == do(third, "a", fails)
    assert ["a", "a"] == executed


def test_an_agent_that_was_ended_elsewhere_is_not_entered_again(backend: StateBackend) -> None:
    first = begun(backend)
    second = loaded(backend)
    assert "b/1b/2" == do(first, "b", outer)
    assert ["a", "b/1b/2"] == [do(second, "a"), do(second, "b", outer)]
    assert ["a", "b/1", "b/2"] == executed


def test_the_object_that_was_taken_over_from_executes_nothing_more(backend: StateBackend) -> None:
    first = begun(backend)
    second = loaded(backend)
    assert "b" == [do(second, name) for name in "ab"][1]
    for _ in range(2):
        with pytest.raises(LeaseLost):
            do(first, "b")
    with pytest.raises(LeaseLost):
        loaded_first_storage(first)
    assert ["a", "b"] == executed
    is_sound(backend, "work::tool_call", "work#2::tool_call")


def loaded_first_storage(state: ExecutionState) -> None:
    state.storage.set("number", 1)


def test_the_same_holds_through_two_connections_of_one_process(tmp_path: Path) -> None:
    with SQLiteStateBackend(tmp_path / "s.db") as one, SQLiteStateBackend(tmp_path / "s.db") as other:
        first = begun(one)
        second = loaded(other)
        assert ["a", "b"] == [do(second, name) for name in "ab"]
        with pytest.raises(LeaseLost):
            do(first, "b")
        assert ["a", "b"] == executed


def test_nobody_takes_a_state_over_in_the_middle_of_an_event(backend: StateBackend) -> None:
    async def main() -> None:
        waiting.append(asyncio.Event())
        first = ExecutionState(state_backend=backend, state_id="s")
        under_way = asyncio.create_task(perform(first, "a"))
        while not executed:
            await asyncio.sleep(0)
        second = loaded(backend)
        with pytest.raises(LeaseHeld, match="another run in this process"):
            await perform(second, "a")
        with pytest.raises(LeaseHeld):
            second.storage.set("number", 1)
        with pytest.raises(LeaseHeld):
            Limpet(backend).delete("s")
        waiting.pop().set()
        assert "a" == await under_way
        assert "b" == await perform(first, "b")
        # What was refused was not made: it has the address that it would have had.
        assert ["a", "b", "c"] == [await perform(second, name) for name in "abc"]

    asyncio.run(main())
    assert ["a", "b", "c"] == executed
    is_sound(backend, "work::tool_call", "work#2::tool_call", "work#3::tool_call")


def test_calls_that_were_refused_side_by_side_keep_their_addresses(backend: StateBackend) -> None:
    async def main() -> None:
        first = ExecutionState(state_backend=backend, state_id="s")
        waiting.append(asyncio.Event())
        under_way = asyncio.create_task(perform(first, "a"))
        while not executed:
            await asyncio.sleep(0)
        second = loaded(backend)
        refused = await asyncio.gather(*(perform(second, name) for name in "ab"), return_exceptions=True)
        assert [LeaseHeld, LeaseHeld] == [type(each) for each in refused]
        waiting.pop().set()
        await under_way
        assert ["a", "b"] == await asyncio.gather(*(perform(second, name) for name in "ab"))

    asyncio.run(main())
    assert ["a", "b"] == executed
    is_sound(backend, "work::tool_call", "work#2::tool_call")


def test_a_recorded_call_needs_no_lease_while_another_is_in_the_middle_of_an_event(backend: StateBackend) -> None:
    async def main() -> None:
        first = ExecutionState(state_backend=backend, state_id="s")
        await perform(first, "a")
        waiting.append(asyncio.Event())
        under_way = asyncio.create_task(perform(first, "b"))
        while len(executed) < 2:
            await asyncio.sleep(0)
        assert "a" == await perform(loaded(backend), "a")
        waiting.pop().set()
        assert "b" == await under_way

    asyncio.run(main())


def test_an_idle_state_can_be_deleted_in_its_process(backend: StateBackend) -> None:
    state = begun(backend)
    Limpet(backend).delete("s")
    with pytest.raises(LeaseLost):
        do(state, "b")
    assert ["a"] == executed


def test_storage_is_read_as_it_stands(backend: StateBackend) -> None:
    first = begun(backend)
    first.storage.set("number", 1)
    second = loaded(backend)
    first.storage.set("number", 2)
    assert 2 == second.storage.get("number")
    second.storage.set("number", 3)
    assert 3 == loaded(backend).storage.get("number")
    assert Limpet(backend).verify("s").is_sound


def test_a_state_that_was_rolled_back_meanwhile_does_not_go_on(backend: StateBackend) -> None:
    state = begun(backend)
    second = loaded(backend)
    state.save_checkpoint(StateStatus.PAUSED)
    asyncio.run(Limpet(backend).roll_back("s"))
    assert "a" == do(second, "a")
    with pytest.raises(RolledBack):
        do(second, "b")
    assert ["a"] == executed
    assert backend.find_state("s").holder is None  # pyright: ignore[reportOptionalMemberAccess]


def test_a_question_that_was_answered_meanwhile_is_not_asked_again(backend: StateBackend) -> None:
    asked: list[str] = []

    async def answer(state: ExecutionState) -> bool:
        state._live.on_question = lambda question: asked.append(question.prompt) or True
        return await state.ask("Publish?", bool)

    first = begun(backend)
    second = loaded(backend)
    assert asyncio.run(answer(first))
    assert asyncio.run(answer(second))
    assert ["Publish?"] == asked
    assert Limpet(backend).verify("s").is_sound


@pytest.fixture(params=["sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else f"file://{tmp_path}/states"


class Holder:
    """Another process that has loaded the state, and does what it is told."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        assert "loaded" == self.answer()

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def tell(self, what: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()

    def say(self, what: str) -> str:
        self.tell(what)
        return self.answer()


@contextmanager
def holders(store: str, notes: Path, ttl_s: float) -> Generator[tuple[Holder, Holder]]:
    """Two processes that have both loaded the same state, in which nothing but a number is stored."""
    with open_store(store) as backend:
        state = ExecutionState(state_backend=backend, state_id="s")
        state.storage.set("number", 0)
        state.save_checkpoint(StateStatus.PAUSED)
    program = str(Path(__file__).with_name("holding_program.py"))
    command = [sys.executable, program, store, str(notes), str(ttl_s)]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(2)
        ]
        for process in processes:
            stack.callback(process.kill)
        first, second = (Holder(process) for process in processes)
        yield first, second


def test_two_processes_execute_each_call_once(store: str, tmp_path: Path) -> None:
    notes = tmp_path / "executed"
    with holders(store, notes, ttl_s=30) as (first, second):
        assert "a" == first.say("do a")
        assert "LeaseHeld" == second.say("do a")
        assert "LeaseHeld" == second.say("set 2")
        first.process.kill()
        first.process.wait()
        assert ["a", "b"] == [second.say("do a"), second.say("do b")]
    assert ["a", "b"] == notes.read_text().split()
    with Limpet(store) as client:
        assert client.verify("s").is_sound


def test_a_process_that_is_paused_past_its_lease_and_wakes_up_executes_nothing(store: str, tmp_path: Path) -> None:
    notes = tmp_path / "executed"
    with holders(store, notes, ttl_s=0.5) as (first, second):
        assert "a" == first.say("do a")
        first.process.send_signal(signal.SIGSTOP)
        while (said := second.say("do a")) == "LeaseHeld":
            pass
        assert ["a", "b", "5"] == [said, second.say("do b"), (second.say("set 5"), second.say("get"))[1]]
        first.tell("do b")
        first.process.send_signal(signal.SIGCONT)
        assert ["LeaseLost", "LeaseLost"] == [first.answer(), first.say("do c")]
    assert ["a", "b"] == notes.read_text().split()
    with Limpet(store) as client:
        assert client.verify("s").is_sound
