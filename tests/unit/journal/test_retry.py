"""Which configuration holds, what is tried again, how long the waits are, and when it is given up."""

from __future__ import annotations

import asyncio
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.errors import ConditionFailed, Drift, EventFailed, LeaseLost, LimpetError, UsageError, ValueNotStorable
from limpet.journal.retry import (
    BUILT_IN,
    OFF,
    backoff_s,
    effective,
    is_retried,
    leaves_process,
    next_attempt,
    remaining_wait_s,
    time_left_s,
    wait_before_next,
)
from limpet.model import BackoffStrategy, EventRecord, EventType, ExecutionStatus, RetryConfig

CONSTANT, LINEAR, EXPONENTIAL, FIBONACCI = BackoffStrategy


class ServerError(Exception):
    """An error of an HTTP client, whose response has a status and headers."""

    __module__ = "httpx"

    def __init__(self, status: int, **headers: str) -> None:
        super().__init__(status)
        self.response = SimpleNamespace(status_code=status, headers=headers)


class TimeIsUp(LimpetError, TimeoutError):
    """An error of ours that says that time ran out."""


def one(attempts: int) -> RetryConfig:
    return RetryConfig(max_attempts=attempts)


@pytest.mark.parametrize("event_type", EventType)
def test_the_nearest_configuration_holds(event_type: EventType) -> None:
    own, of_type, default = one(7), one(8), one(9)
    by_type = {event_type: of_type}
    assert own is effective(event_type, own, by_type, default)
    assert of_type is effective(event_type, None, by_type, default)
    assert default is effective(event_type, None, {}, default)


def test_a_configuration_of_another_type_is_not_asked() -> None:
    assert BUILT_IN is effective(EventType.TOOL_CALL, None, {EventType.LLM_CALL: one(7)}, None)


def test_without_any_configuration_tools_and_models_are_tried_again_and_agents_are_not() -> None:
    assert BUILT_IN is effective(EventType.TOOL_CALL, None, {}, None)
    assert BUILT_IN is effective(EventType.LLM_CALL, None, {}, None)
    assert OFF is effective(EventType.AGENT_CALL, None, {}, None)


def test_off_at_a_level_means_off() -> None:
    off = RetryConfig(enabled=False, max_attempts=9)
    kind = EventType.TOOL_CALL
    assert off is effective(kind, off, {kind: one(7)}, one(8))
    assert off is effective(kind, None, {kind: off}, one(8))
    assert not is_retried(off, TimeoutError())


def test_the_built_in_configuration_tries_again_what_is_transient_only() -> None:
    assert is_retried(BUILT_IN, TimeoutError())
    assert is_retried(BUILT_IN, ServerError(503))
    assert not is_retried(BUILT_IN, RuntimeError())
    assert not is_retried(BUILT_IN, ServerError(404))
    assert not is_retried(BUILT_IN, ValueError())


@pytest.mark.parametrize(
    "error",
    [
        *(RuntimeError(), OSError(), TimeoutError(), ServerError(503), ServerError(429), EventFailed("a", "no")),
        *(TimeIsUp(), ValueError(), TypeError(), KeyError(), AttributeError(), AssertionError()),
        *(ServerError(404), ServerError(401)),
    ],
)
def test_a_configuration_that_names_nothing_retries_every_exception(error: Exception) -> None:
    assert is_retried(RetryConfig(), error)


REFUSALS = [
    UsageError("no", "do"),
    LeaseLost("kelp-42", 3),
    Drift("research::fetch::tool_call", "kelp-42", "its input changed"),
    ValueNotStorable("result", "a socket", "no"),
    ExceptionGroup("no", [OSError(), UsageError("no", "do")]),
]


@pytest.mark.parametrize("error", REFUSALS, ids=repr)
def test_what_limpet_refuses_is_retried_only_where_it_is_named(error: Exception) -> None:
    assert not is_retried(RetryConfig(), error)
    assert not is_retried(RetryConfig(retry_on_exceptions=(Exception,)), error)
    assert is_retried(RetryConfig(retry_on_exceptions=(LimpetError, OSError)), error)


def test_the_result_that_did_not_pass_a_condition_may_be_made_again() -> None:
    assert is_retried(RetryConfig(), ConditionFailed("research::draft::llm_call", "it is too short"))


def test_exactly_what_is_named_is_tried_again() -> None:
    config = RetryConfig(retry_on_exceptions=(LookupError, ServerError))
    assert is_retried(config, LookupError())
    assert is_retried(config, KeyError())
    assert is_retried(config, ServerError(404))
    assert not is_retried(config, TimeoutError())
    assert not is_retried(config, Exception())
    assert not is_retried(RetryConfig(retry_on_exceptions=()), TimeoutError())


