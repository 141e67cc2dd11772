"""Whatever the code of a run does, an interrupt stops it: at once where it awaits, for good, and so that it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from acceptance.stopped_runs import (
    begin_anew,
    cleaned,
    executions,
    interrupted,
    let_threads_go_on,
    open_all,
    pipeline,
    require_interrupted,
    states,
    statuses,
    stay,
    until_true,
    wait_at,
    wait_in_thread,
    work,
)

from limpet import (
    Agent,
    ExecutionState,
    Limpet,
    RetryConfig,
    StateStatus,
    agent,
    tool,
)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    begin_anew()
    yield
    let_threads_go_on()


async def in_a_tool() -> Any:
    return await wait_at("here")


async def between_calls() -> Any:
    await stay("here")
    return "here"


@agent
async def inner() -> str:
    return await wait_at("here")


@agent
async def outer() -> str:
    return await inner()


async def in_nested_agents() -> Any:
    return await outer()


@agent
async def waits_itself() -> str:
    await stay("here")
    return "here"


async def between_calls_of_a_nested_agent() -> Any:
    return await waits_itself()


async def in_a_task_group() -> Any:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(wait_at(name)) for name in ("here", "there")]
    return tasks[0].result()


async def in_a_gather() -> Any:
    return (await asyncio.gather(wait_at("here"), wait_at("there")))[0]


async def in_a_gather_that_returns_exceptions() -> Any:
    found = await asyncio.gather(wait_at("here"), wait_at("there"), return_exceptions=True)
    return found[0] if isinstance(found[0], str) else "swallowed"


async def in_a_gather_inside_a_gather_that_returns_exceptions() -> Any:
    async def branch() -> Any:
        return await asyncio.gather(wait_at("here"), wait_at("there"), return_exceptions=True)

    (found,) = await asyncio.gather(branch(), return_exceptions=True)
    return "swallowed" if isinstance(found, BaseException) else found[0]


async def in_tasks_that_are_waited_for() -> Any:
    done, _ = await asyncio.wait([asyncio.create_task(wait_at("here"))])
    return done.pop().result()


async def beside_a_task_that_nobody_awaits() -> Any:
    task = asyncio.create_task(wait_at("here"))
    await stay("here")
    return await task


async def behind_a_shield() -> Any:
    return await asyncio.shield(wait_at("here"))


async def behind_a_shield_around_a_coroutine() -> Any:
    async def shielded() -> str:
        return await wait_at("here")

    return await asyncio.shield(shielded())


async def within_a_timeout() -> Any:
    async with asyncio.timeout(1000):
        return await wait_at("here")


async def within_wait_for() -> Any:
    return await asyncio.wait_for(wait_at("here"), 1000)


async def while_it_is_streamed() -> Any:
    async def stream() -> AsyncIterator[str]:
        yield await wait_at("here")

    async for found in stream():
        return found


async def under_a_lock() -> Any:
    async with asyncio.Lock(), asyncio.Semaphore(1):
        return await wait_at("here")


async def in_code_that_catches_every_exception() -> Any:
    try:
        return await wait_at("here")
    except Exception:
        return "swallowed"


async def in_code_that_raises_again() -> Any:
    try:
        return await wait_at("here")
    except BaseException:
        raise


async def in_code_that_swallows_it_and_calls_another_tool() -> Any:
    try:
        found = await wait_at("here")
    except BaseException:
        found = await work("swallowed")
    return found


async def in_code_that_swallows_it_twice_and_calls_another_tool() -> Any:
    for name in ("here", "swallowed"):
        with contextlib.suppress(BaseException):
            return await wait_at(name)
    return await work("swallowed too")


async def in_code_that_swallows_it_and_returns() -> Any:
    try:
        return await wait_at("here")
    except BaseException:
        return "swallowed"


async def in_code_that_takes_it_back_and_returns() -> Any:
    try:
        return await wait_at("here")
    except asyncio.CancelledError:
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        return "swallowed"


async def in_code_that_swallows_it_and_awaits_a_little() -> Any:
    try:
        return await wait_at("here")
    except asyncio.CancelledError:
        for _ in range(10):
            await asyncio.sleep(0)
        return "swallowed"


async def in_code_that_makes_another_exception_of_it() -> Any:
    try:
        return await wait_at("here")
    except asyncio.CancelledError:
        raise ConnectionError("lost") from None


async def in_code_that_raises_another_exception_while_cleaning_up() -> Any:
    try:
        return await wait_at("here")
    finally:
        if "here" not in executions or executions["here"] == 1:
            raise ValueError("unclean")


async def in_a_task_group_whose_child_makes_another_exception_of_it() -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(in_code_that_makes_another_exception_of_it())
    return task.result()


async def in_a_task_whose_code_swallows_it() -> Any:
    return (await asyncio.gather(in_code_that_swallows_it_and_calls_another_tool()))[0]


async def in_a_task_that_nobody_awaits_and_that_swallows_it() -> Any:
    task = asyncio.create_task(in_code_that_swallows_it_and_calls_another_tool())
    await stay("here")
    return await task


@agent
async def inner_that_swallows_it() -> str:
    return await in_code_that_swallows_it_and_returns()


async def in_a_nested_agent_that_swallows_it() -> Any:
    return await inner_that_swallows_it()


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0))
async def tool_that_makes_another_exception_of_it() -> str:
    executions["converted"] += 1
    try:
        await stay("here")
    except asyncio.CancelledError:
        raise ConnectionError("lost") from None
    return "here"


async def in_a_tool_that_makes_another_exception_of_it() -> Any:
    return await tool_that_makes_another_exception_of_it()


@tool
async def tool_that_swallows_it() -> str:
    with contextlib.suppress(BaseException):
        await stay("here")
        return "here"
    return "swallowed"


async def in_a_tool_that_swallows_it() -> Any:
    return await tool_that_swallows_it()


@tool
async def tool_that_calls_tools() -> str:
    return await in_code_that_swallows_it_and_calls_another_tool()


async def in_a_tool_that_calls_tools_and_swallows_it() -> Any:
    return await tool_that_calls_tools()


@tool(timeout_s=1000)
async def limited() -> str:
    await stay("here")
    return "here"


async def in_a_tool_with_a_time_limit() -> Any:
    return await limited()


@tool(timeout_s=1000)
async def limited_and_swallows_it() -> str:
    return await in_code_that_swallows_it_and_calls_another_tool()


async def in_a_tool_with_a_time_limit_that_swallows_it() -> Any:
    return await limited_and_swallows_it()


PLACES: list[Callable[[], Awaitable[Any]]] = [
    in_a_tool,
    between_calls,
    in_nested_agents,
    between_calls_of_a_nested_agent,
    in_a_task_group,
    in_a_gather,
    in_a_gather_that_returns_exceptions,
    in_a_gather_inside_a_gather_that_returns_exceptions,
    in_tasks_that_are_waited_for,
    beside_a_task_that_nobody_awaits,
    behind_a_shield,
    behind_a_shield_around_a_coroutine,
    within_a_timeout,
    within_wait_for,
    while_it_is_streamed,
    under_a_lock,
    in_code_that_catches_every_exception,
    in_code_that_raises_again,
    in_code_that_swallows_it_and_calls_another_tool,
    in_code_that_swallows_it_twice_and_calls_another_tool,
    in_code_that_swallows_it_and_returns,
    in_code_that_takes_it_back_and_returns,
    in_code_that_swallows_it_and_awaits_a_little,
    in_code_that_makes_another_exception_of_it,
    in_code_that_raises_another_exception_while_cleaning_up,
    in_a_task_group_whose_child_makes_another_exception_of_it,
    in_a_task_whose_code_swallows_it,
    in_a_task_that_nobody_awaits_and_that_swallows_it,
    in_a_nested_agent_that_swallows_it,
    in_a_tool_that_makes_another_exception_of_it,
    in_a_tool_that_swallows_it,
    in_a_tool_that_calls_tools_and_swallows_it,
    in_a_tool_with_a_time_limit,
    in_a_tool_with_a_time_limit_that_swallows_it,
]


@pytest.mark.parametrize("place", PLACES)
def test_a_run_is_stopped_wherever_it_is_and_goes_on_from_there(
    client: Limpet, place: Callable[[], Awaitable[Any]]
) -> None:
    async def body(state: ExecutionState) -> list[Any]:
        return [await work("before"), await place(), await work("after")]

    async def main() -> None:
        error = await interrupted(client, pipeline(body), "here")
        assert ("s", "requested") == (error.state_id, error.reason)
        task = asyncio.current_task()
        assert task is not None
        assert 0 == task.cancelling()
        await asyncio.sleep(0)

    asyncio.run(main())
    require_interrupted(client)
    assert "here" in cleaned
    assert 1 == executions["before"]
    assert set() == {"after", "swallowed", "swallowed too"} & set(executions)
    assert "failed" not in statuses(client).values()
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert StateStatus.COMPLETED is client.show("s").header.status
    assert {} == client.show("s").header.metadata.stopped
    assert (1, 1) == (executions["before"], executions["after"])


# Plain code: it cannot be stopped inside its thread, but the run does not wait for it, and it gets no further.


def plainly(body: Callable[[], Any]) -> Agent:
    """An agent that is a plain function."""

    def handler(data: Any, context: Any, state: ExecutionState) -> Any:
        states[state.state_id] = state
        return body()

    return Agent(name="pipeline", handler=handler)


def swallowing(body: Callable[[], Any]) -> Any:
    try:
        return body()
    except BaseException:
        return work.call("swallowed")


@agent
def plain_inner() -> str:
    return wait_at.call("here")


@tool
def plain_tool_that_calls() -> str:
    return wait_at.call("here")


PLAIN_PLACES: dict[str, Callable[[], Any]] = {
    "in an async tool": functools.partial(wait_at.call, "here"),
    "in a plain tool": functools.partial(wait_in_thread.call, "here"),
    "in a nested plain agent": plain_inner.call,
    "in a nested async agent": inner.call,
    "in a plain tool that calls a tool": plain_tool_that_calls.call,
    "in an async tool, and swallows it": functools.partial(swallowing, functools.partial(wait_at.call, "here")),
    "in a plain tool, and swallows it": functools.partial(swallowing, functools.partial(wait_in_thread.call, "here")),
    "in a nested plain agent, and swallows it": functools.partial(swallowing, plain_inner.call),
}


@pytest.mark.parametrize("place", PLAIN_PLACES)
def test_a_plain_run_is_stopped_wherever_it_calls_something(client: Limpet, place: str) -> None:
    ended: list[object] = []

    def body() -> list[Any]:
        try:
            return [work.call("before"), PLAIN_PLACES[place](), work.call("after")]
        finally:
            ended.append(place)

    asyncio.run(interrupted(client, plainly(body), "here"))
    require_interrupted(client)
    assert (1, 1) == (executions["before"], executions["here"])
    let_threads_go_on()
    asyncio.run(until_true(lambda: ended))
    assert (0, 0) == (executions["after"], executions["swallowed"])
    completed = {address for address, status in statuses(client).items() if status == "completed"}
    assert {"pipeline::work::tool_call"} == completed
    require_interrupted(client)
    open_all()
    assert ["before", "here", "after"] == client.run_sync(plainly(body), None, state_id="s")
    assert (1, 1) == (executions["before"], executions["after"])


@pytest.mark.parametrize("place", ["a tool", "a gather", "an agent"])
def test_a_plain_function_that_is_given_up_goes_on_in_its_thread_and_is_not_recorded(
    client: Limpet, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    @agent
    def plain_agent() -> str:
        wait_in_thread.function("here")
        return work.call("too late")

    async def body(state: ExecutionState) -> Any:
        if place == "a tool":
            return await wait_in_thread("here")
        if place == "a gather":
            return await asyncio.gather(wait_in_thread("here"), wait_in_thread("there"), return_exceptions=True)
        return await plain_agent()

    asyncio.run(interrupted(client, pipeline(body), "here"))
    require_interrupted(client)
    assert "goes on in its thread: what it gives is not recorded" in caplog.text
    before = statuses(client)
    assert {"interrupted"} == set(before.values())
    let_threads_go_on()
    asyncio.run(until_true(lambda: "here" in cleaned))
    assert before == statuses(client)
    assert 0 == executions["too late"]
    open_all()
    client.run_sync(pipeline(body), None, state_id="s")
    assert 2 == executions["here"]


@tool
async def cleans_up_slowly() -> str:
    try:
        await stay("here")
    finally:
        for _ in range(20):
            await asyncio.sleep(0)
        cleaned.append("slowly")
    return "here"


@pytest.mark.parametrize("is_plain", [False, True])
def test_finally_blocks_have_run_and_no_task_is_left_when_the_run_returns(client: Limpet, is_plain: bool) -> None:
    async def body(state: ExecutionState) -> str:
        return await cleans_up_slowly()

    async def main() -> tuple[list[str], set[Any]]:
        before = asyncio.all_tasks()
        await interrupted(client, plainly(cleans_up_slowly.call) if is_plain else pipeline(body), "here")
        return list(cleaned), {task for task in asyncio.all_tasks() - before if not task.done()}

    assert (["here", "slowly"], set()) == asyncio.run(main())
    assert ["interrupted", "interrupted"] == list(statuses(client).values())
