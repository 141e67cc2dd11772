"""What states that wait cost a supervisor, and how soon an answer goes on with its run.

The answers come through the store, from another connection to it than the supervisor has, as from another process. The
time is taken from before the answer is given to the end of the run, which is one more call.
"""

from __future__ import annotations

import asyncio
import resource
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import trials
from findings import AT_MOST, Finding

from limpet import Awaiting, Limpet, Served, agent, ask, tool

ROUNDS = 3
FEW, MANY = 100, 10_000
ANSWERS = 50
BAR_KB = 1.0
BAR_MS = 100.0


def measure() -> list[Finding]:
    folder = Path(tempfile.mkdtemp(prefix="bench-serving-"))
    try:
        stores = {}
        for name, count in (("few", FEW), ("many", MANY)):
            stores[name] = folder / name / "runs.db"
            stores[name].parent.mkdir()
            trials.ask(("serving", "fill", str(stores[name]), str(count)))
        answers = trials.take_turns(ROUNDS, {"few": ("serving", "serve"), "many": ("serving", "serve")}, stores=stores)
    finally:
        shutil.rmtree(folder)
    few, many = answers["few"], answers["many"]
    each = [(more["kb"] - less["kb"]) / (MANY - FEW) for less, more in zip(few, many, strict=True)]
    times = [answer["ms"] for answer in many]
    peaks = f"{median(answer['kb'] for answer in many) / 1000:.0f} MB for {MANY:,} states"
    return [
        Finding(
            name="serve: memory for each state that waits",
            ratios=each,
            direction=AT_MOST,
            bar=BAR_KB,
            detail=peaks,
            unit="kB",
        ),
        Finding(
            name="serve: from an answer to the end",
            ratios=times,
            direction=AT_MOST,
            bar=BAR_MS,
            detail=f"the median of {ANSWERS} among {MANY:,} states that wait",
            unit="ms",
        ),
    ]


@tool
async def step(said: bool) -> bool:
    return said


@agent
async def asks() -> bool:
    return await step(await ask("Sure?", bool))


def fill(path: str, count: str) -> trials.Answer:
    """Make a store with so many states that wait for an answer."""

    async def main() -> None:
        with Limpet(f"sqlite:///{path}?synchronous=normal") as client:
            for first in range(0, int(count), 100):
                runs = (client.run(asks, state_id=f"s{number}") for number in range(first, first + 100))
                for error in await asyncio.gather(*runs, return_exceptions=True):
                    assert isinstance(error, Awaiting)

    asyncio.run(main())
    return {}


def serve(path: str) -> trials.Answer:
    """Serve the store, and answer some: the peak of memory, and the median of the times."""

    async def main() -> trials.Answer:
        times: list[float] = []
        stop, ended = asyncio.Event(), asyncio.Event()

        def on_served(served: Served) -> None:
            assert served.result is True
            ended.set()

        with Limpet(f"sqlite:///{path}") as client, Limpet(f"sqlite:///{path}") as other:
            serving = asyncio.create_task(client.serve(stop=stop, on_served=on_served))
            await asyncio.sleep(2)
            for number in range(ANSWERS):
                ended.clear()
                began = perf_counter()
                await asyncio.to_thread(other.answer, f"s{number}", True)
                await ended.wait()
                times.append(perf_counter() - began)
            stop.set()
            await serving
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1000 if sys.platform == "darwin" else 1)
        return {"kb": peak * 1.024, "ms": median(times) * 1e3}

    return asyncio.run(main())


if __name__ == "__main__":
    trials.answer({"fill": fill, "serve": serve})
