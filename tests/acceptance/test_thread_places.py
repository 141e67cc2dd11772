"""Plain functions run on a bounded number of threads, and however they are nested none of them waits for ever."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import pytest

from limpet import (
    EventTimedOut,
    ExecutionInterrupted,
    InterruptSignal,
    Limpet,
    RetryConfig,
    agent,
    load_config,
    tool,
)
from limpet.engine import places, workers
from limpet.model.defaults import THREADS

WIDTH = int(os.environ.get("LIMPET_TEST_WIDTH", "500"))


class Counted:
    """How many threads there are, and how many plain functions run at once, at most."""

    def __init__(self) -> None:
        self.before = threading.active_count()
        self.threads = self.running = self.most_running = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self.threads = max(self.threads, threading.active_count() - self.before)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.running -= 1


counted = Counted()


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    global counted
    counted = Counted()
    yield
    released.set()
    released.clear()


released = threading.Event()


def client_with(threads: int) -> Limpet:
    return Limpet("memory://", config=load_config(environment={}, run={"threads": threads}))


@tool
def plain(number: int) -> int:
    with counted:
        return number


@tool
async def not_plain(number: int) -> int:
    return await plain(number)


@agent
def calls_plain(number: int) -> int:
    with counted:
        pass
    return plain.call(number)


@agent
def calls_async(number: int) -> int:
    return not_plain.call(number)


@agent
def runs_a_loop(number: int) -> int:
    async def both() -> tuple[int, int]:
        return await asyncio.gather(plain(number), plain(0))

    return sum(asyncio.run(both()))


@agent
def has_threads(number: int) -> int:
    with ThreadPoolExecutor(2) as pool:
        calls = [
            pool.submit(copy_context().run, plain.options(key=key).call, n) for key, n in (("a", 0), ("b", number))
        ]
        return sum(call.result() for call in calls)


@agent
def nests(depth: int) -> int:
    return 1 + nests.call(depth - 1) if depth else plain.call(0)


def run_all(client: Limpet, actor: Any, count: int) -> int:
    """What an agent gives that makes so many calls side by side: their sum."""

    @agent
    async def wide() -> int:
        return sum(await asyncio.gather(*(actor(number) for number in range(count))))

    return client.run_sync(wide)


@pytest.mark.parametrize("threads", [1, 2, THREADS])
def test_plain_tools_that_are_called_all_at_once_share_a_few_threads(threads: int) -> None:
    assert sum(range(WIDTH)) == run_all(client_with(threads), plain, WIDTH)
    assert counted.most_running <= threads
    # One thread more is that of the observers, and one may be on its way to its end.
    assert counted.threads <= threads + 2


@pytest.mark.parametrize("actor", [calls_plain, calls_async, runs_a_loop, has_threads], ids=lambda actor: actor.name)
@pytest.mark.parametrize("threads", [1, 3])
def test_plain_agents_that_wait_for_plain_tools_never_wait_for_ever(threads: int, actor: Any) -> None:
    assert sum(range(50)) == run_all(client_with(threads), actor, 50)
    assert counted.most_running <= threads


def test_many_plain_agents_that_each_call_a_plain_tool_share_two_levels_of_threads() -> None:
    assert sum(range(WIDTH)) == run_all(client_with(4), calls_plain, WIDTH)
    assert counted.threads <= 2 * 4 + 2


def test_deep_nesting_many_times_over_goes_through_one_place_at_each_level() -> None:
    @agent
    def down(number: int) -> int:
        return nests.call(20)

    assert 10 * 20 == run_all(client_with(1), down, 10)


def test_a_plain_agent_that_waits_for_what_another_plain_function_does_gives_its_place_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(places, "MOMENT_S", 0.01)

    async def both() -> list[int]:
        other = asyncio.Event()

        @tool
        async def waits() -> int:
            await other.wait()
            return 1

        @agent
        def first() -> int:
            return waits.call()

        @agent
        async def top() -> int:
            async def second() -> int:
                number = await plain(2)
                other.set()
                return number

            return sum(await asyncio.gather(first(), second()))

        return [await client_with(1).run(top)]

    assert [3] == asyncio.run(both())


def test_tools_that_never_return_do_not_take_the_places_of_others() -> None:
    @tool(timeout_s=0.001, retry_config=RetryConfig(enabled=False))
    def hangs(number: int) -> int:
        released.wait()
        return number

    @agent
    async def top() -> int:
        found = await asyncio.gather(*(hangs(number) for number in range(20)), return_exceptions=True)
        assert {EventTimedOut} == {type(each) for each in found}
        return await plain(7)

    assert 7 == client_with(2).run_sync(top)


def test_the_time_of_an_attempt_begins_when_its_function_does(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    @tool(timeout_s=5)
    def waits_in_line(number: int) -> int:
        begun.append(number)
        return number

    @tool
    def holds_the_place() -> int:
        released.wait(30)
        return 0

    async def main() -> Any:
        @agent
        async def top() -> int:
            holding = asyncio.ensure_future(holds_the_place())
            waiting = asyncio.ensure_future(waits_in_line(1))
            # The clock of the loop is turned: so long waits the call for a thread.
            loop = asyncio.get_running_loop()
            before = loop.time()
            monkeypatch.setattr(loop, "time", lambda: before + 60)
            await asyncio.sleep(0)
            assert [] == begun
            released.set()
            return await holding + await waiting

        return await client_with(1).run(top)

    assert 1 == asyncio.run(main())


def test_a_call_that_gets_no_thread_within_its_total_time_fails_without_being_executed() -> None:
    executed: list[int] = []
    held = threading.Event()

    @tool(total_timeout_s=0.05, retry_config=RetryConfig(enabled=False))
    def waits_in_line() -> int:
        executed.append(1)
        return 0

    @tool
    def holds_the_place() -> int:
        held.set()
        released.wait(30)
        return 3

    @agent
    async def top() -> int:
        holding = asyncio.ensure_future(holds_the_place())
        while not held.is_set():
            await asyncio.sleep(0)
        with pytest.raises(EventTimedOut, match="it had no thread within"):
            await waits_in_line()
        released.set()
        return await holding

    assert 3 == client_with(1).run_sync(top)
    assert [] == executed


def test_a_run_that_is_told_to_finish_does_not_begin_what_waits_for_a_thread() -> None:
    executed: list[int] = []
    asked = threading.Event()
    client = client_with(1)

    @tool
    def fetch(number: int) -> int:
        executed.append(number)
        asked.wait(30)
        return number

    @agent
    async def top() -> list[int]:
        return await asyncio.gather(*(fetch(number) for number in range(20)))

    def is_to_finish() -> InterruptSignal | None:
        if not executed:
            return None
        asked.set()
        return InterruptSignal("lunch", is_graceful=True)

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(top, state_id="stopped", interrupt_checker=is_to_finish)
    assert [0] == executed
    done = [record for record in client.history("stopped").get_event_list() if record.status == "completed"]
    assert ["top::fetch::tool_call"] == [record.address for record in done]


def test_idle_threads_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.01)
    made = workers.Workers("limpet-idle")
    names: list[threading.Thread] = []

    def job() -> Callable[[], None]:
        names.append(threading.current_thread())
        return lambda: None

    made.do(job)
    while not names:
        os.sched_yield()
    names[0].join(30)
    assert not names[0].is_alive()
    made.do(job)
    while len(names) < 2:
        os.sched_yield()
    names[1].join(30)
    assert names[0] is not names[1]


AT_THE_END = """
import threading
from limpet import Limpet, agent, tool

@tool
def fetch() -> int:
    return 1

@agent
async def top() -> int:
    return await fetch()

print(Limpet("memory://").run_sync(top))
"""


def test_a_process_ends_at_once_although_threads_are_idle() -> None:
    ended = subprocess.run([sys.executable, "-c", AT_THE_END], capture_output=True, text=True, check=True, timeout=8)
    assert ("1\n", "") == (ended.stdout, ended.stderr)


STILL_WORKING = """
import threading, time
from limpet import Limpet, RetryConfig, agent, tool

@tool(timeout_s=0.01, retry_config=RetryConfig(enabled=False))
def slow() -> None:
    threading.main_thread().join()
    print("done", flush=True)

@agent
async def top() -> str:
    try:
        await slow()
    except Exception as error:
        return type(error).__name__

print(Limpet("memory://").run_sync(top), flush=True)
"""


def test_a_process_waits_at_its_end_for_what_its_threads_still_do() -> None:
    ended = subprocess.run([sys.executable, "-c", STILL_WORKING], capture_output=True, text=True, check=True)
    assert "EventTimedOut\ndone\n" == ended.stdout
