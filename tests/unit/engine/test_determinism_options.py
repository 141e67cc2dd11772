from __future__ import annotations

from typing import Any

import pytest

from limpet import DeterminismLevel, Tool, UsageError, tool

D = DeterminismLevel


async def handler(input: Any, context: object, state: object) -> Any:
    return input


@tool(tolerance=0.1)
async def measure(value: float) -> float:
    return value


def made(**options: Any) -> Tool:
    return Tool(name="t", handler=handler, **options)


def test_nothing_is_declared_unless_it_is_said() -> None:
    assert made().determinism is None


@pytest.mark.parametrize("level", [*D, *map(str, D)])
def test_a_level_is_declared_by_its_name(level: D | str) -> None:
    assert D(level) is made(determinism=level).determinism


def test_a_tolerance_or_a_comparison_says_that_it_is_approximate() -> None:
    assert D.APPROXIMATE is made(tolerance=0.5).determinism
    assert D.APPROXIMATE is made(compare=lambda one, other: True).determinism
    assert D.APPROXIMATE is made(determinism="approximate", tolerance=0.5).determinism


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"determinism": "sometimes"}, "strict, approximate, non_deterministic"),
        ({"tolerance": -1.0}, "from 0 to less than 1"),
        ({"tolerance": 1.0}, "from 0 to less than 1"),
        ({"determinism": D.STRICT, "tolerance": 0.1}, "approximate"),
        ({"determinism": D.NON_DETERMINISTIC, "compare": lambda one, other: True}, "approximate"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        made(**options)


def test_one_call_may_have_others() -> None:
    assert (D.APPROXIMATE, 0.1) == (measure.determinism, measure.tolerance)
    assert D.STRICT is measure.options(determinism=D.STRICT).determinism
    assert 0.3 == measure.options(tolerance=0.3).tolerance
    assert measure.options(once=True).once
    again = measure.options(key="k")
    assert (D.APPROXIMATE, 0.1, False) == (again.determinism, again.tolerance, again.once)
    assert (D.APPROXIMATE, 0.1) == (measure.determinism, measure.tolerance)
