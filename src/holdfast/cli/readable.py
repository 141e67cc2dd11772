"""Recorded values for people and programs, read without the classes that they are made of.

Nothing of the pipeline is imported here: an instance of one of its classes is shown as its name and its fields.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections import deque
from collections.abc import Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any, cast

import ormsgpack

from holdfast.cli.summaries import Instance, summary
from holdfast.codec.kinds import Opaque
from holdfast.codec.python_types.standard import STANDARD_KINDS
from holdfast.codec.secrets import MissingSecret
from holdfast.codec.user_types.classes import FAMILIES
from holdfast.errors import ValueNotReadable

__all__ = ["Instance", "cut", "plain", "preview", "read"]

_STANDARD = {kind.tag: (cls.__name__, kind) for cls, kind in STANDARD_KINDS.items()}
_FAMILY = {kind.tag: family for family, kind in FAMILIES.items()}
_REGISTERED = 36
_UNREADABLE = (ValueNotReadable, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def read(data: bytes) -> Any:
    """The value that the bytes stand for, with an Instance for each instance of a class or a library."""
    try:
        return ormsgpack.unpackb(data, ext_hook=_build)
    except _UNREADABLE:
        return Instance(f"{len(data)} bytes that cannot be shown", {})


def _build(tag: int, data: bytes) -> Any:
    inside = ormsgpack.unpackb(data, ext_hook=_build)
    try:
        return _shown(tag, inside)
    except _UNREADABLE:
        # A tag of a later version, a class that is not imported, or an instance where only a hashable thing can stand.
        name, _ = _STANDARD.get(tag, (f"value with tag {tag}", None))
        return Instance(name, inside if isinstance(inside, list) else [inside])


def _shown(tag: int, inside: Any) -> Any:
    if tag in _STANDARD:
        value = _STANDARD[tag][1].build(inside)
        return Instance(value.type_name, {}) if isinstance(value, Opaque) else value
    if tag in _FAMILY:
        return _instance(tag, inside[0], inside)
    if tag != _REGISTERED:
        return summary(tag, inside)
    name, _, family, parts = inside
    if isinstance(family, int):
        return _instance(family, name, parts)
    if family is not None:
        return Instance(name, {family: f"{len(parts)} bytes"})
    return Instance(name, parts if isinstance(parts, dict) else [parts])


def _instance(tag: int, name: str, parts: Any) -> Instance:
    if _FAMILY[tag] == "an enum":
        _, member, value = parts
        return Instance(name, value if member is None else member)
    return Instance(name, parts[1])


def preview(value: object, width: int) -> str:
    """A value on one line that is not longer than the width."""
    return cut(repr(value), width)


def cut(text: str, width: int) -> str:
    """Text on one line that is not longer than the width."""
    line = " ".join(text.split())
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
