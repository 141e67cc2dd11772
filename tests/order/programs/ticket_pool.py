"""A worker pool on an ``asyncio.Queue`` with unkeyed calls; every second ticket that is solved opens another one."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, tool


@tool
async def read(ticket: str) -> str:
    await work(ticket)
    return ticket


@tool
def solve(ticket: str) -> str:
    return f"{ticket} is solved"


async def worker(number: int, tickets: asyncio.Queue[str], diary: Diary) -> None:
    while True:
        ticket = await tickets.get()
        diary.decide(f"worker {number} takes {await read(ticket)}")
        diary.decide(f"worker {number}: {await solve(ticket)}")
        if len(diary.decisions) % 4 == 2 and len(ticket) < 12:
            tickets.put_nowait(f"{ticket}, again")
        tickets.task_done()


@agent
async def program() -> list[str]:
    diary = Diary("program")
    tickets: asyncio.Queue[str] = asyncio.Queue()
    for number in range(6):
        tickets.put_nowait(f"ticket-{number}")
    async with asyncio.TaskGroup() as group:
        workers = [group.create_task(worker(number, tickets, diary)) for number in range(3)]
        await tickets.join()
        for each in workers:
            each.cancel()
    return diary.decisions
