"""A run that may not record any more, or cannot, executes nothing more, whatever its code makes of the errors."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Literal

import apsw
import pytest

from limpet import (
    BackendError,
    BackendUnavailable,
    LeaseLost,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateStatus,
    agent,
    tool,
)
from limpet.engine import saver
from limpet.engine.actors import Actor
from limpet.engine.live import LiveState
from limpet.engine.scope import current_scope
from limpet.model import Lease

PROGRAM = Path(__file__).with_name("paused_program.py")
TTL_S = 0.5
FIRST = 3


@pytest.fixture(params=["sqlite", "file"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/runs.db" if request.param == "sqlite" else f"file://{tmp_path}/states"


@contextmanager
def paused(store: str, notes: Path, shape: str, where: str) -> Iterator[subprocess.Popen[str]]:
    """A process that was stopped by the system in the middle of the run, and has been given what it waits for."""
    command = [sys.executable, str(PROGRAM), store, str(TTL_S), str(notes), shape, where, "first"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert "paused\n" == process.stdout.readline()
            process.send_signal(signal.SIGSTOP)
            process.stdin.write("go on\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()


def complete(store: str, notes: Path, shape: str, where: str) -> str:
    command = [sys.executable, str(PROGRAM), store, str(TTL_S), str(notes), shape, where]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def executed(notes: Path) -> dict[int, list[str]]:
    """By item: the processes that have executed it."""
    found = defaultdict[int, list[str]](list)
    for line in notes.read_text().splitlines():
        process, item = line.split()
        found[int(item)].append(process)
    return found


@pytest.mark.parametrize("where", ["between", "inside"])
@pytest.mark.parametrize("shape", ["loop", "pool", "plain"])
def test_a_process_that_wakes_up_without_its_lease_executes_nothing_more(
    store: str, tmp_path: Path, shape: str, where: str
) -> None:
    notes = tmp_path / "executed"
    with paused(store, notes, shape, where) as process:
        assert "20\n" == complete(store, notes, shape, where)
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.read().startswith("LeaseLost: This process may no longer write state 's'")
        assert 4 == process.wait()
    in_flight = {"loop": 1, "plain": 1, "pool": 3}[shape] if where == "inside" else 0
    found = executed(notes)
    assert list(range(20)) == sorted(found)
    by_both = {item for item, processes in found.items() if len(processes) > 1}
    assert by_both <= set(range(FIRST, FIRST + in_flight))
    with Limpet(store) as limpet:
        assert StateStatus.COMPLETED is limpet.show("s").header.status
        assert limpet.verify("s").is_sound


@pytest.mark.parametrize("mode", ["pause", "continue"])
def test_a_run_that_goes_on_while_its_store_fails_stops_without_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.setenv("ON_SAVE_ERROR", mode)
    store, notes = f"sqlite:///{tmp_path}/runs.db", tmp_path / "executed"
    with paused(store, notes, "loop", "between") as process:
        assert "20\n" == complete(store, notes, "loop", "between")
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.read().startswith("LeaseLost")
    assert [1] * 20 == [len(processes) for processes in executed(notes).values()]


def test_a_lost_lease_is_noticed_although_nothing_is_written(store: str, tmp_path: Path) -> None:
    notes = tmp_path / "executed"
    with paused(store, notes, "idle", "inside") as process:
        assert "20\n" == complete(store, notes, "idle", "inside")
        process.send_signal(signal.SIGCONT)
        assert process.stdout is not None
        assert process.stdout.read().startswith("LeaseLost")
        assert 4 == process.wait()


done: list[int] = []


@tool
async def step(number: int) -> int:
    done.append(number)
    return number


@tool
def plain_step(number: int) -> int:
    done.append(number)
    return number


@pytest.fixture(autouse=True)
def nothing_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done.clear()
    monkeypatch.setattr(saver, "FIRST_DELAY_S", 0.01)


def lock(other: apsw.Connection) -> None:
    other.execute("begin immediate")


def drop_the_tables(other: apsw.Connection) -> None:
    other.execute("pragma foreign_keys = off")
    for (name,) in list(
        other.execute("select name from sqlite_schema where type = 'table' and name not like 'sqlite%'")
    ):
        other.execute(f'drop table "{name}"')


async def go_through(numbers: range, disturb: Callable[[int], None]) -> None:
    for number in numbers:
        disturb(number)
        try:
            await step(number)
        except Exception:
            continue


def program(shape: str, disturb: Callable[[int], None]) -> Actor[[], None]:
    """A run that goes through ten steps, whatever these raise."""

    @agent
    async def loop() -> None:
        await go_through(range(10), disturb)

    @agent
    async def pool() -> None:
        workers = (go_through(range(number, 10, 2), disturb) for number in range(2))
        await asyncio.gather(*workers, return_exceptions=True)

    @agent
    def plain() -> None:
        for number in range(10):
            disturb(number)
            try:
                plain_step.call(number)
            except Exception:
                continue

    return {"loop": loop, "pool": pool, "plain": plain}[shape]


@pytest.mark.parametrize("durability", ["full", "normal"])
@pytest.mark.parametrize("break_", [lock, drop_the_tables])
@pytest.mark.parametrize("shape", ["loop", "pool", "plain"])
def test_a_run_whose_store_has_failed_stops_although_its_code_goes_on(
    tmp_path: Path, shape: str, break_: Callable[[apsw.Connection], None], durability: Literal["full", "normal"]
) -> None:
    path = tmp_path / "runs.db"
    SQLiteStateBackend(path).close()
    other = apsw.Connection(str(path))

    def disturb(number: int) -> None:
        if number == 4:
            break_(other)

    with (
        closing(other),
        SQLiteStateBackend(path, durability, busy_timeout_s=0.01) as backend,
        pytest.raises(BackendError),
    ):
        Limpet(backend).run_sync(program(shape, disturb), state_id="s")
    assert done in ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5]), "what was in flight when it was found out, and nothing more"


def test_a_run_that_is_to_go_on_without_its_store_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SQLiteStateBackend(path).close()
    other = apsw.Connection(str(path))

    def disturb(number: int) -> None:
        if number == 4:
            lock(other)
            # As if the keeper had not come to renew the lease for longer than it lasts.
            live.held_until = 0.001
        if number == 9:
            other.execute("rollback")

    with closing(other), SQLiteStateBackend(path, busy_timeout_s=0.01) as backend:
        client = Limpet(backend, on_save_error="continue")
        looping = program("loop", disturb)

        @agent
        async def outer() -> None:
            nonlocal live
            scope = current_scope.get()
            assert scope is not None
            live = scope.live
            await looping()

        live: LiveState
        client.run_sync(outer, state_id="s")
        assert list(range(10)) == done
        assert client.verify("s").is_sound


@pytest.mark.parametrize("mode", ["fail", "pause"])
def test_nothing_begins_while_the_store_does_not_say_whose_the_state_is(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "runs.db"
    SQLiteStateBackend(path).close()
    other = apsw.Connection(str(path))
    seen = list[list[int]]()

    @agent
    async def outer() -> None:
        await step(1)
        scope = current_scope.get()
        assert scope is not None
        lock(other)
        scope.live.held_until = 0.001

        def end() -> None:
            seen.append(done.copy())
            other.execute("rollback")

        asyncio.get_running_loop().call_later(0.3, end)
        with suppress(Exception):
            await step(2)
        with suppress(Exception):
            await step(3)

    with closing(other), SQLiteStateBackend(path, busy_timeout_s=0.01) as backend:
        client = Limpet(backend, on_save_error=mode)
        if mode == "pause":
            client.run_sync(outer, state_id="s")
            assert [[1]] == seen
            assert [1, 2, 3] == done
        else:
            with pytest.raises(BackendUnavailable):
                client.run_sync(outer, state_id="s")
            assert [1] == done


def test_a_handler_that_was_given_up_begins_nothing_more() -> None:
    ended = threading.Event()
    told = list[str]()

    class Losing(MemoryStateBackend):
        def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
            return [False for _ in leases]

    @agent
    def plain() -> None:
        plain_step.call(1)
        given_up.wait()
        try:
            plain_step.call(2)
        except Exception:
            told.append("an Exception")
        except BaseException as error:
            told.append(type(error).__name__)
        ended.set()

    given_up = threading.Event()
    with pytest.raises(LeaseLost):
        Limpet(Losing(), lease_ttl_s=0.3).run_sync(plain, state_id="s")
    given_up.set()
    assert ended.wait(10)
    assert ["Stopped"] == told
    assert [1] == done
