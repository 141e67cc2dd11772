"""How two values differ, place by place, in words for people.

Two values are the same if the codec would store the same bytes of them: 1, 1.0 and True are different, -0.0 is not
0.0, a nan is itself, and the order of a dict counts. Only where an exception was raised is no part of it. What cannot
be stored is compared part by part as far as it has parts, and by ``==`` from there on.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, Final, cast

from limpet.codec.comparison.arrays import array_rule, is_close_scalar
from limpet.codec.comparison.findings import Pair, Place, Steps, added, changed, removed
from limpet.codec.comparison.frames import FRAME_RULES
from limpet.codec.comparison.keys import Identified, by_identity, order_difference
from limpet.codec.comparison.leaves import encoded_quickly, is_close, is_plainly_same, is_same_whole
from limpet.codec.comparison.parts import all_parts, has_parts, is_secret, type_of
from limpet.codec.comparison.shown import shown
from limpet.codec.comparison.texts import bytes_difference, text_difference
from limpet.codec.comparison.walk import Rule, Walk, Whole, rule_for
from limpet.model.difference import Difference


def differences(
    before: object, after: object, place: str = "result", *, most: int = 20, tolerance: float = 0.0
) -> list[Difference]:
    """Where two values differ, at most ``most`` places; empty if and only if they are the same.

    Numbers of one type that are as near as ``tolerance``, relative to the larger one or absolutely near zero, count as
    the same; so do those in arrays and frames. Nothing is raised whatever the values do, and no text shows a secret.
    The walk stops when it has found enough: whoever wants to know whether there are more asks for one more.
    """
    if is_plainly_same(before, after):
        return []
    data = encoded_quickly(before)
    if data is not None and data == encoded_quickly(after):
        return []
    walk = Walk(_rule, Whole(is_same_whole, changed), tolerance)
    return list(islice(walk.differences(Pair(before, after, Place(place))), most))


def _rule(pair: Pair, walk: Walk) -> Steps:
    cls = type_of(pair.before)
    if is_secret(pair.before) or is_secret(pair.after):
        # What was read back is a note where the secret itself was; their bytes are the same.
        yield from _leaf(pair, walk)
    elif cls is not type_of(pair.after):
        yield changed(pair)
    else:
        rule = rule_for(cls, _RULES, _LIBRARY_RULES) or (_instance if has_parts(cls) else _leaf)
        yield from rule(pair, walk)


def _leaf(pair: Pair, walk: Walk) -> Steps:
    before, after, _ = pair
    tolerance = walk.tolerance
    if tolerance and (is_close(before, after, tolerance) or is_close_scalar(before, after, tolerance)):
        return
    if not is_same_whole(before, after):
        yield changed(pair)


def _sequence(pair: Pair, walk: Walk) -> Steps:
    before, after = cast("Sequence[object]", pair.before), cast("Sequence[object]", pair.after)
    if len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            if not is_plainly_same(one, other):
                yield Pair(one, other, pair.place.item(index))
    elif walk.is_quick:
        yield changed(pair)
    else:
        yield from _aligned(list(before), list(after), pair.place, walk)


def _aligned(before: list[object], after: list[object], place: Place, walk: Walk) -> Steps:
    """Two sequences of different length: only what stands between a common beginning and a common end is told."""
    shorter = min(len(before), len(after))
    start = end = 0
    while start < shorter and walk.is_same(before[start], after[start]):
        start += 1
    while end < shorter - start and walk.is_same(before[-1 - end], after[-1 - end]):
        end += 1
    for index in range(start, max(len(before), len(after)) - end):
        here = place.item(index)
        if index >= len(before) - end:
            yield added(here, after[index])
        elif index >= len(after) - end:
            yield removed(here, before[index])
        else:
            yield Pair(before[index], after[index], here)


def _deque(pair: Pair, walk: Walk) -> Steps:
    before, after = cast("deque[object]", pair.before), cast("deque[object]", pair.after)
    yield from _sequence(pair, walk)
    yield Pair(before.maxlen, after.maxlen, pair.place.step(".maxlen"))


def _set(pair: Pair, walk: Walk) -> Steps:
    before, after = (by_identity((each, each) for each in cast("set[object]", value)) for value in pair[:2])
    gone = [element for name, (element, _) in before.items() if name not in after]
    new = [element for name, (element, _) in after.items() if name not in before]
    if not walk.is_quick:
        # Sets have no order, and that of text differs from process to process.
        gone.sort(key=shown)
        new.sort(key=shown)
    yield from (removed(pair.place, element) for element in gone)
    yield from (added(pair.place, element) for element in new)


def _mapping(pair: Pair, _: Walk) -> Steps:
    before, after = (by_identity(cast("dict[object, object]", value).items()) for value in pair[:2])
    yield from _by_key(before, after, pair.place.item)
    yield from order_difference(before, after, pair.place.step(" (order of keys)"))


def _default_mapping(pair: Pair, walk: Walk) -> Steps:
    one, other = (cast("defaultdict[object, object]", value).default_factory for value in pair[:2])
    yield from _mapping(pair, walk)
    yield Pair(one, other, pair.place.step(".default_factory"))


def _instance(pair: Pair, _: Walk) -> Steps:
    before, after = (by_identity(all_parts(value).items()) for value in pair[:2])
    yield from _by_key(before, after, lambda name: pair.place.step(f".{name}"))
    yield from order_difference(before, after, pair.place.step(" (order of attributes)"))


def _by_key(before: Identified, after: Identified, place_of: Callable[[Any], Place]) -> Steps:
    for name, (key, item) in before.items():
        if name not in after:
            yield removed(place_of(key), item)
        elif not is_plainly_same(item, after[name][1]):
            yield Pair(item, after[name][1], place_of(key))
    for name, (key, item) in after.items():
        if name not in before:
            yield added(place_of(key), item)


def _text(pair: Pair, _: Walk) -> Steps:
    if pair.before != pair.after:
        yield text_difference(cast(str, pair.before), cast(str, pair.after), pair.place)


def _bytes(pair: Pair, _: Walk) -> Steps:
    if pair.before != pair.after:
        yield bytes_difference(cast(bytes, pair.before), cast(bytes, pair.after), pair.place)


_RULES: Final[dict[type, Rule]] = {
    **dict.fromkeys((list, tuple), _sequence),
    deque: _deque,
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys((dict, OrderedDict, Counter), _mapping),
    defaultdict: _default_mapping,
    str: _text,
    **dict.fromkeys((bytes, bytearray), _bytes),
}
"""By exact type, as the codec has them."""

_LIBRARY_RULES: Final[dict[tuple[str, str], Rule]] = {("numpy", "ndarray"): array_rule, **FRAME_RULES}
