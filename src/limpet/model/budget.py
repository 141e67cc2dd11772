"""How much a run may use before it is stopped."""

from __future__ import annotations

import math

import msgspec

from limpet.errors import UsageError

_WHOLE = ("events", "model_calls", "tokens", "repeats")


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a run; None: no limit.

    They are for the run as a whole, over all processes that take it up, on its current timeline. What is given again by
    replay does not count a second time. Raises UsageError where a limit is negative or not a number.
    """

    events: int | None = None
    """How many calls may be made, of tools, models and agents, the run itself among them. A call that is tried again
    counts once."""
    model_calls: int | None = None
    """How many calls of models may be made. Each attempt counts."""
    tokens: int | None = None
    """How many tokens model calls may use. What a call uses is known when it has ended: the one that reaches the limit,
    and those that are under way beside it, are still made."""
    cost: float | None = None
    """What model calls may cost, in the currency in which the program counts. As with tokens, it may be overshot."""
    wall_time_s: float | None = None
    """How long the run may take, without the time in which it was stopped."""
    repeats: int | None = None
    """How often the same actor may be called with the same input. A call that is tried again is no new one."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            if value is not None:
                _require_limit(field, value)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is limited."""
        return all(getattr(self, field) is None for field in self.__struct_fields__)


def _require_limit(field: str, value: object) -> None:
    kinds, wanted = (int, "a whole number") if field in _WHOLE else ((int, float), "a finite number")
    if isinstance(value, bool) or not isinstance(value, kinds):
        why = f"it is of type {type(value).__name__}"
    elif isinstance(value, float) and not math.isfinite(value):
        why = "it is not finite"
    elif value < 0:
        why = "it is negative"
    else:
        return
    raise UsageError(
        f"A budget cannot have {field}={value!r}: {why}.", f"Give {wanted} from 0 on, or None for no limit."
    )
