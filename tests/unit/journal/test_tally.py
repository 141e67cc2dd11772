from __future__ import annotations

import pytest

from limpet.journal.tally import Tally, running_s
from limpet.model import (
    CheckpointRecord,
    EventRecord,
    ExecutionStatus,
    Record,
    StateStatus,
    StorageRecord,
    fingerprint,
)
from limpet.model.budget import Budget
from limpet.model.records import Details
from limpet.model.usage import Usage

E = ExecutionStatus
FETCH = "run::fetch::tool_call"
THINK = "run::think::llm_call"


def event(
    address: str,
    status: ExecutionStatus = E.COMPLETED,
    encoded: bytes | None = b"x",
    usage: Usage | None = None,
    at: float = 0.0,
    took: float = 0.0,
    seq: int = 1,
) -> EventRecord:
    details = None if usage is None else Details(usage=usage)
    return EventRecord(seq, address, status, at, duration_s=took, input=encoded, details=details)


def asked(tally: Tally, address: str = FETCH, encoded: bytes = b"x") -> str | None:
    return tally.exceeded_by(address, encoded)


def numbered(name: str, kind: str, count: int) -> list[str]:
    return [f"run::{name}{f'#{number}' if number > 1 else ''}::{kind}" for number in range(1, count + 1)]


def test_without_limits_every_call_may_be_made() -> None:
    tally = Tally(Budget(), [event(THINK, usage=Usage(10**9, 1e9))])
    tally.took(FETCH, b"x")
    assert asked(tally, THINK) is None
    assert asked(tally, "run::fetch#2::tool_call") is None


# Events.


def test_events_are_calls_with_an_outcome() -> None:
    records: list[Record] = [
        event("run::agent_call", E.STARTED),
        event("run::a::tool_call"),
        event("run::b::tool_call", E.RETRYING),
        event("run::b::tool_call", E.FAILED),
        event("run::b::tool_call"),
        event("run::c::agent_call", E.FAILED),
        event("run::d::tool_call", E.RETRYING),
        event("run::e::tool_call", E.INTERRUPTED),
        CheckpointRecord(9, StateStatus.PAUSED, 0.0, "{}"),
    ]
    assert 3 == Tally(Budget(), records).events


def test_no_new_call_is_made_when_the_events_are_used_up() -> None:
    tally = Tally(Budget(events=2), [event("run::a::tool_call")])
    assert asked(tally) is None
    tally.note(event("run::b::tool_call"))
    assert "its budget of 2 events is used up" == asked(tally)


def test_calls_count_from_the_moment_they_are_made() -> None:
    tally = Tally(Budget(events=1))
    tally.took(FETCH, b"x")
    assert 0 == tally.events
    assert "its budget of 1 event is used up" == asked(tally, THINK)


def test_a_call_counts_once_whether_it_is_under_way_or_recorded() -> None:
    tally = Tally(Budget(events=2))
    tally.took(FETCH, b"x")
    tally.note(event(FETCH, E.STARTED))
    assert asked(tally, THINK) is None
    tally.note(event(FETCH))
    assert 1 == tally.events
    assert asked(tally, THINK) is None


def test_a_call_that_is_given_up_is_given_back() -> None:
    tally = Tally(Budget(events=1, repeats=1))
    tally.took(FETCH, b"x")
    tally.gave_up(FETCH)
    assert asked(tally, "run::fetch#2::tool_call") is None


@pytest.mark.parametrize("status", [E.INTERRUPTED, E.CANCELLED])
def test_a_call_that_is_recorded_as_given_up_is_given_back_once(status: ExecutionStatus) -> None:
    tally = Tally(Budget(events=2, repeats=1), [event("run::a::tool_call")])
    tally.took(FETCH, b"x")
    tally.note(event(FETCH, status))
    tally.gave_up(FETCH)
    assert asked(tally, "run::fetch#2::tool_call") is None
    tally.took("run::fetch#2::tool_call", b"x")
    assert asked(tally, "run::b::tool_call") is not None


def test_a_call_that_waits_for_an_answer_is_under_way() -> None:
    tally = Tally(Budget(events=1))
    tally.took(FETCH, b"x")
    tally.note(event(FETCH, E.AWAITING))
    assert asked(tally, THINK) is not None


def test_a_recorded_failure_that_is_tried_again_is_no_new_event() -> None:
    tally = Tally(Budget(events=1), [event(FETCH, E.FAILED)])
    assert asked(tally, FETCH) is None
    tally.took(FETCH, b"x")
    assert 1 == tally.events
    tally.gave_up(FETCH)
    assert 1 == tally.events
    assert asked(tally, THINK) is not None


