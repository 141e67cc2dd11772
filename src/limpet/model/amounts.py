"""Times and sizes as people write them: ``30d``, ``1.5 GB``. One rule for the command line and the configuration."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_TIMES: Final = {"s": 1, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SIZES: Final = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_AMOUNT: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")

LARGEST: Final = 2**63 - 1
"""The greatest number that every store can keep."""


def duration_from(text: str) -> timedelta:
    """The time that a text such as ``30d`` means; it has to name a unit. Raises ValueError that says what is wrong."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in _TIMES:
        raise ValueError(f"{text!r} is no time. Write it as 90s, 15min, 12h, 30d or 8w.")
    try:
        return timedelta(seconds=float(found[1]) * _TIMES[found[2]])
    except OverflowError:
        raise ValueError(f"{text!r} is longer than time is counted.") from None


def size_from(text: str) -> int:
    """How many bytes a text such as ``1.5 GB`` means; without a unit it is bytes. Raises ValueError that says why."""
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2].lower() not in _SIZES:
        raise ValueError(f"{text!r} is no size. Write it as 500kB, 20MB, 64 KiB or 1.5GB.")
    unit = _SIZES[found[2].lower()]
    # First as a number that is not exact: Python reads no whole numbers of many thousand digits.
    if float(found[1]) * unit > LARGEST:
        raise ValueError(f"{text!r} is larger than any store.")
    return int(found[1]) * unit if found[1].isdigit() else round(float(found[1]) * unit)


def size_text(count: int) -> str:
    """How many bytes, as short as it can be read; ``size_from`` reads it."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def duration_text(length: timedelta) -> str:
    """A time as ``duration_from`` reads it, in the largest unit up to days of which it is a whole number."""
    for unit in ("d", "h", "min"):
        if length and not length % timedelta(seconds=_TIMES[unit]):
            return f"{length // timedelta(seconds=_TIMES[unit])}{unit}"
    return f"{length.total_seconds():f}".rstrip("0").rstrip(".") + "s"
