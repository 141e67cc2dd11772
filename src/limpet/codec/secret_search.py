"""Finding the secrets inside a value, so that no message repeats them. Walked only where a secret is known to be."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, cast

from limpet.codec.secrets import kind_of_secret, secret_fields, texts_of


def secrets_in(value: object) -> set[str]:
    """The texts of all secrets in a value: those of secret types, and what stands in marked fields."""
    found: set[str] = set()
    seen: set[int] = set()
    to_look_at: list[object] = [value]
    while to_look_at:
        one = to_look_at.pop()
        if id(one) in seen or isinstance(one, (str, bytes, int, float, type)):
            continue
        seen.add(id(one))
        cls = type(one)
        if _is_secret(cls):
            found |= texts_of(one)
        else:
            for name in _marked(cls):
                found |= texts_of(getattr(one, name, None))
            to_look_at += _parts(one)
    return found


def secrets_of_error(error: BaseException) -> set[str]:
    """The texts in the marked fields of an exception, and of those that it came of. Nothing else is looked into."""
    found: set[str] = set()
    seen: set[int] = set()
    to_look_at: list[BaseException | None] = [error]
    while to_look_at:
        one = to_look_at.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        for name in _marked(type(one)):
            found |= texts_of(getattr(one, name, None))
        to_look_at += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            to_look_at += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return found


@cache
def _is_secret(cls: type) -> bool:
    return kind_of_secret(cls) is not None


@cache
def _marked(cls: type) -> frozenset[str]:
    return secret_fields(cls)


def _parts(value: Any) -> Iterator[object]:
    cls = cast("type[object]", type(value))
    if issubclass(cls, Mapping):
        yield from (*value, *value.values())
    elif issubclass(cls, (list, tuple, set, frozenset, deque)):
        yield from value
    slots = (name for base in cls.__mro__ for name in _slots(base))
    yield from (getattr(value, name, None) for name in slots)
    yield from getattr(value, "__dict__", {}).values()
    if issubclass(cls, BaseException):
        yield from value.args
        yield from (value.__cause__, value.__context__)


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
