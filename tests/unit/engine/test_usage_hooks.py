from __future__ import annotations

import logging
import math
import sys
from collections import defaultdict
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import pytest

from limpet.engine.usage_hooks import LONGEST_NAME, MOST_TOKENS, register_usage, usage_of
from limpet.errors import UsageError
from limpet.model.usage import LLMResult, Usage


class Text(str):
    """Of a type of its own, and with attributes."""


@pytest.mark.parametrize("result", [None, "text", b"", 5, 0.5, True, 1j, [1], (1,), {1}, frozenset()])
def test_plain_values_say_nothing(result: object) -> None:
    assert usage_of(result) is None


@pytest.mark.parametrize(
    "result",
    [
        object(),
        {},
        {"usage": None},
        {"usage": {}},
        {"usage": "much"},
        {"usage": {"total_tokens": "5"}},
        {"tokens_used": True},
        {"tokens_used": 5.0},
        SimpleNamespace(usage=lambda: 5),
        MagicMock(),
        Text("text"),
        LLMResult("text"),
    ],
)
def test_what_is_not_known_is_none(result: object) -> None:
    assert usage_of(result) is None


def test_a_result_of_a_model_says_what_it_used() -> None:
    assert Usage(12, 0.5, "m") == usage_of(LLMResult("text", 12, "m", 0.5))
    assert Usage(model="m") == usage_of(LLMResult("text", model_name="m"))
    assert Usage(cost=0.5) == usage_of(LLMResult("text", None, "", 0.5))  # pyright: ignore[reportArgumentType]  # meant


class Counted(NamedTuple):
    tokens_used: int
    model: str
    cost: float = 0.0


def test_tokens_used_is_known_by_its_name() -> None:
    assert Usage(5, 0.1, "m") == usage_of(Counted(5, "m", 0.1))
    assert Usage(5, 0.0, "named") == usage_of(SimpleNamespace(tokens_used=5, model_name="named", model="m"))
    assert Usage(5, 0.1, "m") == usage_of({"tokens_used": 5, "model": "m", "cost": 0.1})


@pytest.mark.parametrize(
    ("tokens", "usage"),
    [
        (9, {"total_tokens": 9, "prompt_tokens": 2, "completion_tokens": 3}),
        (5, {"input_tokens": 2, "output_tokens": 3}),
        (5, {"prompt_tokens": 2, "completion_tokens": 3}),
        (5, {"total_tokens": None, "prompt_tokens": 5}),
        (15, {"input_tokens": 2, "output_tokens": 3, "cache_read_input_tokens": 10}),
        (2, {"input_tokens": 2, "output_tokens": -3}),
    ],
)
def test_the_usage_of_a_response_is_known_by_its_shape(tokens: int, usage: dict[str, Any]) -> None:
    expected = Usage(tokens, 0.0, "m")
    assert expected == usage_of({"usage": usage, "model": "m"})
    assert expected == usage_of(SimpleNamespace(usage=SimpleNamespace(**usage), model="m"))
    assert expected == usage_of(SimpleNamespace(usage=usage, model="m"))


def test_dicts_of_other_types_are_dicts() -> None:
    result: defaultdict[str, Any] = defaultdict(dict, usage={"total_tokens": 5})
    assert Usage(5) == usage_of(result)
    assert ["usage"] == list(result)


def test_a_cost_may_stand_beside_the_tokens_or_above_them() -> None:
    assert Usage(5, 0.1) == usage_of({"usage": {"total_tokens": 5, "cost": 0.1}})
    assert Usage(5, 0.2) == usage_of({"usage": {"total_tokens": 5, "cost": 0.1}, "cost": 0.2})


class Model(StrEnum):
    LARGE = "large"


class Number(int):
    pass