def test_what_is_excluded_is_never_tried_again() -> None:
    config = RetryConfig(retry_on_exceptions=(OSError,), exclude_exceptions=(ConnectionError,))
    assert is_retried(config, TimeoutError())
    assert not is_retried(config, ConnectionResetError())
    assert not is_retried(RetryConfig(exclude_exceptions=(ConnectionError,)), ConnectionResetError())
    assert is_retried(RetryConfig(exclude_exceptions=()), ConnectionResetError())


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit, BaseException])
def test_only_exceptions_are_ever_tried_again(kind: type[BaseException]) -> None:
    assert not is_retried(RetryConfig(retry_on_exceptions=(kind,)), kind())
    assert not is_retried(RetryConfig(), kind())
    assert not is_retried(BUILT_IN, kind())
    assert not is_retried(RetryConfig(), BaseExceptionGroup("no", [kind()]))


def group(*members: Exception) -> ExceptionGroup[Exception]:
    return ExceptionGroup("no", members)


def test_a_group_is_tried_again_where_each_of_its_members_is() -> None:
    assert is_retried(BUILT_IN, group(TimeoutError(), ConnectionError()))
    assert not is_retried(BUILT_IN, group(TimeoutError(), RuntimeError()))
    assert is_retried(RetryConfig(), group(RuntimeError(), group(OSError())))
    assert is_retried(RetryConfig(), group(RuntimeError(), group(ValueError())))
    named = RetryConfig(retry_on_exceptions=(LookupError,))
    assert is_retried(named, group(KeyError(), IndexError()))
    assert not is_retried(named, group(KeyError(), OSError()))


def test_a_group_that_is_named_is_tried_again_unless_a_member_is_excluded() -> None:
    assert is_retried(RetryConfig(retry_on_exceptions=(ExceptionGroup,)), group(KeyError()))
    config = RetryConfig(retry_on_exceptions=(ExceptionGroup,), exclude_exceptions=(KeyError,))
    assert is_retried(config, group(OSError()))
    assert not is_retried(config, group(OSError(), group(KeyError())))
    assert not is_retried(RetryConfig(exclude_exceptions=(ExceptionGroup,)), group(OSError()))


class Watchful(type):
    def __subclasscheck__(cls, subclass: type) -> bool:
        raise RuntimeError


class Watched(Exception, metaclass=Watchful):
    pass


def test_a_class_is_asked_no_more_than_an_except_clause_asks_it() -> None:
    assert is_retried(RetryConfig(retry_on_exceptions=(Watched,)), Watched())
    assert not is_retried(RetryConfig(retry_on_exceptions=(Watched,)), OSError())


def steady(strategy: BackoffStrategy, **changes: Any) -> RetryConfig:
    return RetryConfig(**{"backoff_strategy": strategy, "jitter": False, "max_delay": 1000.0} | changes)


@pytest.mark.parametrize(
    ("expected", "config"),
    [
        ([2.0, 2.0, 2.0, 2.0, 2.0, 2.0], steady(CONSTANT, initial_delay=2)),
        ([2.0, 4.0, 6.0, 8.0, 10.0, 12.0], steady(LINEAR, initial_delay=2)),
        ([2.0, 4.0, 8.0, 16.0, 32.0, 64.0], steady(EXPONENTIAL, initial_delay=2)),
        ([1.0, 3.0, 9.0, 27.0, 81.0, 243.0], steady(EXPONENTIAL, backoff_multiplier=3)),
        ([8.0, 4.0, 2.0, 1.0, 0.5, 0.25], steady(EXPONENTIAL, initial_delay=8, backoff_multiplier=0.5)),
        ([2.0, 2.0, 4.0, 6.0, 10.0, 16.0], steady(FIBONACCI, initial_delay=2)),
        ([1.0, 2.0, 4.0, 5.0, 5.0, 5.0], steady(EXPONENTIAL, max_delay=5)),
        ([1.0, 1.0, 2.0, 3.0, 4.0, 4.0], steady(FIBONACCI, max_delay=4)),
        ([3.0, 3.0, 3.0, 3.0, 3.0, 3.0], steady(CONSTANT, initial_delay=7, max_delay=3)),
    ],
)
def test_a_wait_grows_by_its_strategy_up_to_the_longest_one(expected: list[float], config: RetryConfig) -> None:
    assert expected == [backoff_s(config, attempt, 0.7) for attempt in range(1, 7)]


