from __future__ import annotations

import pytest

from limpet.model.readable_time import readable_time


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0 µs"),
        (2.5e-6, "2.5 µs"),
        (0.0123, "12.3 ms"),
        (1.0, "1 s"),
        (59.96, "60 s"),
        (90.0, "1.5 min"),
        (7200.0, "2 h"),
    ],
)
def test_a_time_is_told_in_the_unit_that_suits_it(seconds: float, expected: str) -> None:
    assert expected == readable_time(seconds)
