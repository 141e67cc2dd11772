"""A program that forks while it uses a store, in the way that its first argument names."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from limpet import (
    ExecutionEvent,
    ExecutionState,
    LeaseLost,
    Limpet,
    StateStatus,
    agent,
    open_store,
    tool,
)

PATIENCE_S = 30
"""After so long a process of this program ends itself: a hang is a failure, not a wait."""


@tool
async def add(number: int) -> int:
    return number + 1


@tool
def add_plainly(number: int) -> int:
    return number + 1


@agent
async def sums(numbers: int) -> int:
    total = 0
    for number in range(numbers):
        total += await (add(number) if number % 2 else add_plainly(number))
    return total


@tool
def fail_once(path: str) -> str:
    if not Path(path).exists():
        Path(path).touch()
        raise ValueError("not yet")
    return "went on"


@agent
async def two_parts(path: str) -> list[object]:
    return [await add(1), await fail_once(path)]


def in_child(work: Callable[[], object], end: Callable[[int], object] = os._exit) -> int:
    """Fork, work in the child, and give its id. What goes wrong there is printed, and is its status."""
    child = os.fork()
    if child:
        return child
    signal.alarm(PATIENCE_S)
    try:
        work()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    end(0)
    raise AssertionError("a child has ended")


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def wait_for(*children: int) -> None:
    for child in children:
        assert 0 == status_of(child), f"child {child} failed"


def used_store(store: str) -> None:
    """The parent has run something, and the child runs a new state and goes on with another."""
    client = Limpet(store)
    assert 10 == client.run_sync(sums, 4, state_id="parent")
    marker = f"{os.getcwd()}/marker"
    with suppress(ValueError):
        client.run_sync(two_parts, marker, state_id="begun")

    def work() -> None:
        assert 10 == client.run_sync(sums, 4, state_id="child")
        assert [2, "went on"] == asyncio.run(client.resume("begun"))
        assert 10 == client.run_sync(sums, 4, state_id="parent")

    wait_for(in_child(work), in_child(lambda: client.run_sync(sums, 4, state_id="child-2"), sys.exit))
    assert 10 == client.run_sync(sums, 4, state_id="child")
    assert [2, "went on"] == client.run_sync(two_parts, marker, state_id="begun")
    assert 15 == client.run_sync(sums, 5, state_id="parent-2")


def in_the_middle(store: str) -> None:
    """Many forks while another thread commits, and the threads of the writer and of the leases are at work."""
    client = Limpet(store)
    is_over = threading.Event()
    ran: list[str] = []
    failed: list[BaseException] = []

    def run_on() -> None:
        try:
            while not is_over.is_set():
                state_id = f"parent-{len(ran)}"
                asyncio.run(both(state_id))
                ran.append(state_id)
        except BaseException as error:
            failed.append(error)

    async def both(state_id: str) -> None:
        await asyncio.gather(client.run(sums, 6, state_id=state_id), client.run(sums, 6, state_id=f"{state_id}-beside"))

    running = threading.Thread(target=run_on, daemon=True)
    running.start()
    for group in range(10):
        children = [
            in_child(lambda number=number: client.run_sync(sums, 4, state_id=f"child-{number}"))
            for number in range(group * 5, group * 5 + 5)
        ]
        wait_for(*children)
    is_over.set()
    running.join(PATIENCE_S)
    assert not running.is_alive()
    assert not failed, failed
    assert ran
    for number in range(50):
        assert 10 == client.run_sync(sums, 4, state_id=f"child-{number}")


_client: Limpet | None = None


def _run_in_pool(number: int) -> int:
    signal.alarm(PATIENCE_S)
    assert _client is not None
    return _client.run_sync(sums, 4, state_id=f"pool-{number}")


def pool(store: str) -> None:
    """A pool of processes that uses a store which its parent has opened."""
    global _client
    _client = Limpet(store)
    _client.run_sync(sums, 4, state_id="parent")
    with multiprocessing.get_context("fork").Pool(3) as workers:
        assert [10] * 12 == workers.map(_run_in_pool, range(12), chunksize=1)
    assert 10 == _client.run_sync(sums, 4, state_id="pool-3")


def daemon(store: str) -> None:
    """The parent of the parent has used the store, and ends; what goes on is nobody's child."""
    client = Limpet(store)
    client.run_sync(sums, 4, state_id="parent")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork():
            sys.exit(0)
        signal.alarm(PATIENCE_S)
        try:
            # The parent has ended, and with it the one that would have cleared the log away.
            os.read(reading, 1)
            assert 15 == client.run_sync(sums, 5, state_id="daemon")
            client.close()
            Path("daemon.txt").write_text("ended")
        except BaseException:
            Path("daemon.txt").write_text(traceback.format_exc())
        os._exit(0)
    wait_for(child)
    client.run_sync(sums, 4, state_id="parent-2")
    client.close()
    os.write(writing, b".")


