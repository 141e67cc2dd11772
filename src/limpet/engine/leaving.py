"""Giving a state back when its run is stopped: what it left open is closed, and a checkpoint says why it stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from limpet.backends.contract import StateUpdate
from limpet.engine.opening import is_rolled_back, take_lease
from limpet.engine.scope import current_scope
from limpet.engine.stopping import HANDED_BACK, cancel, leave_behind
from limpet.errors import LeaseHeld
from limpet.journal.lifecycle import state_may_become
from limpet.logs import logger
from limpet.model import InterruptReason, InterruptSignal, StateStatus
from limpet.model.interrupts import ROLLED_BACK, to_plain

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

log = logger("limpet.interrupts")

GRACE_S = 2.0
"""How long tasks that were cancelled, and generators that are closed, have for their cleaning up."""


async def leave_stopped(live: LiveState) -> None:
    """Leave a run that was told to stop. Raises what the store says where the stop cannot be recorded."""
    stopper = live.stopper
    assert stopper.signal is not None
    try:
        await _close_all(live)
    finally:
        try:
            mark_stopped(live, stopper.signal, stopper.status)
        finally:
            stopper.tell_others()
    live.bus.give_a_moment()


def mark_stopped(live: LiveState, signal: InterruptSignal, status: StateStatus) -> None:
    """Write why the state is left, and give the lease back: a checkpoint, unless that is not wanted, and the status."""
    try:
        if not live.can_be_left or not _is_held(live, signal):
            return
        if signal.reason == InterruptReason.DRIFT and not state_may_become(live.header.status, status):
            status = live.header.status
        at = live.clock.now()
        stopped = to_plain(signal, at)
        if is_rolled_back(live.header):
            stopped["reason"] = ROLLED_BACK  # What was undone stays so, however often the rollback is stopped.
            if status is HANDED_BACK:
                status = StateStatus.INTERRUPTED  # No supervisor goes on with a rollback.
        metadata = msgspec.structs.replace(live.metadata_to_keep(), stopped=stopped)
        update = StateUpdate(at=at, status=status, metadata=metadata, releases=True)
        if signal.save_checkpoint:
            live.write_checkpoint(status, update)
        else:
            live.write_update(update)
    finally:
        live.forget()


def _is_held(live: LiveState, signal: InterruptSignal) -> bool:
    """Whether the state may be written, for which its lease is taken where it is not held.

    Drift of a state that was only looked at is told, and noted where that changes nothing else and hinders nobody.
    """
    if live.lease is not None:
        return True
    if signal.reason != InterruptReason.DRIFT:
        take_lease(live)
    elif live.next_timeline is None and state_may_become(live.header.status, StateStatus.FAILED):
        with suppress(LeaseHeld):
            take_lease(live)
    return live.lease is not None


async def _close_all(live: LiveState) -> None:
    """End the tasks of the run, and the generators that it has opened and not finished."""
    tasks = [task for task in live.stopper.tasks if isinstance(task, asyncio.Task) and not task.done()]
    if tasks:
        cancel(live.stopper.tasks)
        _, left = await asyncio.wait(tasks, timeout=GRACE_S)
        for task in left:
            leave_behind(task)
            log.warning("State %s: %s ignores its cancellation, and is left behind.", live.state_id, task.get_name())
    live.has_cut_off = True
    for generator, scope in list((live.generators or {}).items()):
        # In its own scope, which is closed: its cleaning up calls nothing that could be recorded or executed any more.
        token = current_scope.set(scope)
        try:
            async with asyncio.timeout(GRACE_S):
                await generator.aclose()
        except Exception:
            # One that is running is in a task that was left behind; any other has failed at its own cleaning up.
            log.exception("State %s: %s could not be closed.", live.state_id, generator)
        finally:
            current_scope.reset(token)
