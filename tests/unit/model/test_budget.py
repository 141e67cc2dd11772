from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from limpet.errors import UsageError
from limpet.model.budget import Budget

FIELDS = ("events", "model_calls", "tokens", "cost", "wall_time_s", "repeats")


def test_a_budget_without_limits_is_empty() -> None:
    assert Budget().is_empty


@pytest.mark.parametrize("field", FIELDS)
def test_any_limit_makes_a_budget_of_it(field: str) -> None:
    budget = Budget(**{field: 0})
    assert not budget.is_empty
    assert 0 == getattr(budget, field)


def test_limits_of_cost_and_time_may_have_decimals() -> None:
    budget = Budget(cost=0.5, wall_time_s=1.5)
    assert (0.5, 1.5) == (budget.cost, budget.wall_time_s)


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [-1, True, "5", [5], Decimal(5)])
def test_a_limit_that_is_none_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(UsageError) as caught:
        Budget(**{field: value})
    assert f"A budget cannot have {field}={value!r}" in str(caught.value)
    assert "or None for no limit" in caught.value.remedy


@pytest.mark.parametrize("field", ["cost", "wall_time_s"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_limit_that_is_not_finite_is_refused(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match="it is not finite"):
        Budget(**{field: value})


@pytest.mark.parametrize("field", ["events", "model_calls", "tokens", "repeats"])
def test_what_is_counted_has_a_whole_number_as_its_limit(field: str) -> None:
    wrong: dict[str, Any] = {field: 2.0}
    with pytest.raises(UsageError, match=r"it is of type float\. Give a whole number"):
        Budget(**wrong)


def test_a_number_too_large_for_a_float_is_a_limit_all_the_same() -> None:
    assert 10**400 == Budget(cost=10**400).cost
