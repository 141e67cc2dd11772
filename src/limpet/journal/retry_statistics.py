"""How much was tried again, counted over the records of a timeline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from limpet.model import EventRecord, ExecutionStatus, Record, RetryStatistics


def statistics_of(records: Iterable[Record]) -> RetryStatistics:
    """Count over the records of one timeline, in order.

    A record that says RETRYING carries a failed attempt; FAILED and COMPLETED are the other ends that an attempt has.
    """
    seen: set[str] = set()
    retried: set[str] = set()
    completed: set[str] = set()
    errors: Counter[str] = Counter()
    attempts = retries = 0
    waited_s = 0.0
    for record in records:
        if type(record) is not EventRecord:
            continue
        seen.add(record.address)
        if record.status is ExecutionStatus.COMPLETED:
            completed.add(record.address)
        elif record.status is ExecutionStatus.RETRYING:
            retried.add(record.address)
            retries += 1
            waited_s += record.details.delay_s if record.details is not None else 0.0
        elif record.status is not ExecutionStatus.FAILED:
            continue
        attempts += 1
        if record.error is not None:
            errors[record.error.type_name] += 1
    return RetryStatistics(
        events=len(seen),
        events_retried=len(retried),
        retries=retries,
        attempts=attempts,
        rate=len(retried) / len(seen) if seen else 0.0,
        waited_s=waited_s,
        errors_by_type=dict(errors),
        recovered=len(retried & completed),
    )
