"""A hundred thousand changed values and twenty thousand changed journals: each is read, or refused with an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile.decoding_program import VALUE, Found
from hostile.processes import watched

VALUES_PER_CASE = 30_000
JOURNALS_PER_CASE = 10_000


@pytest.mark.parametrize("seed", range(4))
def test_a_changed_value_is_read_or_refused_and_does_nothing_else(seed: int, tmp_path: Path) -> None:
    found = watched(Found, tmp_path, "values", seed, VALUES_PER_CASE)
    assert [] == found.faults
    assert {VALUE, "ValueNotReadable"} == set(found.outcomes)
    assert VALUES_PER_CASE == sum(found.outcomes.values())


@pytest.mark.parametrize("seed", range(2))
def test_a_changed_journal_gives_its_own_records_or_an_error(seed: int, tmp_path: Path) -> None:
    found = watched(Found, tmp_path, "frames", seed, JOURNALS_PER_CASE)
    assert [] == found.faults
    assert {VALUE, "StateCorrupted", "UnsupportedVersion", "WrongKey", "NotEncrypted"} == set(found.outcomes)
    assert JOURNALS_PER_CASE == sum(found.outcomes.values())