@pytest.mark.parametrize("strategy", BackoffStrategy)
@pytest.mark.parametrize("attempt", [1, 2, 2000, 10**9, 10**400])
def test_without_a_first_wait_there_is_none(strategy: BackoffStrategy, attempt: int) -> None:
    assert 0.0 == backoff_s(RetryConfig(backoff_strategy=strategy, initial_delay=0), attempt, 0.5)
    assert 0.0 == backoff_s(RetryConfig(backoff_strategy=strategy, max_delay=0), attempt, 0.5)


@pytest.mark.parametrize("strategy", [LINEAR, EXPONENTIAL, FIBONACCI])
@pytest.mark.parametrize("attempt", [2000, 10**9, 10**400])
@pytest.mark.parametrize("longest", [60.0, 1.7e308])
def test_late_attempts_wait_no_longer_than_the_longest_wait(
    strategy: BackoffStrategy, attempt: int, longest: float
) -> None:
    config = steady(strategy, initial_delay=1e308, max_delay=longest)
    assert longest == backoff_s(config, attempt, 0.0)
    shrinking = steady(EXPONENTIAL, backoff_multiplier=0.5)
    assert 0.0 == backoff_s(shrinking, attempt, 0.0)


def test_jitter_takes_up_to_half_of_the_wait_away() -> None:
    config = RetryConfig(initial_delay=8, jitter=True)
    assert [4.0, 6.0] == [backoff_s(config, 1, spread) for spread in (0.0, 0.5)]
    assert 4.0 < backoff_s(config, 1, 0.25) < 8.0
    assert 8.0 >= backoff_s(config, 1, math.nextafter(1.0, 0.0)) > 7.99


DELAYS = st.floats(0, 1e308)
CONFIGS = st.builds(
    RetryConfig,
    backoff_strategy=st.sampled_from(BackoffStrategy),
    initial_delay=DELAYS,
    max_delay=DELAYS,
    backoff_multiplier=st.floats(0, 1e308, exclude_min=True),
    jitter=st.booleans(),
)


@settings(deadline=None)
@given(CONFIGS, st.integers(1, 10**6), st.floats(0, 1, exclude_max=True))
def test_no_wait_is_longer_than_the_longest_one(config: RetryConfig, attempt: int, spread: float) -> None:
    wait = backoff_s(config, attempt, spread)
    assert 0 <= wait <= config.max_delay
    full = backoff_s(RetryConfig(**without_jitter(config)), attempt, spread)
    assert full / 2 <= wait <= full
    assert config.jitter or wait == full


def without_jitter(config: RetryConfig) -> dict[str, Any]:
    return {field: getattr(config, field) for field in RetryConfig.__struct_fields__} | {"jitter": False}


def wait_after(
    config: RetryConfig, error: BaseException, *, attempt: int = 1, spent_s: float = 0.0, spread: float = 0.0
) -> float | None:
    return wait_before_next(config, error, attempt=attempt, spent_s=spent_s, spread=spread, now=784_111_777.0)


def test_a_failed_attempt_is_followed_by_another_one_after_a_wait() -> None:
    config = steady(EXPONENTIAL, max_attempts=4)
    assert [1.0, 2.0, 4.0, None] == [wait_after(config, OSError(), attempt=attempt) for attempt in range(1, 5)]
    assert 0.5 == wait_after(RetryConfig(), OSError())
    assert 0.0 == wait_after(RetryConfig(initial_delay=0), OSError())


def test_it_is_given_up_where_no_attempt_is_left() -> None:
    assert wait_after(RetryConfig(max_attempts=1), OSError()) is None
    assert wait_after(RetryConfig(max_attempts=3), OSError(), attempt=7) is None


def test_it_is_given_up_where_the_error_is_not_tried_again() -> None:
    assert wait_after(RetryConfig(), UsageError("no", "do")) is None
    assert wait_after(BUILT_IN, RuntimeError()) is None
    assert wait_after(OFF, TimeoutError()) is None


def test_it_is_given_up_where_the_time_of_the_event_would_be_over_by_then() -> None:
    config = steady(CONSTANT, initial_delay=2, retry_timeout=10)
    assert 2.0 == wait_after(config, OSError(), spent_s=7.9)
    assert wait_after(config, OSError(), spent_s=8.0) is None
    assert wait_after(config, OSError(), spent_s=20.0) is None


