from __future__ import annotations

from limpet.journal.drift import (
    MOST_LOOKED_AT,
    is_direct,
    is_moved,
    is_start_missing,
    no_longer_made,
    passed_over,
    ran_beside,
)
from limpet.model import EventRecord, ExecutionStatus, Record

E = ExecutionStatus


def event(
    seq: int, address: str, order: int = 0, beside: int = 0, status: ExecutionStatus = E.COMPLETED
) -> EventRecord:
    return EventRecord(seq, address, status, 0.0, seq - (order or seq), beside=beside)


def calls(*names: str) -> list[Record]:
    """A run that made these calls one after the other."""
    first = event(1, "run::agent_call", status=E.STARTED, beside=-1)
    return [first, *(event(seq, f"run::{name}::tool_call") for seq, name in enumerate(names, 2))]


def test_a_call_is_direct_in_the_scope_that_it_was_made_in() -> None:
    assert is_direct("run::a::tool_call", "run::")
    assert is_direct("a::tool_call", "")
    assert not is_direct("run::inner::a::tool_call", "run::")
    assert not is_direct("other::a::tool_call", "run::")


def test_a_call_that_was_alone_is_held_to_its_order() -> None:
    assert is_moved(event(3, "run::a::tool_call"), reached=4)
    assert not is_moved(event(3, "run::a::tool_call"), reached=2)
    assert not is_moved(event(3, "run::a::tool_call", beside=1), reached=4)
    assert not is_moved(event(3, "run::a::tool_call", beside=-1), reached=4)


def found(records: list[Record], reached: int, prefix: str = "run::", until: int | None = None) -> str | None:
    record = passed_over(records, until or len(records), prefix, reached).record
    return None if record is None else record.address


def test_a_new_call_passes_over_the_recorded_one_right_behind() -> None:
    assert "run::b::tool_call" == found(calls("a", "b", "c"), reached=2)
    assert "run::a::tool_call" == found(calls("a", "b", "c"), reached=1)


def test_a_new_call_at_the_end_passes_over_nothing() -> None:
    assert found(calls("a", "b"), reached=3) is None


def test_a_call_that_may_have_been_under_way_is_not_new() -> None:
    # The third start has no record: it was cancelled, or its process was killed.
    records = [*calls("a"), event(3, "run::c::tool_call", order=4)]
    assert found(records, reached=2) is None


def test_calls_that_were_not_alone_are_not_passed_over() -> None:
    records = [*calls("a"), event(3, "run::b::tool_call", beside=1)]
    assert found(records, reached=2) is None


def test_only_calls_of_the_same_scope_are_passed_over() -> None:
    records = [*calls("a"), event(3, "run::inner::b::tool_call")]
    assert found(records, reached=2) is None
    assert "run::inner::b::tool_call" == found(records, reached=2, prefix="run::inner::")


def test_records_since_it_was_loaded_do_not_count() -> None:
    assert found(calls("a", "b", "c"), reached=2, until=2) is None


def test_no_more_than_so_many_records_are_looked_at() -> None:
    many = calls(*(f"step[{number}]" for number in range(MOST_LOOKED_AT + 10)))
    assert found(many, reached=1) is None
    assert "run::step[15]::tool_call" == found(many, reached=16)


def lost(made: dict[str, int], *names: str, until: int = 100) -> list[str]:
    newest = [record for record in calls(*names) if isinstance(record, EventRecord)]
    return no_longer_made(newest, until, "run::", made)


def test_recorded_calls_that_were_not_made_are_named() -> None:
    assert ["run::b::tool_call"] == lost({"a": 1, "c": 1}, "a", "b", "c")
    assert ["run::a#2::tool_call", "run::a#3::tool_call"] == lost({"a": 1}, "a", "a#2", "a#3")
    assert [] == lost({"a": 3, "b[k]": 1}, "a", "a#2", "a#3", "b[k]")


def test_behind_a_call_that_was_tried_again_the_code_may_go_another_way() -> None:
    newest = [record for record in calls("a", "b", "c") if isinstance(record, EventRecord)]
    assert ["run::a::tool_call"] == no_longer_made(newest, 100, "run::", {"b": 1}, tried_again=3)


def test_calls_inside_others_and_later_ones_are_not_missed() -> None:
    assert [] == lost({"inner": 1}, "inner", "inner::x")
    assert ["run::a::tool_call"] == lost({}, "a", "b", until=2)


def test_a_call_before_any_recorded_one_of_its_scope_is_made_out_of_order() -> None:
    side_by_side = [*calls("a"), event(3, "run::b::tool_call", beside=1)]
    assert passed_over(side_by_side, 3, "run::", 2).is_any
    assert not passed_over(side_by_side, 3, "run::", 3).is_any
    assert not passed_over(side_by_side, 3, "run::inner::", 2).is_any


def test_the_outcome_of_what_encloses_a_call_does_not_hide_what_stands_before_it() -> None:
    failed = event(4, "run::agent_call", order=1, status=E.FAILED)
    assert "run::b::tool_call" == found([*calls("a", "b"), failed], reached=2)


def test_a_start_is_missing_between_two_calls_where_one_has_no_record() -> None:
    assert is_start_missing({2, 4}, reached=2, until=4)
    assert not is_start_missing({2, 3, 4}, reached=2, until=4)
    assert not is_start_missing(set(), reached=2, until=3)


def took(seq: int, address: str, began: float, ended: float, *, alone: bool) -> EventRecord:
    return EventRecord(seq, address, E.COMPLETED, ended, duration_s=ended - began, beside=0 if alone else -1)


def test_the_last_one_of_several_calls_to_end_ran_beside_the_others() -> None:
    other = took(2, "run::a::tool_call", 10, 11, alone=False)
    inside = took(3, "run::last::b::tool_call", 11, 12, alone=True)
    last = took(4, "run::last::agent_call", 10, 13, alone=True)
    assert ran_beside([other, inside, last], other)
    assert ran_beside([other, inside, last], last)


def test_a_call_that_began_when_all_others_had_ended_ran_beside_none() -> None:
    others = [took(2, "run::a::tool_call", 10, 12, alone=False), took(3, "run::b::tool_call", 10, 13, alone=True)]
    later = took(4, "run::c::tool_call", 13, 14, alone=True)
    assert not ran_beside([*others, later], later)
    # The code had a task that waited, and made no call.
    assert not ran_beside([others[0], later], later)
    assert not ran_beside([later], later)
