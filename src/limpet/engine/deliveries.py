"""The cancellations of anyio in the code inside one call.

A cancel scope cancels its tasks in every turn of the loop, until they have ended. That is no callback of the code,
which would never be quiet. But nothing is given while a task awaits what has not been cancelled yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from limpet.engine.scope import Scope

if TYPE_CHECKING:
    from limpet.engine.loops import Hooks


class Deliveries:
    """The part of an order that lets cancel scopes cancel."""

    __slots__ = ()

    hooks: Hooks
    deliveries: int
    making: int
    _scope: Scope
    _steps: int
    _moves: int
    """How often code went on that anyio may have to cancel where it waits now."""

    def go_on(self) -> None:
        """Look at what waits here."""
        raise NotImplementedError

    def await_delivery(self) -> None:
        """Take note that a cancel scope is about to cancel its tasks, in the next turn of the loop."""
        self.deliveries += 1
        self.making += 1
        if not self.hooks.is_in_step:
            self._steps += 1

    def deliver(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        """Let a cancel scope cancel its tasks. It is the code that cancels them."""
        live, hooks = self._scope.live, self.hooks
        self.deliveries -= 1
        self.making -= 1
        if live.root is not None:
            live.note_cancelling(before=True)
        hooks.is_in_step = True
        try:
            callback(*args)
        finally:
            hooks.is_in_step = False
            if live.root is not None:
                live.note_cancelling(before=False)

    def _wait_for_delivery(self) -> None:
        """Let nothing be given before the scopes have cancelled what the code awaits now."""
        self._moves += 1
        self.hooks.call_soon(self._has_delivered, self._moves, context=self.hooks.context)

    def _has_delivered(self, moves: int) -> None:
        if moves == self._moves:
            self._steps = 0
            self.go_on()


def goes_on(callback: Callable[..., Any]) -> bool:
    """Whether a callback was a step of a task that awaits something else now."""
    task = getattr(callback, "__self__", None)
    return isinstance(task, asyncio.Task) and not cast("asyncio.Task[Any]", task).done()
