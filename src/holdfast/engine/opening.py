"""Taking a state up: claiming it, reading its journal, and taking over from the dead."""

from __future__ import annotations

import asyncio

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


def read_history(state_id: str, read: list[tuple[int, bytes]]) -> tuple[History, int]:
    """The history of a state from the frames of its whole journal, and the link that the next frame follows."""
    return History(state_id, frames.from_frames(state_id, read)), frames.last_link(state_id, read)


def take_lease(live: LiveState) -> None:
    """Take the lease of an explicit state before its first write, creating the state where it is new."""
    writer = live.writer
    claim = Claim(
        header=live.header,
        # Of a state that came from the backend there is nothing to create; a snapshot may be new to this one.
        bodies=() if live.is_stored else _all_frames(live.state_id, live.history),
        holder=live.holder,
        ttl_s=writer.keeper.ttl_s,
        reopen=True,
    )
    grant = acquire_now(writer, claim)
    assert grant is not None
    assert grant.lease is not None
    if not grant.is_new and grant.header.position != live.history.position:
        live.replace_history(*read_history(live.state_id, writer.backend.read(live.state_id)))
    live.begin_writing(grant.lease)


def _all_frames(state_id: str, history: History) -> tuple[bytes, ...]:
    link = frames.first_link(state_id)
    bodies: list[bytes] = []
    for record in history.records:
        body, link = frames.to_frame(record, link)
        bodies.append(body)
    return tuple(bodies)
