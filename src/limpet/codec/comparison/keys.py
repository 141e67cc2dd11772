"""Keys on the one side and on the other: which are the same ones, and whether they stand in the same order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from limpet.codec.comparison.findings import Pair, Place, Steps, changed
from limpet.codec.comparison.leaves import encoded
from limpet.codec.comparison.parts import type_of

Identified = Mapping[Hashable, tuple[Any, Any]]
"""Keys and what stands under them, by what tells each from all others."""


class _ByEquality:
    """Stands for a key that has no bytes. It is what its own ``==`` says, and different where that raises."""

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _ByEquality) or type_of(self.key) is not type_of(other.key):
            return False
        try:
            return self.key is other.key or bool(self.key == other.key)
        except Exception:
            return False

    def __hash__(self) -> int:
        return hash(self.key)


def identity(key: Any) -> Hashable:
    """By what a key, or an element of a set, is found on the other side: 1, 1.0 and True are different here."""
    if type_of(key) is str:
        return key
    data = encoded(key)
    return _ByEquality(key) if data is None else data


def by_identity(items: Iterable[tuple[Any, Any]]) -> Identified:
    """Keys and what stands under them. A dict may have several nan as keys; each is told by its number."""
    found: dict[Hashable, tuple[Any, Any]] = {}
    repeated = Counter[Hashable]()
    for key, item in items:
        name = identity(key)
        if name in found:
            repeated[name] += 1
            name = (name, repeated[name])
        found[name] = (key, item)
    return found


def order_difference(before: Identified, after: Identified, place: Place) -> Steps:
    """The keys that both have, from the first on that stands elsewhere; nothing where their order is the same."""
    one = [name for name in before if name in after]
    other = [name for name in after if name in before]
    for number, name in enumerate(one):
        if name != other[number]:
            keys = [
                [of[each][0] for each in names[number : number + 5]] for of, names in ((before, one), (after, other))
            ]
            yield changed(Pair(keys[0], keys[1], place))
            return
