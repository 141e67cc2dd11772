"""Calls that are given to another call instead of their results: their ``await`` was forgotten.

Looked for only where an input cannot be stored as it is, or is large.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import CoroutineType
from typing import Any, cast

from limpet.errors import UsageError

_MOST_PARTS = 1_000
"""So many parts of an input are looked at: a large one costs no more."""

_OURS = frozenset(f"limpet.engine.{module}" for module in ("actors", "event", "keyed", "perform"))
"""The modules whose coroutines are calls of actors."""


def is_call(coro: CoroutineType[Any, Any, Any]) -> bool:
    """Whether a coroutine that has not begun is the call of an actor."""
    frame = coro.cr_frame
    is_new = inspect.getcoroutinestate(coro) == inspect.CORO_CREATED
    return is_new and frame is not None and frame.f_globals.get("__name__") in _OURS


def require_awaited(name: str, given: object) -> None:
    """Raises UsageError where a call that is not awaited goes into a call of the actor of that name."""
    for part in _parts(given):
        if isinstance(part, CoroutineType):
            coro = cast("CoroutineType[Any, Any, Any]", part)
            if is_call(coro):
                coro.close()  # All is said: Python need not say that it was never awaited.
                raise UsageError(
                    f"{name!r} is given a call of {coro.__qualname__!r} that is not awaited, and not its result.",
                    f"Write `await` before it: `await {coro.__qualname__}(…)`.",
                )


def _parts(given: object) -> Iterator[object]:
    """A value and what is inside it, the outermost first."""
    to_look_at, number = [given], 0
    while number < len(to_look_at):
        part = to_look_at[number]
        number += 1
        yield part
        inside: Any = ()
        if isinstance(part, Mapping):
            inside = cast("Mapping[object, object]", part).values()
        elif isinstance(part, list | tuple | set | frozenset):
            inside = cast("list[object]", part)
        room = _MOST_PARTS - len(to_look_at)
        to_look_at.extend(each for _, each in zip(range(room), inside, strict=False))
