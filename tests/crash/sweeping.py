"""Which writes a sweep stops at, where each of them costs a store of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Literal

When = Literal["before", "after"]

SWEPT_WHOLLY = ("memory", "normal")
"""On these a run is stopped before and after every write; on the others, which are slow, before or after each."""


def places(kind: str, when: When) -> Iterator[int]:
    """The numbers of the writes to stop at, without an end: whoever sweeps finds out how many there are."""
    if kind in SWEPT_WHOLLY:
        return count(1)
    return count(1 if when == "before" else 2, 2)
