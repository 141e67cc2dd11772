"""Runs whose store takes no records for a while: another program has locked it, or it has no room."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from limpet import (
    BackendUnavailable,
    CheckpointPolicy,
    EventBus,
    EventNotice,
    EventRecord,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    LeaseLost,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateStatus,
    Tool,
    agent,
    ask,
    tool,
)
from limpet.backends.contract import Append, Claim, StateBackend
from limpet.engine import saver
from limpet.engine.lease import new_holder
from limpet.errors import BackendError
from limpet.model import Content, Pin

executed: list[int] = []


@tool
async def step(number: int) -> int:
    executed.append(number)
    return number


@pytest.fixture(autouse=True)
def nothing_executed(monkeypatch: pytest.MonkeyPatch) -> None:
    executed.clear()
    monkeypatch.setattr(saver, "FIRST_DELAY_S", 0.01)


class Outage:
    """A lock that another connection has on the file of a store, as another program would."""

    def __init__(self, path: Path) -> None:
        SQLiteStateBackend(path).close()
        self._connection = apsw.Connection(str(path))

    def begin(self) -> None:
        self._connection.execute("begin immediate")

    def end(self) -> None:
        self._connection.execute("rollback")

    def close(self) -> None:
        self._connection.close()


@contextmanager
def locked_store(tmp_path: Path) -> Iterator[tuple[SQLiteStateBackend, Outage]]:
    path = tmp_path / "runs.db"
    outage = Outage(path)
    try:
        with SQLiteStateBackend(path, busy_timeout_s=0.01) as backend:
            yield backend, outage
    finally:
        outage.close()


def complete_and_sound(backend: StateBackend, events: int) -> None:
    client = Limpet(backend)
    assert StateStatus.COMPLETED is client.show("s").header.status
    assert events == len(client.history("s").addresses())
    assert client.verify("s").is_sound


def test_a_run_goes_on_without_its_store_says_so_and_catches_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "limpet.saving")
    bus, notices, errors = EventBus(), list[EventNotice](), list[str | None]()
    bus.subscribe(notices.append)
    with locked_store(tmp_path) as (backend, outage):

        async def handler(number: int, _context: object, state: ExecutionState) -> int:
            errors.append(state.save_error)
            return number

        look = Tool(name="look", handler=handler)

        @agent
        async def going_on() -> int:
            await step(0)
            outage.begin()
            for number in range(1, 6):
                await step(number)
            await look(1)
            outage.end()
            return 6

        assert 6 == Limpet(backend).run_sync(going_on, state_id="s", on_save_error="continue", event_bus=bus)
        bus.flush()
        complete_and_sound(backend, 8)
        (checkpoint,) = Limpet(backend).checkpoints("s")
        assert ("save_failed", True) == (checkpoint.trigger, "locked" in checkpoint.error)
    assert list(range(6)) == executed
    assert errors[0] is not None
    assert "locked" in errors[0]
    told = [notice for notice in notices if notice.save_error is not None or notice.is_caught_up]
    assert [True, False] == [notice.save_error is not None for notice in told]
    assert ["goes on without its store" in caplog.messages[0], "saved again" in caplog.messages[-1]] == [True, True]


def test_a_run_waits_for_its_store_and_executes_nothing_meanwhile(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):
        bus = EventBus()

        def look(notice: EventNotice) -> None:
            if notice.save_error is not None:
                executed.append(-1)
                outage.end()

        bus.subscribe(look)

        @agent
        async def paused() -> int:
            await step(0)
            outage.begin()
            return await step(1) + await step(2)

        assert 3 == Limpet(backend).run_sync(paused, state_id="s", on_save_error="pause", event_bus=bus)
        assert [0, 1, -1, 2] == executed
        complete_and_sound(backend, 4)


def test_a_run_fails_where_nothing_else_is_said(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):

        @agent
        async def failing() -> None:
            await step(0)
            if len(executed) == 1:
                outage.begin()
            await step(1)

        with pytest.raises(BackendUnavailable):
            Limpet(backend).run_sync(failing, state_id="s")
        outage.end()
        Limpet(backend).run_sync(failing, state_id="s")
        complete_and_sound(backend, 3)
    assert [0, 1, 1] == executed


@pytest.mark.parametrize("mode", ["pause", "continue"])
def test_a_run_does_not_end_before_its_end_is_saved(mode: str, tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):
        bus = EventBus()
        bus.subscribe(lambda notice: outage.end() if notice.save_error is not None else None)

        @agent
        async def ending() -> int:
            await step(0)
            outage.begin()
            return 1

        assert 1 == Limpet(backend).run_sync(ending, state_id="s", on_save_error=mode, event_bus=bus)
        complete_and_sound(backend, 2)


def test_a_run_whose_store_does_not_come_back_fails_at_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "END_PATIENCE_S", 0.3)
    with locked_store(tmp_path) as (backend, outage):

        @agent
        async def ending() -> None:
            await step(0)
            if len(executed) == 1:
                outage.begin()
            await step(1)

        client = Limpet(backend)
        with pytest.raises(BackendUnavailable):
            client.run_sync(ending, state_id="s", on_save_error="continue")
        outage.end()
        assert StateStatus.RUNNING is client.show("s").header.status
        client.run_sync(ending, state_id="s")
        complete_and_sound(backend, 3)
    assert [0, 1, 1] == executed


def test_what_must_not_be_lost_waits_for_the_store_also_where_the_run_goes_on(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):
        bus = EventBus()
        bus.subscribe(lambda notice: outage.end() if notice.save_error is not None else None)
        recorded: list[list[str]] = []

        @tool(once=True)
        async def pay() -> None:
            recorded.append(Limpet(backend).history("s").addresses())

        @agent
        async def paying() -> bool:
            outage.begin()
            await pay()
            return await ask("Enough?", bool)

        def answer(_: object) -> bool:
            recorded.append(Limpet(backend).history("s").addresses())
            return True

        options: dict[str, Any] = {"on_save_error": "continue", "event_bus": bus, "on_question": answer}
        assert Limpet(backend).run_sync(paying, state_id="s", **options)
        pay_at, ask_at = "paying::pay::tool_call", "paying::ask::question"
        assert [[True, False], [True, True]] == [[each in found for each in (pay_at, ask_at)] for found in recorded]


def test_a_policy_and_an_outage_together_lose_nothing(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):

        @agent
        async def both() -> None:
            for number in range(20):
                if number == 4:
                    outage.begin()
                await step(number)
                if number == 14:
                    outage.end()

        policy = CheckpointPolicy("every_n_steps", steps=3)
        Limpet(backend).run_sync(both, state_id="s", checkpoint_policy=policy, on_save_error="continue")
        complete_and_sound(backend, 21)
    assert list(range(20)) == executed


def test_branches_go_on_without_their_store(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):

        async def chain(first: int) -> list[int]:
            return [await step(number) for number in range(first, first + 5)]

        @agent
        async def branching() -> list[list[int]]:
            outage.begin()
            found = await asyncio.gather(*(chain(10 * number) for number in range(4)))
            outage.end()
            return found

        expected = [[10 * number + place for place in range(5)] for number in range(4)]
        assert expected == Limpet(backend).run_sync(branching, state_id="s", on_save_error="continue")
        complete_and_sound(backend, 21)


def test_large_values_are_stored_when_the_store_is_back(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):

        @tool
        async def large(size: int) -> str:
            return "x" * size

        @agent
        async def storing() -> int:
            outage.begin()
            found = await large(200_000)
            outage.end()
            return len(found)

        assert 200_000 == Limpet(backend).run_sync(storing, state_id="s", on_save_error="continue")
        assert "x" * 200_000 == Limpet(backend).history("s").get_event_result("storing::large::tool_call")
        complete_and_sound(backend, 2)


def test_a_run_that_waits_for_its_store_can_be_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saver, "LEAVE_PATIENCE_S", 0.2)
    with locked_store(tmp_path) as (backend, outage):

        @agent
        async def stuck() -> None:
            await step(0)
            outage.begin()
            await step(1)

        with pytest.raises((BackendUnavailable, ExecutionInterrupted)):
            Limpet(backend).run_sync(stuck, state_id="s", on_save_error="pause", timeout_s=0.3)
        outage.end()
        assert ["stuck::agent_call", "stuck::step::tool_call"] == Limpet(backend).history("s").addresses()


def test_a_run_that_waits_for_its_store_ends_when_its_task_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saver, "LEAVE_PATIENCE_S", 0.2)

    async def cancelled(backend: StateBackend, outage: Outage) -> None:
        @agent
        async def stuck() -> None:
            await step(0)
            outage.begin()
            await step(1)

        running = asyncio.create_task(Limpet(backend).run(stuck, state_id="s", on_save_error="pause"))
        async with asyncio.timeout(10):
            while 1 not in executed:
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running], timeout=10)
        assert running.done()
        with pytest.raises((BackendUnavailable, asyncio.CancelledError)):
            await running

    with locked_store(tmp_path) as (backend, outage):
        asyncio.run(cancelled(backend, outage))
        outage.end()
        assert Limpet(backend).verify("s").is_sound


class TakenOver(MemoryStateBackend):
    """A store that does not answer for a while; meanwhile another process takes a state over."""

    is_down = False

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        if self.is_down:
            raise BackendUnavailable(self.name, "it is down")
        return super().append(appends)


def test_a_state_that_another_process_took_over_meanwhile_is_not_written() -> None:
    backend = TakenOver()
    went_on = threading.Event()

    @agent
    async def losing() -> None:
        await step(0)
        backend.is_down = True
        await step(1)
        header = backend.find_state("s")
        assert header is not None
        held = backend.acquire([Claim(header=header, holder=new_holder(), ttl_s=60)])[0]
        assert held is not None
        claim = Claim(header=header, holder=new_holder(), ttl_s=60, supersede=held.held_fence)
        assert backend.acquire([claim])[0] is not None
        backend.is_down = False
        went_on.set()
        for number in range(2, 1000):
            await step(number)
            await asyncio.sleep(0.01)

    with pytest.raises(LeaseLost):
        Limpet(backend).run_sync(losing, state_id="s", on_save_error="continue")
    assert went_on.is_set()
    records = [record for record in Limpet(backend).history("s") if isinstance(record, EventRecord)]
    assert {"losing::agent_call", "losing::step::tool_call"} == {record.address for record in records}


class HeldUp(MemoryStateBackend):
    """A store whose commits wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.commit_waits = True
        self.let_go = threading.Event()
        self.let_go.set()

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        assert self.let_go.wait(20)
        return super().append(appends)


