"""The order in which the code inside a call was given its results, read off the journal."""

from __future__ import annotations

from typing import Any

import pytest

from limpet.journal.history import History
from limpet.journal.order import RecordedOrder
from limpet.model import Details, EventRecord, ExecutionStatus, Part, TimelineRecord, TimerRecord

E = ExecutionStatus
SHOP = "shop::agent_call"
NORTH, SOUTH, EAST = (f"shop::ask[{name}]::tool_call" for name in ("north", "south", "east"))


class Journal:
    """A journal that is written down line by line."""

    def __init__(self) -> None:
        self.history = History("shop-1")
        self.order = RecordedOrder(self.history)
        self.event(SHOP, E.STARTED)

    def event(self, address: str, status: E = E.COMPLETED, **more: Any) -> Journal:
        seq = self.history.position + 1
        order = more.pop("order", None) or self.history.next_order
        self.history.add(EventRecord(seq=seq, address=address, status=status, at=0.0, behind=seq - order, **more))
        return self

    def timers(self, *numbers: int, path: str = "shop") -> Journal:
        seq = self.history.position + 1
        behind = seq - self.history.next_order + 1
        self.history.add(TimerRecord(seq=seq, at=0.0, path=path, numbers=numbers, behind=behind))
        return self

    def entries(self, path: str = "shop", order: RecordedOrder | None = None) -> list[str | int]:
        """The entries of a call: the addresses of outcomes, and the numbers of timers."""
        return [each if isinstance(each, int) else each.address for each in (order or self.order).entries(path)]


@pytest.fixture
def journal() -> Journal:
    return Journal()


def test_outcomes_come_in_the_order_of_the_journal(journal: Journal) -> None:
    journal.event(SOUTH, order=3).event(NORTH, order=2).event(EAST)
    assert [SOUTH, NORTH, EAST] == journal.entries()


def test_a_start_is_no_entry(journal: Journal) -> None:
    journal.event(NORTH, E.STARTED).event(SOUTH).event(NORTH)
    assert [SOUTH, NORTH] == journal.entries()


def test_an_attempt_that_is_followed_by_another_is_no_entry(journal: Journal) -> None:
    journal.event(NORTH, E.RETRYING).event(SOUTH).event(NORTH)
    assert [SOUTH, NORTH] == journal.entries()


def test_the_entries_are_the_records_themselves(journal: Journal) -> None:
    journal.event(NORTH).timers(4)
    assert [journal.history.latest[NORTH], 4] == journal.order.entries("shop")


def test_a_call_that_has_made_none_has_no_entries(journal: Journal) -> None:
    assert [] == journal.entries()
    assert [] == journal.entries("elsewhere")


# Which call an outcome belongs to


def test_each_call_has_an_order_of_its_own(journal: Journal) -> None:
    journal.event("shop::pack::agent_call", E.STARTED)
    journal.event("shop::pack::wrap::tool_call").event(NORTH).event("shop::pack::label::tool_call")
    journal.event("shop::pack::agent_call")
    assert [NORTH, "shop::pack::agent_call"] == journal.entries()
    assert ["shop::pack::wrap::tool_call", "shop::pack::label::tool_call"] == journal.entries("shop::pack")


def test_what_is_called_in_branches_belongs_to_the_call_around_them(journal: Journal) -> None:
    in_branch, in_branch_of_it = "shop::task[read]::ask::tool_call", "shop::task[read]::task[sum]#2::ask::tool_call"
    journal.event(in_branch_of_it).event(NORTH).event(in_branch)
    assert [in_branch_of_it, NORTH, in_branch] == journal.entries()
    assert [] == journal.entries("shop::task[read]")


def test_the_calls_of_an_agent_in_a_branch_belong_to_that_agent(journal: Journal) -> None:
    journal.event("shop::task[read]::pack::agent_call", E.STARTED)
    journal.event("shop::task[read]::pack::task[wrap]::ask::tool_call").event("shop::task[read]::pack::agent_call")
    assert ["shop::task[read]::pack::agent_call"] == journal.entries()
    assert ["shop::task[read]::pack::task[wrap]::ask::tool_call"] == journal.entries("shop::task[read]::pack")


