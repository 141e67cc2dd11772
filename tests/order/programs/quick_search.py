"""``asyncio.wait`` with a timeout and without cancelling: an agent ends, and leaves calls behind that are under way."""

from __future__ import annotations

import asyncio

from order.outside import MOMENT_S, Diary, work

from limpet import agent, tool


@tool
async def search(index: str) -> str:
    await work(index)
    return index


@tool
async def publish(what: str) -> str:
    await work(what, 1.5)
    return what


async def search_twice(index: str) -> str:
    return await search(f"{await search(index)}, deeper")


async def quickly(name: str, diary: Diary) -> None:
    tasks = {index: asyncio.create_task(search_twice(f"{name}, {index}")) for index in ("names", "texts", "places")}
    done, _ = await asyncio.wait(tasks.values(), timeout=1.5 * MOMENT_S)
    diary.decide_perhaps(f"there in time: {[index for index, task in tasks.items() if task in done]}")


@agent
async def helper(name: str) -> list[str]:
    diary = Diary(name)
    await quickly(name, diary)
    diary.decide(f"got {await publish(f'{name}: {diary.decisions}')}")
    await quickly(f"{name} again", diary)
    return list(diary.decisions)


@agent
async def program() -> list[str]:
    diary = Diary("program")
    diary.decide(f"got {await helper('helper')}")
    await quickly("program", diary)
    diary.decide(f"got {await publish(f'{diary.decisions[-1]}')}")
    await quickly("program, at the end", diary)
    return list(diary.decisions)