def forking_tools(store: str, *endings: str) -> None:
    """Tools fork in the middle of a run, and their children end in some way, or come out of the tool."""
    client = Limpet(store)
    parent = os.getpid()

    def fork(ending: str) -> int:
        if child := os.fork():
            return status_of(child)
        signal.alarm(PATIENCE_S)
        match ending:
            case "os._exit":
                os._exit(7)
            case "sys.exit":
                sys.exit(7)
            case "a run of its own":
                assert 10 == client.run_sync(sums, 4, state_id=f"child-{os.getpid()}")
                os._exit(7)
            case "a call":
                try:
                    add.call(1)
                except LeaseLost:
                    os._exit(7)
                os._exit(8)
        return 9

    @tool
    def fork_plainly(ending: str) -> int:
        return fork(ending)

    @tool
    async def fork_on_loop(ending: str) -> int:
        return fork(ending)

    @tool
    async def slow() -> str:
        for _ in range(20):
            await asyncio.sleep(0.01)
            await asyncio.to_thread(int)
        return "slow"

    @agent
    async def forking() -> list[object]:
        beside = asyncio.create_task(slow())
        before = await add(1)
        plain = [await fork_plainly(ending) for ending in endings]
        on_loop = [await fork_on_loop(ending) for ending in endings]
        return [before, plain, on_loop, await sums(3), await beside]

    try:
        result = client.run_sync(forking, state_id="forking")
    except LeaseLost:
        assert os.getpid() != parent
        sys.exit(11)
    print(result)


def processes_in_tools(store: str) -> None:
    """Plain tools start a process and look how it has ended."""
    client = Limpet(store)

    def work() -> None:
        signal.alarm(PATIENCE_S)
        assert 10 == client.run_sync(sums, 4, state_id="child")

    @tool
    def start_process() -> int | None:
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join()
        return process.exitcode

    @agent
    async def starting() -> list[int | None]:
        return [await start_process(), await add(1)]

    print(client.run_sync(starting, state_id="starting"))


def orphaned(store: str) -> None:
    """A child goes on with a run of its parent, which is gone by the time the child looks who that was."""
    client = Limpet(store)
    parent = os.getpid()
    os.getppid = lambda: 1

    @agent
    async def going_on() -> int:
        child = os.fork()
        if child:
            return status_of(child)
        signal.alarm(PATIENCE_S)
        try:
            await add(1)
        except LeaseLost as error:
            os._exit(7 if f"by process {parent}," in str(error) else 8)
        return 9

    print(client.run_sync(going_on, state_id="going-on"))


def signalled(store: str) -> None:
    """A signal to a child that was forked in a run which handles signals is the child's own."""
    client = Limpet(store)
    is_ready = os.pipe()

    @tool
    async def fork_and_end() -> int:
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_S)
            os.write(is_ready[1], b".")
            while True:
                signal.pause()
        os.read(is_ready[0], 1)
        os.kill(child, signal.SIGTERM)
        return status_of(child)

    @agent
    async def forking() -> list[int]:
        return [await add(1), await fork_and_end(), await add(2)]

    print(client.run_sync(forking, state_id="signalled", handle_signals=True))


def explicit(store: str) -> None:
    """A state of the explicit form that the parent holds is refused in the child; one that it does not hold is not."""
    backend = open_store(store)
    held = ExecutionState(state_backend=backend, state_id="held")
    idle = ExecutionState(state_backend=backend, state_id="idle")

    async def call(state: ExecutionState) -> None:
        await ExecutionEvent(add)(1, None, state)

    asyncio.run(call(held))
    refused: list[str] = []

    def work() -> None:
        for use in (
            lambda: asyncio.run(call(held)),
            lambda: held.storage.set("key", 1),
            held.save_checkpoint,
        ):
            try:
                use()
            except LeaseLost as error:
                refused.append(type(error).__name__)
        assert ["LeaseOfParent"] * 3 == refused, refused
        asyncio.run(call(idle))

    wait_for(in_child(work, sys.exit))
    asyncio.run(call(held))
    held.save_checkpoint(StateStatus.PAUSED)
    assert ["add::tool_call", "add#2::tool_call"] == list(held.history.addresses())


def in_memory(store: str) -> None:
    """A child goes on from a copy of the memory, which may be forked at any moment, and shares nothing."""
    client = Limpet(store)
    is_over = threading.Event()

    def run_on() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            client.run_sync(sums, 4, state_id=f"beside-{number}")

    client.run_sync(sums, 4, state_id="parent")
    running = threading.Thread(target=run_on, daemon=True)
    running.start()

    def work() -> None:
        assert 10 == client.run_sync(sums, 4, state_id="parent")
        assert 10 == client.run_sync(sums, 4, state_id="child")

    wait_for(*(in_child(work) for _ in range(20)))
    is_over.set()
    running.join(PATIENCE_S)
    assert "child" not in {header.state_id for header in client.list_states(limit=10_000)}


def main() -> None:
    way, store, *arguments = sys.argv[1:]
    signal.alarm(3 * PATIENCE_S)
    ways: dict[str, Callable[..., None]] = {
        each.__name__: each
        for each in (
            *(used_store, in_the_middle, pool, daemon, forking_tools, processes_in_tools, orphaned),
            *(signalled, explicit, in_memory),
        )
    }
    ways[way](store, *arguments)


if __name__ == "__main__":
    main()
