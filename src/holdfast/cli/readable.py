"""Recorded values for people and programs, read without the classes that they are made of.

Nothing of the pipeline is imported here: an instance of one of its classes is shown as its name and its fields.
"""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from enum import Enum
from typing import Any, cast

import msgspec
import ormsgpack

from holdfast.codec.classes import FAMILIES
from holdfast.codec.kinds import Opaque
from holdfast.codec.standard import STANDARD_KINDS
from holdfast.errors import ValueNotReadable

_STANDARD = {kind.tag: kind for kind in STANDARD_KINDS.values()}
_FAMILY = {kind.tag: family for family, kind in FAMILIES.items()}
_UNREADABLE = (ValueNotReadable, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class Instance(msgspec.Struct, frozen=True):
    """An instance of a class that is not looked for: what it is called, and what it is made of."""

    type_name: str
    parts: Any
    """A dict of fields, the arguments of an exception as a list, or what stands for a member of an enum."""

    def __repr__(self) -> str:
        name = self.type_name.rpartition(":")[2]
        match self.parts:
            case dict():
                fields = cast("dict[str, object]", self.parts)
                return f"{name}({', '.join(f'{key}={value!r}' for key, value in fields.items())})"
            case list():
                return f"{name}({', '.join(map(repr, cast('list[object]', self.parts)))})"
            case _:
                return f"{name}.{self.parts}"


def read(data: bytes) -> Any:
    """The value that the bytes stand for, with an Instance for each instance of a class."""
    try:
        return ormsgpack.unpackb(data, ext_hook=_build)
    except _UNREADABLE:
        return Instance(f"{len(data)} bytes that cannot be shown", {})


def _build(tag: int, data: bytes) -> Any:
    inside = ormsgpack.unpackb(data, ext_hook=_build)
    family = _FAMILY.get(tag)
    if family == "an enum":
        name, member, value = inside
        return Instance(name, value if member is None else member)
    if family is not None:
        return Instance(inside[0], inside[1])
    value = _STANDARD[tag].build(inside)
    return Instance(value.type_name, {}) if isinstance(value, Opaque) else value


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
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in cast("list[object]", value)]
    return str(value)
