"""What of a damaged journal is gone on from."""

from __future__ import annotations

import pytest

from limpet.journal.history import History
from limpet.journal.recovery import Journal, recovery_of
from limpet.model import DamagedRecord, EventRecord, ExecutionStatus, Part, Record, TimelineRecord


def event(seq: int, name: str = "step", status: ExecutionStatus = ExecutionStatus.COMPLETED) -> EventRecord:
    return EventRecord(seq, f"run::{name}#{seq}::tool_call", status, float(seq))


def damaged(seq: int) -> DamagedRecord:
    return DamagedRecord("kelp", seq, "it is missing")


def journal(length: int, *lost: int) -> list[Record | DamagedRecord]:
    return [damaged(seq) if seq in lost else event(seq) for seq in range(1, length + 1)]


def test_a_sound_journal_needs_no_recovery() -> None:
    assert recovery_of(journal(5), 0) is None
    assert recovery_of([], 0) is None


@pytest.mark.parametrize("lost", range(2, 6))
def test_what_stands_before_the_damage_is_kept(lost: int) -> None:
    found = recovery_of(journal(5, lost), 0)
    assert found is not None
    assert (lost, 1, 2) == (found.first_damaged, found.new.base, found.number)
    assert (Part(1, lost - 1),) == found.new.parts
    assert list(range(lost + 1, 6)) == [record.seq for record in found.given_up]


def test_the_first_of_several_counts() -> None:
    found = recovery_of(journal(9, 7, 4, 5), 0)
    assert found is not None
    assert (4, (Part(1, 3),), [6, 8, 9]) == (
        found.first_damaged,
        found.new.parts,
        [record.seq for record in found.given_up],
    )


def test_nothing_is_kept_where_the_first_record_is_damaged() -> None:
    found = recovery_of(journal(5, 1), 0)
    assert found is not None
    assert (1, ()) == (found.first_damaged, found.new.parts)


def on_second_timeline(*lost: int) -> Journal:
    """Five records, then a timeline that keeps the first two of them, and two more."""
    records: list[Record | DamagedRecord] = [*journal(5), TimelineRecord(6, 6.0, 2, 1, (Part(1, 2),)), *journal(8)[6:]]
    return [damaged(record.seq) if record.seq in lost else record for record in records]


@pytest.mark.parametrize("lost", [3, 4, 5])
def test_damage_outside_of_the_current_timeline_does_not_matter(lost: int) -> None:
    assert recovery_of(on_second_timeline(lost), 6) is None


@pytest.mark.parametrize(
    ("lost", "parts"), [(2, (Part(1, 1),)), (7, (Part(1, 2),)), (8, (Part(1, 2), Part(7, 7)))], ids=str
)
def test_the_parts_of_a_timeline_are_cut_before_the_damage(lost: int, parts: tuple[Part, ...]) -> None:
    found = recovery_of(on_second_timeline(lost), 6)
    assert found is not None
    assert (lost, 2, 3, parts) == (found.first_damaged, found.new.base, found.number, found.new.parts)


def test_where_the_beginning_of_a_timeline_is_damaged_the_one_before_is_gone_on_with() -> None:
    found = recovery_of(on_second_timeline(6), 6)
    assert found is not None
    assert (6, 1, (Part(1, 5),)) == (found.first_damaged, found.new.base, found.new.parts)
    found = recovery_of(on_second_timeline(4, 6), 6)
    assert found is not None
    assert (6, 1, (Part(1, 3),)) == (found.first_damaged, found.new.base, found.new.parts)


@pytest.mark.parametrize("lost", range(2, 9))
def test_a_recovered_journal_is_read_on_its_new_timeline_without_what_is_damaged(lost: int) -> None:
    records = on_second_timeline(lost)
    found = recovery_of(records, 6)
    if found is None:
        history = History("kelp", records, 6)
        assert [1, 2, 7, 8] == [record.seq for record in history.records]
        return
    (began,) = found.new.records(9, 9.0, found.number)
    recovered = [*records, began]
    assert recovery_of(recovered, 9) is None
    history = History("kelp", recovered, 9)
    kept = [seq for part in found.new.parts for seq in range(part.first, part.last + 1)]
    assert kept == [record.seq for record in history.records]
    assert history.next_order > max(record.seq for record in records), "a start is never counted twice"


@pytest.mark.parametrize("timeline", [-1, -5, -(2**63), 2**62])
def test_a_timeline_that_no_record_can_have_begun_is_taken_for_damaged(timeline: int) -> None:
    recovery = recovery_of(journal(3), timeline)
    assert recovery is not None
