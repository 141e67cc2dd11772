"""Agents inside agents, two side by side, each of which goes by what ends first."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, llm


@llm
async def think(about: str) -> str:
    await work(about)
    return about


@agent
async def clerk(name: str) -> list[str]:
    diary = Diary(name)
    for coming in asyncio.as_completed([asyncio.create_task(think(f"{name}, {topic}")) for topic in ("cost", "risk")]):
        diary.decide(f"got {await coming}")
    diary.decide(f"got {await think(f'{name}: sum of {diary.decisions}')}")
    return diary.decisions


async def hand_out(cases: asyncio.Queue[str], name: str, diary: Diary) -> None:
    while not cases.empty():
        case = cases.get_nowait()
        found = await clerk(f"{name}, {case}")
        diary.decide(f"{case}: {found[-1]}")


@agent
async def desk(name: str) -> list[str]:
    diary = Diary(name)
    cases: asyncio.Queue[str] = asyncio.Queue()
    for number in range(3):
        cases.put_nowait(f"case {number}")
    await asyncio.gather(hand_out(cases, name, diary), hand_out(cases, name, diary))
    return diary.decisions


@agent
async def program() -> list[str]:
    diary = Diary("program")
    waiting = {asyncio.create_task(desk(f"desk {side}")) for side in ("left", "right")}
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            diary.decide(f"{len(waiting)} left: {task.result()[0]}")
            diary.decide(f"got {await think(f'what {task.result()[-1]} means')}")
    return diary.decisions
