"""Finding the secrets inside a value, so that no message repeats them. Walked only where a secret is known to be."""

from __future__ import annotations

import inspect
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, Final, cast

from limpet.codec.kinds import NotStorable
from limpet.codec.secret_annotations import Hiding, hidden_fields
from limpet.codec.secrets import kind_of_secret, texts_of
from limpet.codec.user_types.families import family_of

_MOST_PARTS: Final = 1000


def secrets_at_hand(value: object) -> set[str]:
    """As ``secrets_in``, for a value that could not be stored, in which a great deal may be reached."""
    return _found(value, _MOST_PARTS, lambda cls: family_of(cls) is not None)


def secrets_in(value: object) -> set[str]:
    """The texts of all secrets in a value: those of secret types, and what stands in marked fields."""
    return _found(value, sys.maxsize, lambda _: True)


def _found(value: object, most: int, is_looked_into: Callable[[type], bool]) -> set[str]:
    found: set[str] = set()
    seen: set[int] = set()
    to_look_at: list[object] = [value]
    while to_look_at and len(seen) < most:
        one = to_look_at.pop()
        if id(one) in seen or isinstance(one, (str, bytes, int, float, type)):
            continue
        seen.add(id(one))
        cls = type(one)
        if _is_secret(cls):
            found |= texts_of(one)
        else:
            found |= _marked_texts(one)
            to_look_at += _parts(one, is_looked_into(cls))
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
        found |= _marked_texts(one) | _marked_arguments(one)
        to_look_at += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            to_look_at += cast("BaseExceptionGroup[BaseException]", one).exceptions
    return found


@cache
def _is_secret(cls: type) -> bool:
    return kind_of_secret(cls) is not None


def _marked_texts(value: object) -> set[str]:
    """The texts in the marked fields of an instance."""
    hidden = _hidden(type(value))
    if hidden is None:
        return texts_of([*getattr(value, "args", ()), *getattr(value, "__dict__", {}).values()])
    return set[str]().union(*(hiding.texts(getattr(value, name, None)) for name, hiding in hidden.items()))


def _marked_arguments(error: BaseException) -> set[str]:
    """The texts in the arguments of an exception that its initialiser says are secret, wherever it keeps them."""
    hidden = _hidden(type(error))
    if not hidden or not error.args:
        return set()
    try:
        given = inspect.signature(type(error)).bind_partial(*error.args).arguments
    except (TypeError, ValueError):
        return set()
    return set[str]().union(*(hiding.texts(given.get(name)) for name, hiding in hidden.items()))


@cache
def _hidden(cls: type) -> dict[str, Hiding] | None:
    """What is hidden of the fields of a class; None where that cannot be told."""
    try:
        return hidden_fields(cls)
    except NotStorable:
        return None


def _parts(value: Any, is_looked_into: bool) -> Iterator[object]:
    cls = cast("type[object]", type(value))
    if issubclass(cls, Mapping):
        yield from (*value, *value.values())
    elif issubclass(cls, (list, tuple, set, frozenset, deque)):
        yield from value
    if not is_looked_into:
        return
    slots = (name for base in cls.__mro__ for name in _slots(base))
    yield from (getattr(value, name, None) for name in slots)
    yield from getattr(value, "__dict__", {}).values()
    if issubclass(cls, BaseException):
        yield from value.args
        yield from (value.__cause__, value.__context__)


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)
