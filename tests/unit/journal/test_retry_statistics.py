from __future__ import annotations

from limpet.journal.retry_statistics import statistics_of
from limpet.model import (
    CheckpointRecord,
    Details,
    EventRecord,
    ExecutionStatus,
    Failure,
    Record,
    RetryStatistics,
    StateStatus,
    StorageRecord,
    TimelineRecord,
)

E = ExecutionStatus


def event(name: str, status: ExecutionStatus, error: str = "", delay_s: float | None = None) -> EventRecord:
    return EventRecord(
        1,
        f"run::{name}::tool_call",
        status,
        0.0,
        error=Failure(error, "no", "") if error else None,
        details=None if delay_s is None else Details(delay_s=delay_s, due_at=5.0),
    )


def test_without_records_there_is_nothing_to_count() -> None:
    assert RetryStatistics() == statistics_of([])


def test_calls_that_succeed_at_once_are_one_attempt_each() -> None:
    found = statistics_of([event("a", E.STARTED), event("a", E.COMPLETED), event("b", E.COMPLETED)])
    assert RetryStatistics(events=2, attempts=2) == found


def test_attempts_waits_and_errors_are_counted() -> None:
    records = [
        event("a", E.RETRYING, "TimeoutError", 1.0),
        event("b", E.COMPLETED),
        event("a", E.RETRYING, "ConnectionError", 2.5),
        event("c", E.RETRYING, "TimeoutError", 4.0),
        event("a", E.COMPLETED),
        event("c", E.FAILED, "ValueError"),
    ]
    assert RetryStatistics(
        events=3,
        events_retried=2,
        retries=3,
        attempts=6,
        rate=2 / 3,
        waited_s=7.5,
        errors_by_type={"TimeoutError": 2, "ConnectionError": 1, "ValueError": 1},
        recovered=1,
    ) == statistics_of(records)


def test_a_failure_without_a_retry_is_an_error_and_no_retry() -> None:
    found = statistics_of([event("a", E.FAILED, "ValueError")])
    assert RetryStatistics(events=1, attempts=1, errors_by_type={"ValueError": 1}) == found


def test_what_failed_and_was_completed_by_a_later_run_has_recovered() -> None:
    records = [
        event("a", E.RETRYING, "TimeoutError", 1.0),
        event("a", E.FAILED, "TimeoutError"),
        event("a", E.COMPLETED),
    ]
    found = statistics_of(records)
    assert (1, 3, 1) == (found.events_retried, found.attempts, found.recovered)


def test_what_has_not_ended_is_a_call_and_no_attempt() -> None:
    records = [event(status, status) for status in (E.STARTED, E.CANCELLED, E.INTERRUPTED, E.AWAITING)]
    assert RetryStatistics(events=4) == statistics_of(records)


def test_a_retry_without_details_or_error_counts_as_a_retry_alone() -> None:
    found = statistics_of([event("a", E.RETRYING)])
    assert RetryStatistics(events=1, events_retried=1, retries=1, attempts=1, rate=1.0) == found


def test_other_records_do_not_count() -> None:
    records: list[Record] = [
        CheckpointRecord(1, StateStatus.PAUSED, 0.0, "{}"),
        StorageRecord(2, "key", 0.0, b"value"),
        TimelineRecord(3, 0.0, 2, 1),
    ]
    assert RetryStatistics() == statistics_of(records)
