"""A race of two sleeps and a call, again and again: what comes first decides what is written down."""

from __future__ import annotations

import asyncio

from order.outside import MOMENT_S, Diary, work

from limpet import agent, tool


@tool
async def knock(door: str) -> str:
    await work(door, 3)
    return door


@tool
async def write_down(line: str) -> str:
    await work(line, 0.5)
    return line


async def ring(after_s: float) -> str:
    await asyncio.sleep(after_s)
    return "the alarm"


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for door in ("front door", "back door"):
        waiting = {
            asyncio.create_task(ring(MOMENT_S), name="short"),
            asyncio.create_task(ring(2 * MOMENT_S), name="long"),
            asyncio.create_task(knock(door), name="call"),
        }
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            names = sorted(task.get_name() for task in done)
            diary.decide_perhaps(f"{door}: {names} came")
            diary.decide(f"got {await write_down(f'{door}, {len(waiting)} left after {names}')}")
    return diary.decisions
