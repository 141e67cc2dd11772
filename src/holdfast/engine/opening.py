"""Taking a state up: claiming it, and taking over from the dead."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast.backends.contract import Claim, Grant
from holdfast.codec import frames
from holdfast.engine.lease import takeover
from holdfast.engine.live import LiveState
from holdfast.engine.reading import read_history
from holdfast.engine.writer import Writer
from holdfast.errors import LeaseHeld

RETRY_S = 0.05
"""How often a lease that another process holds is asked for again by whoever waits for it."""


async def acquire(writer: Writer, claim: Claim, wait_s: float | None) -> Grant | None:
    """Claim a state, taking over from a dead holder. Raises LeaseHeld, after waiting for it as long as asked."""
    deadline = None if wait_s is None else asyncio.get_running_loop().time() + wait_s
    while True:
        grant = await writer.acquire(claim)
        if grant is None or grant.held_by is None:
            return grant
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
            return grant
        claim = takeover(claim, grant)


def take_lease(live: LiveState) -> None:
    """Take the lease of an explicit state before its first write, creating the state where it is new.

    A state that was loaded at an earlier point than its end begins a new timeline there.
    """
    writer = live.writer
    claim = Claim(
        # Of a state that came from the backend there is nothing to create; a snapshot may be new to this one, and has
        # all its records then.
        header=live.header if live.is_stored else msgspec.structs.replace(live.header, bases=()),
        bodies=() if live.is_stored else _all_frames(live),
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
    elif not live.is_stored or grant.header.position != live.history.position:
        live.header = grant.header
        live.replace_history(*read_history(grant.header, writer.backend.read(live.state_id), live.stored))
    live.begin_writing(grant.lease)
    if live.brought_along and grant.is_new:
        live.put_contents(live.brought_along)
    if live.next_timeline is not None:
        live.begin_timeline(live.next_timeline)


def _all_frames(live: LiveState) -> tuple[bytes, ...]:
    link, cipher = frames.first_link(live.state_id), live.stored.record_cipher(live.state_id)
    bodies: list[bytes] = []
    for record in live.history.journal:
        body, link = frames.to_frame(record, link, cipher)
        bodies.append(body)
    return tuple(bodies)
