"""A configuration of retrying is refused where a value has no meaning, and is the same however it was written."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from datetime import timedelta
from enum import IntEnum
from typing import Any

import msgspec
import pytest

from limpet.errors import UsageError
from limpet.model import BackoffStrategy, RetryConfig, RetryStatistics


def test_the_defaults_are_those_that_are_promised() -> None:
    config = RetryConfig()
    assert (3, BackoffStrategy.EXPONENTIAL, 1.0, 60.0, 2.0, True, None, None, None, True) == tuple(
        getattr(config, field) for field in RetryConfig.__struct_fields__
    )


def test_the_parameters_may_be_given_by_place_and_by_name() -> None:
    names = [
        *("max_attempts", "backoff_strategy", "initial_delay", "max_delay", "backoff_multiplier", "jitter"),
        *("retry_on_exceptions", "exclude_exceptions", "retry_timeout", "enabled"),
    ]
    assert names == list(inspect.signature(RetryConfig).parameters)
    by_place = RetryConfig(5, BackoffStrategy.LINEAR, 2.0, 9.0, 3.0, False, (OSError,), (KeyError,), 30.0, False)
    by_name = RetryConfig(
        max_attempts=5,
        backoff_strategy=BackoffStrategy.LINEAR,
        initial_delay=2.0,
        max_delay=9.0,
        backoff_multiplier=3.0,
        jitter=False,
        retry_on_exceptions=(OSError,),
        exclude_exceptions=(KeyError,),
        retry_timeout=30.0,
        enabled=False,
    )
    assert by_place == by_name
    assert hash(by_place) == hash(by_name)
    assert {by_place} == {by_name}


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        RetryConfig().max_attempts = 5  # pyright: ignore[reportAttributeAccessIssue]


def test_a_replaced_field_is_checked_as_well() -> None:
    assert RetryConfig(max_attempts=4) == msgspec.structs.replace(RetryConfig(), max_attempts=4)
    with pytest.raises(UsageError):
        msgspec.structs.replace(RetryConfig(), max_attempts=0)


class Many(IntEnum):
    FEW = 2


@pytest.mark.parametrize("field", ["retry_on_exceptions", "exclude_exceptions"])
@pytest.mark.parametrize(
    ("expected", "given"),
    [
        (None, None),
        ((), ()),
        ((), []),
        ((OSError,), OSError),
        ((OSError, KeyError), [OSError, KeyError]),
        ((KeyError, OSError), {OSError, KeyError}),
        ((KeyError, OSError), frozenset({KeyError, OSError})),
        ((KeyboardInterrupt,), KeyboardInterrupt),
    ],
)
def test_exception_types_become_a_tuple(field: str, expected: Any, given: Any) -> None:
    config = RetryConfig(**{field: given})
    assert expected == getattr(config, field)
    assert RetryConfig(**{field: expected}) == config


@pytest.mark.parametrize("text", ["constant", "linear", "exponential", "fibonacci"])
def test_a_strategy_may_be_named_by_text(text: Any) -> None:
    assert BackoffStrategy(text) is RetryConfig(backoff_strategy=text).backoff_strategy


def test_numbers_are_kept_in_one_form() -> None:
    config = RetryConfig(max_attempts=Many.FEW, initial_delay=2, max_delay=-0.0, retry_timeout=Many.FEW)
    assert (2, int) == (config.max_attempts, type(config.max_attempts))
    assert (2.0, float) == (config.initial_delay, type(config.initial_delay))
    assert (2.0, float) == (config.retry_timeout, type(config.retry_timeout))
    assert "0.0" == str(config.max_delay)


WHOLE = "Give a whole number from 1 on; the first try counts."
SECONDS = "Give a finite number of seconds from 0 on."
LIMIT = "Give a finite number of seconds above 0, or None for no limit."
TYPES = "Give exception types, like `(TimeoutError, ConnectionError)`."
STRATEGY = "Give a BackoffStrategy, or one of 'constant', 'linear', 'exponential', 'fibonacci'."
FACTOR = "Give a finite number above 0."


@pytest.mark.parametrize(
    ("field", "value", "shown", "remedy"),
    [
        ("max_attempts", 0, "0", WHOLE),
        ("max_attempts", -1, "-1", WHOLE),
        ("max_attempts", True, "True", WHOLE),
        ("max_attempts", 3.0, "3.0", WHOLE),
        ("max_attempts", "3", "'3'", WHOLE),
        ("max_attempts", None, "None", WHOLE),
        ("max_attempts", math.inf, "inf", WHOLE),
        ("max_attempts", 2**63, "9223372036854775808", WHOLE),
        ("backoff_strategy", "Linear", "'Linear'", STRATEGY),
        ("backoff_strategy", None, "None", STRATEGY),
        ("backoff_strategy", ["linear"], "['linear']", STRATEGY),
        ("initial_delay", -0.1, "-0.1", SECONDS),
        ("initial_delay", math.nan, "nan", SECONDS),
        ("initial_delay", True, "True", SECONDS),
        ("initial_delay", "1", "'1'", SECONDS),
        ("initial_delay", 10**400, "1000", SECONDS),
        ("max_delay", math.inf, "inf", SECONDS),
        ("max_delay", None, "None", SECONDS),
        ("max_delay", timedelta(seconds=3), "datetime.timedelta(seconds=3)", SECONDS),
        ("backoff_multiplier", 0, "0", FACTOR),
        ("backoff_multiplier", -2.0, "-2.0", FACTOR),
        ("backoff_multiplier", math.inf, "inf", FACTOR),
        ("backoff_multiplier", False, "False", FACTOR),
        ("retry_timeout", 0, "0", LIMIT),
        ("retry_timeout", -1.0, "-1.0", LIMIT),
        ("retry_timeout", math.nan, "nan", LIMIT),
        ("retry_timeout", "30", "'30'", LIMIT),
        ("retry_on_exceptions", "TimeoutError", "'TimeoutError'", TYPES),
        ("retry_on_exceptions", ["TimeoutError"], "'TimeoutError'", TYPES),
        ("retry_on_exceptions", (OSError, int), "<class 'int'>", TYPES),
        ("retry_on_exceptions", [OSError()], "OSError()", TYPES),
        ("exclude_exceptions", {1}, "1", TYPES),
        ("exclude_exceptions", object, "<class 'object'>", TYPES),
        ("exclude_exceptions", (None,), "None", TYPES),
        ("exclude_exceptions", iter([OSError]), "<list_iterator", TYPES),
        ("jitter", "no", "'no'", "Give True or False."),
        ("jitter", 0.5, "0.5", "Give True or False."),
        ("enabled", None, "None", "Give True or False."),
    ],
)
def test_what_has_no_meaning_is_refused_with_field_and_value_named(
    field: str, value: Any, shown: str, remedy: str
) -> None:
    with pytest.raises(UsageError) as caught:
        RetryConfig(**{field: value})
    assert caught.value.problem.startswith(f"RetryConfig was given {field}={shown}")
    assert remedy == caught.value.remedy


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("make", [lambda: nested(100_000), Unshowable, lambda: "x" * 10**6, lambda: 10**5000])
def test_what_has_no_short_text_is_refused_all_the_same(make: Callable[[], Any]) -> None:
    with pytest.raises(UsageError) as caught:
        RetryConfig(max_attempts=make())
    assert 300 > len(str(caught.value))


def test_statistics_are_empty_at_first() -> None:
    statistics = RetryStatistics()
    assert (0, 0, 0, 0, 0.0, 0.0, {}, 0) == tuple(
        getattr(statistics, field) for field in RetryStatistics.__struct_fields__
    )
    assert "0 calls, none tried again" == str(statistics)


def test_statistics_are_told_in_a_few_lines() -> None:
    statistics = RetryStatistics(
        events=40,
        events_retried=3,
        retries=4,
        attempts=44,
        rate=0.075,
        waited_s=7.5,
        errors_by_type={"TimeoutError": 3, "ValueError": 1, "OSError": 1},
        recovered=2,
    )
    assert [
        "40 calls, 3 tried again (7.5%), 2 recovered: 4 retries, waits of 7.5 s",
        "  3 × TimeoutError",
        "  1 × OSError",
        "  1 × ValueError",
    ] == str(statistics).splitlines()


def test_errors_are_told_where_nothing_was_tried_again() -> None:
    statistics = RetryStatistics(events=1, attempts=1, errors_by_type={"ValueError": 1})
    assert "1 call, none tried again\n  1 × ValueError" == str(statistics)


def test_a_single_retry_is_told_as_one() -> None:
    statistics = RetryStatistics(events=1, events_retried=1, retries=1, attempts=2, rate=1.0, waited_s=1, recovered=1)
    assert "1 call, 1 tried again (100.0%), 1 recovered: 1 retry, waits of 1 s" == str(statistics)
