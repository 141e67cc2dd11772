"""Small files that would take a great deal: each takes little memory and time, whatever becomes of it."""

from __future__ import annotations

from pathlib import Path

from hostile.bombs_program import Measured
from hostile.processes import answered

MOST_MEMORY = 150_000_000
MOST_SECONDS = 4.0


def test_a_small_file_never_takes_a_great_deal(tmp_path: Path) -> None:
    found = answered(dict[str, Measured], tmp_path, "hostile.bombs_program", tmp_path)
    assert len(found) > 20
    assert {name: each.expected for name, each in found.items()} == {name: each.outcome for name, each in found.items()}
    assert {} == {name: each.growth for name, each in found.items() if each.growth > MOST_MEMORY}
    assert {} == {name: each.seconds for name, each in found.items() if each.seconds > MOST_SECONDS}
