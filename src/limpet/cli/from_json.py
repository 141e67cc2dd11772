"""From JSON to a value of the type that a recorded one has: what ``--replace`` gives in place of it.

A recorded value tells the types of its parts better than any annotation: a list of pages is made of pages. Where it
tells nothing (it is None, or empty) an annotation does. Classes are called to make their instances, so what they refuse
is refused here, too.
"""

from __future__ import annotations

import copy
import dataclasses
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Final, cast

import msgspec

from limpet.codec.comparison.parts import type_of
from limpet.codec.python_types.standard import STANDARD_KINDS
from limpet.codec.secrets import MissingSecret
from limpet.codec.user_types.families import family_of

_MAPPINGS: Final = (dict, OrderedDict, defaultdict, Counter)
_SEQUENCES: Final = (list, tuple, set, frozenset, deque)
_WITH_FIELDS: Final = ("a dataclass", "an attrs class", "a msgspec struct", "a named tuple")


class NotFitting(ValueError):
    """What JSON gives is not of the type that is expected at a place."""

    def __init__(self, place: str, why: str) -> None:
        super().__init__(place, why)
        self.place = place
        self.why = why

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


def value_like(example: Any, given: Any, annotation: Any = Any) -> Any:
    """A value of the type of the example. Raises NotFitting.

    The annotation counts where the example is None or empty. What is told by neither is taken as JSON has it.
    """
    made = (
        _fitting(example, given, annotation, "result") if _tells_nothing(example) else _like(example, given, "result")
    )
    if example is not None and type(made) is not type(example):
        raise NotFitting("result", f"{_named(given)} cannot be read as {type_name(type_of(example))}")
    return made


def type_name(cls: type) -> str:
    """The name of a type as a person would look for it."""
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def _tells_nothing(example: object) -> bool:
    return example is None or (type_of(example) in (*_MAPPINGS, *_SEQUENCES) and not example)


def _fitting(example: Any, given: Any, annotation: Any, place: str) -> Any:
    """By example first, since a class that is derived from the annotated one is still itself."""
    if not _tells_nothing(example):
        try:
            return _like(example, given, place)
        except NotFitting:
            if annotation is Any:
                raise
    return given if annotation is Any else _converted(annotation, given, place)


def _like(example: Any, given: Any, place: str) -> Any:
    cls = type_of(example)
    if isinstance(example, MissingSecret):
        return example  # It is not stored, whatever is given.
    if cls in _MAPPINGS:
        return _mapping_like(example, _required(dict, given, place), place)
    if cls in _SEQUENCES:
        return _sequence_like(example, _required(list, given, place), place)
    if family_of(cls) in _WITH_FIELDS:
        return _instance_like(example, _required(dict, given, place), place)
    return _converted(cls, given, place)


def _required(cls: type[Any], given: Any, place: str) -> Any:
    if type(given) is not cls:
        raise NotFitting(place, f"{_NAMES[cls]} is expected, not {_named(given)}")
    return given


def _mapping_like(example: dict[Any, Any], given: dict[str, Any], place: str) -> Any:
    keys = {str(key): key for key in example}
    common = _common(example.values())
    items = {
        keys.get(text, text): _fitting(example.get(keys.get(text, text), common), item, Any, f"{place}[{text!r}]")
        for text, item in given.items()
    }
    made = copy.copy(example)  # It may know more than its items: what a defaultdict makes.
    made.clear()
    made.update(items)
    return made


def _sequence_like(example: Any, given: list[Any], place: str) -> Any:
    known: list[Any] = [] if type_of(example) in (set, frozenset) else list(example)
    if len(known) != len(given):
        # Something was added or taken out, so what stood at an index may stand elsewhere now.
        known = [_common(example)] * len(given)
    items = [
        _fitting(one, item, Any, f"{place}[{index}]")
        for index, (one, item) in enumerate(zip(known, given, strict=True))
    ]
    return deque(items, example.maxlen) if type_of(example) is deque else type_of(example)(items)