def test_a_call_with_a_key_stands_among_those_of_branches(journal: Journal) -> None:
    journal.event("shop::task[worker]::ask::tool_call").event(NORTH).event("shop::ask[north]#2::tool_call")
    assert ["shop::task[worker]::ask::tool_call", NORTH, "shop::ask[north]#2::tool_call"] == journal.entries()


def test_the_outcomes_of_a_call_are_the_last_ones_of_what_was_called_in_it(journal: Journal) -> None:
    journal.event("shop::pack::agent_call", E.STARTED).event("shop::pack::wrap::tool_call").event(NORTH, E.FAILED)
    journal.event("shop::task[read]::ask::tool_call").timers(1).event(NORTH).event(SOUTH, E.STARTED)
    outcomes = [(each.address, each.status) for each in journal.order.outcomes("shop")]
    assert [("shop::task[read]::ask::tool_call", E.COMPLETED), (NORTH, E.COMPLETED)] == outcomes
    assert ["shop::pack::wrap::tool_call"] == [each.address for each in journal.order.outcomes("shop::pack")]


def test_the_run_itself_is_the_only_entry_of_the_top(journal: Journal) -> None:
    journal.event(NORTH).event(SHOP)
    assert [SHOP] == journal.entries("")


@pytest.mark.parametrize("kind", ["question", "timer", "message"])
def test_waits_have_their_place(journal: Journal, kind: str) -> None:
    address = f"shop::wait::{kind}"
    journal.event(NORTH).event(address, E.AWAITING).event(SOUTH).event(address)
    assert [NORTH, SOUTH, address] == journal.entries()


def test_a_value_that_was_given_at_once_has_no_place(journal: Journal) -> None:
    journal.event("shop::now::tool_call", details=Details(at_once=True)).event(NORTH)
    assert [NORTH] == journal.entries()


def test_what_was_given_in_the_place_of_another_outcome_stands_before_it(journal: Journal) -> None:
    journal.event(SOUTH).event(NORTH, details=Details(before=2))
    assert [NORTH, SOUTH] == journal.entries()


def test_what_was_given_in_a_place_that_is_gone_stands_before_what_came_next(journal: Journal) -> None:
    journal.event(NORTH, E.CANCELLED).event(SOUTH, E.CANCELLED)
    journal.event(EAST, details=Details(before=2)).event(NORTH, details=Details(before=3))
    assert [EAST, NORTH, SOUTH] == journal.entries()


def test_what_was_given_in_the_place_of_what_came_later_itself_keeps_its_own(journal: Journal) -> None:
    journal.event(NORTH, E.CANCELLED).event(SOUTH, details=Details(before=2)).event(EAST, details=Details(before=2))
    journal.event(NORTH)
    assert [SOUTH, EAST, NORTH] == journal.entries()


# Timers


def test_timers_stand_where_they_fired(journal: Journal) -> None:
    journal.event(NORTH).timers(2, 1).event(SOUTH).timers(3)
    assert [NORTH, 2, 1, SOUTH, 3] == journal.entries()


def test_timers_are_those_of_the_call_that_set_them(journal: Journal) -> None:
    journal.event("shop::pack::agent_call", E.STARTED).timers(1, path="shop::pack").timers(5)
    assert [5] == journal.entries()
    assert [1] == journal.entries("shop::pack")


# Failures


def test_a_caught_failure_keeps_its_place(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).event(SOUTH)
    assert [NORTH, SOUTH] == journal.entries()


def test_a_caught_failure_keeps_its_place_when_something_else_has_failed_the_run(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).event(SOUTH).event(SHOP, E.FAILED)
    assert [NORTH, SOUTH] == journal.entries()


def test_a_failure_that_is_retried_is_no_entry(journal: Journal) -> None:
    journal.event(SOUTH).event(NORTH, E.FAILED).event(SHOP, E.FAILED, causes=(NORTH,))
    assert [SOUTH] == journal.entries()


