"""The program that is stopped everywhere: sequence, loop, nested agents, plain functions, branches, caught failures.

Every execution is counted by address in ``executions``, outside any store.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from limpet import agent, llm, tool

executions: Counter[str] = Counter()


@tool
async def step(name: str, value: int) -> int:
    executions[name] += 1
    await asyncio.sleep(0)
    return value + 1


@tool
async def fragile(name: str) -> int:
    executions[name] += 1
    raise LookupError(name)


@llm
async def think(name: str, parts: list[int]) -> dict[str, int]:
    executions[name] += 1
    return {"sum": sum(parts), "count": len(parts)}


@tool
def plain(name: str, value: int) -> int:
    executions[name] += 1
    return step.call(f"{name}.inner", value) * 10


@agent
async def inner(name: str, value: int) -> list[int]:
    executions[name] += 1
    first = await step(f"{name}.first", value)
    return [first, await step(f"{name}.second", first)]


async def chain(name: str, pauses: int) -> list[int]:
    found: list[int] = []
    for number in range(2):
        for _ in range(pauses):
            await asyncio.sleep(0)
        found.append(await step(f"{name}.{number}", number))
    return found


@agent
async def everything(start: int) -> dict[str, object]:
    executions["everything"] += 1
    looped = [await step(f"loop.{number}", start + number) for number in range(3)]
    nested = await inner("inner", looped[-1])
    try:
        caught = await fragile("fragile")
    except LookupError as error:
        caught = len(str(error))
    gathered = await asyncio.gather(chain("g1", 3), step("direct", 7), chain("g2", 1))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(chain("t1", 2)), group.create_task(inner("inner2", 40))]
    created = asyncio.create_task(chain("c1", 1))
    threaded = await plain("plain", 5)
    thought = await think("think", looped)
    return {
        "looped": looped,
        "nested": nested,
        "caught": caught,
        "gathered": gathered,
        "grouped": [task.result() for task in tasks],
        "created": await created,
        "threaded": threaded,
        "thought": thought,
    }