def _common(items: Iterable[Any]) -> Any:
    """One of the items where all are of one type: it tells of what there are more."""
    listed = list(items)
    return listed[0] if len({type_of(item) for item in listed}) == 1 else None


def _instance_like(example: Any, given: dict[str, Any], place: str) -> Any:
    cls = type_of(example)
    names = dict(_parameters(cls))
    unknown = [name for name in given if name not in names]
    if unknown:
        raise NotFitting(place, f"{cls.__name__} has no field {unknown[0]!r}; it has: {', '.join(names)}")
    hints = _hints(cls)
    items = {
        name: _fitting(getattr(example, name, None), item, hints.get(name, Any), f"{place}.{name}")
        for name, item in given.items()
    }
    secrets = {name: item for name in names if isinstance(item := getattr(example, name, None), MissingSecret)}
    items = secrets | items
    made = _called(cls, {names[name]: item for name, item in items.items() if names[name]}, place)
    for name in (name for name in items if not names[name]):
        object.__setattr__(made, name, items[name])
    return made


def _parameters(cls: Any) -> Iterator[tuple[str, str]]:
    """The fields of a class, and what its initialiser calls each of them; nothing for one that it does not take."""
    if hasattr(cls, "__attrs_attrs__"):
        yield from ((each.name, each.alias if each.init else "") for each in cls.__attrs_attrs__)
    elif dataclasses.is_dataclass(cls):
        yield from ((each.name, each.name if each.init else "") for each in dataclasses.fields(cls))
    else:
        yield from ((name, name) for name in getattr(cls, "__struct_fields__", ()) or cls._fields)


def _hints(cls: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(cls)
    except Exception:
        return {}  # A name that is imported for type checkers only; the example has to do.


def _called(cls: type[Any], items: dict[str, Any], place: str) -> Any:
    try:
        return cls(**items)
    except Exception as error:
        raise NotFitting(place, f"{cls.__name__} cannot be made of these values ({_said(error)})") from error


def _converted(expected: Any, given: Any, place: str) -> Any:
    """JSON as what a class or an annotation says."""
    try:
        found = _of_class(expected, given) if isinstance(expected, type) else _OF_ANOTHER_KIND
        return cast(Any, msgspec.convert(given, expected, dec_hook=_decode)) if found is _OF_ANOTHER_KIND else found
    except msgspec.ValidationError as error:
        why, _, inside = str(error).partition(" - at `$")
        raise NotFitting(f"{place}{inside.rstrip('`')}", why) from error
    except Exception as error:
        named = type_name(expected) if isinstance(expected, type) else str(expected)
        raise NotFitting(place, f"{_named(given)} cannot be read as {named} ({_said(error)})") from error


_OF_ANOTHER_KIND: Final[Any] = object()


def _of_class(cls: Any, given: Any) -> Any:
    """What msgspec does not know, or knows by other words."""
    if family_of(cls) == "a pydantic model":
        return cls.model_validate_json(msgspec.json.encode(given))
    if issubclass(cls, Enum) and isinstance(given, str) and given in cls.__members__:
        # `limpet show --json` says a member by its name. Where that is also a value, the value is meant.
        return cls[given] if given not in [member.value for member in cls] else cls(given)
    if cls in STANDARD_KINDS and isinstance(given, str) and not _is_known_to_msgspec(cls):
        return cls(given)
    return _OF_ANOTHER_KIND


def _is_known_to_msgspec(cls: type) -> bool:
    return not isinstance(msgspec.inspect.type_info(cls), msgspec.inspect.CustomType)


def _decode(cls: type[Any], given: Any) -> Any:
    found = _of_class(cls, given)
    if found is _OF_ANOTHER_KIND:
        raise ValueError(f"JSON has no way to say {type_name(cls)}")
    return found


def _said(error: Exception) -> str:
    return " ".join(str(error).split())


_NAMES: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def _named(given: object) -> str:
    return _NAMES[type(given)]
