"""Order-dependent programs, stopped at every write and resumed with other timings, go on as they had begun."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from crash.stores import opener
from order.checks import Ending, faults
from order.in_process import Life, When
from order.shapes import SHAPES, Shape, agent_of

SWEPT = [(shape, kind) for shape in SHAPES for kind in ("memory", "normal") if kind == "memory" or shape.is_plain]
"""The loop makes no difference to a store."""

MOST_STOPS = 200
"""No program here has so many writes."""


def stops(kind: str) -> Iterator[tuple[int, When]]:
    """Before and after every write; on SQLite, where stores cost more, before or after it."""
    for number in itertools.count(1):
        if kind == "memory":
            yield number, "before"
            yield number, "after"
        else:
            yield number, "before" if number % 2 else "after"


@pytest.mark.parametrize(("shape", "kind"), SWEPT, ids=str)
def test_a_run_stopped_at_any_write_goes_on_as_it_had_begun(shape: Shape, kind: str, tmp_path: Path) -> None:
    seeds = itertools.count(zlib.crc32(str(shape).encode()) % 1000)
    for stop_at, when in stops(kind):
        life = Life(agent_of(shape.program), shape.loop, opener(kind, tmp_path / f"{stop_at}-{when}"))
        stopped = life.run(next(seeds), stop_at, when)
        if stopped.ending is Ending.STOPPED:
            life.run(next(seeds))
        life.rehearse(next(seeds))
        assert [] == faults(life.processes), f"stopped {when} write {stop_at}"
        if stopped.ending is not Ending.STOPPED:
            break


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_run_stopped_again_and_again_goes_on_as_it_had_begun(shape: Shape, tmp_path: Path) -> None:
    life = Life(agent_of(shape.program), shape.loop, opener("memory", tmp_path))
    # The first write finds a dead holder, the second takes the lease over, the others are of records.
    for seed in range(MOST_STOPS):
        if life.run(seed, stop_at=3 + seed % 3, when="after").ending is not Ending.STOPPED:
            break
    life.rehearse(MOST_STOPS)
    assert [] == faults(life.processes)
    stopped, finished, rehearsed = (process.ending for process in life.processes[-3:])
    assert (Ending.STOPPED, Ending.FINISHED, Ending.REHEARSED) == (stopped, finished, rehearsed)
