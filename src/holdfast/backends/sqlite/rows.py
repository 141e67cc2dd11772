"""Turns rows into headers and headers into rows. Runs no statement."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.backends.contract import Claim
from holdfast.backends.sqlite.driver import Value
from holdfast.errors import StateCorrupted
from holdfast.model import Base, Holder, StateHeader, StateMetadata, StateStatus
from holdfast.model.header import utc


class Standing(msgspec.Struct, frozen=True):
    """A state as it stands in the store, with what its lease is decided by."""

    key: int
    fence: int
    lease_until: float
    header: StateHeader


def standing_from_row(row: tuple[Any, ...], now: float) -> Standing:
    """A row of the view ``headers``. Raises StateCorrupted where its text is not what was written."""
    key, fence, lease_until, holder, state_id, status, created_at, updated_at, metadata, *others, _, _ = row
    agent, version, position, timeline, bases = others
    try:
        header = StateHeader(
            state_id=state_id,
            status=StateStatus(status),
            created_at=utc(created_at),
            updated_at=utc(updated_at),
            metadata=StateMetadata.from_json(metadata),
            agent=agent,
            version=version,
            position=position,
            holder=None if holder is None or lease_until <= now else msgspec.json.decode(holder, type=Holder),
            bases=() if bases is None else msgspec.json.decode(bases, type=tuple[Base, ...]),
            timeline=timeline,
        )
    except (ValueError, OverflowError, OSError, msgspec.MsgspecError) as error:
        raise StateCorrupted(state_id, 0, f"its header cannot be read ({error})") from error
    return Standing(key, fence, lease_until, header)


def row_of_claim(claim: Claim, bases: tuple[Base, ...], now: float) -> tuple[Value, ...]:
    """What the query ``insert_state`` binds."""
    header = claim.header
    return (
        now + claim.ttl_s,
        header.status.value,
        header.created_at.timestamp(),
        header.updated_at.timestamp(),
        header.version,
        header.state_id,
        header.metadata.pipeline_name,
        header.agent,
        holder_to_json(claim.holder),
        header.metadata.to_json(),
        header.metadata.parent_state_id,
        header.timeline,
        msgspec.json.encode(bases).decode() if bases else None,
    )


def holder_to_json(holder: Holder) -> str:
    return msgspec.json.encode(holder).decode()
