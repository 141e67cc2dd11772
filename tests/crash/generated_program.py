"""Programs that are data: an agent that evaluates a tree of steps, loops, nested agents, branches and caught failures.

    ["step", n]                   a call of a tool
    ["seq", [part, …]]            one after the other
    ["loop", times, part]         the same again and again
    ["nest", part]                inside an agent of its own
    ["fail", part]                inside an agent that fails at its end, and is caught
    ["gather", [part, …]]         concurrently, by asyncio.gather
    ["group", [part, …]]          concurrently, in a TaskGroup
    ["tasks", [part, …]]          concurrently, as created tasks that are awaited in order

Every pause depends on ``timing``, which stands outside the program: no two runs of one program need have the same.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from limpet import agent, tool

Part = list[Any]

timing = random.Random()
executions: Counter[str] = Counter()


async def pause() -> None:
    for _ in range(timing.randrange(4)):
        await asyncio.sleep(0)


@tool
async def step(number: int, where: str) -> int:
    executions[where] += 1
    await pause()
    return number * 2


@agent
async def nest(part: Part, where: str) -> Any:
    return [await evaluate(part, where)]


@agent
async def fail(part: Part, where: str) -> Any:
    result = await evaluate(part, where)
    raise ValueError(str(result))


@agent
async def program(part: Part) -> Any:
    return await evaluate(part, "top")


async def evaluate(part: Part, where: str) -> Any:
    await pause()
    match part:
        case ["step", number]:
            return await step(number, where)
        case ["seq", parts]:
            return [await evaluate(each, f"{where}.{place}") for place, each in enumerate(parts)]
        case ["loop", times, inner]:
            return [await evaluate(inner, f"{where}@{turn}") for turn in range(times)]
        case ["nest", inner]:
            return await nest(inner, f"{where}/")
        case ["fail", inner]:
            return await caught(inner, where)
        case [kind, parts]:
            return await concurrently(kind, [evaluate(each, f"{where}|{place}") for place, each in enumerate(parts)])
        case _:
            raise AssertionError(part)


async def caught(inner: Part, where: str) -> str:
    try:
        return await fail(inner, f"{where}!")
    except ValueError as error:
        return f"caught {error}"


async def concurrently(kind: str, branches: list[Any]) -> list[Any]:
    if kind == "gather":
        return list(await asyncio.gather(*branches))
    if kind == "tasks":
        tasks = [asyncio.create_task(branch) for branch in branches]
        await pause()
        return [await task for task in tasks]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch) for branch in branches]
    return [task.result() for task in tasks]
