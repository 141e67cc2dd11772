"""What model calls use: tokens and cost, of one call and summed up.

``Usage`` stands inside the record of a call, so it holds only what every record can: whole numbers of at most 64 bits,
finite numbers, and text that is UTF-8. Whoever makes one for a record sees to that (``engine/usage_hooks.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from limpet.escapes import one_line

_MOST_SHOWN = 10


class Usage(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What one call of a model used."""

    tokens: int = 0
    """Of the input and the output together."""
    cost: float = 0.0
    """In whatever currency the program counts in."""
    model: str = ""
    """The name of the model; empty where it is not known."""


@dataclass(frozen=True, slots=True)
class LLMResult:
    """What a model call may return so that what it used is recorded with it.

    ``LLMResult("kelp grows fast", 1200, "some-model", 0.004)``. It is stored like other results, and comes back equal.
    """

    content: Any
    """What the model gave: text, usually."""
    tokens_used: int = 0
    model_name: str = ""
    cost: float = 0.0


class ModelUsage(msgspec.Struct, frozen=True, gc=False):
    """What several calls of models used, all together."""

    calls: int = 0
    tokens: int = 0
    cost: float = 0.0

    def __str__(self) -> str:
        return f"{counted(self.calls, 'call')}, {counted(self.tokens, 'token')}, cost {readable_cost(self.cost)}"


class UsageTotals(msgspec.Struct, frozen=True, kw_only=True):
    """What the model calls of a state used, and what replay saved."""

    model_calls: int = 0
    """Those that completed, and the attempts that failed and are known to have used something."""
    tokens: int = 0
    cost: float = 0.0
    by_model: dict[str, ModelUsage] = {}
    """By the name of the model, in the order of their first calls; under the empty name where it is not known."""
    replayed: ModelUsage = ModelUsage()
    """What was given again from the journal instead of being used a second time."""

    def __str__(self) -> str:
        calls = counted(self.model_calls, "model call")
        told = f"{calls}, {counted(self.tokens, 'token')}, cost {readable_cost(self.cost)}"
        if self.replayed.calls:
            told += f"; replay saved {self.replayed}"
        models = self.by_model if len(self.by_model) > 1 else {}
        lines = [f"  {one_line(name) or 'not named'}: {used}" for name, used in models.items()]
        more = [f"  … and {len(lines) - _MOST_SHOWN} more models"] if len(lines) > _MOST_SHOWN else []
        return "\n".join([told, *lines[:_MOST_SHOWN], *more])


def counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def readable_cost(cost: float) -> str:
    """With two decimals from 1 on, and with three digits below."""
    return f"{cost:,.2f}" if cost >= 1 else f"{Decimal(f'{cost:.3g}'):f}"
