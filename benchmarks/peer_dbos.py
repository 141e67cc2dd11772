"""DBOS as a contender: workflows of trivial steps on SQLite, with its defaults, in its synchronous and its async form.

Of its two forms a measurement takes the better one. Starting and stopping it is not timed, and of a replay only what
lies between the first recorded step and the last.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any

import trials

# It is installed for benchmarks alone, where no type checker looks.
DBOS: Any = import_module("dbos").DBOS

executed = 0
replayed_s = 0.0
at_end: list[Callable[[], None]] = []


@DBOS.step()
def step(number: int) -> int:
    global executed
    executed += 1
    return number


@DBOS.step()
async def async_step(number: int) -> int:
    global executed
    executed += 1
    return number


@DBOS.workflow()
def many(steps: int) -> int:
    global replayed_s
    began = perf_counter()
    for number in range(steps):
        step(number % 100)
    replayed_s = perf_counter() - began
    for action in at_end:
        action()
    return steps


@DBOS.workflow()
async def async_many(steps: int) -> int:
    global replayed_s
    began = perf_counter()
    for number in range(steps):
        await async_step(number % 100)
    replayed_s = perf_counter() - began
    for action in at_end:
        action()
    return steps


def _launch(path: str = "dbos.db") -> None:
    # The version of an application is the hash of its code unless it is given; a recovery wants the same one.
    DBOS(
        config={
            "name": "bench",
            "system_database_url": f"sqlite:///{path}",
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()


def one(form: str, steps: str) -> trials.Answer:
    """One workflow of so many steps: its rate."""
    _launch()
    count = int(steps)
    if form == "plain":
        many(20)
        began = perf_counter()
        many(count)
        seconds = perf_counter() - began
    else:
        seconds = asyncio.run(_one_async(count))
    DBOS.destroy()
    return {"rate": count / seconds}


async def _one_async(count: int) -> float:
    await async_many(20)
    began = perf_counter()
    await async_many(count)
    return perf_counter() - began


def together(workflows: str, steps: str) -> trials.Answer:
    """So many async workflows at once, of so many steps each: their rate together."""
    _launch()

    async def run() -> float:
        await async_many(20)
        began = perf_counter()
        await asyncio.gather(*(async_many(int(steps)) for _ in range(int(workflows))))
        return perf_counter() - began

    seconds = asyncio.run(run())
    DBOS.destroy()
    return {"rate": int(workflows) * int(steps) / seconds}


def begin(form: str, path: str, steps: str) -> None:
    """A workflow that is killed when all its steps are recorded and it has yet to return."""
    _launch(path)
    at_end.append(lambda: os.kill(os.getpid(), signal.SIGKILL))
    if form == "plain":
        many(int(steps))
    else:
        asyncio.run(async_many(int(steps)))


def go_on(path: str, steps: str) -> trials.Answer:
    """Let it recover the killed workflow: the rate from the first to the last recorded step."""
    _launch(path)
    (status,) = DBOS.list_workflows()
    assert DBOS.retrieve_workflow(status.workflow_id).get_result() == int(steps)
    assert executed == 0, "replaying executed something"
    DBOS.destroy()
    return {"rate": int(steps) / replayed_s}


if __name__ == "__main__":
    trials.answer({"one": one, "together": together, "begin": begin, "go_on": go_on})