def test_results_behind_a_retried_failure_are_given_all_the_same(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).event(SOUTH).event(SHOP, E.FAILED, causes=(NORTH,))
    assert [SOUTH] == journal.entries()


def test_timers_and_cancellations_behind_a_retried_failure_do_not_count(journal: Journal) -> None:
    journal.event(EAST).event(NORTH, E.FAILED).timers(1).event(SOUTH, E.CANCELLED)
    journal.event(SHOP, E.FAILED, causes=(NORTH,))
    assert [EAST] == journal.entries()


def test_a_failure_that_was_retried_stands_where_it_succeeded(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).event(SOUTH).event(SHOP, E.FAILED, causes=(NORTH,))
    journal.event(SHOP, E.STARTED).event(NORTH, E.STARTED).event(NORTH).event(EAST)
    assert [SOUTH, NORTH, EAST] == journal.entries()


def test_an_agent_that_is_entered_again_keeps_the_order_of_what_it_had_been_given(journal: Journal) -> None:
    pack = "shop::pack::agent_call"
    journal.event(pack, E.STARTED).event("shop::pack::wrap::tool_call").event("shop::pack::tie::tool_call", E.FAILED)
    journal.event(pack, E.FAILED, causes=("shop::pack::tie::tool_call",)).event(SHOP, E.FAILED, causes=(pack,))
    assert ["shop::pack::wrap::tool_call"] == journal.entries("shop::pack")
    assert [] == journal.entries()


def test_all_failures_are_left_out_where_caught_ones_are_retried_as_well(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).event(SOUTH)
    journal.history.retry_caught()
    assert [SOUTH] == journal.entries()


# Cancellations


def test_a_cancellation_keeps_its_place_behind_the_timer_that_made_it(journal: Journal) -> None:
    journal.timers(1).event(NORTH, E.CANCELLED).event(SOUTH)
    assert [1, NORTH, SOUTH] == journal.entries()


def test_a_cancellation_that_failed_the_run_does_not_count_and_its_timer_neither(journal: Journal) -> None:
    journal.event(SOUTH).timers(1).event(NORTH, E.CANCELLED).event(SHOP, E.FAILED, causes=(NORTH,))
    assert [SOUTH] == journal.entries()


def test_a_cancelled_call_that_was_executed_again_counts_where_it_ended(journal: Journal) -> None:
    journal.timers(1).event(NORTH, E.CANCELLED).event(SHOP, E.FAILED, causes=(NORTH,))
    journal.event(SHOP, E.STARTED).event(SOUTH).event(NORTH)
    assert [SOUTH, NORTH] == journal.entries()


def test_a_call_that_a_stop_of_the_run_has_interrupted_is_no_entry(journal: Journal) -> None:
    journal.event(SOUTH).event(NORTH, E.INTERRUPTED)
    assert [SOUTH] == journal.entries()


def test_a_word_about_a_cancelled_call_is_not_its_cancellation(journal: Journal) -> None:
    journal.event(NORTH, E.CANCELLED).event(NORTH, E.CANCELLED, details=Details(settled="again", by="Ada"))
    assert [] == journal.entries()


def test_a_cancellation_of_a_call_that_had_not_begun_is_one_like_any_other(journal: Journal) -> None:
    journal.event(NORTH, E.CANCELLED, details=Details(settled="not executed"))
    assert [NORTH] == journal.entries()


def test_a_timer_that_fired_before_a_retried_failure_counts_whatever_was_cancelled_behind_it(journal: Journal) -> None:
    journal.timers(1).event(NORTH, E.FAILED).timers(2).event(SOUTH, E.CANCELLED)
    journal.event(SHOP, E.FAILED, causes=(NORTH,))
    assert [1] == journal.entries()


def test_a_timer_that_fired_behind_a_retried_failure_counts_only_where_it_fired_again(journal: Journal) -> None:
    journal.event(NORTH, E.FAILED).timers(1).event(SHOP, E.FAILED, causes=(NORTH,))
    journal.event(SHOP, E.STARTED).event(NORTH, E.STARTED).event(NORTH).timers(1).event(SOUTH)
    assert [NORTH, 1, SOUTH] == journal.entries()


