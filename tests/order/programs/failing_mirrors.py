"""Failures that are caught and decide the flow: the first mirror that works is used, how often others failed counts."""

from __future__ import annotations

import asyncio

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def fetch(mirror: str, works: bool) -> str:
    await work(mirror)
    if not works:
        raise LookupError(f"{mirror} has nothing")
    return mirror


@tool(once=True, probe=probe_effect)
async def order_copy(name: str) -> str:
    await make_effect(name)
    return f"receipt for {name}"


async def attempt(mirror: str, works: bool, diary: Diary) -> str:
    try:
        found = await fetch(mirror, works)
        diary.decide(f"{found} works")
        return found
    except LookupError as error:
        diary.decide(f"failed: {error}")
        return await fetch(f"{mirror} by the back door, after {len(diary.decisions)}", True)


@agent
async def program() -> list[str]:
    diary = Diary("program")
    mirrors = [("north", False), ("east", True), ("south", False), ("west", True)]
    for coming in asyncio.as_completed([asyncio.create_task(attempt(*mirror, diary)) for mirror in mirrors]):
        diary.decide(f"got {await coming}")
    tried = await asyncio.gather(fetch("moon", False), fetch("sun", False), return_exceptions=True)
    diary.decide(f"gave up after {[str(each) for each in tried]}")
    diary.decide(f"got {await order_copy('copy on paper')}")
    return diary.decisions
