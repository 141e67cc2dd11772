"""What the model calls of a journal used, summed up.

A call that completed counts, whether or not it is known what it used. An attempt that failed counts where that is
known: it was paid for all the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import chain
from typing import Final

from limpet.journal.address import SEPARATOR
from limpet.model import DroppedRecord, EventRecord, EventType, ExecutionStatus, Record
from limpet.model.usage import ModelUsage, Usage, UsageTotals

MODEL_CALL: Final = f"{SEPARATOR}{EventType.LLM_CALL}"
"""What the address of every model call ends in."""

_NOT_KNOWN: Final = Usage()
_NOTHING: Final = ModelUsage()


def recorded_usage(record: EventRecord) -> Usage | None:
    """What an attempt of a model call used; None where that is not recorded."""
    return None if record.details is None else record.details.usage


def counted_usage(record: Record) -> Usage | None:
    """What a record counts for; None where it is not of a model call, or of an attempt that does not count."""
    if type(record) is DroppedRecord:
        return record.usage
    if type(record) is not EventRecord or not record.address.endswith(MODEL_CALL):
        return None
    usage = recorded_usage(record)
    return _NOT_KNOWN if usage is None and record.status is ExecutionStatus.COMPLETED else usage


def totals_of(records: Iterable[Record], replayed: ModelUsage = _NOTHING) -> UsageTotals:
    """What the model calls among these records used. ``replayed`` is what replay saved, which is not recorded."""
    used: dict[str, list[Usage]] = {}
    for record in records:
        usage = counted_usage(record)
        if usage is not None:
            used.setdefault(usage.model, []).append(usage)
    whole = _together(list(chain.from_iterable(used.values())))
    return UsageTotals(
        model_calls=whole.calls,
        tokens=whole.tokens,
        cost=whole.cost,
        by_model={model: _together(each) for model, each in used.items()},
        replayed=replayed,
    )


def _together(used: list[Usage]) -> ModelUsage:
    return ModelUsage(len(used), sum(each.tokens for each in used), _summed(each.cost for each in used))


def _summed(costs: Iterable[float]) -> float:
    # No digit is lost on the way, however many small costs there are beside a large one.
    try:
        return math.fsum(costs)
    except (OverflowError, ValueError):
        return math.inf
