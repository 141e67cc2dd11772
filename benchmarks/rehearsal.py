"""Rehearsing a thousand stored runs, against running the same programs without Limpet.

A real tool waits for something at least once, so the measure is a program whose tools give the event loop one turn.
Against tools that await nothing the comparison is with a loop of function calls; it has a line of its own.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import trials
from findings import Finding, at_most

from limpet import Limpet, RehearsalReport, SQLiteStateBackend, agent, tool

ROUNDS = 5
STATES = 1000
EVENTS = 100

executed = 0


async def bare_wait(number: int) -> int:
    global executed
    executed += 1
    await asyncio.sleep(0)
    return number


async def bare_step(number: int) -> int:
    global executed
    executed += 1
    return number


async def bare_waits(events: int) -> int:
    total = 0
    for number in range(events):
        total += await bare_wait(number)
    return total


async def bare_steps(events: int) -> int:
    total = 0
    for number in range(events):
        total += await bare_step(number)
    return total


wait = tool(name="wait")(bare_wait)
step = tool(name="step")(bare_step)


@agent
async def waits(events: int) -> int:
    total = 0
    for number in range(events):
        total += await wait(number)
    return total


@agent
async def steps(events: int) -> int:
    total = 0
    for number in range(events):
        total += await step(number)
    return total


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-rehearsal-") as folder:
        return [
            _finding(folder, "waits", "rehearsal / the bare awaits"),
            _finding(folder, "steps", "the same, with tools that await nothing"),
        ]


def _finding(folder: str, program: str, title: str) -> Finding:
    path = str(Path(folder) / f"{program}.db")
    trials.ask(("rehearsal", "make", path, program))
    trials.say(".")
    answers = trials.take_turns(
        ROUNDS, {"ours": ("rehearsal", "rehearse", path, program), "bare": ("rehearsal", "bare", program)}
    )
    ours, bare = ([answer["seconds"] for answer in answers[name]] for name in ("ours", "bare"))
    each = [f"{median(seconds) / STATES / EVENTS * 1e6:.2f} µs" for seconds in (ours, bare)]
    detail = f"{median(ours):.2f} s to {median(bare):.2f} s, {' to '.join(each)} an event; {STATES:,} runs of {EVENTS}"
    return at_most(title, 15, ours, bare, detail)


def make(path: str, program: str) -> trials.Answer:
    """A store with the finished runs."""
    actor = waits if program == "waits" else steps

    async def run(client: Limpet) -> None:
        for number in range(STATES):
            await client.run(actor, EVENTS, state_id=f"stored-{number}")

    with SQLiteStateBackend(path, synchronous="normal") as backend:
        asyncio.run(run(Limpet(backend)))
    assert executed == STATES * EVENTS
    return {}


def rehearse(path: str, program: str) -> trials.Answer:
    """All of them against the code, which has not changed."""
    actor = waits if program == "waits" else steps
    client = Limpet(SQLiteStateBackend(path))
    headers = client.list_states(limit=STATES)

    async def run() -> float:
        await client.rehearse(headers[:10], agent=actor)
        began = perf_counter()
        checked = await client.rehearse(headers, agent=actor)
        seconds = perf_counter() - began
        reports = [report for report in checked.reports.values() if isinstance(report, RehearsalReport)]
        assert len(reports) == STATES
        assert all(report.is_ok for report in reports), "Something is said to have drifted."
        assert {len(report.calls) for report in reports} == {EVENTS + 1}
        return seconds

    seconds = asyncio.run(run())
    assert executed == 0, "A tool was executed."
    return {"seconds": seconds}


def bare(program: str) -> trials.Answer:
    """The same programs, awaited one after the other."""
    function: Callable[[int], Awaitable[int]] = bare_waits if program == "waits" else bare_steps

    async def run() -> float:
        for _ in range(10):
            await function(EVENTS)
        began = perf_counter()
        for _ in range(STATES):
            await function(EVENTS)
        return perf_counter() - began

    seconds = asyncio.run(run())
    assert executed == (STATES + 10) * EVENTS
    return {"seconds": seconds}


if __name__ == "__main__":
    trials.answer({"make": make, "rehearse": rehearse, "bare": bare})
