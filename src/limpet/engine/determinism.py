"""How far executing an actor again gives the same: what its options say of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from limpet.errors import UsageError
from limpet.model import DeterminismLevel

Comparison = Callable[[Any, Any], object]
"""Given the recorded result and the one of executing again; true if the second counts as the first."""


def determinism_of(
    name: str, level: DeterminismLevel | str | None, tolerance: float | None, compare: Comparison | None
) -> DeterminismLevel | None:
    """The level that is declared; a tolerance or a comparison says that it is approximate."""
    if level is not None and level not in list(DeterminismLevel):
        raise UsageError(
            f"The actor {name!r} has the determinism {level!r}.", f"Use one of {', '.join(DeterminismLevel)}."
        )
    if tolerance is not None and not 0 <= tolerance < 1:
        raise UsageError(f"The actor {name!r} has the tolerance {tolerance!r}.", "Give a number from 0 to less than 1.")
    if tolerance is None and compare is None:
        return None if level is None else DeterminismLevel(level)
    if level not in (None, DeterminismLevel.APPROXIMATE):
        raise UsageError(
            f"The actor {name!r} is declared {level}, and has a tolerance or a comparison.",
            "Declare it approximate, or leave those out.",
        )
    return DeterminismLevel.APPROXIMATE
