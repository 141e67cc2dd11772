"""Calls with a key: the key is in use from when the call is made until it has ended, or will certainly not begin."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any
from weakref import ref

from limpet.engine.scope import Scope


def perform_keyed(
    scope: Scope, label: str, perform: Callable[..., Coroutine[Any, Any, Any]], *args: Any
) -> Coroutine[Any, Any, Any]:
    """Perform a call that has a key."""
    performed = until_released(scope, label, perform, *args)
    performed.__qualname__ = perform.__qualname__  # What Python says of a call that is never awaited names that.
    scope.hold_key(label, ref(performed))
    return performed


async def until_released(scope: Scope, label: str, perform: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
    """Give what a call gives, and release its key then."""
    try:
        return await perform(*args)
    finally:
        scope.release_key(label)