def test_another_attempt_of_a_call_under_way_is_no_new_event() -> None:
    tally = Tally(Budget(events=1, repeats=1))
    tally.took(FETCH, b"x")
    tally.note(event(FETCH, E.RETRYING))
    assert asked(tally, FETCH) is None
    tally.took(FETCH, b"x")
    tally.note(event(FETCH))
    assert 1 == tally.events


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert "its budget of 0 events is used up" == asked(Tally(Budget(events=0)))
    assert "its budget of 0 model calls is used up" == asked(Tally(Budget(model_calls=0)), THINK)
    assert "it has used 0 tokens of the 0 in its budget" == asked(Tally(Budget(tokens=0)), THINK)
    assert "its cost is 0, and its budget allows 0" == asked(Tally(Budget(cost=0)), THINK)
    assert "fetch was called 0 times with the same input, and its budget allows 0" == asked(Tally(Budget(repeats=0)))


# Model calls.


def test_every_attempt_of_a_model_call_counts() -> None:
    attempts = [event(THINK, status) for status in (E.STARTED, E.RETRYING, E.FAILED, E.INTERRUPTED, E.COMPLETED)]
    tally = Tally(Budget(model_calls=3), attempts)
    assert 3 == tally.model_calls
    assert 1 == tally.events
    assert "its budget of 3 model calls is used up" == asked(tally, "run::think#2::llm_call")


def test_a_limit_of_model_calls_is_for_nothing_else() -> None:
    assert asked(Tally(Budget(model_calls=1), [event(THINK)]), FETCH) is None


def test_model_calls_side_by_side_do_not_all_take_the_last_place() -> None:
    tally = Tally(Budget(model_calls=2), [event(THINK)])
    second, third = "run::think#2::llm_call", "run::think#3::llm_call"
    assert asked(tally, second) is None
    tally.took(second, b"x")
    assert asked(tally, third) is not None
    tally.gave_up(second)
    assert asked(tally, third) is None


def test_another_attempt_has_the_place_of_its_call_and_counts_itself() -> None:
    tally = Tally(Budget(model_calls=2))
    tally.took(THINK, b"x")
    tally.note(event(THINK, E.RETRYING))
    assert asked(tally, "run::other::llm_call") is not None
    assert asked(tally, THINK) is None
    tally.took(THINK, b"x")
    tally.note(event(THINK, E.RETRYING))
    assert "its budget of 2 model calls is used up" == asked(tally, THINK)


def test_an_outcome_ends_what_was_under_way() -> None:
    tally = Tally(Budget(model_calls=2))
    tally.took(THINK, b"x")
    tally.note(event(THINK))
    assert 1 == tally.model_calls
    assert asked(tally, "run::other::llm_call") is None


def test_a_model_call_that_failed_the_run_counts_again_when_it_is_tried_again() -> None:
    tally = Tally(Budget(model_calls=2), [event(THINK, E.FAILED)])
    tally.took(THINK, b"x")
    assert asked(tally, "run::other::llm_call") is not None
    tally.note(event(THINK))
    assert (2, 1) == (tally.model_calls, tally.events)


# Tokens and cost.


def test_tokens_and_cost_are_those_of_every_attempt_that_tells_them() -> None:
    records = [event(THINK, E.RETRYING, usage=Usage(5, 0.5)), event(THINK, usage=Usage(7, 0.25)), event(FETCH)]
    tally = Tally(Budget(), records)
    assert (12, 0.75) == (tally.tokens, tally.cost)


def test_what_is_no_model_call_uses_no_tokens() -> None:
    assert 0 == Tally(Budget(), [event("run::agent_call", usage=Usage(5))]).tokens


def test_a_model_call_needs_tokens_that_are_left() -> None:
    tally = Tally(Budget(tokens=10_000), [event(THINK, usage=Usage(9_999))])
    assert asked(tally, "run::think#2::llm_call") is None
    tally.note(event("run::think#2::llm_call", usage=Usage(1)))
    assert "it has used 10,000 tokens of the 10,000 in its budget" == asked(tally, "run::think#3::llm_call")


def test_other_calls_are_made_until_the_tokens_are_overshot() -> None:
    tally = Tally(Budget(tokens=10_000), [event(THINK, usage=Usage(10_000))])
    assert asked(tally) is None
    tally.note(event("run::think#2::llm_call", usage=Usage(240)))
    assert "it has used 10,240 tokens of the 10,000 in its budget" == asked(tally)


def test_a_model_call_needs_cost_that_is_left() -> None:
    tally = Tally(Budget(cost=0.5), [event(THINK, usage=Usage(cost=0.25))])
    assert asked(tally, "run::think#2::llm_call") is None
    tally.note(event("run::think#2::llm_call", usage=Usage(cost=0.27)))
    assert "its cost is 0.52, and its budget allows 0.5" == asked(tally, "run::think#3::llm_call")
    assert "its cost is 0.52, and its budget allows 0.5" == asked(tally)


