"""Runs states that stay, and runs again states that a cleanup deletes meanwhile.

``cleaned_program.py STORE NAME FIRST COUNT``, where FIRST is the first of the others. It begins when a line
comes in, and prints a line for each state that did not end as it should.
"""

from __future__ import annotations

import sys

from limpet import Limpet, StateMetadata, agent, tool


@tool
async def step(number: int) -> int:
    return number + 1


@agent
async def climb(steps: int) -> int:
    reached = 0
    for _ in range(steps):
        reached = await step(reached)
    return reached


def main(store: str, name: str, first: str, count: str) -> None:
    with Limpet(store) as limpet:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(count)):
            new = limpet.run_sync(
                climb, 5, state_id=f"{name}-{number}", metadata=StateMetadata(tags=["new"], pipeline_name="climb")
            )
            # Recorded, or gone and begun anew: the result is the same.
            old = limpet.run_sync(climb, 3, state_id=f"old-{int(first) + number}", metadata=StateMetadata(tags=["old"]))
            if (5, 3) != (new, old):
                print(f"{name}-{number}: {new}, {old}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
