"""Finding the place inside a value at which it cannot be stored. Slow, and only walked to make an error."""

from __future__ import annotations

from asyncio import Future
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import datetime, time, timezone
from inspect import CORO_CREATED, getcoroutinestate
from types import CoroutineType, NoneType
from typing import Any, cast
from zoneinfo import ZoneInfo

from limpet.codec.kinds import Lower, NotStorable
from limpet.codec.left_out import LeftOut
from limpet.codec.library_types.optional import parts_with_places
from limpet.codec.python_types.containers import lower_factory
from limpet.codec.python_types.standard import STANDARD_KINDS
from limpet.codec.secrets import MissingSecret, kind_of_secret
from limpet.errors import ValueNotStorable
from limpet.model.artifacts import ArtifactReference

MAX_DEPTH = 200
_SCALARS = frozenset({NoneType, bool, int, float, str, bytes})
_MAPPINGS = (dict, OrderedDict, defaultdict, Counter)
_WHOLE = frozenset({*STANDARD_KINDS, ArtifactReference, LeftOut, MissingSecret})


Elsewhere = Callable[[object], bool]
"""Whether a part is stored somewhere else, so that it need not be looked into."""


def refusal(
    value: object, place: str, cause: Exception, lower: Lower, is_elsewhere: Elsewhere = lambda _: False
) -> ValueNotStorable:
    """The error for a value that could not be lowered or packed because of ``cause``."""
    return _search(value, place, (), lower, is_elsewhere) or _error(value, place, cause)


def _search(
    value: object, place: str, above: tuple[int, ...], lower: Lower, is_elsewhere: Elsewhere
) -> ValueNotStorable | None:
    cls = type(value)
    if cls in _SCALARS or is_elsewhere(value):
        return None
    if id(value) in above:
        return ValueNotStorable(place, _name(cls), "contains itself")
    if len(above) > MAX_DEPTH:
        return ValueNotStorable(place, _name(cls), f"is nested deeper than {MAX_DEPTH} levels")
    try:
        if cls is defaultdict:
            lower_factory(cast("Any", value).default_factory)
    except NotStorable as error:
        return _error(value, f"{_opened(place)}.default_factory", error)
    try:
        for part, part_place in _parts(value, place):
            found = _search(part, part_place, (*above, id(value)), lower, is_elsewhere)
            if found is not None:
                return found
        if cls not in (list, dict):
            lower(value)  # Each of its parts can be stored; can it?
    except Exception as error:
        return _error(value, place, error)
    return None


def _error(value: object, place: str, cause: Exception) -> ValueNotStorable:
    if isinstance(cause, NotStorable):
        kind, why = _unfinished(value) or (_name(cause.cls), cause.why)
        return ValueNotStorable(place, kind, why)
    return ValueNotStorable(place, _name(type(value)), f"cannot be packed ({cause})")


def _unfinished(value: object) -> tuple[str, str] | None:
    """What stands in the place of a result and is none yet, and why: it was not awaited, or not called."""
    match value:
        case CoroutineType():
            coro = cast("CoroutineType[Any, Any, Any]", value)
            if getcoroutinestate(coro) == CORO_CREATED:
                coro.close()  # The error says it: Python need not say that it was never awaited.
            return "coroutine", f"{_called(coro)} was not awaited"
        case Future():
            return "task", "was not awaited"
        case _:
            is_actor = hasattr(type(value), "__await__") and hasattr(value, "__wrapped__")
            return ("actor", f"{_called(value)} was not called") if is_actor else None


def _called(value: object) -> str:
    name = getattr(value, "__qualname__", "")
    return repr(str(name).rpartition("<locals>.")[2])


def _parts(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """The parts of a value and their places. Raises NotStorable where it has no kind."""
    cls = cast("type[object]", type(value))
    place = _opened(place)
    if cls in (list, tuple, deque):
        yield from ((item, f"{place}[{number}]") for number, item in enumerate(value))
    elif cls in _MAPPINGS:
        yield from ((key, f"the key {key!r} of {place}") for key in value)
        yield from ((item, f"{place}[{key!r}]") for key, item in value.items())
    elif cls in (set, frozenset):
        yield from ((item, f"an element of {place}") for item in value)
    elif cls in (datetime, time):
        if type(value.tzinfo) not in (NoneType, timezone, ZoneInfo):
            yield value.tzinfo, f"{place}.tzinfo"
    elif cls not in _WHOLE and kind_of_secret(cls) is None:
        yield from parts_with_places(value, place)


def _opened(place: str) -> str:
    """A place as it stands before what leads further inside."""
    return f"({place})" if place.startswith(("the key ", "an element ")) else place


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
