"""Values that were given before they were durable: ``now``, ``random`` and ``uuid4`` cannot be awaited.

They are durable before a handler starts, so nothing that a call does can depend on a value that may still be lost.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limpet.engine.live import LiveState


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
