"""The types that answers and messages are held to: noted with a question, found again in another process, applied.

A type is noted as plain data: a class by its name, and what is made of classes (``list[Review]``, ``Literal["a"]``,
``int | None``) part by part. A class is found again as everywhere (``codec/names.py``): among what the program has
imported. What bounds a type beyond that (``Annotated``) counts where the question is asked.
"""

from __future__ import annotations

import types
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, Union, cast, get_args, get_origin

import msgspec

from limpet.codec.names import find_class, name_of

_BUILT_IN: Final[dict[str, Any]] = {
    each.__name__: each for each in (bool, int, float, str, bytes, list, dict, set, frozenset, tuple)
} | {"Any": Any, "None": None}


class NotFitting(ValueError):
    """A value is not of the type that is expected."""


def to_plain(wanted: Any) -> Any:
    """A type as plain data. Raises TypeError for what is none."""
    if wanted is None or wanted is type(None):
        return "None"
    if wanted is Any or (isinstance(wanted, type) and _BUILT_IN.get(wanted.__name__) is wanted):
        return "Any" if wanted is Any else wanted.__name__
    if (named := getattr(wanted, "__supertype__", None)) is not None:
        return to_plain(named)
    origin, parts = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        return to_plain(parts[0])
    if origin is Literal:
        return {"one of": list(parts)}
    if origin in (Union, types.UnionType):
        return {"any of": [to_plain(part) for part in parts]}
    if origin is not None and origin.__name__ in _BUILT_IN:
        return {origin.__name__: ["..." if part is ... else to_plain(part) for part in parts]}
    if origin is None and isinstance(wanted, type):
        return {"class": name_of(cast("type[Any]", wanted))}
    raise TypeError(f"{wanted!r} is no type that an answer can be held to")


def from_plain(plain: Any) -> Any:
    """The type that was noted. Raises ValueNotReadable where a class of it is not imported."""
    if isinstance(plain, str):
        return _BUILT_IN[plain]
    ((kind, parts),) = cast("dict[str, Any]", plain).items()
    match kind:
        case "class":
            return find_class(parts)
        case "one of":
            return Literal[tuple(parts)]
        case "any of":
            return Union[tuple(from_plain(part) for part in parts)]  # noqa: UP007 - made of parts that are data
        case _:
            return _BUILT_IN[kind][tuple(... if part == "..." else from_plain(part) for part in parts)]


def type_name(plain: Any) -> str:
    """A noted type, for people."""
    if isinstance(plain, str):
        return plain
    ((kind, parts),) = cast("dict[str, Any]", plain).items()
    match kind:
        case "class":
            return str(parts)
        case "one of":
            return " | ".join(map(repr, parts))
        case "any of":
            return " | ".join(map(type_name, parts))
        case _:
            return f"{kind}[{', '.join(part if part == '...' else type_name(part) for part in parts)}]"


def schema_of(wanted: Any) -> dict[str, Any]:
    """The JSON schema of a type; empty where it has none."""
    try:
        return _schema(wanted)
    except TypeError:
        return {}


@lru_cache(maxsize=256)
def _schema(wanted: Any) -> dict[str, Any]:
    return msgspec.json.schema(wanted, schema_hook=_schema_of_class)


def _schema_of_class(cls: type) -> dict[str, Any]:
    make: Any = getattr(cls, "model_json_schema", None)
    schema: dict[str, Any] = {} if make is None else make()
    return schema


def converted(value: Any, wanted: Any) -> Any:
    """The value as one of that type: as it is, or made of what JSON has. Raises NotFitting, which says why not."""
    if wanted is Any or (isinstance(wanted, type) and type(value) is wanted):
        return value
    try:
        return msgspec.convert(value, cast("Any", wanted), strict=True, from_attributes=True, dec_hook=_made)
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise NotFitting(str(error)) from error


def _made(cls: type, value: Any) -> Any:
    """An instance of a class that msgspec does not know."""
    if isinstance(value, cls):
        return value
    validate = getattr(cls, "model_validate", None)
    if validate is None:
        raise NotFitting(f"Expected `{cls.__qualname__}`, got `{type(value).__name__}`")
    return validate(value)
