"""What a kind of value is to the codec: a tag, a way down to plain parts and a way up again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

Lower = Callable[[Any], Any]
"""Turns a part of a value into something that msgpack has."""


class NotStorable(Exception):
    """Inside the codec: this value has no kind. The place is found afterwards."""

    def __init__(self, cls: type, why: str = "is not a kind of value that can be stored") -> None:
        super().__init__(cls, why)
        self.cls = cls
        self.why = why


class Kind(msgspec.Struct, frozen=True):
    """A row of the table of types. The tag is part of the format and is never given to another kind."""

    tag: int
    lower: Callable[[Any, Lower], Any]
    """From a value to its parts, each lowered."""
    build: Callable[[Any], Any]
    """From the parts, each built already, to the value. Checks what it is given: the parts come from stored bytes."""


def listed(part: Any) -> list[Any]:
    """A part that was written as a list. Others can be gone through as well, and a range or a network has no end."""
    if type(part) is not list:
        raise TypeError("a part of it is no list")
    return cast("list[Any]", part)


def mapped(part: Any) -> dict[Any, Any]:
    """A part that was written as a map."""
    if type(part) is not dict:
        raise TypeError("a part of it is no map")
    return cast("dict[Any, Any]", part)


class Opaque(msgspec.Struct, frozen=True):
    """Stands in a recorded input where something stood that cannot be stored, such as an open connection."""

    type_name: str
