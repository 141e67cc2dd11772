from __future__ import annotations

import math

import pytest

from limpet.journal.usage import totals_of
from limpet.model import CheckpointRecord, EventRecord, ExecutionStatus, StateStatus
from limpet.model.records import Details
from limpet.model.usage import ModelUsage, Usage, UsageTotals

E = ExecutionStatus


def call(
    usage: Usage | None = None, status: ExecutionStatus = E.COMPLETED, address: str = "run::think::llm_call"
) -> EventRecord:
    return EventRecord(1, address, status, 0.0, details=None if usage is None else Details(usage=usage))


def test_a_journal_without_model_calls_used_nothing() -> None:
    others = [call(address="run::fetch::tool_call"), CheckpointRecord(2, StateStatus.RUNNING, 0.0, "{}")]
    assert UsageTotals() == totals_of(others)


def test_what_model_calls_used_is_summed_for_each_model() -> None:
    records = [call(Usage(100, 0.5, "large")), call(Usage(10, 0.25, "small")), call(Usage(200, 1.0, "large"))]
    totals = totals_of(records)
    assert (3, 310, 1.75) == (totals.model_calls, totals.tokens, totals.cost)
    assert {"large": ModelUsage(2, 300, 1.5), "small": ModelUsage(1, 10, 0.25)} == totals.by_model


def test_a_call_of_which_nothing_is_known_counts_as_a_call() -> None:
    recorded_otherwise = EventRecord(1, "run::think::llm_call", E.COMPLETED, 0.0, details=Details(key="k"))
    totals = totals_of([call(), recorded_otherwise])
    assert {"": ModelUsage(2)} == totals.by_model
    assert 2 == totals.model_calls


@pytest.mark.parametrize("status", [E.FAILED, E.RETRYING])
def test_a_failed_attempt_counts_where_it_is_known_what_it_used(status: ExecutionStatus) -> None:
    assert 0 == totals_of([call(status=status)]).model_calls
    assert ModelUsage(1, 7, 0.5) == totals_of([call(Usage(7, 0.5, "m"), status)]).by_model["m"]


def test_a_call_that_only_ends_like_a_model_call_is_none() -> None:
    assert 0 == totals_of([call(address="run::my_llm_call::tool_call")]).model_calls


def test_no_digit_of_a_cost_is_lost() -> None:
    costs = [1e16, *[1.0] * 10, 0.1, 0.1, 0.1, -1e16]
    assert 10.3 == totals_of(call(Usage(cost=cost)) for cost in costs).cost


@pytest.mark.parametrize("costs", [[1.7e308, 1.7e308], [math.inf, -math.inf]])
def test_costs_beyond_all_numbers_are_without_end(costs: list[float]) -> None:
    assert math.inf == totals_of(call(Usage(cost=cost)) for cost in costs).cost


def test_what_replay_saved_is_passed_on() -> None:
    assert ModelUsage(3, 4, 5.0) == totals_of([], ModelUsage(3, 4, 5.0)).replayed
