"""Order-dependent programs in real processes that are really killed, and resumed by others with other delays.

Two kills at random moments and one at the end for each program and store, on asyncio's own loop. By hand on every loop,
with 40 kills at random moments or as many as are said: ``ORDER_KILLS=40 pytest -n 2 tests/order/test_kills.py``. The
programs are run by the Python that runs pytest.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from order.checks import Ending, faults
from order.killing import KilledLife
from order.shapes import SHAPES, Shape

_ASKED = os.environ.get("ORDER_KILLS")
KILLS = int(_ASKED or 2)
KILLED = [shape for shape in SHAPES if _ASKED or shape.is_plain]
STORES = {"sqlite": "sqlite:///{}/runs.db", "files": "file://{}/store"}

FIRST_GUESS_S = 0.03
"""How long a run takes, until one has come to its end."""


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("shape", KILLED, ids=str)
def test_a_run_killed_at_any_moment_goes_on_as_it_had_begun(shape: Shape, kind: str, tmp_path: Path) -> None:
    chance = random.Random(f"{shape} on {kind}")
    kills, took_s, number = 0, FIRST_GUESS_S, 0
    while kills < KILLS:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        life = KilledLife(shape, STORES[kind].format(folder), folder, chance)
        while kills < KILLS and life.run(kill_after_s=chance.random() * took_s).ending is Ending.STOPPED:
            kills += 1
        # Killed once more where only its end is missing, it is replayed from its first call to its last.
        life.run("end")
        life.run()
        took_s = life.took_s or took_s
        if kind == "sqlite":  # A rehearsal is told nothing of the kind of store.
            life.run("rehearse")
        assert [] == faults(life.processes)
