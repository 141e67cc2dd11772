"""The program whose calls fail, hang and are tried again, and which is stopped everywhere.

Every execution is counted by name and attempt in ``executions``, outside any store. Whether a call fails depends only
on which attempt it is: of itself, or (``turn``) of the agent around it. Both are recorded, so a run that was stopped
and taken up again fails where it would have failed. Whoever is in ``watchers`` is told of every execution.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar

from limpet import LLMResult, RetryConfig, agent, current_event, llm, tool
from limpet.errors import EventTimedOut

executions: Counter[tuple[str, int]] = Counter()
watchers: list[Callable[[], None]] = []

turn: ContextVar[int] = ContextVar("turn")
"""The attempt of the agent that is tried again, for what it calls: their own begin with 1 each time."""

QUICKLY = RetryConfig(max_attempts=3, initial_delay=0.0001, jitter=False)
NOT_AT_ALL = RetryConfig(enabled=False)

FOR_EVER_S = 600.0
"""What takes so long has to be cancelled, or the tests would not end."""


def executed(name: str) -> int:
    """Count an execution, and give the number of its attempt."""
    attempt = current_event().attempt
    executions[name, attempt] += 1
    for tell in watchers:
        tell()
    return attempt


@tool(retry_config=QUICKLY)
async def flaky(name: str, works_at: int) -> str:
    attempt = executed(name)
    await asyncio.sleep(0)
    if attempt < works_at:
        raise ConnectionError(f"{name} failed at {attempt}")
    return f"{name} worked at {attempt}"


@tool(retry_config=QUICKLY)
def plain(name: str, works_at: int) -> str:
    attempt = executed(name)
    inner = flaky.call(f"{name}.inner", 2)
    if attempt < works_at:
        raise ConnectionError(f"{name} failed at {attempt}")
    return f"{name} worked at {attempt}, {inner}"


@tool(retry_config=QUICKLY, timeout_s=0.002)
async def hanging(name: str, works_at: int) -> str:
    attempt = executed(name)
    if attempt < works_at:
        await asyncio.sleep(FOR_EVER_S)
    return f"{name} worked at {attempt}"


@tool(retry_config=QUICKLY, total_timeout_s=0.002)
async def too_long(name: str) -> str:
    executed(name)
    await asyncio.sleep(FOR_EVER_S)
    return name


@tool(retry_config=QUICKLY, timeout_s=FOR_EVER_S, total_timeout_s=FOR_EVER_S)
async def in_time(name: str, works_at: int) -> str:
    attempt = executed(name)
    if attempt < works_at:
        raise ConnectionError(f"{name} failed at {attempt}")
    return f"{name} worked at {attempt}"


@llm(retry_config=QUICKLY)
async def think(name: str, parts: list[str]) -> LLMResult:
    attempt = executed(name)
    if attempt < 2:
        raise TimeoutError(name)
    return LLMResult(" and ".join(parts), 100 * attempt, "kelp-1", 0.25)


@tool(retry_config=NOT_AT_ALL)
async def fails_the_first_turn(name: str) -> str:
    executed(name)
    await asyncio.sleep(0)
    if turn.get() == 1:
        raise ConnectionError(f"{name} failed in turn 1")
    return f"{name} worked in turn {turn.get()}"


@tool
async def hangs_the_first_turn(name: str) -> str:
    """Under way whenever the call beside it fails, and cut off with it."""
    executed(name)
    await asyncio.sleep(FOR_EVER_S if turn.get() == 1 else 0)
    return f"{name} worked in turn {turn.get()}"


@agent(retry_config=QUICKLY)
async def tried_again(name: str, is_grouped: bool) -> list[str]:
    turn.set(executed(name))
    first = await give_up(f"{name}.first") if is_grouped else await flaky(f"{name}.first", 2)
    calls = (fails_the_first_turn(f"{name}.fails"), hangs_the_first_turn(f"{name}.hangs"))
    if not is_grouped:
        return [first, *await asyncio.gather(*calls)]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(call) for call in calls]
    return [first, *(task.result() for task in tasks)]


async def give_up(name: str) -> str:
    try:
        return await flaky(name, 99)
    except ConnectionError as error:
        return str(error)


async def chain(name: str) -> list[str]:
    return [await flaky(f"{name}.{number}", 2 - number) for number in range(2)]


async def out_of_time(name: str) -> str:
    try:
        return await too_long(name)
    except EventTimedOut as error:
        return type(error).__name__


@agent
async def attempts(name: str) -> dict[str, object]:
    executed(name)
    third = await flaky("third", 3)
    given_up = await give_up("given up")
    hung = await hanging("hanging", 2)
    gathered = await asyncio.gather(
        chain("chain"), flaky("direct", 2), tried_again("gathered", False), out_of_time("too long")
    )
    async with asyncio.TaskGroup() as group:
        limited = group.create_task(hanging("limited", 2))
        nested = group.create_task(tried_again("grouped", True))
        in_good_time = group.create_task(in_time("in time", 2))
    return {
        "one by one": [third, given_up, hung],
        "gathered": gathered,
        "grouped": [limited.result(), nested.result(), in_good_time.result()],
        "plain": await plain("plain", 2),
        "thought": await think("think", [third, hung]),
    }


MOST = {"attempts": 1, "gathered": 2, "grouped": 2, "too long": 1, "think": 2, "third": 3, "given up": 3}
"""The number of the last attempt of some."""

ALONE = ("third", "given up", "hanging", "plain.inner", "think")
"""The calls beside and inside which nothing else is ever under way."""
