"""Taking a state up: claiming it, and taking over from the dead."""

from __future__ import annotations

import asyncio

import msgspec

from limpet.backends.contract import Append, Claim, Grant, StateUpdate
from limpet.codec import frames
from limpet.engine.lease import takeover
from limpet.engine.live import LiveState
from limpet.engine.reading import read_history
from limpet.engine.writer import Writer
from limpet.errors import LeaseHeld, StateCorrupted, TimelineDropped
from limpet.journal.new_timeline import require_not_dropped
from limpet.model import End, Lease, StateHeader, StateMetadata, StateStatus
from limpet.model.interrupts import ROLLED_BACK

RETRY_S = 0.05
"""How often a lease that another process holds is asked for again by whoever waits for it."""


async def acquire(writer: Writer, claim: Claim, wait_s: float | None) -> Grant | None:
    """Claim a state, taking over from a dead holder. Raises LeaseHeld, after waiting for it as long as asked."""
    deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
    while True:
        grant = await writer.acquire(claim)
        if grant is None or grant.held_by is None:
            return _undamaged(grant)
        try:
            claim = takeover(claim, grant)
        except LeaseHeld:
            if deadline is None or asyncio.get_running_loop().time() >= deadline:
                raise
            await asyncio.sleep(RETRY_S)


def acquire_now(writer: Writer, claim: Claim) -> Grant | None:
    """As ``acquire``, from plain code and without waiting."""
    while True:
        grant = writer.acquire_now(claim)
        if grant is None or grant.held_by is None:
            return _undamaged(grant)
        claim = takeover(claim, grant)


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
        reopen=True,
    )
    grant = acquire_now(writer, claim)
    assert grant is not None
    assert grant.lease is not None
    if grant.is_new:
        live.header = claim.header
        if claim.bodies:
            # The chain goes on from the bytes that were written: made again they may differ, after a change of keys.
            live.replace_history(live.history, frames.link_of(claim.bodies[-1]))
    elif not live.is_stored or _is_other(grant.header, live):
        live.header = grant.header
        live.replace_history(*read_history(grant.header, writer.backend.read(live.state_id), live.stored))
        _require_next_timeline(live, grant.lease)
    live.begin_writing(grant.lease)
    if live.brought_along and grant.is_new:
        live.put_contents(live.brought_along)
    if live.header.metadata.stopped and not is_rolled_back(live.header):
        metadata = without_stop(live.header.metadata)
        live.write_update(StateUpdate(at=live.clock.now(), status=StateStatus.RUNNING, metadata=metadata))
    if live.next_timeline is not None:
        live.begin_timeline(live.next_timeline)


def _is_other(header: StateHeader, live: LiveState) -> bool:
    """Whether others have written to a state since it was read: more records, or others in the same places."""
    return header.position != live.history.position or header.end != live.header.end


def _require_next_timeline(live: LiveState, lease: Lease) -> None:
    """Raises TimelineDropped where a cleanup has dropped what the state was loaded to go on from."""
    if live.next_timeline is None:
        return
    try:
        require_not_dropped(live.history, live.next_timeline.base, live.next_timeline.parts)
    except TimelineDropped:
        update = StateUpdate(at=live.clock.now(), releases=True)
        live.writer.backend.append((Append(lease, live.history.position + 1, (), update),))
        raise


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
