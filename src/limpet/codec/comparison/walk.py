"""A walk through two values at once, by a rule that says what parts a pair of values has.

It keeps its own stack, so that no nesting is too deep for it. It remembers which pairs are equal and which were told,
so that it looks at each of them once, and values that contain themselves come to an end.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from limpet.codec.comparison.findings import Found, Pair, Place, Steps
from limpet.codec.comparison.leaves import is_plainly_same
from limpet.codec.comparison.parts import type_of
from limpet.codec.user_types.families import SCALARS
from limpet.model.difference import Difference

Rule = Callable[[Pair, "Walk"], Steps]


class Whole(NamedTuple):
    """How a pair is treated that is not looked into."""

    is_same: Callable[[object, object], bool]
    """Asked for a pair whose rule raised: a class may do anything when it is looked into."""
    difference: Callable[[Pair], Found]


_Key = tuple[int, int]


def rule_for(cls: type, rules: Mapping[type, Rule], library_rules: Mapping[tuple[str, str], Rule]) -> Rule | None:
    """The rule of a type. Those of libraries are found by library and name, so that none has to be imported."""
    library = cls.__module__.partition(".")[0]
    found = rules.get(cls) or library_rules.get((library, cls.__name__))
    is_that_class = cls in rules or getattr(sys.modules.get(library), cls.__name__, None) is cls
    return found if is_that_class else None


class _Visit(NamedTuple):
    pair: Pair
    key: _Key | None
    steps: Steps


class Walk:
    """The walks through one pair of values."""

    def __init__(self, rule: Rule, whole: Whole, tolerance: float = 0.0) -> None:
        self.tolerance = tolerance
        self._rule = rule
        self._whole = whole
        self._equal: set[_Key] = set()
        self._unequal: set[_Key] = set()
        self._told: set[_Key] = set()
        self._asked: set[_Key | None] = set()
        # What stands in these sets by its id; no other object may get that while the walk goes on.
        self._alive: list[object] = []
        self.is_quick = False
        """Whether it is only asked if there is a difference, so that a rule need not find out where."""

    def differences(self, pair: Pair) -> Iterator[Difference]:
        """The differences of two values, one by one as they are found."""
        return (found() for found in self._walk(pair, self._told))

    def is_same(self, before: object, after: object) -> bool:
        """Whether there is no difference. What is learnt is kept, so that asking for a part later costs little."""
        if is_plainly_same(before, after):
            return True
        pair = Pair(before, after, Place(""))
        key = self._key_of(pair)
        if key is not None and (key in self._asked or key in self._equal):
            return True  # While it is being asked for a whole, its parts decide.
        if key is not None and key in self._unequal:
            return False
        was_quick, self.is_quick = self.is_quick, True
        self._asked.add(key)
        try:
            return next(self._walk(pair, self._unequal), None) is None
        finally:
            self._asked.discard(key)
            self.is_quick = was_quick

    def _walk(self, pair: Pair, known: set[_Key]) -> Iterator[Found]:
        """What differs. ``known`` has the pairs that are known to differ, and gets those that are found to."""
        stack = [_Visit(pair, self._key_of(pair), self._rule(pair, self))]
        under_way = {stack[0].key}
        while stack:
            step = self._next_step(stack[-1])
            if isinstance(step, Pair):
                key = self._key_of(step)
                if key is not None and (key in under_way or key in self._equal):
                    continue
                if key is None or key not in known:
                    stack.append(_Visit(step, key, self._rule(step, self)))
                    under_way.add(key)
                    continue
                # Its details stand at another place. To tell them at every place could have no end.
                step = self._whole.difference(step)
            if step is None:
                key = stack.pop().key
                under_way.discard(key)
                if key is not None and key not in known:
                    self._equal.add(key)
            else:
                known.update(key for key in under_way if key is not None)
                yield step

    def _next_step(self, visit: _Visit) -> Pair | Found | None:
        try:
            return next(visit.steps, None)
        except BaseException as error:
            # A panic inside polars is no Exception, and must not pass for an interrupt.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            before, after, _ = visit.pair
            return None if self._whole.is_same(before, after) else self._whole.difference(visit.pair)

    def _key_of(self, pair: Pair) -> _Key | None:
        """By what a pair is known; None for what is as quickly compared as looked up."""
        if type_of(pair.before) in SCALARS:
            return None
        self._alive += pair[:2]
        return id(pair.before), id(pair.after)
