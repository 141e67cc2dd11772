"""What must be durable before a handler starts, so that nothing it does can depend on what may still be lost.

Values are given before they are durable, since ``now``, ``random`` and ``uuid4`` cannot be awaited; timers fire without
a commit of their own; and what is declared ``once`` has its start in the journal.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.engine.call import Call
    from limpet.engine.live import LiveState
    from limpet.engine.scope import Scope


def remember(live: LiveState, durable: asyncio.Future[None]) -> None:
    """Keep the commit of a value that was given already. Only the newest: commits of a state are made in order."""
    durable.add_done_callback(_look_at)
    live.unconfirmed = durable


async def confirmed(live: LiveState) -> None:
    """Wait until every value that was given is durable. Raises why that failed."""
    while (durable := live.unconfirmed) is not None:
        if durable.get_loop() is not asyncio.get_running_loop():
            live.unconfirmed = None  # Its loop has ended. What became of the commit is said to the next one.
            return
        # Several calls may wait for it: one that is cancelled must not cancel it for the others.
        await asyncio.wait((durable,))
        durable.result()
        if live.unconfirmed is durable:
            live.unconfirmed = None


def _look_at(durable: asyncio.Future[None]) -> None:
    """Mark a failure as seen: the next write raises it, whether or not a call waits for this one."""
    if not durable.cancelled():
        durable.exception()


async def made_durable(scope: Scope, call: Call, child: Scope) -> None:
    """Wait until all is durable that must not be lost once the handler runs."""
    live, order = scope.live, scope.event.order
    durable = live.write_timers(scope) if order is not None and order.must_record_timers else None
    if durable is not None:
        await durable
    if call.actor.once and child.pending_start is not None and (durable := live.write_start(child)) is not None:
        await durable
    if live.unconfirmed is not None:
        await confirmed(live)
