"""A history knows the newest record of each address, what is to be tried again, and the storage."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.errors import StateCorrupted
from limpet.journal.history import History
from limpet.journal.lifecycle import EVENT_MOVES, event_may_become
from limpet.model import CheckpointRecord, EventRecord, ExecutionStatus, Record, StateStatus, StorageRecord

E = ExecutionStatus
RUN, A, B, C, D = (
    "run::agent_call",
    "run::a::agent_call",
    "run::a::b::agent_call",
    "run::a::b::c::tool_call",
    "run::d::tool_call",
)


def grown(*events: tuple[Any, ...]) -> History:
    """A history of these events: address, status, and the causes of a failure."""
    history = History("kelp-42")
    for event in events:
        add(history, *event)
    return history


def add(history: History, address: str, status: ExecutionStatus, causes: tuple[str, ...] = (), **more: Any) -> None:
    seq = history.position + 1
    order = more.pop("order", history.next_order)
    behind = seq - order
    history.add(
        EventRecord(seq=seq, address=address, status=status, at=float(seq), behind=behind, causes=causes, **more)
    )


def test_an_empty_history_has_nothing() -> None:
    history = History("s")
    assert (0, 1, {}, set(), {}) == (
        history.position,
        history.next_order,
        history.latest,
        history.to_retry,
        history.storage,
    )
    assert history.first_event() is None
    assert [] == list(history.life())


def test_the_newest_record_of_an_address_counts() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (D, E.STARTED), (D, E.COMPLETED))
    assert {RUN: E.STARTED, D: E.COMPLETED} == {address: record.status for address, record in history.latest.items()}
    assert 4 == history.latest[D].seq


def test_the_position_is_the_number_of_the_newest_record() -> None:
    history = grown((RUN, E.STARTED), (D, E.COMPLETED))
    assert 2 == history.position
    history.add(StorageRecord(seq=3, key="k", at=0.0, value=b"v"))
    history.add(CheckpointRecord(seq=4, status=StateStatus.PAUSED, at=0.0, metadata="{}"))
    assert 4 == history.position == len(history.records)


def test_a_history_is_built_from_records_as_it_is_by_adding_them() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)))
    again = History("kelp-42", iter(history.records))
    assert (history.latest, history.to_retry, history.next_order) == (again.latest, again.to_retry, again.next_order)


@pytest.mark.parametrize("seq", [0, 1, 2, 4, 100])
@pytest.mark.parametrize(
    "make",
    [
        lambda seq: EventRecord(seq=seq, address=D, status=E.COMPLETED, at=0.0),
        lambda seq: StorageRecord(seq=seq, key="k", at=0.0, value=b"v"),
        lambda seq: CheckpointRecord(seq=seq, status=StateStatus.PAUSED, at=0.0, metadata="{}"),
    ],
    ids=["event", "storage", "checkpoint"],
)
def test_a_gap_or_a_repetition_is_refused(make: Any, seq: int) -> None:
    history = grown((RUN, E.STARTED), (A, E.STARTED))
    with pytest.raises(StateCorrupted) as caught:
        history.add(make(seq))
    assert ("kelp-42", seq, "record 3 was to come here") == caught.value.args
    assert (2, {}) == (history.position, history.storage)
    assert D not in history.latest


WAY_TO: dict[ExecutionStatus | None, list[ExecutionStatus]] = {
    None: [],
    E.RETRYING: [E.STARTED, E.RETRYING],
    **{status: [status] for status in EVENT_MOVES if status not in (None, E.RETRYING)},
}


@pytest.mark.parametrize("before", EVENT_MOVES)
@pytest.mark.parametrize("after", ExecutionStatus)
def test_only_what_the_table_allows_is_taken_up(before: ExecutionStatus | None, after: ExecutionStatus) -> None:
    history = grown(*((D, status) for status in WAY_TO[before]))
    if event_may_become(before, after):
        add(history, D, after)
        assert after is history.latest[D].status
        return
    position, latest = history.position, history.latest.get(D)
    with pytest.raises(StateCorrupted) as caught:
        add(history, D, after)
    assert f"'{D}' was {before or 'absent'} and cannot become {after}" == caught.value.why
    assert (position, latest) == (history.position, history.latest.get(D))


def test_a_result_is_never_taken_back() -> None:
    history = grown((D, E.COMPLETED))
    with pytest.raises(StateCorrupted, match=r"State 'kelp-42' is damaged at record 2: .* was completed"):
        add(history, D, E.STARTED)


def test_a_failure_that_was_caught_is_not_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED))
    assert set() == history.to_retry
    add(history, RUN, E.COMPLETED)
    assert set() == history.to_retry


def test_a_failure_that_failed_the_run_is_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)))
    assert {RUN, D} == history.to_retry


def test_a_failure_at_the_top_is_tried_again() -> None:
    assert {"fetch::tool_call"} == grown(("fetch::tool_call", E.FAILED)).to_retry


def test_the_failures_on_the_way_to_the_top_are_tried_again() -> None:
    history = grown((RUN, E.STARTED), (A, E.STARTED), (B, E.STARTED), (C, E.FAILED), (B, E.FAILED, (C,)))
    assert set() == history.to_retry
    add(history, A, E.FAILED, (B,))
    assert set() == history.to_retry
    add(history, RUN, E.FAILED, (A,))
    assert {RUN, A, B, C} == history.to_retry


@pytest.mark.parametrize("outcome", [E.COMPLETED, E.FAILED])
def test_what_failed_inside_a_call_whose_failure_was_caught_is_not_tried_again(outcome: ExecutionStatus) -> None:
    history = grown((RUN, E.STARTED), (C, E.FAILED), (B, E.FAILED, (C,)), (A, E.COMPLETED), (RUN, outcome))
    assert set() == history.to_retry - {RUN}


def test_of_two_failures_only_the_one_that_was_passed_on_is_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (C, E.FAILED), (A, E.FAILED, (C,)), (RUN, E.FAILED, (A,)))
    assert {RUN, A, C} == history.to_retry


def test_all_failures_that_were_passed_on_together_are_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (A, E.FAILED), (RUN, E.FAILED, (D, A, D)))
    assert {RUN, A, D} == history.to_retry


def test_a_cause_that_is_not_failed_is_not_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.COMPLETED), (RUN, E.FAILED, (D, "run::gone::tool_call")))
    assert {RUN} == history.to_retry


def test_causes_that_name_each_other_do_not_go_round_for_ever() -> None:
    history = grown((RUN, E.STARTED), (A, E.FAILED, (B,)), (B, E.FAILED, (A, RUN)), (RUN, E.FAILED, (RUN, A)))
    assert {RUN, A, B} == history.to_retry


@pytest.mark.parametrize("outcome", [E.COMPLETED, E.AWAITING, E.INTERRUPTED, E.CANCELLED, E.RETRYING, E.FAILED])
def test_a_newer_outcome_clears_the_mark(outcome: ExecutionStatus) -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)), (RUN, E.STARTED))
    add(history, D, outcome)
    assert {RUN} == history.to_retry


def test_starting_again_keeps_the_marks() -> None:
    history = grown((RUN, E.STARTED), (C, E.FAILED), (A, E.FAILED, (C,)), (RUN, E.FAILED, (A,)))
    for address in (RUN, A, C):
        add(history, address, E.STARTED)
        assert {RUN, A, C} == history.to_retry


def test_what_fails_anew_and_is_caught_this_time_is_not_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)), (RUN, E.STARTED), (D, E.FAILED))
    assert {RUN} == history.to_retry
    add(history, RUN, E.COMPLETED)
    assert set() == history.to_retry


def test_what_fails_anew_and_fails_the_run_anew_is_tried_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)), (RUN, E.STARTED), (D, E.FAILED))
    add(history, RUN, E.FAILED, (D,))
    assert {RUN, D} == history.to_retry


def test_a_mark_stays_until_its_own_event_is_settled() -> None:
    history = grown((RUN, E.STARTED), (C, E.FAILED), (A, E.FAILED, (C,)), (RUN, E.FAILED, (A,)), (A, E.FAILED))
    add(history, RUN, E.FAILED, (A,))
    assert {RUN, A, C} == history.to_retry


def test_a_completed_run_leaves_nothing_to_try_again() -> None:
    history = grown((RUN, E.STARTED), (D, E.FAILED), (RUN, E.FAILED, (D,)), (D, E.COMPLETED), (RUN, E.COMPLETED))
    assert set() == history.to_retry


def test_storage_holds_what_was_set_last() -> None:
    changes = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("b", None), ("never set", None)]
    records = [StorageRecord(seq=seq, key=key, at=0.0, value=value) for seq, (key, value) in enumerate(changes, 1)]
    assert {"a": b"3"} == History("s", records).storage


def test_an_empty_value_in_storage_is_a_value() -> None:
    history = History("s")
    history.put_storage("k", b"")
    assert {"k": b""} == history.storage
    assert 0 == history.position


def test_the_next_order_follows_the_highest_one() -> None:
    history = grown((RUN, E.STARTED))
    assert 2 == history.next_order
    add(history, D, E.COMPLETED, order=7)
    assert 8 == history.next_order
    add(history, A, E.COMPLETED, order=3)
    assert 8 == history.next_order
    add(history, RUN, E.COMPLETED, order=1)
    assert 8 == history.next_order


def test_events_and_checkpoints_are_told_apart() -> None:
    records: list[Record] = [
        StorageRecord(seq=1, key="k", at=0.0, value=b"v"),
        EventRecord(seq=2, address=D, status=E.COMPLETED, at=0.0, behind=1),
        CheckpointRecord(seq=3, status=StateStatus.PAUSED, at=0.0, metadata="{}"),
        EventRecord(seq=4, address=A, status=E.COMPLETED, at=0.0, behind=2),
    ]
    history = History("s", records)
    assert [records[1], records[3]] == list(history.events())
    assert [3] == [checkpoint.position for checkpoint in history.checkpoints()]
    assert records[1] is history.first_event()


def lived(history: History) -> list[tuple[str, ExecutionStatus]]:
    return [(record.address, record.status) for record in history.life() if isinstance(record, EventRecord)]


def test_a_start_is_shown_before_an_outcome_that_carries_it() -> None:
    history = History("s")
    outcome = EventRecord(
        seq=1,
        address=D,
        status=E.COMPLETED,
        at=10.0,
        behind=-3,
        attempt=2,
        duration_s=2.5,
        version="3",
        fingerprint=b"f",
        input=b"in",
        result=b"out",
    )
    history.add(outcome)
    start = EventRecord(
        seq=1, address=D, status=E.STARTED, at=7.5, behind=-3, attempt=2, version="3", fingerprint=b"f", input=b"in"
    )
    assert [start, outcome] == list(history.life())
    assert outcome.started_at == start.recorded_at
    assert [outcome] == history.records


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        ([E.STARTED], [E.STARTED]),
        ([E.STARTED, E.COMPLETED], [E.STARTED, E.COMPLETED]),
        ([E.COMPLETED], [E.STARTED, E.COMPLETED]),
        ([E.FAILED], [E.STARTED, E.FAILED]),
        ([E.CANCELLED], [E.STARTED, E.CANCELLED]),
        ([E.STARTED, E.FAILED, E.COMPLETED], [E.STARTED, E.FAILED, E.STARTED, E.COMPLETED]),
        ([E.FAILED, E.STARTED, E.COMPLETED], [E.STARTED, E.FAILED, E.STARTED, E.COMPLETED]),
        ([E.FAILED, E.FAILED, E.COMPLETED], [E.STARTED, E.FAILED] * 2 + [E.STARTED, E.COMPLETED]),
        ([E.RETRYING, E.COMPLETED], [E.STARTED, E.FAILED, E.RETRYING, E.STARTED, E.COMPLETED]),
        ([E.STARTED, E.RETRYING, E.STARTED, E.FAILED], [E.STARTED, E.FAILED, E.RETRYING, E.STARTED, E.FAILED]),
        ([E.RETRYING, E.RETRYING, E.FAILED], [E.STARTED, E.FAILED, E.RETRYING] * 2 + [E.STARTED, E.FAILED]),
        ([E.INTERRUPTED, E.COMPLETED], [E.STARTED, E.INTERRUPTED, E.STARTED, E.COMPLETED]),
        ([E.STARTED, E.STARTED, E.COMPLETED], [E.STARTED, E.STARTED, E.COMPLETED]),
        ([E.AWAITING, E.COMPLETED], [E.AWAITING, E.STARTED, E.COMPLETED]),
    ],
)
def test_each_start_is_shown_exactly_once(events: list[ExecutionStatus], shown: list[ExecutionStatus]) -> None:
    assert shown == [status for _, status in lived(grown(*((D, status) for status in events)))]


def test_starts_of_different_events_are_not_mixed_up() -> None:
    history = grown((RUN, E.STARTED), (A, E.COMPLETED), (D, E.STARTED), (B, E.FAILED), (D, E.COMPLETED))
    add(history, RUN, E.COMPLETED)
    assert [
        (RUN, E.STARTED),
        (A, E.STARTED),
        (A, E.COMPLETED),
        (D, E.STARTED),
        (B, E.STARTED),
        (B, E.FAILED),
        (D, E.COMPLETED),
        (RUN, E.COMPLETED),
    ] == lived(history)


def test_a_life_shows_storage_and_checkpoints_in_their_places() -> None:
    history = grown((RUN, E.STARTED))
    history.add(StorageRecord(seq=2, key="k", at=0.0, value=b"v"))
    history.add(CheckpointRecord(seq=3, status=StateStatus.PAUSED, at=0.0, metadata="{}"))
    assert history.records == list(history.life())


STEPS = st.lists(st.tuples(st.sampled_from([RUN, A, B, C, D]), st.sampled_from(list(ExecutionStatus))), max_size=30)


@settings(deadline=None)
@given(STEPS)
def test_a_history_read_anew_is_the_same(steps: list[tuple[str, ExecutionStatus]]) -> None:
    history = History("s")
    for address, status in steps:
        before = history.latest.get(address)
        if event_may_become(before.status if before else None, status):
            add(history, address, status, causes=(A, C) if address == RUN else ())
    again = History("s", history.records)
    assert (history.records, history.latest, history.to_retry, history.next_order) == (
        again.records,
        again.latest,
        again.to_retry,
        again.next_order,
    )
    assert all(record.status is not E.COMPLETED for record in map(history.latest.__getitem__, history.to_retry))
    ended = [status for _, status in lived(history)].count
    assert ended(E.STARTED) >= ended(E.COMPLETED)
    assert history.records == [
        record for record in history.life() if record.seq <= history.position and record in history.records
    ]


@pytest.mark.parametrize(("at", "metadata"), [(1e300, ""), (float("nan"), ""), (1.0, "no JSON"), (1.0, "[" * 5000)])
def test_a_checkpoint_that_nobody_wrote_so_is_damaged(at: float, metadata: str) -> None:
    history = History("kelp-42", [CheckpointRecord(1, StateStatus.RUNNING, at, metadata)])
    with pytest.raises(StateCorrupted, match="its time or its metadata cannot be read"):
        history.checkpoints()
