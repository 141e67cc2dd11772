"""When the next cleanup is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.journal.schedule import next_due
from limpet.model import Schedule

NOW = datetime(2024, 5, 1, 12, tzinfo=UTC)
REGULAR = [Schedule.DAILY, Schedule.WEEKLY, Schedule.MONTHLY]
MOMENTS = st.integers(0, 16_000_000_000_000).map(lambda milliseconds: datetime.fromtimestamp(milliseconds / 1000, UTC))


@given(MOMENTS, MOMENTS)
def test_by_hand_nothing_is_ever_due(last: datetime, now: datetime) -> None:
    assert (None, None) == (next_due(Schedule.MANUAL, last, now), next_due(Schedule.MANUAL, None, now))


@pytest.mark.parametrize("schedule", [*REGULAR, Schedule.ON_START])
def test_what_was_never_done_is_due_now(schedule: Schedule) -> None:
    assert NOW == next_due(schedule, None, NOW)


def test_on_start_it_is_due_once() -> None:
    assert next_due(Schedule.ON_START, NOW, NOW + timedelta(days=400)) is None


@given(last=MOMENTS, since=st.timedeltas(min_value=timedelta(days=-1), max_value=timedelta(days=9999)))
def test_it_is_due_a_day_or_a_week_after_the_last_one(last: datetime, since: timedelta) -> None:
    assert last + timedelta(hours=24) == next_due(Schedule.DAILY, last, last + since)
    assert last + timedelta(days=7) == next_due(Schedule.WEEKLY, last, last + since)


@given(MOMENTS)
def test_it_is_due_in_the_next_month_at_the_same_time(last: datetime) -> None:
    due = next_due(Schedule.MONTHLY, last, last)
    assert due is not None
    assert 1 == (due.year - last.year) * 12 + due.month - last.month
    assert last.timetz() == due.timetz()
    # On the same day, or on the last one of a month that has no such day.
    assert due.day == last.day or (due.day < last.day and (due + timedelta(days=1)).day == 1)
    assert timedelta(days=28) <= due - last <= timedelta(days=31)


@pytest.mark.parametrize(
    ("last", "due"),
    [
        ("2024-01-31T08:30", "2024-02-29T08:30"),
        ("2023-01-31T08:30", "2023-02-28T08:30"),
        ("2024-02-29T00:00", "2024-03-29T00:00"),
        ("2024-12-31T23:59", "2025-01-31T23:59"),
    ],
)
def test_months_have_different_lengths(last: str, due: str) -> None:
    expected, before = (datetime.fromisoformat(text).replace(tzinfo=UTC) for text in (due, last))
    assert expected == next_due(Schedule.MONTHLY, before, before)


@pytest.mark.parametrize("schedule", REGULAR)
@given(now=MOMENTS, ahead=st.timedeltas(min_value=timedelta(days=1, microseconds=1), max_value=timedelta(days=9999)))
def test_a_last_time_that_cannot_be_counts_as_never(schedule: Schedule, now: datetime, ahead: timedelta) -> None:
    assert now == next_due(schedule, now + ahead, now)


@pytest.mark.parametrize("schedule", REGULAR)
def test_clocks_that_differ_a_little_bring_nothing_forward(schedule: Schedule) -> None:
    due = next_due(schedule, NOW + timedelta(minutes=5), NOW)
    assert due is not None
    assert due > NOW + timedelta(hours=23)
