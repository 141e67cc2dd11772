from __future__ import annotations

from limpet.journal.rehearsal import Made, Rehearsing, Site, divergences, is_as_recorded, unreached_by
from limpet.model import EventRecord, ExecutionStatus, Finding, Rehearsed

E = ExecutionStatus
RUN = "run::agent_call"


def event(seq: int, address: str, order: int = 0, beside: int = 0) -> EventRecord:
    return EventRecord(seq, address, E.COMPLETED, 0.0, seq - (order or seq), beside=beside)


def recorded(*names: str, beside: int = 0) -> dict[str, EventRecord]:
    """A run that made these calls one after the other, and has ended."""
    calls = [event(seq, f"run::{name}::tool_call", beside=beside) for seq, name in enumerate(names, 2)]
    return {record.address: record for record in (*calls, event(len(calls) + 2, RUN, order=1))}


def made(*names: str, missing: tuple[str, ...] = (), drifted: tuple[str, ...] = ()) -> list[Made]:
    def finding(name: str) -> Finding:
        return Finding.MISSING if name in missing else Finding.INPUT_DRIFTED if name in drifted else Finding.REUSED

    calls = [Made("run::", f"run::{name}::tool_call", finding(name)) for name in names]
    return [Made("", RUN, Finding.REUSED), *calls]


def found(
    calls: list[Made],
    records: dict[str, EventRecord],
    has_ended: bool = True,
    entered: tuple[str, ...] = ("run",),
    cut_off: tuple[str, ...] = (),
) -> list[Rehearsed]:
    sites: dict[str, Site] = {call.address: ("code.py", line) for line, call in enumerate(calls, 10)}
    ends: dict[str, Site] = dict.fromkeys(entered, ("code.py", 99))
    unreached = unreached_by(calls, records, ends)
    over = Rehearsing(
        made=calls,
        recorded=records,
        cut_off=[f"run::{name}::tool_call" for name in cut_off],
        starts={1, *(record.order for record in records.values())},
        sites=sites,
        entered=ends,
        ended=() if any(call.finding is Finding.MISSING for call in calls) else entered,
        has_ended=has_ended,
    )
    return divergences(over, unreached)


def summary(
    calls: list[Made], records: dict[str, EventRecord], has_ended: bool = True
) -> list[tuple[str, Finding, int]]:
    return [(each.address, each.finding, each.line) for each in found(calls, records, has_ended)]


def test_the_same_calls_do_not_diverge() -> None:
    assert [] == summary(made("a", "b", "b#2"), recorded("a", "b", "b#2"))


def test_a_call_that_came_in_is_found_where_it_is_made() -> None:
    first, *rest = found(made("a", "new", missing=("new",)), recorded("a", "b", "c"))
    assert ("run::new::tool_call", Finding.MISSING, 12, []) == (first.address, first.finding, first.line, rest)
    assert "recorded there is run::b::tool_call" == first.detail


def test_a_call_that_went_is_found_at_the_one_in_its_place() -> None:
    assert [("run::b::tool_call", Finding.UNREACHED, 12)] == summary(made("a", "c"), recorded("a", "b", "c"))


def test_a_call_that_went_from_the_end_is_found_where_its_scope_ends() -> None:
    (lost,) = found(made("a"), recorded("a", "b"))
    assert ("run::b::tool_call", 99, "run ends without calling it") == (lost.address, lost.line, lost.detail)


def test_two_calls_that_changed_places_are_found_at_the_first() -> None:
    assert [("run::b::tool_call", Finding.MOVED, 11)] == summary(made("b", "a", "c"), recorded("a", "b", "c"))


def test_calls_that_were_recorded_side_by_side_are_held_to_no_order() -> None:
    assert [] == summary(made("b", "a"), recorded("a", "b", beside=1))


def test_a_drifted_call_is_found_where_it_is_made() -> None:
    assert [("run::b::tool_call", Finding.INPUT_DRIFTED, 12)] == summary(
        made("a", "b", drifted=("b",)), recorded("a", "b")
    )


def test_divergences_come_in_the_order_of_the_code() -> None:
    calls = made("b", "a", "new", drifted=("a",), missing=("new",))
    assert [Finding.MOVED, Finding.INPUT_DRIFTED, Finding.MISSING] == [
        finding for _, finding, _ in summary(calls, recorded("a", "b", "c"))
    ]


def test_a_run_that_has_not_ended_goes_on_with_calls_that_are_not_recorded() -> None:
    records = {address: record for address, record in recorded("a").items() if address != RUN}
    assert [] == summary(made("a", "b", missing=("b",)), records, has_ended=False)


def test_a_run_that_has_not_ended_diverges_where_it_passes_over_recorded_calls() -> None:
    records = {address: record for address, record in recorded("a", "b").items() if address != RUN}
    assert [("run::new::tool_call", Finding.MISSING, 12)] == summary(
        made("a", "new", missing=("new",)), records, has_ended=False
    )


def test_a_recorded_failure_that_is_tried_again_is_where_a_run_goes_on() -> None:
    records = {address: record for address, record in recorded("a", "b", "c").items() if address != RUN}
    assert [] == summary(made("a", "b", "c", missing=("c",)), records, has_ended=False)
    # What was passed over before it is lost all the same.
    assert [("run::b::tool_call", Finding.UNREACHED, 12)] == summary(
        made("a", "c", missing=("c",)), records, has_ended=False
    )


def test_a_call_that_may_have_been_cancelled_is_not_new() -> None:
    # Between a and b a call was started that has no record.
    records = {**recorded("a"), "run::b::tool_call": event(4, "run::b::tool_call", order=4)}
    assert [] == summary(made("a", "slow", missing=("slow",)), records)


def test_a_call_that_is_recorded_as_cut_off_is_not_new() -> None:
    records = recorded("a", "c")
    assert [] != found(made("a", "b", missing=("b",)), records)
    assert [] == found(made("a", "b", missing=("b",)), records, cut_off=("b",))


def test_calls_as_they_are_recorded_are_told_at_once() -> None:
    records = recorded("a", "b")
    assert is_as_recorded([("", RUN), ("run::", "run::a::tool_call"), ("run::", "run::b::tool_call")], records)
    assert not is_as_recorded([("", RUN), ("run::", "run::b::tool_call"), ("run::", "run::a::tool_call")], records)
    assert not is_as_recorded([("", RUN), ("run::", "run::a::tool_call")], records)
    assert not is_as_recorded([("", RUN), ("run::", "run::a::tool_call"), ("run::", "run::c::tool_call")], records)


def test_what_stands_inside_a_call_that_is_given_again_need_not_be_reached() -> None:
    records = {**recorded("inner"), "run::inner::x::tool_call": event(9, "run::inner::x::tool_call")}
    assert [] == unreached_by(made("inner"), records, {"run": ("", 0)})


def test_a_branch_that_is_no_longer_begun_is_not_reached() -> None:
    inside = "run::task[chain]::x::tool_call"
    records = {**recorded("a"), inside: event(9, inside)}
    (lost,) = unreached_by(made("a"), records, {"run": ("", 0)})
    assert inside == lost.address
    (told,) = found(made("a"), records)
    assert (inside, 99) == (told.address, told.line)


def test_a_call_at_the_top_that_is_not_made_is_not_reached() -> None:
    records = {"a::tool_call": event(1, "a::tool_call"), "b::tool_call": event(2, "b::tool_call")}
    (lost,) = unreached_by([Made("", "a::tool_call", Finding.REUSED)], records, {})
    assert "b::tool_call" == lost.address
