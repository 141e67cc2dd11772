"""How the shapes of two values differ: their types and what they are made of, but not what they say.

For actors that never answer twice alike, such as models. A value that has the same shape as a recorded one can take
its place in the program.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

from limpet.codec.comparison.arrays import dtype_texts, has_same_dtype
from limpet.codec.comparison.findings import Found, Pair, Place, Steps, became
from limpet.codec.comparison.parts import declared_parts, has_parts, is_secret, type_of
from limpet.codec.comparison.shown import cut, type_name
from limpet.codec.comparison.walk import Rule, Walk, Whole, rule_for
from limpet.model.difference import Difference, DifferenceKind

_MAPPINGS: Final = frozenset({dict, OrderedDict, defaultdict, Counter})


def shape_differences(before: object, after: object, place: str = "result", *, most: int = 20) -> list[Difference]:
    """Where the shapes of two values differ, at most ``most`` places. The texts name types; no content is shown.

    Instances are compared field by field, where None matches anything; dicts with text keys key by key; lists by the
    types of their elements, where an empty one matches any; tuples element by element; arrays by dtype and shape;
    frames by their columns and dtypes, not by the number of rows. Of everything else only the type counts.
    """
    walk = Walk(_rule, Whole(_has_same_type, _other_shape))
    return list(islice(walk.differences(Pair(before, after, Place(place))), most))


def _has_same_type(before: object, after: object) -> bool:
    """Of an instance whose class raises when it is looked into, the type is all the shape there is."""
    return type_of(before) is type_of(after)


def _rule(pair: Pair, walk: Walk) -> Steps:
    cls = type_of(pair.before)
    if is_secret(pair.before) and is_secret(pair.after):
        return
    if cls is not type_of(pair.after):
        yield _other_type(pair)
    else:
        rule = rule_for(cls, _RULES, _LIBRARY_RULES)
        if rule is not None:
            yield from rule(pair, walk)
        elif _is_instance(cls):
            yield from _fields(pair)


def _is_instance(cls: type) -> bool:
    """Whether fields are compared. Of an exception the type says what it is; its arguments are content."""
    return has_parts(cls) and not issubclass(cls, BaseException)


def _other_type(pair: Pair) -> Found:
    one, other = type_of(pair.before), type_of(pair.after)
    texts = [_name(one), _name(other)]
    if texts[0] == texts[1]:
        texts = [f"{cls.__module__}.{cls.__qualname__}" for cls in (one, other)]
    return became(pair.place, texts[0], texts[1])


def _other_shape(pair: Pair) -> Found:
    """For a pair whose details stand at another place."""
    name = _name(type_of(pair.before))
    return became(pair.place, name, f"{name} (of another shape)")


def _name(cls: type) -> str:
    return "None" if cls is type(None) else type_name(cls)


def _fields(pair: Pair) -> Steps:
    before, after = declared_parts(pair.before), declared_parts(pair.after)
    present = {name for name in before.keys() & after.keys() if before[name] is not None and after[name] is not None}
    yield from _by_key(before, after, lambda name: pair.place.step(f".{name}"), present)


def _mapping(pair: Pair, _: Walk) -> Steps:
    before, after = cast("dict[Any, object]", pair.before), cast("dict[Any, object]", pair.after)
    if all(type_of(key) is str for key in (*before, *after)):
        yield from _by_key(before, after, pair.place.item, before.keys() & after.keys())
        return
    yield from _types(before, after, pair.place.step(" (keys)"))
    yield from _types(before.values(), after.values(), pair.place.step(" (values)"))


def _by_key(
    before: Mapping[Any, object],
    after: Mapping[Any, object],
    place_of: Callable[[Any], Place],
    common: Iterable[object],
) -> Steps:
    for key in before:
        if key not in after:
            yield _only(place_of(key), before[key], DifferenceKind.REMOVED)
        elif key in common:
            yield Pair(before[key], after[key], place_of(key))
    yield from (_only(place_of(key), after[key], DifferenceKind.ADDED) for key in after if key not in before)


def _only(place: Place, value: object, kind: DifferenceKind) -> Found:
    """What only one of the two has."""
    name = _name(type_of(value))
    is_added = kind is DifferenceKind.ADDED
    return lambda: Difference(str(place), "" if is_added else name, name if is_added else "", kind)


def _types(before: Iterable[object], after: Iterable[object], place: Place) -> Steps:
    """Which types occur; nothing to compare where one side is empty."""
    one, other = ({type_of(each) for each in side} for side in (before, after))
    if one and other and one != other:
        texts = [", ".join(sorted(map(_name, side))) for side in (one, other)]
        if texts[0] == texts[1]:
            texts = [", ".join(sorted(f"{cls.__module__}.{cls.__qualname__}" for cls in side)) for side in (one, other)]
        yield became(place, cut(texts[0]), cut(texts[1]))


def _elements(pair: Pair, _: Walk) -> Steps:
    before, after = cast("Sequence[object]", pair.before), cast("Sequence[object]", pair.after)
    yield from _types(before, after, pair.place.step(" (elements)"))
    if before and after and type_of(before[0]) is type_of(after[0]):
        cls = type_of(before[0])
        if cls in _MAPPINGS or _is_instance(cls):
            yield Pair(before[0], after[0], pair.place.item(0))


def _set(pair: Pair, _: Walk) -> Steps:
    # Which element comes first is chance, so that only the types are compared.
    before, after = cast("set[object]", pair.before), cast("set[object]", pair.after)
    yield from _types(before, after, pair.place.step(" (elements)"))


def _tuple(pair: Pair, _: Walk) -> Steps:
    before, after = cast("tuple[object, ...]", pair.before), cast("tuple[object, ...]", pair.after)
    if len(before) != len(after):
        yield became(pair.place.step(" (length)"), str(len(before)), str(len(after)))
        return
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        yield Pair(one, other, pair.place.item(index))


def _array(pair: Pair, walk: Walk) -> Steps:
    before, after = cast(Any, pair.before), cast(Any, pair.after)
    if not has_same_dtype(before, after):
        yield from _dtype(pair, walk)
    if before.shape != after.shape:
        yield became(pair.place.step(".shape"), str(before.shape), str(after.shape))


def _dtype(pair: Pair, _: Walk) -> Steps:
    one, other = dtype_texts(pair.before, pair.after)
    if one != other:
        yield became(pair.place.step(".dtype"), one, other)


def _frame(pair: Pair, walk: Walk) -> Steps:
    before, after = (_columns(value) for value in pair[:2])
    for label, column in before.items():
        if label in after:
            yield from _dtype(Pair(column, after[label], pair.place.item(label)), walk)
        else:
            yield _only(pair.place.item(label), column, DifferenceKind.REMOVED)
    new = (label for label in after if label not in before)
    yield from (_only(pair.place.item(label), after[label], DifferenceKind.ADDED) for label in new)


def _columns(frame: Any) -> dict[object, Any]:
    """The columns by their labels; of a frame of pandas that has a label twice by their numbers."""
    if not hasattr(frame, "iloc"):
        return {column.name: column for column in frame.get_columns()}
    labels = list(frame.columns) if frame.columns.is_unique else range(frame.shape[1])
    return {label: frame.iloc[:, number] for number, label in enumerate(labels)}


_RULES: Final[dict[type, Rule]] = {
    **dict.fromkeys((list, deque), _elements),
    **dict.fromkeys((set, frozenset), _set),
    **dict.fromkeys(_MAPPINGS, _mapping),
    tuple: _tuple,
}

_LIBRARY_RULES: Final[dict[tuple[str, str], Rule]] = {
    ("numpy", "ndarray"): _array,
    **dict.fromkeys((("pandas", "DataFrame"), ("polars", "DataFrame")), _frame),
    **dict.fromkeys((("pandas", "Series"), ("polars", "Series"), ("pandas", "Index")), _dtype),
}
