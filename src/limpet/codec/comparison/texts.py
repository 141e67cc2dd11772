"""How text and bytes differ: the line or the position of the first difference, and what stands around it."""

from __future__ import annotations

from typing import Final

from limpet.codec.comparison.findings import Found, Pair, Place, became, changed
from limpet.codec.comparison.shown import cut
from limpet.model.difference import Difference, DifferenceKind

_SHORT: Final = 60
_SHORT_BYTES: Final = 24
_BEFORE: Final = 20
_AFTER: Final = 40
"""How much is shown of what stands before and after the first difference."""


def text_difference(before: str, after: str, place: Place) -> Found:
    """Where two texts that are not the same differ first."""
    if "\n" in before or "\n" in after:
        return lambda: _in_lines(before, after, place)
    if max(len(before), len(after)) <= _SHORT:
        return changed(Pair(before, after, place))
    return lambda: _in_line(before, after, place, "")


def bytes_difference(before: bytes | bytearray, after: bytes | bytearray, place: Place) -> Found:
    """Where two byte strings that are not the same differ first."""
    if max(len(before), len(after)) <= _SHORT_BYTES:
        return changed(Pair(before, after, place))

    def make() -> Difference:
        at = first_difference(before, after)
        texts = [_around(part, at, _BEFORE // 4, _AFTER // 4) for part in (bytes(before), bytes(after))]
        return became(place.step(f" (offset {at})"), *texts)()

    return make


def first_difference(before: str | bytes | bytearray, after: str | bytes | bytearray) -> int:
    """The index at which one differs from the other, or ends. By halves: comparing slices is far quicker than items."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        if before[low:middle] == after[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _in_lines(before: str, after: str, place: Place) -> Difference:
    at = first_difference(before, after)
    number = before.count("\n", 0, at) + 1
    start = before.rfind("\n", 0, at) + 1
    one, other = _line(before, start), _line(after, start)
    if one != other:
        return _in_line(one, other, place, f"line {number}")
    # One of them ends with this line, and the other goes on.
    rest = max(before, after, key=len)
    line = cut(repr(_line(rest, start + len(one) + 1)[: _SHORT + 1]))
    there = str(place.step(f" (line {number + 1})"))
    if len(before) < len(after):
        return Difference(there, "", line, DifferenceKind.ADDED)
    return Difference(there, line, "", DifferenceKind.REMOVED)


def _line(text: str, start: int) -> str:
    end = text.find("\n", start)
    return text[start:] if end < 0 else text[start:end]


def _in_line(before: str, after: str, place: Place, note: str) -> Difference:
    """The difference of two texts of one line, with the position where they are long."""
    if max(len(before), len(after)) <= _SHORT:
        return Difference(str(place.step(f" ({note})")), repr(before), repr(after))
    at = first_difference(before, after)
    note = f"{note}, position {at}" if note else f"position {at}"
    one, other = (cut(_around(text, at, _BEFORE, _AFTER)) for text in (before, after))
    return Difference(str(place.step(f" ({note})")), one, other)


def _around(text: str | bytes, at: int, before: int, after: int) -> str:
    """What stands around a position, with dots for what is left out."""
    start, end = max(0, at - before), at + after
    return f"{'…' if start else ''}{text[start:end]!r}{'…' if end < len(text) else ''}"
