"""How often, when and on which errors a call is tried again, as people set it; and what came of that, as counts."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, cast

import msgspec

from limpet.errors import UsageError
from limpet.model.plan import counted
from limpet.model.readable_time import readable_time

Exceptions = tuple[type[BaseException], ...]

_MOST_ATTEMPTS: Final = 2**63 - 1
"""What every store of JSON holds."""


class BackoffStrategy(StrEnum):
    """How the wait grows from one failed attempt to the next."""

    CONSTANT = "constant"
    """Always ``initial_delay``."""
    LINEAR = "linear"
    """``initial_delay`` times 1, 2, 3, 4 …"""
    EXPONENTIAL = "exponential"
    """``initial_delay`` times 1, m, m², m³ …, where m is ``backoff_multiplier``."""
    FIBONACCI = "fibonacci"
    """``initial_delay`` times 1, 1, 2, 3, 5 …"""


class RetryConfig(msgspec.Struct, frozen=True):
    """How often, when and on which errors a call is tried again.

    ``max_attempts`` counts the first try. No computed wait is longer than ``max_delay``, jitter included; only a server
    that asks for more time is given it. Beyond five minutes, or ``max_delay`` if that is longer, the run leaves memory
    for it. ``jitter`` makes a wait shorter by chance, by half at the most.
    ``retry_timeout`` bounds the whole event, attempts and waits together. ``enabled=False`` means off at that level:
    no other one is asked.

    Without ``retry_on_exceptions`` every ``Exception`` is retried, whatever its kind. With it, exactly those and their
    subclasses are, and with an empty one nothing is. ``exclude_exceptions`` always wins. What Limpet itself refuses,
    such as Drift, is retried only where a class of Limpet's own is named. No cancellation and no KeyboardInterrupt is
    ever retried, named or not.

    All times are in seconds. A single exception type stands for a tuple of one, and ``'linear'`` for the member. Raises
    UsageError where a value has no meaning.
    """

    max_attempts: int = 3
    backoff_strategy: BackoffStrategy = BackoffStrategy.EXPONENTIAL
    initial_delay: float = 1.0
    max_delay: float = 60.0
    backoff_multiplier: float = 2.0
    jitter: bool = True
    retry_on_exceptions: tuple[type[BaseException], ...] | None = None
    exclude_exceptions: tuple[type[BaseException], ...] | None = None
    retry_timeout: float | None = None
    enabled: bool = True

    def __post_init__(self) -> None:
        self._put("max_attempts", _attempts(self.max_attempts))
        self._put("backoff_strategy", _strategy(self.backoff_strategy))
        for field in ("initial_delay", "max_delay"):
            self._put(field, _number(field, getattr(self, field), may_be_zero=True))
        self._put("backoff_multiplier", _number("backoff_multiplier", self.backoff_multiplier))
        if self.retry_timeout is not None:
            self._put("retry_timeout", _number("retry_timeout", self.retry_timeout))
        for field in ("retry_on_exceptions", "exclude_exceptions"):
            self._put(field, _exceptions(field, getattr(self, field)))
        for field in ("jitter", "enabled"):
            if not isinstance(getattr(self, field), bool):
                raise _wrong(field, getattr(self, field), "Give True or False.")

    def _put(self, field: str, value: object) -> None:
        msgspec.structs.force_setattr(self, field, value)


_text = reprlib.Repr()
_text.maxstring = _text.maxother = 120


def _wrong(field: str, value: object, remedy: str) -> UsageError:
    try:
        shown = _text.repr(value)
    except ValueError:
        # Python makes no text of a number with many thousand digits.
        shown = f"a huge {type(value).__name__}"
    return UsageError(f"RetryConfig was given {field}={shown}.", remedy)


def _attempts(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= _MOST_ATTEMPTS:
        return int(value)
    raise _wrong("max_attempts", value, "Give a whole number from 1 on; the first try counts.")


def _strategy(value: object) -> BackoffStrategy:
    try:
        return BackoffStrategy(cast(str, value))
    except ValueError:
        known = ", ".join(repr(each.value) for each in BackoffStrategy)
        raise _wrong("backoff_strategy", value, f"Give a BackoffStrategy, or one of {known}.") from None


def _number(field: str, value: object, *, may_be_zero: bool = False) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number) and (number > 0 or (may_be_zero and number == 0)):
            # Minus zero is zero, and is not shown as something else.
            return abs(number)
    what = "from 0 on" if may_be_zero else "above 0"
    or_none = ", or None for no limit" if field == "retry_timeout" else ""
    unit = "" if field == "backoff_multiplier" else " of seconds"
    raise _wrong(field, value, f"Give a finite number{unit} {what}{or_none}.")


def _exceptions(field: str, value: object) -> Exceptions | None:
    if value is None:
        return None
    if isinstance(value, (tuple, list, set, frozenset)):
        found = tuple(_exception(field, each) for each in cast("Iterable[object]", value))
        # A set has another order in every process, and equal configurations are equal.
        return found if isinstance(value, (tuple, list)) else tuple(sorted(found, key=_full_name))
    return (_exception(field, value),)


def _exception(field: str, value: object) -> type[BaseException]:
    if isinstance(value, type) and issubclass(value, BaseException):
        return value
    raise _wrong(field, cast(object, value), "Give exception types, like `(TimeoutError, ConnectionError)`.")


def _full_name(cls: type) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__


class RetryStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """How much was tried again in a state, on one timeline."""

    events: int = 0
    """How many calls have any record."""
    events_retried: int = 0
    """How many of them were tried again at least once."""
    retries: int = 0
    """How many attempts were followed by another one."""
    attempts: int = 0
    """How many attempts have ended: completed, failed, or failed and tried again."""
    rate: float = 0.0
    """The part of the calls that was tried again, from 0 to 1."""
    waited_s: float = 0.0
    """How long all waits between attempts were to be, together."""
    errors_by_type: dict[str, int] = {}
    """How many attempts failed of each type of error."""
    recovered: int = 0
    """How many of the calls that were tried again completed in the end."""

    def __str__(self) -> str:
        if not self.events_retried:
            told = f"{counted(self.events)}, none tried again"
        else:
            retries = "1 retry" if self.retries == 1 else f"{self.retries} retries"
            told = (
                f"{counted(self.events)}, {self.events_retried} tried again ({self.rate:.1%}), {self.recovered} "
                f"recovered: {retries}, waits of {readable_time(self.waited_s)}"
            )
        errors = sorted(self.errors_by_type.items(), key=lambda each: (-each[1], each[0]))
        return "\n".join([told, *(f"  {count} × {name}" for name, count in errors)])
