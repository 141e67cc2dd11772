"""An effect is made again with the value that it was made with, wherever the process has died."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
from crash import values_program
from crash.stores import KINDS, opener
from crash.sweeping import When, places
from crash.values_program import STATE, paying

from limpet import Limpet
from limpet.testing import CrashingBackend, SimulatedCrash

KILLS = 30
LONGEST_LIFE_S = 0.15


def require_one_value_each(effects: list[tuple[str, str]], result: list[list[str]]) -> None:
    """Every effect was made with one value, however often it was made, and the result has just these."""
    assert len({name for name, _ in effects}) == len(set(effects)), "an effect was made again with another value"
    assert sorted({value for _, value in effects}) == sorted(value for branch in result for value in branch)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_is_made_again_with_the_same_value_wherever_the_process_stopped(
    kind: str, when: When, tmp_path: Path
) -> None:
    crashes = 0
    for number in places(kind, when):
        effects: list[tuple[str, str]] = []
        values_program.effect = lambda name, value, effects=effects: effects.append((name, value))
        open_store = opener(kind, tmp_path / f"store-{number}")
        backend = CrashingBackend(open_store(), stop_at=number, when=when)
        try:
            result = Limpet(backend).run_sync(paying, 0, state_id=STATE)
        except SimulatedCrash:
            crashes += 1
            result = Limpet(open_store()).run_sync(paying, 0, state_id=STATE)
        require_one_value_each(effects, result)
        assert result == Limpet(open_store()).run_sync(paying, 0, state_id=STATE)
        if not backend.is_stopped:
            break
    assert crashes > 5


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db", "file://{}/store"])
def test_no_kill_loses_a_value_that_an_effect_was_made_with(url: str, tmp_path: Path) -> None:
    kills = repeated = number = 0
    while kills < KILLS:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        log = folder / "log"
        output = None
        while output is None:
            command = [sys.executable, values_program.__file__, url.format(folder), str(log)]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                assert "ready\n" == process.stdout.readline()
                try:
                    process.wait(random.random() * LONGEST_LIFE_S if kills < KILLS else 60)
                except subprocess.TimeoutExpired:
                    process.kill()
                output = process.stdout.read() or None
            assert process.returncode in (0, -9)
            kills += process.returncode == -9
        effects = [(name, value) for name, value in map(str.split, log.read_text().splitlines())]
        require_one_value_each(effects, json.loads(output))
        repeated += len(effects) - len(set(effects))
    assert repeated > 0, "the kills came between the effects only, and showed nothing"
