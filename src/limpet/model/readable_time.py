"""A time as people read it in a report."""

from __future__ import annotations


def readable_time(seconds: float) -> str:
    """With three digits, in the unit that suits it."""
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0), ("ms", 1e-3)):
        if seconds >= length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"