@pytest.mark.parametrize(("limit", "costs"), [(0.3, [0.1, 0.1, 0.1]), (0.8, [0.7, 0.1]), (1.0, [0.1] * 10)])
def test_a_cost_is_reached_as_people_add_it_up(limit: float, costs: list[float]) -> None:
    calls = zip(numbered("think", "llm_call", len(costs)), costs, strict=True)
    tally = Tally(Budget(cost=limit), [event(address, usage=Usage(cost=cost)) for address, cost in calls])
    assert asked(tally, "run::other::llm_call") is not None
    assert asked(tally) is None


# Repeats.


def test_the_same_call_is_made_so_many_times() -> None:
    tally = Tally(Budget(repeats=3), [event(address) for address in numbered("fetch", "tool_call", 2)])
    again = "run::inner::fetch[page-2]#3::tool_call"
    assert asked(tally, again) is None
    tally.took(again, b"x")
    expected = "fetch was called 3 times with the same input, and its budget allows 3"
    assert expected == asked(tally, "run::fetch#3::tool_call")


def test_another_input_another_name_and_another_kind_are_no_repeats() -> None:
    tally = Tally(Budget(repeats=1), [event(FETCH)])
    assert "fetch was called 1 time with the same input, and its budget allows 1" == asked(tally, "fetch::tool_call")
    assert asked(tally, "run::fetch#2::tool_call", b"y") is None
    assert asked(tally, "run::fetch_all::tool_call") is None
    assert asked(tally, "run::fetch::agent_call") is None


def test_inputs_that_are_not_recorded_are_told_apart_as_well() -> None:
    record = EventRecord(1, FETCH, E.COMPLETED, 0.0, fingerprint=fingerprint(b"x"))
    tally = Tally(Budget(repeats=1), [record])
    assert asked(tally, "run::fetch#2::tool_call", b"x") is not None
    assert asked(tally, "run::fetch#2::tool_call", b"y") is None


def test_a_repeated_call_is_named_as_its_actor_is() -> None:
    tally = Tally(Budget(repeats=1), [event("run::a%3Ab[%5B]::tool_call")])
    told = asked(tally, "run::a%3Ab#2::tool_call")
    assert told is not None
    assert told.startswith("a:b was called 1 time")


# Time.


def checkpoint(seq: int, at: float, status: StateStatus = StateStatus.PAUSED) -> CheckpointRecord:
    return CheckpointRecord(seq, status, at, "{}")


def test_nothing_recorded_took_no_time() -> None:
    assert 0.0 == running_s([])


def test_a_run_goes_on_from_the_start_of_its_first_record_to_its_last() -> None:
    records = [event(FETCH, at=105.0, took=5.0), StorageRecord(2, "k", 120.0, b""), event(THINK, at=130.0, seq=3)]
    assert 30.0 == running_s(records)


def test_the_time_in_which_a_run_was_stopped_does_not_count() -> None:
    stopped = [event(FETCH, at=105.0, took=5.0), checkpoint(2, 110.0)]
    assert 10.0 == running_s(stopped)
    assert 13.0 == running_s([*stopped, event(THINK, at=5002.0, took=2.0, seq=3), checkpoint(4, 5003.0)])


def test_a_checkpoint_on_the_way_stops_nothing() -> None:
    records = [event(FETCH, at=100.0), checkpoint(2, 110.0, StateStatus.RUNNING), event(THINK, at=150.0, seq=3)]
    assert 50.0 == running_s(records)


def test_behind_the_failure_of_the_run_it_was_stopped() -> None:
    failed = event("run::agent_call", E.FAILED, at=110.0, seq=2)
    assert 13.0 == running_s([event(FETCH, at=100.0), failed, event(FETCH, at=903.0, took=3.0, seq=3)])
    caught = event(FETCH, E.FAILED, at=110.0, seq=2)
    assert 30.0 == running_s([event(FETCH, at=100.0), caught, event(THINK, at=130.0, seq=3)])


def test_a_timeline_that_goes_on_later_has_not_been_going_on_meanwhile() -> None:
    assert 12.0 == running_s(
        [event(FETCH, at=110.0, took=10.0), event(THINK, at=9000.0, seq=40), event(FETCH, at=9002.0, seq=41)]
    )


def test_no_time_counts_twice_and_none_is_negative() -> None:
    whole_run = event("run::agent_call", at=120.0, took=20.0, seq=9)
    assert 20.0 == running_s([event(FETCH, at=110.0, took=10.0), whole_run])
    clock_set_back = [event(FETCH, at=110.0), checkpoint(2, 120.0), event(THINK, at=50.0, seq=3)]
    assert 10.0 == running_s(clock_set_back)
