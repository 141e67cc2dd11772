"""Awaiting what goes on in a state, in such a way that it can be stopped from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any

from limpet.engine.branches import branching
from limpet.engine.lease import in_use
from limpet.engine.leaving import leave_stopped, mark_stopped
from limpet.engine.live import LiveState
from limpet.engine.thread_hooks import ThreadHooks
from limpet.model import InterruptReason, InterruptSignal


async def stoppable(live: LiveState, work: Coroutine[Any, Any, Any], *, is_run: bool = True) -> Any:
    """What the work gives. Raises what it raises; ExecutionInterrupted or another error of the stopper where the run
    was stopped, whatever its own code has made of that.

    A run whose task is cancelled, or whose process is told to end, is left as interrupted, too. In the explicit form
    (``is_run`` is False) cancelling one event says nothing of the state.
    """
    assert live.loop is not None
    if live.stopper.is_over:
        work.close()
        assert live.stopper.error is not None
        raise live.stopper.error
    with nullcontext() if is_run else in_use(live):
        return await _stoppable(live, work, is_run=is_run)


async def _stoppable(live: LiveState, work: Coroutine[Any, Any, Any], *, is_run: bool) -> Any:
    assert live.loop is not None
    try:
        with branching(live), ThreadHooks(live.threads), live.watch:
            task = asyncio.current_task()
            assert task is not None
            live.stopper.add_root(task)
            try:
                live.root = task if is_run else None
                result = await work
            finally:
                live.stopper.remove_root(task)
        if not live.is_stopping or live.has_ended:
            return result
    except BaseException as error:
        if not live.is_stopping or live.has_ended:
            if is_run:
                await _leave_ended(live, error)
            raise
    if live.stopper.is_awaited:
        # Events side by side in the explicit form: the last one gives the state back.
        await live.stopper.others_are_gone()
    else:
        await leave_stopped(live)
    assert live.stopper.error is not None
    raise live.stopper.error


async def _leave_ended(live: LiveState, error: BaseException) -> None:
    """Leave a run whose task was cancelled, or whose process is told to end, as interrupted."""
    signal = InterruptSignal(InterruptReason.CANCELLED, _why(error))
    if isinstance(error, asyncio.CancelledError):
        live.stopper.cancelled_from_outside(signal)
        if live.is_stopping:
            await leave_stopped(live)
    elif isinstance(error, KeyboardInterrupt | SystemExit):
        mark_stopped(live, signal)


def _why(error: BaseException) -> str:
    match error:
        case KeyboardInterrupt():
            return "The program was interrupted from the keyboard."
        case SystemExit():
            return "The program ended itself."
        case _:
            return "The task that awaited it was cancelled."
