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
from order.shapes import CONTROL, SHAPES, Shape, agent_of

STORES = ["memory", "normal"]


def stops(kind: str) -> Iterator[tuple[int, When]]:
    """Before and after every write; on SQLite, where stores cost more, before or after it."""
    for number in itertools.count(1):
        if kind == "memory":
            yield number, "before"
            yield number, "after"
        else:
            yield number, "before" if number % 2 else "after"


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
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
    for seed in itertools.count(1):
        if life.run(seed, stop_at=3 + seed % 3, when="after").ending is not Ending.STOPPED:
            break
    life.rehearse(0)
    assert [] == faults(life.processes)
    assert len(life.processes) > 2 or shape.program == CONTROL
