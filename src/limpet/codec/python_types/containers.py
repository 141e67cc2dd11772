"""The kinds of Python's other containers: deque, range, defaultdict, OrderedDict and Counter."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, cast

from limpet.codec.kinds import Kind, Lower, NotStorable, listed
from limpet.codec.names import find_class, name_of
from limpet.codec.user_types.classes import kind_of_class
from limpet.errors import ValueNotReadable

FACTORIES: Final[dict[str, type]] = {
    cls.__name__: cls
    for cls in (
        *(bool, int, float, complex, str, bytes, bytearray, list, tuple, dict, set, frozenset),
        *(deque, defaultdict, OrderedDict, Counter, Decimal, Fraction),
    )
}
"""What a defaultdict may call for a missing key besides the user's own classes, by the name that is written."""


def _damaged(cls: type, why: str) -> ValueNotReadable:
    return ValueNotReadable(name_of(cls), f"its bytes are damaged ({why})")


def _pairs(value: dict[Any, Any], lower: Lower) -> list[Any]:
    if getattr(value, "__dict__", None):
        raise NotStorable(type(value), "has attributes of its own, which would be lost")
    return [[lower(key), lower(item)] for key, item in value.items()]


def _build_pairs(cls: type, parts: Any) -> dict[Any, Any]:
    if type(parts) is not list:
        raise _damaged(cls, "its items are no list")
    return dict(map(listed, cast("list[Any]", parts)))


def _lower_deque(value: deque[Any], lower: Lower) -> Any:
    return [value.maxlen, [lower(item) for item in value]]


def _build_deque(parts: Any) -> deque[Any]:
    maxlen, items = parts
    if type(items) is not list:
        raise _damaged(deque, "its items are no list")
    if maxlen is not None and (type(maxlen) is not int or maxlen < len(cast("list[Any]", items))):
        raise _damaged(deque, "it has more items than it may")
    return deque(cast("list[Any]", items), maxlen)


def _lower_range(value: range, lower: Lower) -> Any:
    return [lower(value.start), lower(value.stop), lower(value.step)]


def _build_range(parts: Any) -> range:
    start, stop, step = parts
    return range(start, stop, step)


def lower_factory(factory: Any) -> str | None:
    """The name of what a defaultdict calls for a missing key. Raises NotStorable for what could not be found again."""
    if factory is None:
        return None
    if not isinstance(factory, type):
        raise NotStorable(
            factory.__class__, "makes the missing items of a defaultdict, and only a class can be stored there"
        )
    if FACTORIES.get(factory.__name__) is factory:
        return factory.__name__
    kind_of_class(factory)
    return name_of(factory)


def _build_factory(written: object) -> type | None:
    if written is None:
        return None
    known = FACTORIES.get(str(written))
    if known is not None:
        return known
    factory = find_class(str(written))
    try:
        kind_of_class(factory)
    except NotStorable as error:
        raise ValueNotReadable(str(written), f"it makes the items of a defaultdict, and now {error.why}") from error
    return factory


def _lower_defaultdict(value: defaultdict[Any, Any], lower: Lower) -> Any:
    return [lower_factory(value.default_factory), _pairs(value, lower)]


def _build_defaultdict(parts: Any) -> defaultdict[Any, Any]:
    factory, pairs = parts
    return defaultdict(_build_factory(factory), _build_pairs(defaultdict, pairs))


CONTAINER_KINDS: Final[dict[type, Kind]] = {
    deque: Kind(24, _lower_deque, _build_deque),
    range: Kind(25, _lower_range, _build_range),
    defaultdict: Kind(26, _lower_defaultdict, _build_defaultdict),
    OrderedDict: Kind(27, _pairs, lambda parts: OrderedDict(_build_pairs(OrderedDict, parts))),
    Counter: Kind(28, _pairs, lambda parts: Counter(_build_pairs(Counter, parts))),
}
"""By exact type."""
