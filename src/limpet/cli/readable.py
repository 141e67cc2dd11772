"""Recorded values for people and programs, read without the classes that they are made of.

Nothing of the pipeline is imported here: an instance of one of its classes is shown as its name and its fields.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections import deque
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from enum import Enum
from functools import partial
from typing import Any, cast

import ormsgpack

from limpet.cli.summaries import Instance, summary
from limpet.codec.kinds import Opaque
from limpet.codec.python_types.standard import STANDARD_KINDS
from limpet.codec.secrets import MissingSecret
from limpet.codec.user_types.classes import FAMILIES
from limpet.errors import ValueNotReadable
from limpet.escapes import one_line

__all__ = ["Instance", "call_preview", "cut", "plain", "preview", "read"]

Make = Callable[[str, Any, dict[str, Any]], Any]
"""Makes what stands for an instance, of the name of its class, its parts, and what it carries besides."""

_STANDARD = {kind.tag: (cls.__name__, kind) for cls, kind in STANDARD_KINDS.items()}
_FAMILY = {kind.tag: family for family, kind in FAMILIES.items()}
_REGISTERED = 36
_UNREADABLE = (ValueNotReadable, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def read(data: bytes, make: Make = lambda name, parts, _: Instance(name, parts)) -> Any:
    """The value that the bytes stand for, with an Instance for each instance of a class or a library.

    ``make`` makes something else of the instances of users' classes.
    """
    try:
        return ormsgpack.unpackb(data, ext_hook=partial(_build, make))
    except _UNREADABLE:
        return Instance(f"{len(data)} bytes that cannot be shown", {}, data)


def _build(make: Make, tag: int, data: bytes) -> Any:
    inside = ormsgpack.unpackb(data, ext_hook=partial(_build, make))
    try:
        shown = _shown(make, tag, inside)
        return Instance(shown.type_name, shown.parts, data) if _is_summary(tag, shown) else shown
    except _UNREADABLE:
        # A tag of a later version, a class that is not imported, or an instance where only a hashable thing can stand.
        name, _ = _STANDARD.get(tag, (f"value with tag {tag}", None))
        return Instance(name, inside if isinstance(inside, list) else [inside])


def _is_summary(tag: int, shown: object) -> bool:
    return isinstance(shown, Instance) and tag not in _STANDARD and tag not in _FAMILY


def _shown(make: Make, tag: int, inside: Any) -> Any:
    if tag in _STANDARD:
        value = _STANDARD[tag][1].build(inside)
        return Instance(value.type_name, {}) if isinstance(value, Opaque) else value
    if tag in _FAMILY:
        return _instance(make, tag, inside[0], inside)
    if tag != _REGISTERED:
        return summary(tag, inside)
    name, _, family, parts = inside
    if isinstance(family, int):
        return _instance(make, family, name, parts)
    if family is not None:
        return Instance(name, {family: f"{len(parts)} bytes"})
    return Instance(name, parts if isinstance(parts, dict) else [parts])


def _instance(make: Make, tag: int, name: str, parts: Any) -> Any:
    _, content, *rest = cast("list[Any]", parts)
    match _FAMILY[tag]:
        case "an enum":
            return make(name, rest[0] if content is None else content, {})
        case "a pydantic model":
            extra, given, others, *_ = (*rest, None, None, None)
            given = frozenset[str](content if given is None else given)
            return make(name, {**content, **(extra or {})}, {"model_fields_set": given, **(others or {})})
        case "an exception":
            return make(name, content, {})
        case _:
            return make(name, content, rest[0] if rest else {})


def preview(value: object, width: int) -> str:
    """A value on one line that is not longer than the width."""
    return cut(repr(value), width)


def call_preview(data: bytes, width: int) -> str:
    """The recorded input of a call on one line, as its arguments would be written."""
    value: object = read(data)
    if not isinstance(value, dict):
        value = {"args": value, "kwargs": {}}
    args, kwargs = (cast("dict[str, object]", value).get(part) for part in ("args", "kwargs"))
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return preview(cast(object, value), width)
    named = [f"{key}={item!r}" for key, item in cast("dict[str, object]", kwargs).items()]
    return cut(", ".join([*map(repr, cast("list[object]", args)), *named]), width)


def cut(text: str, width: int) -> str:
    """Text on one line that is not longer than the width, with escapes in place of what is not seen as it is."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"


def plain(value: object) -> Any:
    """A value as JSON can say it. What JSON does not have becomes text."""
    match value:
        case None | bool() | str():
            return str(value) if isinstance(value, Enum) else value
        case Enum():
            return plain(value.value)
        case MissingSecret():
            return repr(value)
        case int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case Instance():
            return plain(value.parts)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            items = cast("Mapping[object, object]", value).items()
            return {key if isinstance(key, str) else str(key): plain(item) for key, item in items}
        case _:
            return _plain_object(value)


def _plain_object(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    for method in ("_asdict", "model_dump"):  # a named tuple, a pydantic model
        if callable(as_dict := getattr(value, method, None)):
            return plain(as_dict())
    if isinstance(value, (list, tuple, set, frozenset, deque)):
        return [plain(item) for item in cast("list[object]", value)]
    return str(value)
