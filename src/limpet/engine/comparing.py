"""The comparison of values, loaded when it is first asked for.

Most programs never compare anything, and loading this takes a tenth of the time that all of Limpet does.
"""

from __future__ import annotations

from limpet.model import Difference

# The imports stand inside the functions for that reason alone.


def differences(before: object, after: object, place: str, *, most: int, tolerance: float = 0.0) -> list[Difference]:
    """Where two values differ; see ``codec/differences.py``."""
    from limpet.codec.differences import differences

    return differences(before, after, place, most=most, tolerance=tolerance)


def shape_differences(before: object, after: object, place: str, *, most: int) -> list[Difference]:
    """Where two values differ in type or shape; see ``codec/shapes.py``."""
    from limpet.codec.shapes import shape_differences

    return shape_differences(before, after, place, most=most)


def shown(value: object) -> str:
    """A short text of a value, without secrets; see ``codec/comparison/shown.py``."""
    from limpet.codec.comparison.shown import shown

    return shown(value)
