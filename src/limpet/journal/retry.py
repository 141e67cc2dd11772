"""The rules of trying again: which configuration holds, which errors, how long to wait, and when to give up.

Time and chance are arguments. Nothing here waits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from limpet.errors import EventFailed, LimpetError
from limpet.journal.transient import is_a, is_transient, members_of, retry_after_s
from limpet.model import BackoffStrategy, EventRecord, EventType, ExecutionStatus, RetryConfig

BUILT_IN: Final = RetryConfig()
"""What holds for tools and models where nothing is configured. Told by identity: it retries what is transient only."""

OFF: Final = RetryConfig(enabled=False)
"""What holds for agents where nothing is configured: what they call is tried again, and need not be called anew."""

LONGEST_IN_PROCESS_S: Final = 300.0
"""A wait that a server asked for is slept in the process up to so long, or up to ``max_delay`` if that is longer."""

_LARGEST: Final = 10**300
"""Whole numbers beyond have no place in a float."""


def effective(
    event_type: EventType,
    own: RetryConfig | None,
    by_type: Mapping[EventType, RetryConfig],
    default: RetryConfig | None,
) -> RetryConfig:
    """The configuration that holds for a call: the first that is given, from the nearest to the farthest.

    ``own`` is that of the call or of its actor. One that is given and not enabled means off; nothing further is asked.
    """
    for config in (own, by_type.get(event_type), default):
        if config is not None:
            return config
    return OFF if event_type is EventType.AGENT_CALL else BUILT_IN


def is_retried(config: RetryConfig, error: BaseException) -> bool:
    """Whether a configuration tries again after this error, as ``RetryConfig`` says.

    A group is tried again where each of its members is, or where it is named itself. One excluded member is enough to
    exclude it. What Limpet refuses it refuses again: that takes a class of Limpet's own among those that are named.
    """
    if not config.enabled or not is_a(error, Exception):
        return False
    if config is BUILT_IN:
        return is_transient(error)
    members = members_of(error)
    excluded, named = config.exclude_exceptions or (), config.retry_on_exceptions
    if any(is_a(each, *excluded) for each in (error, *members)):
        return False
    ours = [each for each in named or () if type.__subclasscheck__(LimpetError, each)]
    if any(_is_refusal(each) and not is_a(each, *ours) for each in members):
        return False
    return named is None or is_a(error, *named) or all(is_a(each, *named) for each in members)


def _is_refusal(error: BaseException) -> bool:
    """Whether Limpet itself refuses something. The failure of an event is that of user code, and time may suffice."""
    return is_a(error, LimpetError) and not is_a(error, EventFailed, TimeoutError)


def backoff_s(config: RetryConfig, attempt: int, spread: float) -> float:
    """The wait behind the failed attempt of this number, counted from 1. Never longer than ``max_delay``.

    ``spread``, from 0 to less than 1, is chance: with jitter the wait lies between half of what it would be and that.
    """
    delay = min(_delay_s(config, min(attempt, _LARGEST)), config.max_delay)
    return delay * (0.5 + spread / 2) if config.jitter else delay


def _delay_s(config: RetryConfig, attempt: int) -> float:
    first = config.initial_delay
    if first == 0:
        return 0.0
    match config.backoff_strategy:
        case BackoffStrategy.CONSTANT:
            return first
        case BackoffStrategy.LINEAR:
            return first * attempt
        case BackoffStrategy.EXPONENTIAL:
            try:
                return first * config.backoff_multiplier ** (attempt - 1)
            except OverflowError:
                return math.inf
        case BackoffStrategy.FIBONACCI:
            return _fibonacci_s(first, attempt, config.max_delay)


def _fibonacci_s(first: float, attempt: int, enough: float) -> float:
    # A float overflows to infinity after some 1,500 steps, which is enough for any limit.
    delay, following = first, first
    while attempt > 1 and delay < enough:
        delay, following = following, delay + following
        attempt -= 1
    return delay


def wait_before_next(
    config: RetryConfig,
    error: BaseException,
    *,
    attempt: int,
    spent_s: float,
    spread: float,
    now: float,
    total_timeout_s: float | None = None,
) -> float | None:
    """How long to wait before the next attempt, after that of this number has failed; None: it is given up.

    ``spent_s`` is what the event has taken so far, attempts and waits together. A server that asks for more time than
    ``max_delay`` is given it, since whoever comes earlier is refused again (``leaves_process`` says where it is waited
    for); ``retry_timeout`` bounds that as well, and so does ``total_timeout_s``, which is that of the event.
    """
    if attempt >= config.max_attempts or not is_retried(config, error):
        return None
    asked = (retry_after_s(each, now) or 0.0 for each in (error, *members_of(error)))
    wait = max(backoff_s(config, attempt, spread), *asked)
    limits = (limit for limit in (config.retry_timeout, total_timeout_s) if limit is not None)
    return None if any(spent_s + wait >= limit for limit in limits) else wait


def leaves_process(config: RetryConfig, delay_s: float) -> bool:
    """Tells whether a wait between attempts is too long for a process: the run waits durably, and leaves memory."""
    return delay_s > max(config.max_delay, LONGEST_IN_PROCESS_S)


def time_left_s(
    config: RetryConfig, timeout_s: float | None, total_timeout_s: float | None, spent_s: float
) -> float | None:
    """How long the next attempt may take, by whichever limit is nearest; None where there is no limit."""
    limits: list[float] = []
    if timeout_s is not None:
        limits.append(timeout_s)
    if total_timeout_s is not None:
        limits.append(total_timeout_s - spent_s)
    if config.enabled and config.retry_timeout is not None:
        limits.append(config.retry_timeout - spent_s)
    return max(0.0, min(limits)) if limits else None


def next_attempt(record: EventRecord) -> int:
    """The number of the attempt that is made next, where this is the newest record of a call that is executed."""
    match record.status:
        case ExecutionStatus.RETRYING:
            return record.attempt + 1
        case (
            ExecutionStatus.STARTED | ExecutionStatus.AWAITING | ExecutionStatus.INTERRUPTED | ExecutionStatus.CANCELLED
        ):
            # It was cut off, and is made again.
            return record.attempt
        case ExecutionStatus.FAILED | ExecutionStatus.COMPLETED | ExecutionStatus.RECOVERED:
            # It had ended, and is begun anew.
            return 1


def remaining_wait_s(due_at: float, delay_s: float, now: float) -> float:
    """What is left of a wait of that length that was to end at that time; 0 where no time is known.

    Never more than the whole wait: a clock that was set back makes nobody wait longer.
    """
    return max(0.0, min(delay_s, due_at - now)) if due_at else 0.0
