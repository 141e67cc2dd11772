"""``wait_for`` in a loop that asks again, and in the end takes what is at hand."""

from __future__ import annotations

import asyncio

from order.outside import MOMENT_S, Diary, work

from limpet import agent, tool


@tool
async def quote(name: str) -> str:
    await work(name)
    return name


@tool
async def look_up(name: str) -> str:
    await work(name, 0.5)
    return name


async def patiently(share: str, diary: Diary) -> str:
    for turn in range(3):
        try:
            return await asyncio.wait_for(quote(f"{share}, turn {turn}"), MOMENT_S)
        except TimeoutError:
            diary.decide_perhaps(f"{share}: turn {turn} took too long")
    return await look_up(f"{share} of yesterday")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    diary.decide(f"got {await patiently('kelp', diary)}")
    both = await asyncio.gather(patiently("wrack", diary), patiently("dulse", diary))
    diary.decide(f"got {both}")
    return diary.decisions
