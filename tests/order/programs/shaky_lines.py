"""Calls that fail at their first attempt and are retried, in races that their attempts decide."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import RetryConfig, agent, current_event, tool

AGAIN = RetryConfig(max_attempts=3, initial_delay=0.001, jitter=False)


@tool(retry_config=AGAIN)
async def dial(number: str) -> str:
    await work(number, 1)
    if current_event().attempt == 1 and number.endswith(("0", "2", "5")):
        raise ConnectionError(f"{number} is busy")
    return number


@tool(retry_config=AGAIN)
async def note(line: str) -> str:
    await work(line, 0.5)
    if current_event().attempt == 1:
        raise ConnectionError("the disk is busy")
    return line


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for first in (0, 3):
        tasks = [asyncio.create_task(dial(f"line {number}")) for number in range(first, first + 3)]
        done, others = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        winner = [task.result() for task in done]
        diary.decide(f"{winner} came first")
        diary.decide(f"got {await note(f'first was {winner}')}")
        for coming in asyncio.as_completed(others):
            diary.decide(f"then {await coming}")
    return diary.decisions
