"""The program that is killed at the innermost of many nested calls: ``python deep_program.py STORE LOG DEPTH``.

It kills itself the first time that it comes there. Run again, it prints the result.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from limpet import Limpet, agent, tool


@tool
def note(number: int) -> int:
    with Path(sys.argv[2]).open("a") as log:
        log.write(f"{number}\n")
    return number


@tool
def innermost() -> int:
    if not (log := Path(f"{sys.argv[2]}.killed")).exists():
        log.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return 0


@agent
async def down(depth: int) -> int:
    if depth == 0:
        return await innermost()
    if depth % 50 == 0:
        await note(depth)
    return 1 + await down(depth - 1)


if __name__ == "__main__":
    with Limpet(sys.argv[1]) as client:
        print(client.run_sync(down, int(sys.argv[3]), state_id="deep"))
