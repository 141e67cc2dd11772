"""Limpet as a contender that forks: what a fork costs, in time and in bytes, and what going on from one costs."""

from __future__ import annotations

import asyncio
import os
from statistics import fmean, median
from time import perf_counter

import limpet_runs
import trials
from limpet_runs import many

from limpet import Limpet, SQLiteStateBackend

FORKS = 50
GENERATIONS = 3


class Interrupted(Exception):
    """Ends a run before its last event."""


def make(path: str, long: str, middle: str, short: str) -> trials.Answer:
    """A store with three states of so many events that have ended, and a short one to get warm with."""
    with SQLiteStateBackend(path, synchronous="normal") as backend:
        client = Limpet(backend)
        for name, events in (("long", long), ("middle", middle), ("short", short), ("warm", "50")):
            client.run_sync(many, int(events), state_id=name)
    return {}


def make_generations(path: str, events: str, kept: str) -> trials.Answer:
    """A store with a state that lacks its last event, a fork of it, a fork of that and so on, which lack theirs."""
    with SQLiteStateBackend(path, synchronous="normal") as backend:
        client = Limpet(backend)
        client.run_sync(many, 50, state_id="warm")
        before_last = int(events) - 1
        limpet_runs.at_event[before_last] = _interrupt
        asyncio.run(_until_interrupted(client, "generation-0", int(events)))
        for generation in range(GENERATIONS):
            client.fork(
                f"generation-{generation}", at=_address(int(kept) + 1), new_state_id=f"generation-{generation + 1}"
            )
            asyncio.run(_until_interrupted(client, f"generation-{generation + 1}", None))
    expected = int(events) + GENERATIONS * (int(events) - int(kept)) - 1 - GENERATIONS
    assert limpet_runs.executed == expected + 50, "A fork executed what it shares."
    return {}


def _interrupt() -> None:
    raise Interrupted


async def _until_interrupted(client: Limpet, state_id: str, events: int | None) -> None:
    try:
        await (client.resume(state_id) if events is None else client.run(many, events, state_id=state_id))
    except Interrupted:
        return
    raise AssertionError(f"{state_id} was not interrupted")


def _address(number: int) -> str:
    """Where the how-manieth step of a run stands."""
    return f"many::step#{number}::tool_call"


def _warm(path: str) -> Limpet:
    """The store, open and used, with nothing read of the states that are going to be measured."""
    client = Limpet(SQLiteStateBackend(path))
    for _ in range(3):
        asyncio.run(client.resume(client.fork("warm", at=_address(40))))
    return client


def call(path: str, state_id: str, number: str) -> trials.Answer:
    """Only the call, again and again at one place."""
    client = _warm(path)
    at = _address(int(number))
    seconds: list[float] = []
    for _ in range(FORKS):
        began = perf_counter()
        client.fork(state_id, at=at)
        seconds.append(perf_counter() - began)
    return {"median_s": median(seconds), "mean_s": fmean(seconds), "first_s": seconds[0]}


def size(path: str, state_id: str, number: str) -> trials.Answer:
    """By how much the file of the store is longer for each fork. Closing it empties the log into it."""
    before = os.path.getsize(path)
    with SQLiteStateBackend(path) as backend:
        client = Limpet(backend)
        for _ in range(FORKS):
            client.fork(state_id, at=_address(int(number)))
    assert not os.path.exists(f"{path}-wal"), "The log was not emptied."
    return {"bytes": (os.path.getsize(path) - before) / FORKS}


def to_result(path: str, state_id: str, kept: str, left: str) -> trials.Answer:
    """From the call to the result of the run that goes on from the fork."""
    client = _warm(path)
    before = limpet_runs.executed

    async def fork() -> tuple[float, float, int]:
        began = perf_counter()
        forked = client.fork(state_id, at=_address(int(kept) + 1))
        called = perf_counter()
        result = await client.resume(forked)
        return called - began, perf_counter() - began, result

    call_s, result_s, result = asyncio.run(fork())
    done = limpet_runs.executed - before
    assert (result, done) == (int(kept) + int(left), int(left)), f"{done} steps were executed instead of {left}"
    return {"call_s": call_s, "result_s": result_s}


def go_on(path: str, generation: str) -> trials.Answer:
    """Resume a state that lacks its last event, from the call to the result."""
    client = _warm(path)
    before = limpet_runs.executed

    async def resume() -> float:
        began = perf_counter()
        await client.resume(f"generation-{generation}")
        return perf_counter() - began

    seconds = asyncio.run(resume())
    assert limpet_runs.executed == before + 1, "Not only the last event was executed."
    return {"seconds": seconds}


if __name__ == "__main__":
    functions = (make, make_generations, call, size, to_result, go_on)
    trials.answer({function.__name__: function for function in functions})