# A journal that grows, and timelines


def test_what_is_recorded_later_is_taken_up(journal: Journal) -> None:
    journal.event(NORTH)
    assert [NORTH] == journal.entries()
    journal.timers(1).event(SOUTH)
    assert [NORTH, 1, SOUTH] == journal.entries()


def test_an_order_that_grew_is_that_of_a_journal_read_at_once(journal: Journal) -> None:
    steps = [(NORTH, E.FAILED), (SOUTH, E.COMPLETED), (EAST, E.CANCELLED), ("shop::pack::agent_call", E.COMPLETED)]
    for address, status in steps:
        journal.timers(journal.history.position).event(address, status)
        assert journal.entries() == journal.entries(order=RecordedOrder(journal.history))


def test_a_new_timeline_has_what_it_keeps_and_what_it_adds(journal: Journal) -> None:
    journal.event(NORTH).timers(1).event(SOUTH).event(EAST).event(SHOP)
    assert [NORTH, 1, SOUTH, EAST] == journal.entries()
    journal.history.add(TimelineRecord(seq=7, at=0.0, number=2, base=1, parts=(Part(first=1, last=3),), address=SOUTH))
    assert [NORTH, 1] == journal.entries()
    journal.event(EAST).timers(2).event(SOUTH)
    assert [NORTH, 1, EAST, 2, SOUTH] == journal.entries()


def test_another_timeline_has_an_order_of_its_own(journal: Journal) -> None:
    journal.event(NORTH).event(SOUTH).event(SHOP)
    journal.history.add(TimelineRecord(seq=5, at=0.0, number=2, base=1, parts=(Part(first=1, last=2),), address=SOUTH))
    journal.event(EAST)
    first = journal.history.on_timeline(1)
    assert [NORTH, SOUTH] == journal.entries(order=RecordedOrder(first))
    assert [NORTH, EAST] == journal.entries()


def test_timers_that_fired_behind_the_cut_of_a_timeline_do_not_belong_to_it(journal: Journal) -> None:
    journal.event(NORTH, order=2).timers(1).event(SOUTH, order=3).timers(2).event(EAST, order=4)
    journal.history.add(
        TimelineRecord(seq=7, at=0.0, number=2, base=1, parts=(Part(first=1, last=6, below=3),), address=SOUTH)
    )
    assert [NORTH, 1] == journal.entries()


def test_a_cancellation_behind_the_cut_of_a_timeline_does_not_count(journal: Journal) -> None:
    journal.event(NORTH, order=2).event(EAST, order=4).event(SOUTH, E.CANCELLED, order=3)
    journal.history.add(
        TimelineRecord(seq=5, at=0.0, number=2, base=1, parts=(Part(first=1, last=4, below=4),), address=EAST)
    )
    assert [NORTH] == journal.entries()
    journal.event(EAST).event(SOUTH, E.CANCELLED, order=3)
    assert [NORTH, EAST, SOUTH] == journal.entries()


def test_a_cancellation_before_the_cut_of_a_timeline_counts(journal: Journal) -> None:
    journal.event(NORTH, order=2).event(SOUTH, E.CANCELLED, order=3).event(EAST, order=4)
    journal.history.add(
        TimelineRecord(seq=5, at=0.0, number=2, base=1, parts=(Part(first=1, last=4, below=4),), address=EAST)
    )
    assert [NORTH, SOUTH] == journal.entries()


def test_the_cut_of_a_timeline_inside_another_call_does_not_count(journal: Journal) -> None:
    inside = "shop::desk::ask::tool_call"
    journal.event("shop::desk::agent_call", E.STARTED).event(inside, order=5).event(SOUTH, E.CANCELLED, order=4)
    journal.history.add(
        TimelineRecord(seq=5, at=0.0, number=2, base=1, parts=(Part(first=1, last=4, below=5),), address=inside)
    )
    assert [SOUTH] == journal.entries()
