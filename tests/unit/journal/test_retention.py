"""What a retention lets go, and why the rest stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from limpet import Base, Retention, Room, SharedRoom, StateHeader, StateMetadata, StateStatus, UsageError
from limpet.journal.retention import Decision, candidate, decide, reductions
from limpet.journal.room import RoomLeft

NOW = datetime(2024, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)
UNFINISHED = [status for status in StateStatus if status is not StateStatus.COMPLETED]


def header(number: int, **given: Any) -> StateHeader:
    """A state that was created and last changed so many days ago."""
    metadata = StateMetadata(tags=given.pop("tags", []), pipeline_name=given.pop("pipeline", "p"))
    at = NOW - number * DAY
    fields: dict[str, Any] = {"status": StateStatus.COMPLETED, "created_at": at, "updated_at": at, **given}
    return StateHeader(state_id=f"s{number}", metadata=metadata, **fields)


def decided(headers: list[StateHeader], held: tuple[str, ...] = (), **given: Any) -> dict[str, Decision]:
    retention = Retention(**given)
    candidates = [
        candidate(each, Room(each.state_id, 100), retention, is_held=each.state_id in held) for each in headers
    ]
    return {each.candidate.state_id: each for each in decide(candidates, retention, NOW)}


def gone(decisions: dict[str, Decision]) -> list[str]:
    return [state_id for state_id, decision in decisions.items() if decision.goes]


def test_what_did_not_change_for_longer_goes_the_oldest_first() -> None:
    decisions = decided([header(number) for number in range(6)], max_age=3 * DAY)
    assert ["s5", "s4"] == gone(decisions)
    assert "not changed for more than 3 days" == decisions["s4"].reason
    assert "within the limits" == decisions["s3"].reason


def test_the_age_counts_from_the_last_change() -> None:
    assert [] == gone(decided([header(9, updated_at=NOW)], max_age=DAY))


def test_a_limit_of_10_on_200_removes_190() -> None:
    decisions = decided([header(number) for number in range(200)], max_per_pipeline=10)
    assert [f"s{number}" for number in range(199, 9, -1)] == gone(decisions)
    assert "more than 10 in 'p'" == decisions["s199"].reason


def test_a_limit_is_for_each_pipeline_and_those_without_a_name_are_one() -> None:
    headers = [header(number, pipeline=("a", "b", "")[number % 3]) for number in range(9)]
    decisions = decided(headers, max_per_pipeline=2)
    assert ["s8", "s7", "s6"] == gone(decisions)
    assert "more than 2 without a pipeline" == decisions["s8"].reason


@pytest.mark.parametrize("status", UNFINISHED)
def test_what_is_not_finished_stays_unless_its_status_is_named(status: StateStatus) -> None:
    headers = [header(number, status=status) for number in range(3)]
    decisions = decided(headers, max_age=timedelta(0), max_per_pipeline=0, max_total_size=0)
    assert [] == gone(decisions)
    assert {f"not finished: {status}"} == {each.reason for each in decisions.values()}
    assert ["s2", "s1", "s0"] == gone(decided(headers, max_per_pipeline=0, statuses=[status.value]))


def test_completed_states_stay_where_only_others_are_named() -> None:
    decisions = decided([header(1)], max_per_pipeline=0, statuses=["failed"])
    assert (False, "not asked for: completed") == (decisions["s1"].goes, decisions["s1"].reason)


def test_a_paused_run_stays_although_it_is_the_oldest_and_does_not_count() -> None:
    headers = [header(0), header(1), header(2, status=StateStatus.PAUSED), header(3)]
    assert ["s3", "s1"] == gone(decided(headers, max_per_pipeline=1))


@pytest.mark.parametrize("limits", [{"max_age": timedelta(0)}, {"max_per_pipeline": 0}, {"max_total_size": 0}])
def test_what_is_held_or_damaged_is_never_deleted(limits: dict[str, Any]) -> None:
    headers = [header(1), header(2, damage="torn"), header(3)]
    decisions = decided(headers, held=("s1",), statuses=list(StateStatus), **limits)
    assert ["s3"] == gone(decisions)
    assert ("being run", "damaged") == (decisions["s1"].reason, decisions["s2"].reason)


def test_the_latest_stay_whatever_the_limits_say_and_damaged_ones_do_not_count() -> None:
    headers = [header(number, damage="torn" if number in (1, 2) else None) for number in range(1, 9)]
    decisions = decided(headers, max_age=timedelta(0), max_per_pipeline=0, max_total_size=0, keep_latest=5)
    assert ["s8"] == gone(decisions)
    assert "one of the 5 latest of its pipeline" == decisions["s7"].reason


def test_tags_choose_and_protect() -> None:
    headers = [header(1, tags=["a", "b"]), header(2, tags=["a"]), header(3, tags=["a", "b", "gold"])]
    decisions = decided(headers, max_per_pipeline=0, tags=["a", "b"], keep_tags=["gold", "silver"])
    assert ["s1"] == gone(decisions)
    assert ("not tagged 'b'", "tagged 'gold'") == (decisions["s2"].reason, decisions["s3"].reason)


def test_the_oldest_go_until_all_states_fit() -> None:
    headers = [header(number) for number in range(5)]
    decisions = decided(headers, max_total_size=250)
    assert ["s4", "s3", "s2"] == gone(decisions)
    assert "all states take more than 250 bytes" == decisions["s2"].reason
    assert [] == gone(decided(headers, max_total_size=500))


def test_what_other_rules_let_go_counts_for_the_size() -> None:
    headers = [header(4), header(3, updated_at=NOW - 9 * DAY), header(2), header(1), header(0)]
    headers.sort(key=lambda each: each.created_at, reverse=True)
    decisions = decided(headers, max_total_size=300, max_age=5 * DAY)
    assert ["s4", "s3"] == gone(decisions)
    assert "not changed for more than 5 days" == decisions["s3"].reason


def test_room_that_is_shared_goes_with_the_last_that_shares_it() -> None:
    parent = Room("1", 1000)
    short, long = Room("2", 10, (SharedRoom("1", 2, 300),)), Room("3", 10, (SharedRoom("1", 5, 700),))
    left = RoomLeft([parent, short, long])
    assert 1020 == left.total
    assert [300, 410, 310] == [left.delete(room) for room in (parent, long, short)]
    assert 0 == left.total
    left = RoomLeft([parent, short, long])
    assert [10, 300, 710] == [left.delete(room) for room in (short, parent, long)]


def test_what_is_kept_of_a_state_that_was_deleted_before_counts() -> None:
    fork = Room("2", 10, (SharedRoom("1", 2, 300),))
    left = RoomLeft([fork])
    assert (310, 310, 0) == (left.total, left.delete(fork), left.total)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_age": -DAY}, "max_age"),
        ({"max_age": 30}, "max_age=30"),
        ({"compact_after": -DAY}, "compact_after"),
        ({"prune_after": 7}, "prune_after=7"),
        ({"max_per_pipeline": -1}, "max_per_pipeline=-1"),
        ({"max_total_size": 1.5}, "max_total_size=1.5"),
        ({"keep_latest": True}, "keep_latest=True"),
        ({"keep_latest": None}, "keep_latest=None"),
        ({"statuses": ["done"]}, "Give some of 'running', 'paused'"),
        ({"statuses": "failed"}, "statuses='failed'"),
        ({"statuses": []}, "statuses=\\[\\]"),
        ({"tags": "gold"}, "tags='gold'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Retention(**given)


@pytest.mark.parametrize(
    ("age", "told"), [(DAY, "1 day"), (timedelta(hours=36), "36 hours"), (timedelta(seconds=90), "90 seconds")]
)
def test_an_age_is_said_as_people_say_it(age: timedelta, told: str) -> None:
    assert f"not changed for more than {told}" == decided([header(99)], max_age=age)["s99"].reason


def reduced(
    headers: list[StateHeader], held: tuple[str, ...] = (), shared: dict[str, str] | None = None, **given: Any
) -> tuple[dict[str, tuple[bool, str]], dict[str, int]]:
    """The states that lose records, whether they are compacted, and why; and why others do not."""
    retention = Retention(**given)
    rooms = {fork: Room(fork, 100, (SharedRoom(parent, 3, 50),)) for fork, parent in (shared or {}).items()}
    candidates = [
        candidate(each, rooms.get(each.state_id, Room(each.state_id, 100)), retention, is_held=each.state_id in held)
        for each in headers
    ]
    found, left_whole = reductions(decide(candidates, retention, NOW), retention, NOW)
    return {each.candidate.state_id: (each.compacts, each.reason) for each in found}, dict(left_whole)


def test_what_is_completed_and_old_is_compacted_and_the_rest_is_pruned() -> None:
    headers = [
        header(1, timeline=4),
        header(3, timeline=4),
        header(8, timeline=4, status=StateStatus.FAILED),
        header(9),
    ]
    compacted, pruned = (
        "completed, and not changed for more than 5 days",
        "earlier timelines, not changed for more than 2 days",
    )
    expected = {"s9": (True, compacted), "s8": (False, pruned), "s3": (False, pruned)}
    assert (expected, {}) == reduced(headers, compact_after=5 * DAY, prune_after=2 * DAY)
    assert ({}, {"nothing to drop": 1}) == reduced([header(9)], prune_after=DAY)
    assert ({}, {}) == reduced(headers, compact_after=10 * DAY, prune_after=10 * DAY)


def test_records_stay_of_what_is_held_damaged_shared_or_kept_by_its_tags() -> None:
    fork = header(7, bases=(Base("s8", 3),))
    headers = [header(5), header(6, damage="torn"), fork, header(8), header(9, tags=["gold"])]
    found = reduced(headers, ("s5",), {"s7": "s8"}, compact_after=DAY, keep_tags=["gold"])
    assert ({}, {"being run": 1, "damaged": 1, "shares records with other states": 2}) == found


def test_a_fork_that_is_deleted_keeps_no_records_back() -> None:
    headers = [header(1, bases=(Base("s2", 3),), status=StateStatus.FAILED), header(2)]
    found, _ = reduced(headers, (), {"s1": "s2"}, compact_after=DAY, max_age=timedelta(0), statuses=["failed"])
    assert {"s2"} == set(found)


def test_statuses_and_what_is_latest_are_about_deleting_alone() -> None:
    found, _ = reduced([header(3)], compact_after=DAY, keep_latest=5, statuses=["failed"])
    assert {"s3"} == set(found)
    assert {} == reduced([header(3)], compact_after=DAY, tags=["other"])[0]


def test_a_time_alone_is_a_limit() -> None:
    assert not Retention(compact_after=DAY).is_empty
    assert not Retention(prune_after=DAY).is_empty
    assert not Retention(prune_after=DAY).deletes
