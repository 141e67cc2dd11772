"""``async for`` over ``as_completed``, which gives the very tasks (Python 3.13 and newer)."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from order.outside import Diary, work

from limpet import agent, tool


@tool
async def fetch(page: str) -> str:
    await work(page)
    return page


@tool
async def follow(link: str) -> str:
    await work(link, 0.5)
    return link


@agent
async def program() -> list[str]:
    diary = Diary("program")
    tasks = {asyncio.create_task(fetch(f"page-{number}")): number for number in range(4)}
    async for task in cast("Any", asyncio.as_completed(tasks)):
        diary.decide(f"task {tasks[task]} gave {task.result()}")
        diary.decide(f"got {await follow(f'link {len(diary.decisions)} on {task.result()}')}")
    return diary.decisions
