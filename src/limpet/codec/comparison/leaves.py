"""Whether two values are the same as wholes: what the codec would store as the same bytes, or close numbers."""

from __future__ import annotations

import cmath
import math
import struct
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from operator import eq
from types import NoneType
from typing import Any, Final

from limpet.codec import values
from limpet.codec.comparison.parts import type_of


def encoded_quickly(value: object) -> bytes | None:
    """The bytes of a value by the short way; None where there is none, whatever its class raises on the way."""
    try:
        return values.try_encode(value)
    except Exception:
        return None


def encoded(value: object) -> bytes | None:
    """The bytes of a value; None where it cannot be stored, whatever its class raises on the way."""
    quickly = encoded_quickly(value)
    try:
        return values.encode(value) if quickly is None else quickly
    except Exception:
        return None


def is_plainly_same(before: object, after: object) -> bool:
    """Whether two values are known to be the same at once. Most parts of most values are."""
    if before is after:
        return True
    cls = type_of(before)
    return cls in _SIMPLE and cls is type_of(after) and _SIMPLE[cls](before, after)


def is_same_whole(before: object, after: object) -> bool:
    """Whether two values of one type have the same bytes; of what has none, whether they are equal."""
    simple = _SIMPLE.get(type_of(before))
    if simple is not None:
        return simple(before, after)
    one, other = encoded(before), encoded(after)
    if one is not None and other is not None:
        return one == other
    try:
        return bool(before == after)
    except Exception:
        return False


def _is_same_float(before: float, after: float) -> bool:
    # Not by ==, to which -0.0 is 0.0 and no nan is any other.
    return struct.pack("<d", before) == struct.pack("<d", after)


_SIMPLE: Final[dict[type, Callable[[Any, Any], bool]]] = {
    **dict.fromkeys((NoneType, bool, int, str, bytes, bytearray), eq),
    float: _is_same_float,
}


def is_close(before: Any, after: Any, tolerance: float) -> bool:
    """Whether two numbers of one type are as near as that, relative to the larger one, or to 1 near zero.

    False for what is no number; every nan is near every other.
    """
    close = _CLOSE.get(type_of(before))
    return close is not None and close(before, after, tolerance)


def _is_close_float(before: float, after: float, tolerance: float) -> bool:
    both_nan = math.isnan(before) and math.isnan(after)
    return both_nan or math.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)


def _is_close_complex(before: complex, after: complex, tolerance: float) -> bool:
    both_nan = cmath.isnan(before) and cmath.isnan(after)
    return both_nan or cmath.isclose(before, after, rel_tol=tolerance, abs_tol=tolerance)


def _is_close_rational(before: Fraction, after: Fraction, tolerance: float) -> bool:
    # In fractions: an integer may be too large for a float.
    return abs(before - after) <= Fraction(tolerance) * max(abs(before), abs(after), 1)


def _is_close_decimal(before: Decimal, after: Decimal, tolerance: float) -> bool:
    if not (before.is_finite() and after.is_finite()):
        return (before.is_nan() and after.is_nan()) or (not before.is_nan() and not after.is_nan() and before == after)
    with localcontext() as context:
        context.clear_traps()
        return abs(before - after) <= Decimal(tolerance) * max(abs(before), abs(after), Decimal(1))


_CLOSE: Final[dict[type, Callable[[Any, Any, float], bool]]] = {
    float: _is_close_float,
    complex: _is_close_complex,
    Decimal: _is_close_decimal,
    **dict.fromkeys((int, Fraction), _is_close_rational),
}
