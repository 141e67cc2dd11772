"""The one source of time in the engine, so that tests can turn it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import msgspec


class Clock(msgspec.Struct, frozen=True, kw_only=True):
    """Two ways to tell the time, and the way to let it pass."""

    now: Callable[[], float] = time.time
    """Seconds since 1970 UTC, for what is recorded."""
    elapsed: Callable[[], float] = time.perf_counter
    """Seconds since some moment, never going back, for durations."""
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    """Waits so many seconds."""


SYSTEM_CLOCK = Clock()
