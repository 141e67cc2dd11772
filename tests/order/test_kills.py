"""Order-dependent programs in real processes that are really killed, and resumed by others with other delays.

Two kills at random moments and one at the end for each program and store, on asyncio's own loop. ``ORDER_KILLS=40``
makes as many kills as are said, on every loop, at other moments each time (``make soak``). The programs are run by the
Python that runs pytest.
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
    seed = f"{shape} on {kind}" + (f" {random.SystemRandom().getrandbits(32)}" if _ASKED else "")
    chance = random.Random(seed)
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
        assert [] == faults(life.processes), f"seed {seed!r}"
