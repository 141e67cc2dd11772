"""Async generators that a reader leaves by ``break``: who closes them cancels what is still asked for, and pays."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def poll(feed: str) -> str:
    await work(feed)
    return feed


@tool(once=True, probe=probe_effect)
async def pay(bill: str) -> str:
    await make_effect(bill)
    return f"receipt for {bill}"


async def read(feed: str) -> AsyncIterator[str]:
    for number in range(5):
        yield await poll(f"{feed}, item {number}")


async def merge(diary: Diary, month: str) -> AsyncIterator[str]:
    feeds = [read(f"{name} in {month}") for name in ("news", "radio", "weather")]
    asked = {asyncio.ensure_future(anext(feed)): feed for feed in feeds}
    try:
        while asked:
            done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            for item in done:
                feed = asked.pop(item)
                asked[asyncio.ensure_future(anext(feed))] = feed
                yield item.result()
    finally:
        for item in asked:
            item.cancel()
        await asyncio.gather(*asked, return_exceptions=True)
        diary.decide(f"got {await pay(f'all feeds in {month}')}")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for month in ("May", "June"):
        count = 0
        async for item in merge(diary, month):
            diary.decide(f"got {item}")
            count += 1
            if count == 4:
                break
        for number in range(3):
            diary.decide(f"got {await poll(f'archive {number} of {month}')}")
    while sum("receipt" in each for each in diary.decisions) < 2:
        await asyncio.sleep(0)
    return diary.decisions
