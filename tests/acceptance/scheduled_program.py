"""A supervisor whose schedule is in the configuration: ``scheduled_program.py STORE``.

It begins when a line comes in, says of each cleanup how many states it deleted, and ends with the next line. With
``--dies`` it is killed as soon as its cleanup has begun to delete.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from limpet import CleanupRun, Limpet
from limpet.engine.cleaning import Cleaning


def say(line: str) -> None:
    print(line, flush=True)


def die(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(store: str) -> None:
    with Limpet(store) as client:
        say("ready")
        sys.stdin.readline()
        stop = asyncio.Event()
        told = asyncio.create_task(asyncio.to_thread(sys.stdin.readline))
        told.add_done_callback(lambda _: stop.set())

        def on_cleanup(run: CleanupRun) -> None:
            say(f"{run.removed} {run.error}")

        await client.serve(stop=stop, on_cleanup=on_cleanup)


if __name__ == "__main__":
    if "--dies" in sys.argv:
        Cleaning.carry_out = die  # type: ignore[method-assign, assignment]  # that is the point
    asyncio.run(main(sys.argv[1]))