class Down(MemoryArtifactBackend):
    """A place for artifacts that does not answer while it is down."""

    is_down = True

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        if self.is_down:
            raise BackendUnavailable("artifacts", "it is down")
        return super().put(artifact_id, content, pin)


def test_no_record_is_written_before_the_artifact_that_it_names() -> None:
    asyncio.run(_before_its_artifact())


async def _before_its_artifact() -> None:
    backend, artifacts = HeldUp(), Down()
    state = ExecutionState(state_backend=backend, artifact_backend=artifacts, state_id="s", on_save_error="continue")

    @tool
    async def large(number: int) -> str:
        return "x" * 100_000

    await ExecutionEvent(step)(0, None, state)
    backend.let_go.clear()
    first = asyncio.create_task(ExecutionEvent(step)(1, None, state))
    await asyncio.sleep(0)
    assert 100_000 == len((await ExecutionEvent(large)(2, None, state)).result)
    # The record before it is committed now, and what follows it must wait for its artifact.
    backend.let_go.set()
    await first
    await ExecutionEvent(step)(3, None, state)
    client = Limpet(backend, artifact_backend=artifacts)
    while not client.history("s").has_completed_event("step#2::tool_call"):
        await asyncio.sleep(0.01)
    assert not client.history("s").has_completed_event("large::tool_call")
    assert state.save_error is not None
    artifacts.is_down = False
    while not client.history("s").has_completed_event("large::tool_call"):
        await asyncio.sleep(0.01)
    state.save_checkpoint(StateStatus.PAUSED)
    assert ("x" * 100_000, True) == (
        client.history("s").get_event_result("large::tool_call"),
        client.history("s").has_completed_event("step#3::tool_call"),
    )


