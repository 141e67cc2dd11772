"""What a comparison finds: pairs of parts to look at, and differences, each at its place.

Texts and places are made only for what is told. Most pairs are equal, and nobody asks where they stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from limpet.codec.comparison.parts import type_of
from limpet.codec.comparison.shown import shown, shown_with_type
from limpet.model.difference import Difference, DifferenceKind

_MOST_OF_A_PLACE: Final = 300


class Place:
    """Where a part stands, as a step from the place of what it is a part of."""

    __slots__ = ("_above", "_is_item", "_step")

    def __init__(self, step: object, above: Place | None = None, *, is_item: bool = False) -> None:
        self._step = step
        self._above = above
        self._is_item = is_item

    def item(self, key: object) -> Place:
        """The place of an item, by its index or key."""
        return Place(key, self, is_item=True)

    def step(self, text: str) -> Place:
        """The place to which this text leads: an attribute (``.name``), or a note (`` (line 3)``)."""
        return Place(text, self)

    def __str__(self) -> str:
        steps: list[str] = []
        place: Place | None = self
        while place is not None:
            steps.append(f"[{shown(place._step)}]" if place._is_item else str(place._step))
            place = place._above
        text = "".join(reversed(steps))
        half = _MOST_OF_A_PLACE // 2
        return text if len(text) <= _MOST_OF_A_PLACE else f"{text[:half]}…{text[-half:]}"


class Pair(NamedTuple):
    """Two values that stand at the same place."""

    before: object
    after: object
    place: Place


Found = Callable[[], Difference]
"""Makes a difference that was found. Where it is only asked whether there is one, it is not called."""

Steps = Iterator[Pair | Found]
"""What a rule gives for a pair: the pairs of its parts, and what differs in the pair itself."""


def changed(pair: Pair) -> Found:
    """The one value became the other; with their types where these differ."""

    def make() -> Difference:
        before, after = type_of(pair.before), type_of(pair.after)
        show = shown if before is after else shown_with_type
        one, other = show(pair.before), show(pair.after)
        if one == other:
            one, other = _told_apart(one, before, after)
        return Difference(str(pair.place), one, other)

    return make


def _told_apart(text: str, before: type, after: type) -> tuple[str, str]:
    if before is after:
        return text, f"{text} (of other bytes)"
    return f"{before.__module__}.{before.__qualname__} {text}", f"{after.__module__}.{after.__qualname__} {text}"


def became(place: Place, before: str, after: str) -> Found:
    """One text became another: for what is told of a value, such as its length."""
    return lambda: Difference(str(place), before, after)


def added(place: Place, value: object) -> Found:
    """Something stands where nothing stood."""
    return lambda: Difference(str(place), "", shown(value), DifferenceKind.ADDED)


def removed(place: Place, value: object) -> Found:
    """Nothing stands where something stood."""
    return lambda: Difference(str(place), shown(value), "", DifferenceKind.REMOVED)
