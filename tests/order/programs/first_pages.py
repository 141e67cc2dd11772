"""``as_completed`` over calls: pages are summarised in the order in which they come, each with the one before."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, llm, tool


@tool
async def fetch(page: str) -> str:
    await work(page)
    return page


@llm
async def summarise(summary: str) -> str:
    await work(summary, 0.5)
    return summary


@agent
async def program() -> list[str]:
    diary, before = Diary("program"), "nothing"
    for coming in asyncio.as_completed([fetch(f"page-{number}") for number in range(5)]):
        page = await coming
        diary.decide(f"got {page}")
        diary.decide(f"got {await summarise(f'{page} after {before}')}")
        before = page
    return diary.decisions
