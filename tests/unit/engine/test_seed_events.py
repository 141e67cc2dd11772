"""Events of the seeds' snapshots, made into records of calls."""

from __future__ import annotations

import time
from typing import Any

import pytest

from limpet.engine.seed_events import NotUnderstood, SeedActor, SeedEvent, SeedHistory
from limpet.journal.history import History
from limpet.model import EventRecord, ExecutionStatus

STARTED, COMPLETED, FAILED = ExecutionStatus.STARTED, ExecutionStatus.COMPLETED, ExecutionStatus.FAILED


def event(address: str, at: str = "1", status: str = "completed", **fields: Any) -> SeedEvent:
    return SeedEvent(address=address, datetime=at, execution_status=status, **fields)


def records(*events: SeedEvent) -> list[EventRecord]:
    made: list[EventRecord] = []
    for _, step in SeedHistory(events).steps():
        made.append(step.record(len(made) + 1, 100.0, None, ()))
    # Whatever comes out can be read as a journal.
    History("x", made)
    return made


def told(*events: SeedEvent) -> list[tuple[str, ExecutionStatus]]:
    return [(record.address, record.status) for record in records(*events)]


def test_a_call_that_is_listed_twice_in_a_row_is_one_record() -> None:
    assert [("a::tool_call", COMPLETED)] == told(event("a::tool_call"), event("a::tool_call"))


def test_a_call_that_encloses_others_starts_before_them_and_ends_after() -> None:
    outer, inner = event("a::agent_call"), event("a::b::tool_call", "2")
    assert [("a::agent_call", STARTED), ("a::b::tool_call", COMPLETED), ("a::agent_call", COMPLETED)] == told(
        outer, inner, inner, outer
    )


def test_starts_are_counted_through() -> None:
    outer, first, second = event("a::agent_call"), event("a::b::tool_call", "2"), event("a::b::tool_call", "3")
    assert [1, 2, 3, 1] == [record.order for record in records(outer, first, second, outer)]


def test_calls_in_the_same_place_are_numbered() -> None:
    addresses = [address for address, _ in told(*(event("a::b::tool_call", str(number)) for number in range(3)))]
    assert ["a::b::tool_call", "a::b#2::tool_call", "a::b#3::tool_call"] == addresses


def test_a_number_that_is_taken_is_passed_over() -> None:
    addresses = [
        address for address, _ in told(event("b#2::tool_call"), event("b::tool_call"), event("b::tool_call", "2"))
    ]
    assert ["b#2::tool_call", "b::tool_call", "b#3::tool_call"] == addresses


def test_steps_of_one_call_that_are_listed_each_as_it_was_follow_each_other() -> None:
    steps = [event("a::tool_call", status=status) for status in ("started", "failed", "retrying", "completed")]
    expected = [STARTED, FAILED, ExecutionStatus.RETRYING, COMPLETED]
    assert [("a::tool_call", status) for status in expected] == told(*steps)


def test_a_completed_call_stays_completed() -> None:
    assert [("a::tool_call", COMPLETED)] == told(event("a::tool_call"), event("a::tool_call", "2", "recovered"))


def test_calls_that_no_time_tells_apart_are_told_apart_by_their_results() -> None:
    calls = [SeedEvent("a::tool_call", execution_status="completed", result=number) for number in (1, 1, 2)]
    assert [("a::tool_call", COMPLETED), ("a#2::tool_call", COMPLETED)] == told(*calls)


def test_a_recovered_result_without_its_record_is_a_completed_call() -> None:
    assert [("a::tool_call", COMPLETED)] == told(event("a::tool_call", status="recovered"))


def test_a_failed_call_has_its_message_time_and_attempt() -> None:
    (record,) = records(event("a::tool_call", status="FAILED", message="sunk", execution_time=2.5, retry_attempt=1))
    assert record.error is not None
    assert (FAILED, "sunk", 2.5, 102.5, 2) == (
        record.status,
        record.error.message,
        record.duration_s,
        record.at,
        record.attempt,
    )


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("a::b::tool_call", "a::b::tool_call"),
        ("a::fetch[page-2]#3::tool_call", "a::fetch[page-2]#3::tool_call"),
        ("a::50% [off]::tool_call", "a::50%25 %5Boff%5D::tool_call"),
        ("a::b#0::tool_call", "a::b%230::tool_call"),
        ("a::::tool_call", "a::unnamed::tool_call"),
        ("a::b", "a::b::llm_call"),
        ("", "namesake::llm_call"),
    ],
)
def test_an_address_is_valid_here(address: str, expected: str) -> None:
    assert [(expected, COMPLETED)] == told(event(address, actor=SeedActor("namesake", "llm_call")))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (event("a::b"), "does not say what kind of call it is"),
        (event("a::tool_call", status="sunk"), "the status 'sunk' is not known"),
        (event("a::tool_call", execution_time=-1.0), "its execution_time is -1"),
        (event("a::tool_call", execution_time=float("nan")), "its execution_time is nan"),
    ],
)
def test_what_is_not_understood_is_named_by_its_place(wrong: SeedEvent, why: str) -> None:
    with pytest.raises(NotUnderstood, match=why) as caught:
        records(event("a::tool_call", "0"), wrong)
    assert 1 == caught.value.number


def test_many_calls_in_one_place_take_time_that_grows_with_them_alone() -> None:
    began = time.process_time()
    made = records(*(event("a::tool_call", str(number)) for number in range(20_000)))
    assert "a#20000::tool_call" == made[-1].address
    assert time.process_time() - began < 10.0
