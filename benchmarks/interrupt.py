"""How long it takes until a run has stopped that another process wants to stop.

A run of 1,000 tools that wait is told so through the store, by a process of its own. The time is taken from the word to
the end of the run, with 1,000 records of what was cut off and the checkpoint. The same run, cancelled by its own
process, shows what of that is the way through the store.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from statistics import median
from time import time

import trials
from findings import AT_MOST, Finding

from limpet import ExecutionInterrupted, Limpet, StateStatus, agent, tool

ROUNDS = 5
WAITS = 1000
BAR_MS = 1000
TELLING = """
from time import time
from limpet import Limpet
with Limpet("sqlite:///runs.db") as client:
    print(time(), client.interrupt("waiting", by="another process"))
"""


def measure() -> list[Finding]:
    answers = trials.take_turns(ROUNDS, {"told": ("interrupt", "told"), "alone": ("interrupt", "alone")})
    gaps, alone = ([answer["ms"] for answer in answers[name]] for name in ("told", "alone"))
    detail = f"{WAITS} waits; cancelled by its own process {median(alone):.0f} ms"
    return [
        Finding(
            name="interrupt from another process", ratios=gaps, direction=AT_MOST, bar=BAR_MS, detail=detail, unit="ms"
        )
    ]


@tool
async def wait(number: int) -> int:
    await asyncio.sleep(3600)
    return number


@agent
async def waiting() -> None:
    await asyncio.gather(*(wait(number) for number in range(WAITS)))


async def _stopped(is_told: bool) -> float:
    """How many seconds it takes from the word to the end."""
    with Limpet("sqlite:///runs.db") as client:
        run = asyncio.create_task(client.run(waiting, state_id="waiting"))
        # All of them wait by then, and those who keep leases have begun to listen.
        await asyncio.sleep(0.5)
        word = asyncio.create_task(asyncio.to_thread(_tell)) if is_told else None
        told_at = time()
        if word is None:
            run.cancel()
        try:
            await run
        except (ExecutionInterrupted, asyncio.CancelledError):
            ended_at = time()
        else:
            raise AssertionError("the run ended by itself")
        assert StateStatus.INTERRUPTED is client.show("waiting").header.status
        return ended_at - (told_at if word is None else await word)


def _tell() -> float:
    """When another process has said that the run is to stop."""
    said_at, is_held = subprocess.check_output([sys.executable, "-c", TELLING], text=True).split()
    assert is_held == "True"
    return float(said_at)


def told() -> trials.Answer:
    """Told by another process."""
    return {"ms": asyncio.run(_stopped(True)) * 1e3}


def alone() -> trials.Answer:
    """Cancelled by its own process."""
    return {"ms": asyncio.run(_stopped(False)) * 1e3}


if __name__ == "__main__":
    trials.answer({"told": told, "alone": alone})
