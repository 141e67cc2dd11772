"""The clock of the engine, turned by every wait instead of waiting: for tests of waits that are long."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from limpet.engine.clock import SYSTEM_CLOCK


class Turned:
    """A clock that is ahead of the true one, by all waits that were made and by what it was turned."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.waits: list[float] = []
        """The waits between attempts, as they were made."""
        self.endless: int | None = None
        """Which wait does not end by itself, the first one being 1."""

    def turn(self, seconds: float) -> None:
        self.ahead_s += seconds

    def now(self) -> float:
        return time.time() + self.ahead_s

    def elapsed(self) -> float:
        return time.perf_counter() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        if len(self.waits) == self.endless:
            await asyncio.Event().wait()
        self.turn(seconds)
        await asyncio.sleep(0)


@contextmanager
def turned_clock() -> Iterator[Turned]:
    """While this lasts, a wait between attempts is over at once, and the clock says that it was not."""
    turned = Turned()
    kept = {name: getattr(SYSTEM_CLOCK, name) for name in ("now", "elapsed", "sleep")}
    _set({name: getattr(turned, name) for name in kept})
    try:
        yield turned
    finally:
        _set(kept)


def _set(fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        msgspec.structs.force_setattr(SYSTEM_CLOCK, name, value)
