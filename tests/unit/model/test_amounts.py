"""Times and sizes are read as people write them, and told the same way."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.model.amounts import LARGEST, duration_from, duration_text, size_from


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15min", 900), (" 12 h ", 43_200), ("30d", 2_592_000), ("8w", 4_838_400), ("1.5h", 5400), ("0s", 0)],
)
def test_times_are_read(text: str, seconds: float) -> None:
    assert timedelta(seconds=seconds) == duration_from(text)


@pytest.mark.parametrize("text", ["", "30", "d", "30y", "-1d", "1e3s", "1 d 2 h", "30D", "٣d"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no time\. Write it as 90s, 15min, 12h, 30d or 8w"):
        duration_from(text)


@pytest.mark.parametrize("text", ["99999999999w", f"{'9' * 5000}d"])
def test_a_time_without_end_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="longer than time is counted"):
        duration_from(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [("0", 0), ("12", 12), ("500kB", 500_000), ("1.5GB", 1_500_000_000), ("64 KiB", 65_536), ("2TB", 2 * 10**12)],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert count == size_from(text)


@pytest.mark.parametrize("text", ["", "much", "-1", "1 XB", "1,5GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        size_from(text)


@pytest.mark.parametrize("text", [str(LARGEST * 4), "9" * 5000, "99999999 TiB"])
def test_a_size_beyond_every_store_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="larger than any store"):
        size_from(text)


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=10_000)))
def test_a_time_that_is_told_is_read_as_the_same(length: timedelta) -> None:
    assert length == duration_from(duration_text(length))


@pytest.mark.parametrize(
    ("length", "text"),
    [
        (timedelta(days=30), "30d"),
        (timedelta(hours=36), "36h"),
        (timedelta(minutes=90), "90min"),
        (timedelta(seconds=1.5), "1.5s"),
        (timedelta(0), "0s"),
    ],
)
def test_a_time_is_told_in_the_largest_unit(length: timedelta, text: str) -> None:
    assert text == duration_text(length)