def test_a_server_that_asks_for_more_time_is_given_it() -> None:
    config = steady(CONSTANT, max_delay=5)
    busy = ServerError(429, **{"Retry-After": "90"})
    assert 90.0 == wait_after(config, busy)
    assert 90.0 == wait_after(BUILT_IN, busy)
    assert 1.0 == wait_after(config, ServerError(429, **{"Retry-After": "0.2"}))
    assert 23.0 == wait_after(config, ServerError(503, **{"retry-after": "Sun, 06 Nov 1994 08:50:00 GMT"}))


@pytest.mark.parametrize(
    ("max_delay", "delay_s", "expected"), [(60, 300, False), (60, 301, True), (600, 600, False), (600, 601, True)]
)
def test_a_wait_that_is_too_long_for_a_process_is_not_slept_in_one(
    max_delay: float, delay_s: float, expected: bool
) -> None:
    assert expected is leaves_process(RetryConfig(max_delay=max_delay), delay_s)


def test_of_a_group_the_server_that_asks_for_most_time_is_given_it() -> None:
    busy = [ServerError(429, **{"Retry-After": asked}) for asked in ("20", "90", "5")]
    assert 90.0 == wait_after(BUILT_IN, group(TimeoutError(), group(*busy)))


def test_the_time_of_the_event_bounds_what_a_server_asks_for() -> None:
    config = steady(CONSTANT, retry_timeout=60)
    assert wait_after(config, ServerError(429, **{"Retry-After": "90"})) is None
    assert 50.0 == wait_after(config, ServerError(429, **{"Retry-After": "50"}))


def test_an_attempt_may_take_as_long_as_the_nearest_limit_says() -> None:
    limited = RetryConfig(retry_timeout=20)
    assert time_left_s(RetryConfig(), None, None, 5.0) is None
    assert 30.0 == time_left_s(RetryConfig(), 30.0, None, 5.0)
    assert 35.0 == time_left_s(RetryConfig(), None, 40.0, 5.0)
    assert 15.0 == time_left_s(limited, None, None, 5.0)
    assert 15.0 == time_left_s(limited, 30.0, 40.0, 5.0)
    assert 10.0 == time_left_s(limited, 10.0, 40.0, 5.0)
    assert 12.0 == time_left_s(limited, 30.0, 17.0, 5.0)


def test_no_time_is_left_where_a_limit_has_passed() -> None:
    assert 0.0 == time_left_s(RetryConfig(), 30.0, 40.0, 41.0)
    assert 0.0 == time_left_s(RetryConfig(retry_timeout=20), None, None, 20.0)


def test_what_is_off_limits_nothing() -> None:
    off = RetryConfig(retry_timeout=20, enabled=False)
    assert time_left_s(off, None, None, 5.0) is None
    assert 30.0 == time_left_s(off, 30.0, None, 5.0)


@pytest.mark.parametrize(
    ("expected", "status"),
    [
        (4, ExecutionStatus.RETRYING),
        (3, ExecutionStatus.STARTED),
        (3, ExecutionStatus.CANCELLED),
        (3, ExecutionStatus.INTERRUPTED),
        (3, ExecutionStatus.AWAITING),
        (1, ExecutionStatus.FAILED),
        (1, ExecutionStatus.COMPLETED),
        (1, ExecutionStatus.RECOVERED),
    ],
)
def test_the_next_attempt_goes_on_from_the_newest_record(expected: int, status: ExecutionStatus) -> None:
    assert expected == next_attempt(EventRecord(1, "run::a::tool_call", status, 0.0, attempt=3))


def test_what_is_left_of_a_wait_is_waited() -> None:
    assert 10.0 == remaining_wait_s(due_at=110.0, delay_s=30.0, now=100.0)
    assert 0.0 == remaining_wait_s(due_at=110.0, delay_s=30.0, now=110.0)
    assert 0.0 == remaining_wait_s(due_at=110.0, delay_s=30.0, now=500.0)


def test_a_clock_that_was_set_back_makes_nobody_wait_longer() -> None:
    assert 30.0 == remaining_wait_s(due_at=1000.0, delay_s=30.0, now=100.0)


def test_without_a_known_time_nothing_is_waited_for() -> None:
    assert 0.0 == remaining_wait_s(due_at=0.0, delay_s=30.0, now=-100.0)


@settings(deadline=None)
@given(st.floats(), st.floats(), st.floats())
def test_a_wait_that_was_read_from_bytes_is_within_its_bounds(due_at: float, delay_s: float, now: float) -> None:
    assert 0 <= remaining_wait_s(due_at, delay_s, now) <= max(0.0, 0.0 if math.isnan(delay_s) else delay_s)