def test_explicit_states_go_on_without_their_store(tmp_path: Path) -> None:
    asyncio.run(_explicit(tmp_path))


async def _explicit(tmp_path: Path) -> None:
    with locked_store(tmp_path) as (backend, outage):
        state = ExecutionState(state_backend=backend, state_id="s", on_save_error="continue")
        await ExecutionEvent(step)(0, None, state)
        outage.begin()
        await ExecutionEvent(step)(1, None, state)
        state.storage.set("key", 1)
        state.save_checkpoint()
        assert state.save_error is not None
        outage.end()
        state.save_checkpoint(StateStatus.PAUSED)
        assert state.save_error is None
        loaded = ExecutionState.load_from_state_id("s", backend)
        assert (1, True) == (loaded.storage.get("key"), loaded.history.has_completed_event("step#2::tool_call"))


FULL = """
import resource, signal, sys
from limpet import Limpet, agent, tool

@tool
async def write(number: int) -> str:
    if number == 3:
        resource.setrlimit(resource.RLIMIT_FSIZE, (used(), resource.RLIM_INFINITY))
    if number == 8:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return str(number) * 20_000

def used():
    from pathlib import Path
    return max(file.stat().st_size for file in Path(sys.argv[1]).rglob("*") if file.is_file())

@agent
async def filling() -> int:
    return sum([len(await write(number)) for number in range(12)])

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
with Limpet(sys.argv[2]) as limpet:
    print(limpet.run_sync(filling, state_id="s", on_save_error="continue"))
"""


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db", "file://{}/store"])
def test_a_run_survives_a_disk_that_is_full_for_a_while(url: str, tmp_path: Path) -> None:
    store = url.format(tmp_path)
    program = [sys.executable, "-c", FULL, str(tmp_path), store]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert ("280000\n", 0) == (done.stdout, done.returncode), done.stderr
    assert "goes on without its store" in done.stderr
    with Limpet(store) as client:
        complete_and_sound(client.backend, 13)
        assert "7" * 20_000 == client.history("s").get_event_result("filling::write#8::tool_call")
