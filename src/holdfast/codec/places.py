"""Finding the place inside a value at which it cannot be stored. Slow, and only walked to make an error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from datetime import datetime, time, timezone
from types import NoneType
from typing import Any, cast
from zoneinfo import ZoneInfo

from holdfast.codec.classes import FAMILIES, MADE_FROM, kind_of_class
from holdfast.codec.kinds import Lower, NotStorable
from holdfast.codec.standard import STANDARD_KINDS
from holdfast.errors import ValueNotStorable

MAX_DEPTH = 200
_SCALARS = frozenset({NoneType, bool, int, float, str, bytes})


def refusal(value: object, place: str, cause: Exception, lower: Lower) -> ValueNotStorable:
    """The error for a value that could not be lowered or packed because of ``cause``."""
    return _search(value, place, (), lower) or _error(value, place, cause)


def _search(value: object, place: str, above: tuple[int, ...], lower: Lower) -> ValueNotStorable | None:
    cls = type(value)
    if cls in _SCALARS:
        return None
    if id(value) in above:
        return ValueNotStorable(place, _name(cls), "contains itself")
    if len(above) > MAX_DEPTH:
        return ValueNotStorable(place, _name(cls), f"is nested deeper than {MAX_DEPTH} levels")
    try:
        for part, part_place in _parts(value, place):
            found = _search(part, part_place, (*above, id(value)), lower)
            if found is not None:
                return found
        if cls not in (list, dict):
            lower(value)  # Each of its parts can be stored; can it?
    except Exception as error:
        return _error(value, place, error)
    return None


def _error(value: object, place: str, cause: Exception) -> ValueNotStorable:
    if isinstance(cause, NotStorable):
        return ValueNotStorable(place, _name(cause.cls), cause.why)
    return ValueNotStorable(place, _name(type(value)), f"cannot be packed ({cause})")


def _parts(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """The parts of a value and their places. Raises NotStorable where it has no kind."""
    cls = cast("type[object]", type(value))
    if place.startswith(("the key ", "an element ")):
        place = f"({place})"
    if cls in (list, tuple):
        yield from ((item, f"{place}[{number}]") for number, item in enumerate(value))
    elif cls is dict:
        yield from ((key, f"the key {key!r} of {place}") for key in value)
        yield from ((item, f"{place}[{key!r}]") for key, item in value.items())
    elif cls in (set, frozenset):
        yield from ((item, f"an element of {place}") for item in value)
    elif cls in (datetime, time):
        if type(value.tzinfo) not in (NoneType, timezone, ZoneInfo):
            yield value.tzinfo, f"{place}.tzinfo"
    elif cls not in STANDARD_KINDS and kind_of_class(cls) is not FAMILIES["an enum"]:
        yield from _fields(value, place)


def _fields(value: Any, place: str) -> Iterator[tuple[object, str]]:
    if isinstance(value, BaseException):
        yield from ((item, f"{place}.args[{number}]") for number, item in enumerate(value.args))
    names = dict.fromkeys(getattr(value, "_fields", ()))
    if dataclasses.is_dataclass(value):
        names |= dict.fromkeys(field.name for field in dataclasses.fields(value) if hasattr(value, field.name))
    attributes = {name: getattr(value, name) for name in names} | getattr(value, "__dict__", {})
    attributes |= getattr(value, "__pydantic_extra__", None) or {}
    yield from ((item, f"{place}.{name}") for name, item in attributes.items() if name != MADE_FROM)


def _name(cls: type) -> str:
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
