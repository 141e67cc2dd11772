"""A fork that stays inside a tool until a line comes in: ``python forking_program.py STORE STATE_ID``.

It says ``inside`` when it is there, and at its end prints the result.
"""

from __future__ import annotations

import asyncio
import sys

from limpet import Limpet, agent, tool


@tool
async def begin() -> str:
    return "begun"


@tool
def wait_for_a_line() -> str:
    if __name__ != "__main__":
        return "elsewhere"
    print("inside", flush=True)
    return sys.stdin.readline().strip()


@tool
async def end(said: str) -> str:
    return f"ended after {said}"


@agent
async def forking() -> list[str]:
    said = [await begin(), await wait_for_a_line()]
    return [*said, *[await end(f"{said[1]} {number}") for number in range(20)]]


if __name__ == "__main__":
    with Limpet(sys.argv[1]) as limpet:
        print(asyncio.run(limpet.resume(sys.argv[2], agent=forking)), flush=True)
