"""Taking a state up: claiming it, reading its journal, and taking over from the dead."""

from __future__ import annotations

import asyncio

from holdfast.artifacts.stored_values import StoredValues
from holdfast.backends.contract import Claim, Grant
from holdfast.codec import frames
from holdfast.engine.lease import takeover
from holdfast.engine.live import LiveState
from holdfast.engine.writer import Writer
from holdfast.errors import LeaseHeld
from holdfast.journal.history import History

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


def read_history(state_id: str, read: list[tuple[int, bytes]], stored: StoredValues) -> tuple[History, int]:
    """The history of a state from the frames of its whole journal, and the link that the next frame follows."""
    records = frames.from_frames(state_id, read, None, stored.record_cipher(state_id))
    return History(state_id, records), frames.last_link(state_id, read)


def take_lease(live: LiveState) -> None:
    """Take the lease of an explicit state before its first write, creating the state where it is new."""
    writer = live.writer
    claim = Claim(
        header=live.header,
        # Of a state that came from the backend there is nothing to create; a snapshot may be new to this one.
        bodies=() if live.is_stored else _all_frames(live),
        holder=live.holder,
        ttl_s=writer.keeper.ttl_s,
        reopen=True,
    )
    grant = acquire_now(writer, claim)
    assert grant is not None
    assert grant.lease is not None
    if grant.is_new:
        if claim.bodies:
            # The chain goes on from the bytes that were written: made again they may differ, after a change of keys.
            live.replace_history(live.history, frames.link_of(claim.bodies[-1]))
    elif not live.is_stored or grant.header.position != live.history.position:
        live.replace_history(*read_history(live.state_id, writer.backend.read(live.state_id), live.stored))
    live.begin_writing(grant.lease)


def _all_frames(live: LiveState) -> tuple[bytes, ...]:
    link, cipher = frames.first_link(live.state_id), live.stored.record_cipher(live.state_id)
    bodies: list[bytes] = []
    for record in live.history.records:
        body, link = frames.to_frame(record, link, cipher)
        bodies.append(body)
    return tuple(bodies)
