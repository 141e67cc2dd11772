"""Whether the event loop runs on while commits wait for a slow disk.

Every commit takes 20 ms longer than it would: always, or after the disk has been quick for a while, which shows what a
writer does that judges a disk by its past. A ticker beside the run wants a turn each millisecond; the longest time
between two of its turns is what a run keeps everybody else waiting for. The ticker alone shows the machine's noise.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from time import perf_counter, sleep
from typing import Any

import trials
from findings import AT_MOST, Finding

from limpet import Limpet, SQLiteStateBackend, StateBackend, agent, tool

ROUNDS = 7
EVENTS = 20
DELAY_S = 0.02
TICK_S = 0.001


def measure() -> list[Finding]:
    answers = trials.take_turns(ROUNDS, {"always": ("slow_disk", "always"), "suddenly": ("slow_disk", "suddenly")})
    return [
        _finding("slow disk: longest gap", answers["always"], bar_ms=10),
        # The commit that shows it holds the loop up by itself, and no other does.
        _finding("disk becomes slow: longest gap", answers["suddenly"], bar_ms=10 + DELAY_S * 1000),
    ]


def _finding(name: str, answers: list[trials.Answer], bar_ms: float) -> Finding:
    gaps, alone, ticks, expected = (
        [answer[key] for answer in answers] for key in ("gap_ms", "gap_alone_ms", "ticks", "expected")
    )
    detail = f"{median(ticks):.0f} ticks of {median(expected):.0f}; the ticker alone {median(alone):.1f} ms"
    return Finding(name=name, ratios=gaps, direction=AT_MOST, bar=bar_ms, detail=detail, unit="ms")


class SlowBackend(StateBackend):
    """A store whose commits take longer. Like SQLite, it leaves it to the writer to commit inline while it is quick."""

    commit_waits = True
    inline_when_quick = True

    def __init__(self, inner: StateBackend, delay_s: float) -> None:
        self._inner = inner
        self.name = inner.name
        self.delay_s = delay_s

    def append(self, appends: Sequence[Any]) -> list[Any]:
        sleep(self.delay_s)
        return self._inner.append(appends)

    def acquire(self, claims: Sequence[Any]) -> list[Any]:
        return self._inner.acquire(claims)

    def renew(self, leases: Sequence[Any], ttl_s: float) -> list[bool]:
        return self._inner.renew(leases, ttl_s)

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        return self._inner.read(state_id, after, limit)

    def find_state(self, state_id: str) -> Any:
        return self._inner.find_state(state_id)

    def list_states(self, **wanted: Any) -> list[Any]:
        return self._inner.list_states(**wanted)

    def delete_state(self, state_id: str, lease: Any = None) -> bool:
        return self._inner.delete_state(state_id, lease)

    def close(self) -> None:
        self._inner.close()


@tool
async def step(number: int) -> int:
    return number


@agent
async def many(events: int) -> int:
    for number in range(events):
        await step(number)
    return events


async def _ticks() -> list[float]:
    turns = [perf_counter()]
    try:
        while True:
            await asyncio.sleep(TICK_S)
            turns.append(perf_counter())
    except asyncio.CancelledError:
        return turns


async def _ticking(work: Any) -> list[float]:
    ticker = asyncio.create_task(_ticks())
    await asyncio.sleep(0)
    await work
    ticker.cancel()
    turns = await ticker
    return [later - earlier for earlier, later in pairwise(turns)]


async def _both(backend: SlowBackend) -> tuple[list[float], list[float]]:
    client = Limpet(backend)
    await client.run(many, EVENTS, state_id="warm")
    backend.delay_s = DELAY_S
    # A collection of garbage in the middle would be taken for a gap.
    gc.collect()
    gc.disable()
    alone = await _ticking(asyncio.sleep((EVENTS + 1) * DELAY_S))
    return alone, await _ticking(client.run(many, EVENTS, state_id="timed"))


def always() -> trials.Answer:
    """The disk is slow from the first commit on."""
    return _tick(DELAY_S)


def suddenly() -> trials.Answer:
    """The disk is quick for a whole run, and slow from the next one on."""
    return _tick(0.0)


def _tick(delay_at_first_s: float) -> trials.Answer:
    alone, beside = asyncio.run(_both(SlowBackend(SQLiteStateBackend("runs.db"), delay_at_first_s)))
    return {
        "gap_ms": max(beside) * 1e3,
        "gap_alone_ms": max(alone) * 1e3,
        "ticks": len(beside),
        "expected": len(alone) / sum(alone) * sum(beside),
    }


if __name__ == "__main__":
    trials.answer({"always": always, "suddenly": suddenly})
