"""Recorded values that can be held against each other without the classes that they are made of.

An instance becomes one of a class of the same name and fields that is made here, so that a difference is told at
``result.pages[2].title``. Nothing of the pipeline is imported.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from limpet.cli.readable import Instance, read


def read_comparable(data: bytes) -> Any:
    """The value that the bytes stand for, as it is compared."""
    return read(data, _made)


def _made(type_name: str, parts: Any, others: dict[str, Any]) -> Any:
    if isinstance(parts, dict):
        fields = cast("dict[str, object]", parts)
        made = _class_with_fields(type_name, tuple(fields))(fields.values())
        made.__dict__.update(others)
        return made
    return _class_without_fields(type_name)(type_name, parts)


# One class for each name, as a value of another class is another one whatever its parts are.


@cache
def _class_with_fields(type_name: str, names: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """A class in the form of a named tuple: of all forms it is the one that takes any text as the name of a field."""
    return type(_short(type_name), (tuple,), {"_fields": names})


@cache
def _class_without_fields(type_name: str) -> type[Instance]:
    return type(_short(type_name), (Instance,), {})


def _short(type_name: str) -> str:
    return type_name.rpartition(":")[2]
