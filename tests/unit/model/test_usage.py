from __future__ import annotations

import msgspec
import pytest

from limpet.codec import values
from limpet.model.usage import LLMResult, ModelUsage, Usage, UsageTotals, counted, readable_cost


@pytest.mark.parametrize("content", ["text", None, {"parts": [1, 2.5]}, LLMResult("inner")])
def test_a_result_of_a_model_comes_back_equal_and_of_its_type(content: object) -> None:
    result = LLMResult(content, 1200, "some-model", 0.004)
    back = values.decode(values.encode(result))
    assert result == back
    assert LLMResult is type(back)


def test_a_result_of_a_model_needs_nothing_but_its_content() -> None:
    assert LLMResult("text", 0, "", 0.0) == LLMResult("text")


def test_only_what_is_known_of_a_call_is_stored() -> None:
    assert {"tokens": 5} == msgspec.to_builtins(Usage(5))
    assert Usage(5, 0.1, "m") == msgspec.msgpack.decode(msgspec.msgpack.encode(Usage(5, 0.1, "m")), type=Usage)


def test_totals_are_told_in_one_line() -> None:
    totals = UsageTotals(model_calls=12, tokens=34000, cost=0.52, by_model={"a": ModelUsage(12, 34000, 0.52)})
    assert "12 model calls, 34,000 tokens, cost 0.52" == str(totals)


def test_what_replay_saved_is_told() -> None:
    totals = UsageTotals(model_calls=1, tokens=1, cost=2.0, replayed=ModelUsage(8, 20000, 0.31))
    assert "1 model call, 1 token, cost 2.00; replay saved 8 calls, 20,000 tokens, cost 0.31" == str(totals)


def test_several_models_have_a_line_each() -> None:
    totals = UsageTotals(model_calls=3, by_model={"large": ModelUsage(1, 900, 0.5), "": ModelUsage(2)})
    expected = [
        "3 model calls, 0 tokens, cost 0",
        "  large: 1 call, 900 tokens, cost 0.5",
        "  not named: 2 calls, 0 tokens, cost 0",
    ]
    assert expected == str(totals).splitlines()


def test_of_many_models_the_first_are_shown() -> None:
    lines = str(UsageTotals(by_model={f"m{number}": ModelUsage(1) for number in range(12)})).splitlines()
    assert 12 == len(lines)
    assert "  … and 2 more models" == lines[-1]


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("0", 0.0),
        ("0.00002", 0.00002),
        ("0.123", 0.12345),
        ("0.5", 0.5),
        ("1.00", 1.0),
        ("1,234.57", 1234.567),
        ("inf", float("inf")),
    ],
)
def test_a_cost_is_written_as_people_read_it(text: str, cost: float) -> None:
    assert text == readable_cost(cost)


def test_things_are_counted_in_words() -> None:
    assert ["0 calls", "1 call", "2,000 calls"] == [counted(count, "call") for count in (0, 1, 2000)]
