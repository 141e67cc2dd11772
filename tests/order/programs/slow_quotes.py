"""``asyncio.timeout`` around a slow call, with a fallback that is paid for (``once``)."""

from __future__ import annotations

import asyncio

from order.outside import MOMENT_S, Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def ask_friend(name: str) -> str:
    await work(name)
    return f"answer of {name}"


@tool(once=True, probe=probe_effect)
async def ask_lawyer(name: str) -> str:
    await make_effect(name)
    return f"receipt for {name}"


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for number in range(5):
        try:
            async with asyncio.timeout(MOMENT_S):
                answer = await ask_friend(f"friend-{number}")
                diary.decide(f"got {answer}")
        except TimeoutError:
            diary.decide_perhaps(f"friend-{number} took too long")
            diary.decide(f"got {await ask_lawyer(f'lawyer-{number}')}")
    return diary.decisions
