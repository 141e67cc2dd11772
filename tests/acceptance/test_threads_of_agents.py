"""Threads that an agent starts: a call there is part of the run, or it is an error, and never silently neither."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from limpet import (
    ExecutionEvent,
    ExecutionState,
    Limpet,
    StateStatus,
    Tool,
    UsageError,
    agent,
    ask,
    now,
    random,
    tool,
    uuid4,
)

executed: list[str] = []
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    switch.clear()


@pytest.fixture
def warm_pool() -> Iterator[ThreadPoolExecutor]:
    """A pool whose one thread was started before any run."""
    with ThreadPoolExecutor(1, thread_name_prefix="warm") as pool:
        pool.submit(int).result()
        yield pool


@tool
async def fetch(url: str) -> str:
    executed.append(url)
    return f"page {url}"


@tool
def fetch_plainly(url: str) -> str:
    executed.append(url)
    return f"page {url}"


fetch_by_class = Tool(name="fetch_by_class", handler=lambda url, context, state: executed.append(url))

CALLS: dict[str, Callable[[str], Any]] = {
    "async": fetch.call,
    "plain": fetch_plainly.call,
    "class": fetch_by_class.call,
    "made there": lambda url: asyncio.run(_awaits(url)),
    "now": lambda url: now(),
    "random": lambda url: random(),
    "uuid4": lambda url: uuid4(),
    "ask": lambda url: ask.call("Go on?"),
}


async def _awaits(url: str) -> str:
    return await fetch(url)


def result_of_thread(make: Callable[[Callable[[], None]], threading.Thread], call: Callable[[str], Any]) -> Any:
    """What a call gives, or raises, in a thread that is made here."""
    done: Future[Any] = Future()

    def work() -> None:
        try:
            done.set_result(call("a"))
        except BaseException as error:
            done.set_exception(error)

    thread = make(work)
    thread.start()
    thread.join()
    return done.result()


class OwnThread(threading.Thread):
    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self.work = work

    def run(self) -> None:
        self.work()


def in_new_pool(call: Callable[[str], Any]) -> Any:
    with ThreadPoolExecutor() as pool:
        return pool.submit(call, "a").result()


def mapped_in_new_pool(call: Callable[[str], Any]) -> Any:
    with ThreadPoolExecutor() as pool:
        return next(iter(pool.map(call, ["a"])))


def in_pool_of_multiprocessing(call: Callable[[str], Any]) -> Any:
    with ThreadPool(1) as pool:
        return pool.map(call, ["a"])[0]


def in_pool_inside_a_thread(call: Callable[[str], Any]) -> Any:
    return result_of_thread(lambda work: threading.Thread(target=work), lambda url: in_new_pool(call))


WAYS: dict[str, Callable[[Callable[[str], Any]], Any]] = {
    "pool": in_new_pool,
    "map": mapped_in_new_pool,
    "warm pool": lambda call: switch["pool"].submit(call, "a").result(),
    "thread": lambda call: result_of_thread(lambda work: threading.Thread(target=work), call),
    "own class": lambda call: result_of_thread(OwnThread, call),
    "timer": lambda call: result_of_thread(lambda work: threading.Timer(0, work), call),
    "pool of multiprocessing": in_pool_of_multiprocessing,
    "pool inside a thread": in_pool_inside_a_thread,
}


@agent
def plain(way: str, call: str) -> Any:
    return WAYS[way](CALLS[call])


@agent
async def lends_to_executor(call: str) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, CALLS[call], "a")


def require_told(error: UsageError, name: str) -> None:
    assert f"'{name}'" in str(error)
    assert threading.current_thread().name not in str(error)
    assert "contextvars.copy_context().run" in str(error)
    assert "asyncio.to_thread" in str(error)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_a_call_in_a_thread_without_the_scope_of_its_agent_is_an_error(
    way: str, call: str, warm_pool: ThreadPoolExecutor
) -> None:
    switch["pool"] = warm_pool
    client = Limpet("memory://")
    with pytest.raises(UsageError, match="was called in the thread") as caught:
        client.run_sync(plain, way, call, state_id="t")
    names = {"async": "fetch", "plain": "fetch_plainly", "class": "fetch_by_class", "made there": "fetch"}
    require_told(caught.value, names.get(call, call))
    assert "'plain'" in str(caught.value)
    assert [] == executed
    assert StateStatus.FAILED is client.show("t").header.status


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_an_async_agent_lends_to_an_executor_is_an_error(call: str) -> None:
    with pytest.raises(UsageError, match="was called in the thread 'asyncio_0', which"):
        Limpet("memory://").run_sync(lends_to_executor, call, state_id="t")
    assert [] == executed


def test_an_event_of_the_explicit_form_in_such_a_thread_is_an_error_too() -> None:
    state = ExecutionState(state_id="t")

    def lend(given: None, context: None, state: ExecutionState) -> Any:
        return in_new_pool(lambda url: asyncio.run(ExecutionEvent(fetch)(url, None, state)))

    with pytest.raises(UsageError, match="'fetch' was called in the thread"):
        asyncio.run(ExecutionEvent(Tool(name="lend", handler=lend))(None, None, state))
    assert [] == executed


def test_it_is_logged_once_even_if_nobody_asks_the_thread_for_its_result(caplog: pytest.LogCaptureFixture) -> None:
    @agent
    def forgets() -> None:
        with ThreadPoolExecutor() as pool:
            for url in "abc":
                pool.submit(fetch.call, url)

    with caplog.at_level(logging.ERROR, "limpet.threads"):
        Limpet("memory://").run_sync(forgets, state_id="t")
    assert 1 == len(caplog.records)
    assert "'fetch' was called in the thread" in caplog.text
    assert [] == executed


def test_a_thread_that_has_the_context_makes_calls_of_the_run() -> None:
    @agent
    def with_context() -> list[str]:
        with ThreadPoolExecutor() as pool:
            waiting = [
                pool.submit(contextvars.copy_context().run, fetch.options(key=url).call, url) for url in "abcdefgh"
            ]
            return [future.result() for future in waiting]

    client = Limpet("memory://")
    assert [f"page {url}" for url in "abcdefgh"] == client.run_sync(with_context, state_id="t")
    assert {f"with_context::fetch[{url}]::tool_call" for url in "abcdefgh"} < set(client.history("t").addresses())


def test_what_is_started_in_an_empty_context_is_no_part_of_the_run() -> None:
    @agent
    def starts_other_work() -> str:
        with ThreadPoolExecutor() as pool:
            return contextvars.Context().run(pool.submit, fetch.call, "a").result()

    client = Limpet("memory://")
    assert "page a" == client.run_sync(starts_other_work, state_id="t")
    assert ["starts_other_work::agent_call"] == client.history("t").addresses()


def calls_of_others(shared: ThreadPoolExecutor) -> list[str]:
    """Calls from a thread that was started before the run, and from what this thread hands over to others."""
    with ThreadPoolExecutor() as own:
        futures = [own.submit(fetch.call, "own"), shared.submit(fetch_plainly.call, "shared")]
        thread = threading.Thread(target=fetch.call, args=("thread",))
        thread.start()
        thread.join()
        return [*(future.result() for future in futures), asyncio.run(_awaits("loop")), fetch.call("here")]


def test_threads_beside_a_run_make_calls_as_ever(warm_pool: ThreadPoolExecutor) -> None:
    inside, may_end = threading.Event(), threading.Event()

    @agent
    def runs_meanwhile() -> None:
        # From now on a thread of the shared pool is one that was started by a run.
        shared.submit(contextvars.copy_context().run, fetch.options(key="a").call, "a").result()
        inside.set()
        may_end.wait()

    with ThreadPoolExecutor(4) as shared:
        client = Limpet("memory://")
        running = warm_pool.submit(client.run_sync, runs_meanwhile, state_id="t")
        inside.wait()
        try:
            found = calls_of_others(shared)
        finally:
            may_end.set()
        running.result()
    assert ["page own", "page shared", "page loop", "page here"] == found
    assert ["runs_meanwhile::agent_call", "runs_meanwhile::fetch[a]::tool_call"] == client.history("t").addresses()


def test_a_thread_that_outlives_its_run_makes_calls_as_ever_behind_the_end() -> None:
    has_ended = threading.Event()
    found: Future[str] = Future()

    def later() -> None:
        has_ended.wait()
        found.set_result(fetch.call("a"))

    @agent
    def leaves_a_thread() -> None:
        thread.start()

    thread = threading.Thread(target=later)
    Limpet("memory://").run_sync(leaves_a_thread, state_id="t")
    has_ended.set()
    thread.join()
    assert "page a" == found.result()


def test_the_loop_of_a_thread_that_a_run_started_serves_others_as_ever() -> None:
    """A library may start its loop when it is first used, inside a run, and keep it for everybody."""
    loop = asyncio.new_event_loop()
    inside, may_end = threading.Event(), threading.Event()

    thread = threading.Thread(target=loop.run_forever)

    @agent
    def starts_a_loop() -> None:
        thread.start()
        inside.set()
        may_end.wait()

    with ThreadPoolExecutor() as pool:
        running = pool.submit(Limpet("memory://").run_sync, starts_a_loop, state_id="t")
        inside.wait()
        found = asyncio.run_coroutine_threadsafe(_awaits("a"), loop).result(10)
        may_end.set()
        running.result()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
    assert "page a" == found


def test_the_standard_library_is_as_it_was_when_the_last_run_has_ended() -> None:
    before = ThreadPoolExecutor.submit, threading.Thread.start
    others: list[Any] = []

    @agent
    async def nests(depth: int) -> None:
        others.append(ThreadPoolExecutor.submit)
        if depth:
            await Limpet("memory://").run(nests, depth - 1, state_id="t")
            assert ThreadPoolExecutor.submit is others[0], "it is left alone while another run goes on"

    Limpet("memory://").run_sync(nests, 2, state_id="t")
    assert before == (ThreadPoolExecutor.submit, threading.Thread.start)


def test_what_others_put_before_the_standard_library_meanwhile_stays_there() -> None:
    before = ThreadPoolExecutor.submit
    passed: list[Any] = []

    @agent
    def instruments() -> None:
        ours = ThreadPoolExecutor.submit

        def traced(self: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            passed.append(fn)
            return ours(self, fn, *args, **kwargs)

        ThreadPoolExecutor.submit = traced

    try:
        Limpet("memory://").run_sync(instruments, state_id="t")
        assert "traced" == ThreadPoolExecutor.submit.__name__
        assert "page a" == in_new_pool(fetch.call)
        for number in range(3):
            with pytest.raises(UsageError, match="was called in the thread"):
                Limpet("memory://").run_sync(plain, "pool", "async", state_id=f"t{number}")
            assert "traced" == ThreadPoolExecutor.submit.__name__
        assert 4 == len(passed)
    finally:
        ThreadPoolExecutor.submit = before


# --- two threads in one scope


def in_context(pool: ThreadPoolExecutor, function: Callable[..., Any], *args: Any) -> Future[Any]:
    return pool.submit(contextvars.copy_context().run, function, *args)


@agent
def races(call_a: str, call_b: str) -> list[str]:
    both = threading.Barrier(2)

    def work(call: str, url: str) -> str:
        both.wait()
        return CALLS[call](url)

    with ThreadPoolExecutor(thread_name_prefix="racing") as pool:
        futures = [in_context(pool, work, call_a, "a"), in_context(pool, work, call_b, "b")]
        return [future.result() for future in futures]


@pytest.mark.parametrize("call", ["async", "plain", "class", "now", "uuid4"])
def test_two_threads_that_make_the_same_call_at_once_are_an_error(call: str) -> None:
    with pytest.raises(UsageError, match=r"'racing_[01]' and 'racing_[01]'") as caught:
        Limpet("memory://").run_sync(races, call, call, state_id="t")
    assert "'races'" in str(caught.value)
    assert ("key" if call not in ("now", "uuid4") else "before the threads are started") in str(caught.value)
    assert 1 >= len(executed)


def test_the_second_thread_is_told_even_if_the_first_has_ended_by_then() -> None:
    @agent
    def staggered() -> list[str]:
        first_has_ended = threading.Event()

        def second() -> str:
            first_has_ended.wait()
            return fetch.call("b")

        with ThreadPoolExecutor() as pool:
            later = in_context(pool, second)
            first = in_context(pool, fetch.call, "a").result()
            first_has_ended.set()
            return [first, later.result()]

    with pytest.raises(UsageError, match="which of them comes first"):
        Limpet("memory://").run_sync(staggered, state_id="t")
    assert ["a"] == executed


def test_a_thread_beside_the_one_of_its_agent_is_told_as_well() -> None:
    @agent
    def calls_beside() -> list[str]:
        may_call = threading.Event()

        def beside() -> str:
            may_call.wait()
            return fetch.call("b")

        with ThreadPoolExecutor() as pool:
            later = in_context(pool, beside)
            own = fetch.call("a")
            may_call.set()
            return [own, later.result()]

    with pytest.raises(UsageError, match="which of them comes first"):
        Limpet("memory://").run_sync(calls_beside, state_id="t")
    assert ["a"] == executed


@tool
def fetch_when_released(url: str) -> str:
    assert switch["released"].wait(20)
    return f"page {url}"


released_by_class = Tool(name="by_class", handler=lambda url, context, state: switch["released"].wait(20))


@pytest.mark.parametrize("call", [fetch_when_released, released_by_class], ids=["function", "class"])
def test_two_threads_that_make_a_call_with_one_key_at_once_are_an_error(call: Any) -> None:
    @agent
    def same_key() -> list[str]:
        with ThreadPoolExecutor() as pool:
            futures = [in_context(pool, call.options(key="same").call, url) for url in "ab"]
            wait(futures, return_when=FIRST_COMPLETED)
            switch["released"].set()
            return [future.result() for future in futures]

    switch["released"] = threading.Event()
    with pytest.raises(UsageError, match=r"Two threads of 'same_key' call '.*\[same\]' at the same time"):
        Limpet("memory://").run_sync(same_key, state_id="t")


def test_threads_that_make_a_call_with_one_key_one_after_the_other_are_none() -> None:
    @agent
    def hands_on() -> list[str]:
        waiting: queue.Queue[str] = queue.Queue()
        done: list[str] = []

        def work() -> None:
            url = waiting.get()
            done.append(fetch.options(key="same").call(url))
            if url == "a":
                waiting.put("b")

        with ThreadPoolExecutor() as pool:
            futures = [in_context(pool, work) for _ in range(2)]
            waiting.put("a")
            for future in futures:
                future.result()
        return done

    client = Limpet("memory://")
    assert ["page a", "page b"] == client.run_sync(hands_on, state_id="t")
    assert "hands_on::fetch[same]#2::tool_call" in client.history("t").addresses()


def test_threads_that_make_different_calls_need_no_keys() -> None:
    client = Limpet("memory://")
    assert ["page a", "page b"] == client.run_sync(races, "async", "plain", state_id="t")
    assert {"races::fetch::tool_call", "races::fetch_plainly::tool_call"} < set(client.history("t").addresses())


def test_threads_that_come_one_after_the_other_need_no_keys() -> None:
    @agent
    def one_by_one() -> list[str]:
        found = [fetch.call("a")]
        with ThreadPoolExecutor() as pool:

            def nested() -> list[str]:
                inner = in_context(pool, fetch.call, "c").result()
                return [inner, fetch.call("d")]

            found.append(in_context(pool, fetch.call, "b").result())
            found += in_context(pool, nested).result()
        found.append(fetch.call("e"))
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(fetch.call, "f"))
        thread.start()
        thread.join()
        return [*found, fetch.call("g")]

    client = Limpet("memory://")
    client.run_sync(one_by_one, state_id="t")
    assert list("abcdefg") == executed
    numbers = ["", *(f"#{number}" for number in range(2, 8))]
    assert [f"one_by_one::fetch{number}::tool_call" for number in numbers] == client.history("t").addresses()[1:]


def test_it_does_not_matter_which_thread_of_a_pool_does_each_of_several_pieces() -> None:
    """A pool of threads that were started by the run, which take what comes: none of them stands for one piece."""

    @agent
    def hands_over() -> list[str]:
        may_end = threading.Event()

        def take(url: str) -> str:
            found = fetch.call(url)
            # Its thread is busy until the end, so the next piece is done by another one.
            done[url].set()
            may_end.wait()
            return found

        done = {url: threading.Event() for url in "abc"}
        with ThreadPool(3) as pool:
            waiting: list[Any] = []
            for url in "abc":
                waiting.append(pool.apply_async(contextvars.copy_context().run, (take, url)))
                done[url].wait()
            may_end.set()
            return [each.get() for each in waiting]

    client = Limpet("memory://")
    assert ["page a", "page b", "page c"] == client.run_sync(hands_over, state_id="t")


def test_threads_of_branches_need_no_keys() -> None:
    def two(url: str) -> list[str]:
        return [fetch.call(url), fetch.call(url * 2)]

    async def branch(url: str) -> list[str]:
        return await asyncio.to_thread(two, url)

    @agent
    async def branches() -> list[list[str]]:
        await asyncio.to_thread(two, "x")
        return await asyncio.gather(*(branch(url) for url in "abcdefgh"))

    client = Limpet("memory://")
    expected = [[f"page {url}", f"page {url * 2}"] for url in "abcdefgh"]
    assert expected == client.run_sync(branches, state_id="t")
    executed.clear()
    client.fork("t", new_state_id="u")
    assert expected == client.run_sync(branches, state_id="u")
    assert [] == executed
