"""Forged exports, snapshots and stores, imported and copied: taken or refused, and nothing of them is ever run.

``FORGED_STATES`` says how many; more than in CI are made with a fresh seed.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

import pytest
from hostile.decoding_program import Found
from hostile.processes import answered

from limpet import errors

EXAMPLES = int(os.environ.get("FORGED_STATES", "400"))
SEED = secrets.token_hex(4) if "FORGED_STATES" in os.environ else "in CI"
PARTS = 10 if "FORGED_STATES" in os.environ else 1
CANARY = "open('ran', 'w').close()\nraise SystemExit('it was run')\n"


def is_error_of_ours(outcome: str) -> bool:
    found = getattr(errors, outcome, None)
    return isinstance(found, type) and issubclass(found, errors.LimpetError)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_forged_state_is_taken_or_refused_and_nothing_of_it_is_run(
    part: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("work", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "canary.py").write_text(CANARY)
    count = EXAMPLES // PARTS
    arguments = (tmp_path, tmp_path / "last input", SEED, part * count, count)
    found = answered(Found, tmp_path, "hostile.importing_program", *arguments, timeout_s=300 + count)
    with capsys.disabled():
        sys.stdout.write(f"\n{sum(found.outcomes.values())} forged states (seed {SEED!r}): {found.outcomes}\n")
    assert [] == found.faults
    assert count == sum(found.outcomes.values())
    assert {"taken", "partly_taken", "NotImported", "StoreDamaged", "WrongKey"} <= set(found.outcomes)
    assert all(map(is_error_of_ours, set(found.outcomes) - {"taken", "partly_taken"}))
    for name in ("work", "outside"):
        assert CANARY == (tmp_path / name / "canary.py").read_text()
    assert {"work", "outside", "honest", "last input"} == {each.name for each in tmp_path.iterdir()}
    assert (["canary.py"], ["canary.py"]) == tuple(os.listdir(tmp_path / name) for name in ("work", "outside"))
