"""The outcomes that the code inside one call is given live: they queue up in the order of the journal."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, cast

from limpet.engine.task_count import TaskCount
from limpet.engine.timers import Timers
from limpet.engine.turns import Ready, Timer, Turn

if TYPE_CHECKING:
    from limpet.engine.order import Order


class LiveOutcomes(Timers):
    """The part of an order that keeps live outcomes until they are given."""

    __slots__ = ()

    next: int
    ready: deque[Ready]
    count: TaskCount
    making: int
    is_foreign: bool

    @property
    def is_shared(self) -> bool:
        """Whether more goes on in the code than the one call that is executed, or its task is being cancelled: that the
        code takes such a cancellation back is seen only where what it does next is a callback of this order."""
        if self.count.alive or self.timers or self.queue or self.ready or self.is_foreign or self.making:
            return True
        return self._scope.live.cancelling > 0 or (self.next != 0 and self.is_replaying)

    def make_turn(self) -> Turn:
        """The place in the order of an outcome that is about to be written."""
        turn = Turn(cast("Order", self), None)
        self.queue.append(turn)
        return turn

    def turn_if_shared(self) -> Turn | None:
        """The same, where the code has more than one thing to do."""
        return self.make_turn() if self.is_shared else None

    def enqueue(self, durable: asyncio.Future[None] | None, *, pauses: bool = False) -> asyncio.Future[Any] | None:
        """What is to be awaited before an outcome is given that was handed to the writer: its turn, where the code has
        more than one thing to do. None: it is given at once."""
        if durable is None:
            is_lone = not (self.queue or self.ready or self.making or self._scope.live.cancelling)
            if is_lone and not pauses and not self.is_replaying:
                return None
            turn = self.make_turn()
            turn.is_ready = True
            self.wake()
            return turn
        if type(durable) is Turn or not self.is_shared:
            return durable
        turn = self.make_turn()
        durable.add_done_callback(turn.follow, context=self.hooks.context)
        return turn

    def _give_head(self) -> bool:
        if not self.queue or not self.queue[0].is_ready:
            return False
        head = self.queue.popleft()
        if isinstance(head, Timer):
            self._fire(head)
        else:
            head.give()
        return True
