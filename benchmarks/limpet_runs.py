"""Limpet as a contender: runs of trivial events in a store of their own, timed from ``client.run`` to its result."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
from collections.abc import Callable
from time import perf_counter
from typing import Literal, cast

import apsw
import trials

from limpet import CheckpointPolicy, Limpet, SQLiteStateBackend, agent, tool

Synchronous = Literal["full", "normal"]

WIDTH = 100

executed = 0
at_event: dict[int, Callable[[], None]] = {}
"""What a run does between two events, by the number of events before it."""


@tool
async def step(number: int) -> int:
    global executed
    executed += 1
    return number


@agent
async def many(events: int) -> int:
    """So many events. All values have one length: a record that is longer than an early one is so by our own doing."""
    for number in range(events):
        if number in at_event:
            at_event[number]()
        await step(number % 100)
    if events in at_event:
        at_event[events]()
    return events


@agent
async def many_wide(events: int) -> int:
    """The same, a hundred at once."""
    for first in range(0, events, WIDTH):
        await asyncio.gather(*(step(number % 100) for number in range(first, min(first + WIDTH, events))))
    if events in at_event:
        at_event[events]()
    return events


AGENTS = {"single": many, "wide": many_wide}


def _open(synchronous: str, path: str = "runs.db") -> Limpet:
    return Limpet(SQLiteStateBackend(path, synchronous=cast(Synchronous, synchronous)))


def one_by_policy(steps: str, events: str) -> trials.Answer:
    """The same on a synced disk, saved every so many steps."""
    return one("full", events, CheckpointPolicy("every_n_steps", steps=int(steps)))


def one(synchronous: str, events: str, policy: CheckpointPolicy | None = None) -> trials.Answer:
    """One run of so many events: its rate, and the mean length of a record."""
    client = _open(synchronous)
    client.run_sync(many, 50, state_id="warm")
    count = int(events)

    async def run() -> float:
        began = perf_counter()
        await client.run(many, count, state_id="timed", checkpoint_policy=policy)
        return perf_counter() - began

    seconds = asyncio.run(run())
    bodies = [body for _, body in client.backend.read("timed")]
    return {"rate": count / seconds, "body": sum(map(len, bodies)) / len(bodies)}


def together(synchronous: str, runs: str, events: str) -> trials.Answer:
    """So many runs at once, of so many events each: their rate together."""
    client = _open(synchronous)
    client.run_sync(many, 50, state_id="warm")
    count = int(events)

    async def run() -> float:
        began = perf_counter()
        await asyncio.gather(*(client.run(many, count, state_id=f"timed-{number}") for number in range(int(runs))))
        return perf_counter() - began

    return {"rate": int(runs) * count / asyncio.run(run())}


def wide(synchronous: str, events: str) -> trials.Answer:
    """One run of so many events, a hundred at once: its rate."""
    client = _open(synchronous)
    client.run_sync(many_wide, WIDTH, state_id="warm")
    count = int(events)

    async def run() -> float:
        began = perf_counter()
        await client.run(many_wide, count, state_id="timed")
        return perf_counter() - began

    return {"rate": count / asyncio.run(run())}


def begin(form: str, path: str, events: str) -> None:
    """A run that is killed when all its events are recorded and it has yet to return."""
    at_event[int(events)] = lambda: os.kill(os.getpid(), signal.SIGKILL)
    _open("normal", path).run_sync(AGENTS[form], int(events), state_id="killed")


def go_on(path: str, form: str, events: str) -> trials.Answer:
    """Take the killed run up again: the rate over the whole of ``client.run``, from the claim to the last commit."""
    client = _open("full", path)
    client.run_sync(many, 50, state_id="warm")
    count, before = int(events), executed

    async def run() -> float:
        began = perf_counter()
        await client.run(AGENTS[form], count, state_id="killed")
        return perf_counter() - began

    seconds = asyncio.run(run())
    assert executed == before, "replaying executed something"
    return {"rate": count / seconds, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def growth(early: str, early_end: str, late: str, late_end: str) -> trials.Answer:
    """One long run: seconds and bytes of the store per event, early in it and late.

    Checkpoints fall where SQLite makes them, many in each part. The bytes are the pages that the database has, whether
    they lie in its file or still in the log.
    """
    client = _open("normal")
    # A second reader of the file; it never checkpoints, being open while the writer is.
    reader = apsw.Connection("runs.db", flags=apsw.SQLITE_OPEN_READONLY)
    seen: dict[str, tuple[float, int]] = {}

    def look(mark: str) -> Callable[[], None]:
        def take() -> None:
            seen[mark] = (perf_counter(), reader.pragma("page_count") * reader.pragma("page_size"))

        return take

    marks = {"early": early, "early_end": early_end, "late": late, "late_end": late_end}
    at_event.update({int(number): look(mark) for mark, number in marks.items()})
    client.run_sync(many, int(late_end), state_id="long")
    answer: trials.Answer = {}
    for part, count in (("early", int(early_end) - int(early)), ("late", int(late_end) - int(late))):
        (began, small), (ended, large) = seen[part], seen[f"{part}_end"]
        answer[f"{part}_s"] = (ended - began) / count
        answer[f"{part}_bytes"] = (large - small) / count
    return answer


if __name__ == "__main__":
    trials.answer(
        {
            "one": one,
            "one_by_policy": one_by_policy,
            "together": together,
            "wide": wide,
            "begin": begin,
            "go_on": go_on,
            "growth": growth,
        }
    )
