"""What a run gave behind a failure that was retried, or behind a cancellation that failed it, has its place."""

from __future__ import annotations

import asyncio
import time
import warnings
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from limpet import DriftWarning, Limpet, RetryConfig, agent, tool

executed: Counter[str] = Counter()
now: dict[str, Any] = {}


class Broken(Exception):
    """A bug in the code of an agent."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    now.clear()


@tool(retry_config=RetryConfig(max_attempts=1))
async def fetch(page: str) -> str:
    executed[page] += 1
    await asyncio.sleep(now.get(page, 0))
    if page == now.get("down"):
        raise ConnectionError(f"{page} is down")
    return page


def runs(work: Callable[[], Coroutine[Any, Any, Any]]) -> list[Any]:
    """What three runs of a state give or raise: a page is down in the first, and the code is broken in the second."""
    given: list[Any] = []

    @agent
    async def program() -> Any:
        result = await work()
        if now["run"] == 2:
            raise Broken
        return result

    with Limpet("memory://") as client, warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        for run in (1, 2, 3):
            now.update(run=run, down="b" if run == 1 else None)
            try:
                given.append(client.run_sync(program, state_id="x"))
            except (ConnectionError, TimeoutError, Broken) as error:
                given.append(type(error))
    return given


def test_a_retried_failure_is_no_drift_in_the_run_after_the_next() -> None:
    async def one_after_the_other() -> list[str]:
        errors: list[Exception] = []
        for page in "abc":
            try:
                await fetch(page)
            except ConnectionError as error:
                errors.append(error)
        await fetch("report")
        if errors:
            raise errors[0]
        return ["done"]

    assert [ConnectionError, Broken, ["done"]] == runs(one_after_the_other)
    assert {"a": 1, "b": 2, "c": 1, "report": 1} == executed


def test_a_retried_failure_among_gathered_calls_is_no_drift_in_the_run_after_the_next() -> None:
    async def gathered() -> list[str]:
        pages = await asyncio.gather(*(fetch(page) for page in "abc"), return_exceptions=True)
        await fetch("report")
        for page in pages:
            if isinstance(page, BaseException):
                raise page
        return [str(page) for page in pages]

    assert [ConnectionError, Broken, ["a", "b", "c"]] == runs(gathered)
    assert {"a": 1, "b": 2, "c": 1, "report": 1} == executed


def test_a_timer_that_fired_behind_a_retried_failure_fires_where_it_did_last() -> None:
    ways: list[list[str]] = []

    async def with_a_reminder() -> list[str]:
        log: list[str] = []

        async def remind() -> None:
            await asyncio.sleep(0.02)
            log.append("reminded")

        async def asks() -> None:
            log.append(await fetch("b"))

        tasks = [asyncio.create_task(remind()), asyncio.create_task(asks())]
        await asyncio.wait(tasks)
        tasks[1].result()
        await fetch("report")
        ways.append(log)
        return log

    assert [ConnectionError, Broken] == runs(with_a_reminder)[:2]
    assert [["b", "reminded"], ["b", "reminded"]] == ways


def test_a_timer_that_fired_before_a_cancellation_which_failed_the_run_keeps_its_place() -> None:
    log: list[str] = []
    now.update(a=1000.0, note=0.05)

    async def with_a_limit() -> list[str]:
        log.clear()

        async def remind() -> None:
            await asyncio.sleep(0.01)
            log.append(await fetch("note"))

        reminding = asyncio.create_task(remind())
        try:
            async with asyncio.timeout(0.02):
                log.append(await fetch("a"))
        except TimeoutError:
            await reminding
            now["a"] = 0.0
            raise
        await reminding
        return [*log]

    began = time.monotonic()
    assert [TimeoutError, Broken] == runs(with_a_limit)[:2]
    assert time.monotonic() - began < 1.0, "no patience is needed: the timer is recorded"


def test_what_a_bug_had_cancelled_is_no_drift_once_the_bug_is_mended() -> None:
    now.update(slow=1000.0)

    async def grouped() -> list[str]:
        async def looks_again() -> str:
            await fetch("a")
            if now["run"] < 3:
                now["slow"] = 0.0
                raise ConnectionError("this is the bug")
            return await fetch("again")

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(fetch("slow")), group.create_task(looks_again())]
        await fetch("report")
        return [task.result() for task in tasks]

    async def leaves_the_group() -> list[str]:
        try:
            return await grouped()
        except* ConnectionError as group:
            raise group.exceptions[0] from None

    assert [ConnectionError, ConnectionError, ["slow", "again"]] == runs(leaves_the_group)
    assert {"a": 1, "slow": 2, "again": 1, "report": 1} == executed


def test_calls_that_took_the_places_of_cancelled_ones_keep_their_order() -> None:
    now.update(slow=1000.0)

    async def grouped() -> list[str]:
        async def looks_on() -> str:
            await fetch("a")
            if now["run"] == 1:
                raise ConnectionError("this is the bug")
            now["slow"] = 0.0
            await fetch("first")
            return await fetch("second")

        slow, others = asyncio.create_task(fetch("slow")), asyncio.create_task(looks_on())
        try:
            await others
        except ConnectionError:
            slow.cancel()
            await asyncio.wait([slow])
            raise
        return [await slow, others.result()]

    assert [ConnectionError, Broken, ["slow", "second"]] == runs(grouped)
    assert {"a": 1, "slow": 2, "first": 1, "second": 1} == executed


def test_what_is_cancelled_before_it_could_begin_again_is_cancelled_in_that_place_ever_after() -> None:
    now.update(a=0.01, slow=1000.0)

    async def races() -> list[str]:
        async def race() -> str:
            slow = asyncio.create_task(fetch("slow"))
            first = await fetch("a")
            slow.cancel()
            await asyncio.wait([slow])
            return first + await fetch("c")

        found = await asyncio.gather(race(), fetch("b"), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException):
                raise each
        return [str(each) for each in found]

    assert [ConnectionError, Broken, ["ac", "b"]] == runs(races)
    assert {"a": 1, "b": 2, "c": 1, "slow": 1} == executed
