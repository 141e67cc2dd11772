"""A run that stays inside a tool until a line comes in: ``python leasing_program.py STORE TTL``.

It says ``inside`` when it is there, and at its end prints the result, or the type and text of the error.
"""

from __future__ import annotations

import sys

from limpet import Limpet, LimpetError, agent, tool


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
async def end() -> str:
    return "ended"


@agent
async def leasing() -> list[str]:
    return [await begin(), await wait_for_a_line(), await end()]


if __name__ == "__main__":
    with Limpet(sys.argv[1], lease_ttl_s=float(sys.argv[2])) as limpet:
        try:
            print(limpet.run_sync(leasing, state_id="leased"), flush=True)
        except LimpetError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            sys.exit(4)
