"""A pipeline that waits for everything there is: two people, a time and a message, side by side.

As a program, one process goes as far as it can get: ``waiting_program.py STORE LOG`` prints its result, or for what it
waits.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from limpet import Awaiting, Limpet, agent, ask, sleep, tool, wait_for_message

STATE = "waits"
EXPECTED = ["left yes", "right 3", "rested", "got news", "done"]

note: Callable[[str], object]
"""Takes note of an execution."""

rest = timedelta(hours=1)


@tool
async def step(name: str) -> str:
    note(name)
    return name


async def _left() -> str:
    return await step(f"left {'yes' if await ask('Left?', bool, key='left') else 'no'}")


async def _right() -> str:
    return await step(f"right {await ask('Right?', int, key='right')}")


async def _rest() -> str:
    await sleep(rest)
    return await step("rested")


async def _news() -> str:
    return await step(f"got {await wait_for_message('news', str)}")


@agent
async def waiting() -> list[str]:
    await step("begun")
    found = await asyncio.gather(_left(), _right(), _rest(), _news())
    return [*found, await step("done")]


SAY: dict[str, Callable[[Limpet], object]] = {
    "left": lambda client: client.answer(STATE, True, address="ask[left]"),
    "right": lambda client: client.answer(STATE, 3, address="ask[right]"),
    "news": lambda client: client.send(STATE, "news", "news", key="one"),
}
"""What others tell the run; each may be told again."""


def main(store: str, log: str) -> None:
    global note, rest
    rest = timedelta(seconds=0.2)

    def append(name: str) -> None:
        with Path(log).open("a") as file:
            file.write(f"{name}\n")

    note = append
    with Limpet(store) as limpet:
        try:
            found: Any = limpet.run_sync(waiting, state_id=STATE, patience_s=0)
        except Awaiting as awaiting:
            found = type(awaiting).__name__
    print(found)


if __name__ == "__main__":
    main(*sys.argv[1:])
