"""Taking a state up: claiming it, and taking over from the dead."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from limpet.backends.contract import Append, Claim, Grant, StateUpdate
from limpet.codec import frames
from limpet.engine.lease import since_boot, takeover, tell_superseded
from limpet.engine.live import LiveState
from limpet.engine.reading import read_history
from limpet.engine.stopping import Stopped
from limpet.engine.writer import Writer
from limpet.errors import BackendUnavailable, LeaseHeld, LimpetError, RolledBack, StateCorrupted, UnknownState
from limpet.journal.new_timeline import require_not_dropped
from limpet.model import (
    End,
    EventRecord,
    ExecutionStatus,
    Lease,
    OnSaveError,
    StateHeader,
    StateMetadata,
    StateStatus,
)
from limpet.model.interrupts import ROLLED_BACK

if TYPE_CHECKING:
    from limpet.engine.call import Call

RETRY_S = 0.05
"""How often a lease that another process holds is asked for again by whoever waits for it."""


async def acquire(writer: Writer, claim: Claim, wait_s: float | None) -> Grant | None:
    """Claim a state, taking over from a dead holder. Raises LeaseHeld, after waiting for it as long as asked."""
    deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
    dead: Grant | None = None
    while True:
        asked_at = since_boot()
        grant = await writer.acquire(claim)
        if grant is None or grant.held_by is None:
            return _given(grant, dead, asked_at + claim.ttl_s)
        try:
            claim, dead = takeover(claim, grant), grant
        except LeaseHeld:
            if deadline is None or asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(RETRY_S)


def acquire_now(writer: Writer, claim: Claim) -> Grant | None:
    """As ``acquire``, from plain code and without waiting."""
    dead: Grant | None = None
    while True:
        asked_at = since_boot()
        grant = writer.acquire_now(claim)
        if grant is None or grant.held_by is None:
            return _given(grant, dead, asked_at + claim.ttl_s)
        claim, dead = takeover(claim, grant), grant


def _given(grant: Grant | None, dead: Grant | None, held_until: float) -> Grant | None:
    """What a claim was answered with. Whoever the lease was taken over from is told, where that is an idle object of
    this process. Raises StateCorrupted where nothing was given since the header is damaged."""
    if grant is None or grant.lease is None:
        return _undamaged(grant)
    if dead is not None and dead.held_by is not None:
        tell_superseded(dead.held_by, dead.held_fence)
    return msgspec.structs.replace(grant, held_until=held_until)


def _undamaged(grant: Grant | None) -> Grant | None:
    if grant is not None and grant.lease is None and grant.header.damage is not None:
        raise StateCorrupted(grant.header.state_id, 0, grant.header.damage)
    return grant


def take_lease(live: LiveState) -> None:
    """Take the lease of an explicit state before its first write, creating the state where it is new.

    A state that was loaded at an earlier point than its end begins a new timeline there.
    """
    live.require_own()
    writer = live.writer
    bodies = () if live.is_stored else _all_frames(live)
    end = End(len(bodies), frames.link_of(bodies[-1])) if bodies else None
    claim = Claim(
        # Of a state that came from the backend there is nothing to create; a snapshot may be new to this one, and has
        # all its records then.
        header=live.header if live.is_stored else msgspec.structs.replace(live.header, bases=(), end=end),
        bodies=bodies,
        holder=live.holder,
        ttl_s=writer.keeper.ttl_s,
        create=not live.is_stored,
        reopen=True,
    )
    grant = acquire_now(writer, claim)
    if grant is None:
        raise UnknownState(live.state_id)  # It was deleted since.
    assert grant.lease is not None
    try:
        _go_on_from(live, claim, grant)
    except BaseException:
        _give_back(live, grant.lease)
        raise


def _go_on_from(live: LiveState, claim: Claim, grant: Grant) -> None:
    """Take up what a state has come to by the time its lease was given."""
    if grant.is_new:
        live.header = claim.header
        if claim.bodies:
            # The chain goes on from the bytes that were written: made again they may differ, after a change of keys.
            live.replace_history(live.history, frames.link_of(claim.bodies[-1]))
    else:
        take_newest(live, grant.header)
        if live.next_timeline is not None:
            # A cleanup may have dropped what the state was loaded to go on from.
            require_not_dropped(live.history, live.next_timeline.base, live.next_timeline.parts)
    assert grant.lease is not None
    live.begin_writing(grant.lease, grant.held_until)
    if live.brought_along and grant.is_new:
        live.put_contents(live.brought_along)
    if live.header.metadata.stopped and not is_rolled_back(live.header):
        metadata = without_stop(live.header.metadata)
        live.write_update(StateUpdate(at=live.clock.now(), status=StateStatus.RUNNING, metadata=metadata))
    if live.next_timeline is not None:
        live.begin_timeline(live.next_timeline)


def take_newest(live: LiveState, header: StateHeader) -> None:
    """Go on from the history as it stands, where others have written to the state since it was read here."""
    is_other = not live.is_stored or _is_other(header, live)
    live.header = header
    if is_other:
        live.replace_history(*read_history(header, live.writer.backend.read(live.state_id), live.stored))


def newest_record(live: LiveState, call: Call, record: EventRecord | None) -> EventRecord | None:
    """What decides on a call in a state that is not held yet: what is recorded of it when the lease was taken.

    A result needs no lease: it stays what it is, whatever others have recorded since. Raises LeaseHeld, RolledBack.
    """
    if live.reads_only or (record is not None and record.status is ExecutionStatus.COMPLETED):
        return record
    try:
        take_lease(live)
    except (LeaseHeld, BackendUnavailable):
        live.give_address_back(call.path)
        raise
    if is_rolled_back(live.header):
        live.release(None)
        raise RolledBack(live.state_id)
    return live.history.latest.get(call.address)


def look_again(live: LiveState) -> None:
    """As ``take_newest``, for whoever only looks: a state that is not held here may be written elsewhere.

    One that was loaded at an earlier point stays there. Where the store does not answer, what was read stays.
    """
    if live.lease is not None or live.reads_only or not live.is_stored or live.next_timeline is not None:
        return
    if live.saver is not None and live.saver.failure is not None:
        return  # It was given back while its store takes nothing: more is recorded than the store has.
    with suppress(BackendUnavailable):
        header = live.writer.backend.find_state(live.state_id)
        if header is not None:
            take_newest(live, header)


def _give_back(live: LiveState, lease: Lease) -> None:
    """Give back a lease of which nothing came. Where the store does not take that, it runs out."""
    live.lease, live.held_until = None, 0.0
    live.writer.keeper.drop(live.holder)
    update = StateUpdate(at=live.clock.now(), releases=True)
    with suppress(LimpetError):
        header = live.writer.backend.find_state(live.state_id)
        if header is not None:
            live.writer.backend.append((Append(lease, header.position + 1, (), update),))


async def require_lease(live: LiveState) -> None:
    """Make sure that a state may still be written, before anything is executed that nobody could record.

    The lease may have run out without being renewed: the process was paused, or the store did not answer. Raises
    Stopped where the state is another's by now, or that cannot be known.
    """
    if live.lease is None:
        take_lease(live)
        return
    await asyncio.to_thread(_renew, live)
    if live.stopper.is_cancelling:
        raise Stopped


def _renew(live: LiveState) -> None:
    keeper = live.writer.keeper
    while not live.stopper.is_cancelling:
        try:
            keeper.renew_now(live)
            return
        except LimpetError as error:
            does = OnSaveError.FAIL if live.saver is None else live.saver.on_error
            if does is OnSaveError.FAIL or not isinstance(error, BackendUnavailable):
                live.refuse_writes(error)
            elif does is OnSaveError.CONTINUE:
                # It goes on without its store, and asks again in a while.
                live.held_until = since_boot() + keeper.ttl_s / 3
                return
            else:
                time.sleep(RETRY_S)


def _is_other(header: StateHeader, live: LiveState) -> bool:
    """Whether others have written to a state since it was read: more records, or others in the same places."""
    return header.position != live.history.position or header.end != live.header.end


def without_stop(metadata: StateMetadata) -> StateMetadata:
    """The metadata of a state that is taken up again."""
    return msgspec.structs.replace(metadata, stopped={}) if metadata.stopped else metadata


def is_rolled_back(header: StateHeader) -> bool:
    """Whether what the state has done was undone, or that was begun."""
    return header.metadata.stopped.get("reason") == ROLLED_BACK


def _all_frames(live: LiveState) -> tuple[bytes, ...]:
    link = owner = frames.first_link(live.state_id)
    cipher = live.stored.record_cipher(live.state_id)
    bodies: list[bytes] = []
    for record in live.history.intact_journal():
        body, link = frames.to_frame(record, link, owner, cipher)
        bodies.append(body)
    return tuple(bodies)
