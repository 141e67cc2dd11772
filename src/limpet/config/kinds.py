"""The kinds of values that settings have: what is allowed, and how a value is read from a file or from text. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from limpet.errors import InvalidStoreUrl
from limpet.model.amounts import LARGEST, duration_from, size_from
from limpet.stores import parse_store_url

Amount = TypeVar("Amount")
Read = Callable[[Any], Any]
"""From a value as it was given to the one that counts. Raises NotAllowed."""


class NotAllowed(ValueError):
    """A value is not one that the setting can have. The text, if any, says more than what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a setting can be."""

    allowed: str
    """What people are told: 'a whole number from 1 on'."""
    read: Read
    read_text: Read | None = None
    """From the text of a variable of the environment; None: as any other value."""

    def from_text(self, text: str) -> Any:
        return (self.read if self.read_text is None else self.read_text)(text)


_TRUE: Final = ("true", "1", "yes", "on")
_FALSE: Final = ("false", "0", "no", "off")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.A)


def _read_truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise NotAllowed


def _truth_in(text: str) -> bool:
    word = text.strip().lower()
    if word not in (*_TRUE, *_FALSE):
        raise NotAllowed
    return word in _TRUE


TRUTH: Final = Kind(allowed="true or false", read=_read_truth, read_text=_truth_in)


def whole(least: int) -> Kind:
    """Whole numbers from the least one on."""

    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= LARGEST:
            return value
        raise NotAllowed

    return Kind(allowed=f"a whole number from {least} on", read=read, read_text=lambda text: read(_number(text, int)))


def number(*, is_above_zero: bool, unit: str = "") -> Kind:
    """Finite numbers from 0 on, or above 0."""

    def read(value: object) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST:
            given = float(value)
            if math.isfinite(given) and (given > 0 or (given == 0 and not is_above_zero)):
                return abs(given)
        raise NotAllowed

    allowed = f"a number{unit} {'above 0' if is_above_zero else 'from 0 on'}"
    return Kind(allowed=allowed, read=read, read_text=lambda text: read(_number(text, float)))


def _number(text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text.strip())
    except ValueError:
        raise NotAllowed from None


def one_of(words: type[StrEnum] | Sequence[str]) -> Kind:
    """One of a closed set of words; of an enum its member is given."""
    known = [str(word) for word in words]

    def read(value: object) -> Any:
        if not isinstance(value, str) or value.strip().lower() not in known:
            raise NotAllowed
        word = value.strip().lower()
        return words(word) if isinstance(words, type) else word

    return Kind(allowed=" or ".join([", ".join(map(repr, known[:-1])), repr(known[-1])]), read=read)


def _read_size(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    return _amount(size_from, value)


SIZE: Final = Kind(allowed="a number of bytes from 0 on, or text such as '64 KiB' or '1 MB'", read=_read_size)


def _read_duration(value: object) -> timedelta:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return _amount(duration_from, value)
    try:
        seconds = timedelta(seconds=value)
    except (OverflowError, ValueError):
        raise NotAllowed from None
    if seconds < timedelta(0):
        raise NotAllowed
    return seconds


def _duration_in(text: str) -> timedelta:
    try:
        return _read_duration(float(text))
    except ValueError:
        return _read_duration(text)


DURATION: Final = Kind(
    allowed="text such as '12h' or '30d' (s, min, h, d, w), or a number of seconds from 0 on",
    read=_read_duration,
    read_text=_duration_in,
)


def _amount(read: Callable[[str], Amount], value: object) -> Amount:
    if not isinstance(value, str):
        raise NotAllowed
    try:
        return read(value)
    except ValueError:
        raise NotAllowed from None


def _read_words(value: object) -> str:
    if isinstance(value, str) and value.strip():
        return value
    raise NotAllowed


TEXT: Final = Kind(allowed="text", read=_read_words)


def _read_store(value: object) -> str:
    if not isinstance(value, str):
        raise NotAllowed
    try:
        parse_store_url(value)
    except InvalidStoreUrl as error:
        raise NotAllowed(error.why) from error
    return value


STORE: Final = Kind(allowed="the URL of a store, such as 'sqlite:///runs.db'", read=_read_store)


def _read_variable(value: object) -> str:
    if isinstance(value, str) and _VARIABLE.fullmatch(value):
        return value
    raise NotAllowed


VARIABLE: Final = Kind(allowed="the name of a variable of the environment", read=_read_variable)


def list_of(each: Kind, *, is_ever_empty: bool = True) -> Kind:
    """Several values, as a tuple; in a variable of the environment they are separated by commas."""

    def read(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple):
            raise NotAllowed
        return checked(tuple(each.read(item) for item in cast("Sequence[object]", value)))

    def read_text(text: str) -> tuple[Any, ...]:
        return checked(tuple(each.from_text(item.strip()) for item in text.split(",") if item.strip()))

    def checked(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if not values and not is_ever_empty:
            raise NotAllowed
        return values

    some = "a list" if is_ever_empty else "a list of one or more"
    return Kind(allowed=f"{some}, of which each is {each.allowed}", read=read, read_text=read_text)


def optional(kind: Kind) -> Kind:
    """The kind, or 'none' for no value: TOML has no other word for it."""

    def is_none(value: object) -> bool:
        return value is None or (isinstance(value, str) and value.strip().lower() == "none")

    def read(value: object) -> Any:
        return None if is_none(value) else kind.read(value)

    def read_text(text: str) -> Any:
        return None if is_none(text) else kind.from_text(text)

    return Kind(allowed=f"{kind.allowed}, or 'none'", read=read, read_text=read_text)
