"""A run that others stop: ``python interrupted_program.py STORE AGENT [signals] [open]``.

It says ``inside`` when it is there, names every tool that it executes, and at its end prints the result, or the type
and text of the error. With ``open`` nothing waits. With ``signals`` SIGINT and SIGTERM stop the run.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from limpet import Limpet, LimpetError, agent, tool

FINISHED, WAITING = 50, 1000
is_open = "open" in sys.argv
ticks = 0


def say(text: str) -> None:
    print(text, flush=True)


@tool
async def step(name: str) -> str:
    say(f"executed {name}")
    return name


@tool
async def hold(name: str) -> str:
    say(f"executed {name}")
    if not is_open:
        say("inside")
        await asyncio.sleep(3600)
    return name


@agent
async def waiting() -> list[str]:
    return [await step("first"), await hold("second"), await step("third")]


@tool
async def hold_quietly(number: int) -> int:
    if not is_open:
        await asyncio.sleep(3600)
    return number


@agent
async def crowd() -> int:
    done = await asyncio.gather(*(step(str(number)) for number in range(FINISHED)))
    tasks = [asyncio.create_task(hold_quietly(number)) for number in range(WAITING)]
    await asyncio.sleep(0)
    if not is_open:
        say("inside")
    return len(done) + len(await asyncio.gather(*tasks))


@tool
async def tick() -> None:
    global ticks
    ticks += 1


@tool
async def end_when_nothing_begins(name: str) -> str:
    """Is in flight until the calls beside it do not begin any more."""
    say(f"executed {name}")
    if not is_open:
        say("inside")
        before = -1
        while before != ticks:
            before = ticks
            await asyncio.sleep(1)
    return name


async def ticking() -> None:
    while not is_open:
        await tick()
        await asyncio.sleep(0.01)


@agent
async def finishing() -> list[str]:
    beside = asyncio.create_task(ticking())
    found = [await end_when_nothing_begins("first"), await step("second")]
    await beside
    return found


async def both(limpet: Limpet, **options: Any) -> list[object]:
    runs = [limpet.run(waiting, state_id=state_id, **options) for state_id in ("one", "two")]
    return await asyncio.gather(*runs, return_exceptions=True)


if __name__ == "__main__":
    store, name, *how = sys.argv[1:]
    options = {"handle_signals": "signals" in how}
    with Limpet(store) as client:
        try:
            if name == "both":
                say(str([type(each).__name__ for each in asyncio.run(both(client, **options))]))
            else:
                say(str(client.run_sync(globals()[name], state_id="s", **options)))
        except LimpetError as error:
            say(f"{type(error).__name__}: {error}")
            sys.exit(4)
        except KeyboardInterrupt:
            say("KeyboardInterrupt")
            sys.exit(5)
