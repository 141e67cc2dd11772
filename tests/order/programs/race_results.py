"""Callbacks in order of completion: they append to a list, and what stands first in it is announced."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, tool


@tool
async def sail(boat: str) -> str:
    await work(boat)
    return boat


@tool
async def announce(message: str) -> str:
    await work(message)
    return message


async def leg(boat: str) -> str:
    return await sail(f"{await sail(f'{boat} out')}, {boat} home")


@agent
async def program() -> list[str]:
    diary, arrived = Diary("program"), list[str]()

    def arrive(task: asyncio.Task[str]) -> None:
        arrived.append(task.get_name())
        diary.decide(f"{task.get_name()} arrives as number {len(arrived)}")

    tasks = [asyncio.create_task(leg(boat), name=boat) for boat in ("gull", "heron", "ibis", "jay")]
    for task in tasks:
        task.add_done_callback(arrive)
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    diary.decide(f"got {await announce(f'{arrived[0]} wins, {arrived[-1]} is last')}")
    return diary.decisions
