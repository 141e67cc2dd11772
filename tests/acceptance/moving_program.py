"""One small run after the other, with forks and deletions, until a line comes in: ``python moving_program.py STORE``.

It says ``under way`` after ten of them, and at its end how many there were.
"""

from __future__ import annotations

import select
import sys
from collections import Counter

from limpet import Limpet, agent, tool

executed: Counter[str] = Counter()


@tool
async def haul(net: int) -> str:
    executed[f"haul {net}"] += 1
    return f"haul {net}"


@tool
async def weigh(hauls: list[str]) -> str:
    executed["weigh"] += 1
    # Large enough for an artifact.
    return " and ".join(hauls) * 1000


@agent
async def fishing(nets: int) -> int:
    return len(await weigh([await haul(net) for net in range(nets)]))


if __name__ == "__main__":
    with Limpet(sys.argv[1]) as client:
        number = 0
        while not select.select([sys.stdin], [], [], 0)[0]:
            number += 1
            client.run_sync(fishing, 5, state_id=f"trip-{number}")
            if number % 5 == 0:
                client.fork(f"trip-{number}", "haul#3", new_state_id=f"again-{number}")
            if number % 10 == 0:
                client.delete(f"trip-{number}")
            if number == 10:
                print("under way", flush=True)
        print(number, flush=True)
