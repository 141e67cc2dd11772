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


def make(form: str, path: str, steps: str) -> trials.Answer:
    """A store with one workflow of so many steps, which has ended."""
    _launch(path)
    if form == "plain":
        many(int(steps))
    else:
        asyncio.run(async_many(int(steps)))
    DBOS.destroy()
    return {}


def fork(path: str, form: str, steps: str, kept: str) -> trials.Answer:
    """A fork that keeps so many steps of the workflow, from the call to the result of what it runs.

    It takes forks up, and asks for results, as often as it does by default. Steps are counted from 1, and
    ``start_step`` is the first one that is executed again.
    """
    _launch(path)
    (status,) = DBOS.list_workflows()
    count, left = int(steps), int(steps) - int(kept)
    # The first fork is not timed: statements are compiled when they are first used. It executes one step.
    starts = (count, int(kept) + 1)
    if form == "plain":
        _, timed = [_fork_plain(status.workflow_id, start_step) for start_step in starts]
    else:
        _, timed = asyncio.run(_fork_async(status.workflow_id, starts))
    call_s, result_s, result = timed
    assert (result, executed) == (count, 1 + left), f"{executed - 1} steps were executed instead of {left}"
    DBOS.destroy()
    return {"call_s": call_s, "result_s": result_s}


def _fork_plain(workflow_id: str, start_step: int) -> tuple[float, float, int]:
    began = perf_counter()
    handle = DBOS.fork_workflow(workflow_id, start_step)
    called = perf_counter()
    result = handle.get_result()
    return called - began, perf_counter() - began, result


async def _fork_async(workflow_id: str, start_steps: tuple[int, ...]) -> list[tuple[float, float, int]]:
    found: list[tuple[float, float, int]] = []
    for start_step in start_steps:
        began = perf_counter()
        handle = await DBOS.fork_workflow_async(workflow_id, start_step)
        called = perf_counter()
        result = await handle.get_result()
        found.append((called - began, perf_counter() - began, result))
    return found


if __name__ == "__main__":
    trials.answer({"one": one, "together": together, "begin": begin, "go_on": go_on, "make": make, "fork": fork})
