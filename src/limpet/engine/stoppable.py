"""Awaiting what goes on in a state, in such a way that it can be stopped from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import nullcontext
from typing import Any

from limpet.engine.branches import branching
from limpet.engine.exits import ending_of_loop, ends_program, is_closing, is_interrupted_main_task
from limpet.engine.lease import in_use
from limpet.engine.leaving import leave_stopped, mark_stopped
from limpet.engine.live import LiveState
from limpet.engine.scope import current_scope
from limpet.engine.stopping import HANDED_BACK
from limpet.engine.thread_hooks import ThreadHooks
from limpet.model import InterruptReason, InterruptSignal, StateStatus


async def stoppable(live: LiveState, work: Coroutine[Any, Any, Any], *, is_run: bool = True) -> Any:
    """What the work gives. Raises what it raises; ExecutionInterrupted or another error of the stopper where the run
    was stopped, whatever its own code has made of that.

    A run whose task is cancelled, or whose program ends itself, is handed back: it is left as one whose process was
    killed, so whoever comes next resumes it. From the keyboard it is interrupted. In the explicit form (``is_run`` is
    False) cancelling one event says nothing of the state.
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
        if is_closing(error):
            if is_run and _is_in(live.root) and not live.has_ended:
                mark_stopped(live, InterruptSignal(InterruptReason.CANCELLED, _why(error)), HANDED_BACK)
            # Else nothing can be written: a lock may be held by what runs at the moment.
            raise
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


def _is_in(task: asyncio.Task[Any] | None) -> bool:
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False


async def _leave_ended(live: LiveState, error: BaseException) -> None:
    """Leave a run whose task was cancelled, or whose program ends: interrupted from the keyboard, else handed back."""
    is_cancelled = isinstance(error, asyncio.CancelledError)
    ending = await ending_of_loop() if is_cancelled else error
    if is_cancelled and is_interrupted_main_task():
        ending = KeyboardInterrupt()
    signal = InterruptSignal(InterruptReason.CANCELLED, _why(ending))
    status = (
        StateStatus.INTERRUPTED if isinstance(ending, KeyboardInterrupt) or _is_inside_interrupted() else HANDED_BACK
    )
    if is_cancelled:
        live.stopper.cancelled_from_outside(signal, status)
        if live.is_stopping:
            await leave_stopped(live)
    elif ends_program(error):
        mark_stopped(live, signal, status)


def _is_inside_interrupted() -> bool:
    """Tells whether the run goes on inside another one that is being interrupted."""
    around = current_scope.get()
    return around is not None and around.live.stopper.is_interrupted


def _why(ending: BaseException | None) -> str:
    match ending:
        case KeyboardInterrupt():
            return "The program was interrupted from the keyboard."
        case SystemExit():
            return "The program ended itself."
        case _:
            return "The task that awaited it was cancelled."