@pytest.mark.parametrize(
    ("clean", "tokens", "cost", "model"),
    [
        (Usage(0, 0.5), -5, 0.5, ""),
        (Usage(0, 0.5), True, 0.5, ""),
        (Usage(0, 0.5), 5.5, 0.5, None),
        (Usage(MOST_TOKENS), 2**70, 0.0, ""),
        (Usage(7), Number(7), 0.0, ""),
        (Usage(1), 1, math.nan, 5),
        (Usage(1), 1, math.inf, ""),
        (Usage(1), 1, -0.5, ""),
        (Usage(1), 1, True, ""),
        (Usage(1), 1, "0.5", ""),
        (Usage(1), 1, 10**400, ""),
        (Usage(1), 1, Decimal("sNaN"), ""),
        (Usage(1), 1, Decimal("1e999"), ""),
        (Usage(1, 2.0), 1, 2, ""),
        (Usage(1, 0.25), 1, Decimal("0.25"), ""),
        (Usage(1, 0.25), 1, Fraction(1, 4), ""),
        (Usage(1, 0.0, "large"), 1, 0, Model.LARGE),
        (Usage(1, 0.0, "a?b"), 1, 0, "a\ud800b"),
        (Usage(1, 0.0, "m" * LONGEST_NAME), 1, 0, "m" * 10_000),
    ],
)
def test_whatever_comes_out_can_be_stored(clean: Usage, tokens: Any, cost: Any, model: Any) -> None:
    for result in (LLMResult("text", tokens, model, cost), Answer(Usage(tokens, cost, model))):
        found = usage_of(result)
        assert clean == found
        assert found is not None
        assert (int, float, str) == (type(found.tokens), type(found.cost), type(found.model))


class Answer:
    def __init__(self, used: Any) -> None:
        self.used = used


class Longer(Answer):
    pass


register_usage(Answer, lambda answer: answer.used)


def test_a_hook_counts_for_subclasses_until_they_have_their_own() -> None:
    class Own(Longer):
        pass

    assert Usage(5) == usage_of(Longer(Usage(5)))
    register_usage(Own, lambda own: Usage(50))
    assert Usage(50) == usage_of(Own(Usage(5)))
    assert Usage(5) == usage_of(Longer(Usage(5)))


def test_a_later_hook_takes_the_place_of_the_earlier() -> None:
    class Changed:
        tokens_used = 1

    assert Usage(1) == usage_of(Changed())
    register_usage(Changed, lambda result: Usage(2))
    assert Usage(2) == usage_of(Changed())
    register_usage(Changed, lambda result: None)
    assert usage_of(Changed()) is None


def failing(result: object) -> Usage:
    raise LookupError("no such field")


def test_a_hook_that_raises_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        pass

    register_usage(Broken, failing)
    with caplog.at_level(logging.WARNING, "limpet.usage"):
        assert [None, None] == [usage_of(Broken()), usage_of(Broken())]
    [record] = caplog.records
    assert "Broken" in record.getMessage()
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], LookupError)

    register_usage(Broken, failing)
    assert usage_of(Broken()) is None
    assert 2 == len(caplog.records)


def test_a_hook_that_gives_something_else_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    class Wrong:
        pass

    register_usage(Wrong, lambda result: 5)  # pyright: ignore[reportArgumentType]  # what users may well give
    assert usage_of(Wrong()) is None
    assert "the hook gave int, which is neither a Usage nor None" in caplog.text


def test_an_attribute_that_raises_is_reported_and_not_raised(caplog: pytest.LogCaptureFixture) -> None:
    class Lazy:
        @property
        def usage(self) -> object:
            raise RuntimeError("not loaded")

    assert usage_of(Lazy()) is None
    assert "not loaded" in caplog.text


def test_a_class_that_cannot_be_looked_up_is_no_error() -> None:
    class Meta(type):
        __hash__ = None  # pyright: ignore[reportAssignmentType]  # as one has it that only defines __eq__

    class Strange(metaclass=Meta):
        tokens_used = 5

    assert usage_of(Strange()) is None


@pytest.mark.parametrize("cls", [str, type(None), list])
def test_a_plain_type_has_no_hook(cls: type) -> None:
    with pytest.raises(UsageError, match="cannot have a hook"):
        register_usage(cls, lambda result: Usage(1))


def test_a_hook_is_for_a_class_and_can_be_called() -> None:
    with pytest.raises(UsageError, match="is not a class"):
        register_usage("Answer", lambda result: None)  # pyright: ignore[reportArgumentType]  # the mistake that is meant
    with pytest.raises(UsageError, match="cannot be called"):
        register_usage(Longer, "used")  # pyright: ignore[reportArgumentType]  # the mistake that is meant


def test_nothing_is_imported_to_find_out() -> None:
    before = set(sys.modules)
    usage_of(SimpleNamespace(usage=SimpleNamespace(prompt_tokens=1)))
    assert before == set(sys.modules)
