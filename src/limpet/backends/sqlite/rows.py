"""Turns rows into headers and headers into rows. Runs no statement."""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from limpet.backends.contract import Claim, StateUpdate
from limpet.backends.sqlite.driver import Value
from limpet.errors import LimpetError
from limpet.model import Base, End, Holder, StateHeader, StateMetadata, StateStatus
from limpet.model.header import utc

_UNREADABLE = (ValueError, OverflowError, OSError, TypeError, RecursionError, LimpetError, msgspec.MsgspecError)


class Columns(msgspec.Struct, frozen=True, array_like=True):
    """What the checksum of a header covers, in the order in which it does."""

    state_id: str
    status: str
    created_at: float
    updated_at: float
    metadata: str
    agent: str | None
    version: int
    timeline: int
    bases: str | None
    pipeline_name: str
    parent: str | None
    end_seq: int | None
    end_link: int | None

    @property
    def checksum(self) -> int:
        return zlib.crc32(msgspec.json.encode(self))


class Standing(msgspec.Struct, frozen=True):
    """A state as it stands in the store, with what its lease is decided by."""

    key: int
    fence: int
    lease_until: float
    header: StateHeader


def standing_from_row(row: tuple[Any, ...], now: float) -> Standing:
    """A row of the view ``headers``. Where it is not what was written, the header says so."""
    key, fence, lease_until, holder = row[:4]
    position, checksum = row[11], row[18]
    columns = Columns(*row[4:11], *row[12:18])
    header = _header(columns)
    if checksum is not None and header.damage is None and checksum != columns.checksum:
        header = msgspec.structs.replace(header, damage="the checksum of its header does not fit")
    holder = None if holder is None or lease_until <= now else _holder(holder)
    return Standing(key, fence, lease_until, msgspec.structs.replace(header, position=position, holder=holder))


def _header(columns: Columns) -> StateHeader:
    end = None
    if columns.end_seq is not None and columns.end_link is not None:
        end = End(columns.end_seq, columns.end_link)
    try:
        return StateHeader(
            state_id=columns.state_id,
            status=StateStatus(columns.status),
            created_at=utc(columns.created_at),
            updated_at=utc(columns.updated_at),
            metadata=StateMetadata.from_json(columns.metadata),
            agent=columns.agent,
            version=columns.version,
            bases=() if columns.bases is None else msgspec.json.decode(columns.bases, type=tuple[Base, ...]),
            timeline=columns.timeline,
            end=end,
        )
    except _UNREADABLE as error:
        return _damaged(columns, f"its header cannot be read ({error})")


def _damaged(columns: Columns, why: str) -> StateHeader:
    """What can be shown of a header that cannot be read as a whole."""
    words = {status.value for status in StateStatus}
    try:
        created_at, updated_at = utc(columns.created_at), utc(columns.updated_at)
    except _UNREADABLE:
        created_at = updated_at = utc(0.0)
    try:
        metadata = StateMetadata.from_json(columns.metadata)
    except _UNREADABLE:
        metadata = StateMetadata()
    return StateHeader(
        state_id=columns.state_id,
        status=StateStatus(columns.status) if columns.status in words else StateStatus.INTERRUPTED,
        created_at=created_at,
        updated_at=updated_at,
        metadata=metadata,
        agent=columns.agent,
        damage=why,
    )


def _holder(text: str) -> Holder | None:
    """Whose lease it is. One that cannot be read is free: whoever had it is fenced by the next one."""
    try:
        return msgspec.json.decode(text, type=Holder)
    except (msgspec.MsgspecError, RecursionError):
        return None


class _Beside(msgspec.Struct, frozen=True):
    """What stands beside the holder in its column."""

    wish: str | None = None


def wish_for(holder: str) -> str | None:
    """The wish that was left for a holder. For one that cannot be read there is none."""
    try:
        return msgspec.json.decode(holder, type=_Beside).wish
    except (msgspec.MsgspecError, RecursionError):
        return None


def columns_of(header: StateHeader, bases: tuple[Base, ...]) -> Columns:
    metadata, end = header.metadata, header.end
    return Columns(
        state_id=header.state_id,
        status=header.status.value,
        created_at=header.created_at.timestamp(),
        updated_at=header.updated_at.timestamp(),
        metadata=metadata.to_json(),
        agent=header.agent,
        version=header.version,
        timeline=header.timeline,
        bases=msgspec.json.encode(bases).decode() if bases else None,
        pipeline_name=metadata.pipeline_name,
        parent=metadata.parent_state_id,
        end_seq=None if end is None else end.position,
        end_link=None if end is None else end.link,
    )


def columns_changed(columns: Columns, update: StateUpdate) -> Columns:
    """The columns as an update leaves them."""
    if update.header is not None:
        columns = msgspec.structs.replace(columns_of(update.header, ()), state_id=columns.state_id, bases=columns.bases)
    changed: dict[str, Value] = {}
    if update.status is not None or update.metadata is not None:
        changed["updated_at"] = update.at
    if update.status is not None:
        changed["status"] = update.status.value
    if update.metadata is not None:
        changed["metadata"] = update.metadata.to_json()
        changed["pipeline_name"] = update.metadata.pipeline_name
        changed["parent"] = update.metadata.parent_state_id
    if update.timeline is not None:
        changed["timeline"] = update.timeline
    if update.end is not None:
        changed |= {"end_seq": update.end.position, "end_link": update.end.link}
    return msgspec.structs.replace(columns, **changed)


def row_of_claim(claim: Claim, bases: tuple[Base, ...], now: float) -> tuple[Value, ...]:
    """What the query ``insert_state`` binds."""
    columns = columns_of(claim.header, bases)
    return (now + claim.ttl_s, holder_to_json(claim.holder), *msgspec.structs.astuple(columns), columns.checksum)


def holder_to_json(holder: Holder, wish: str | None = None) -> str:
    beside = {} if wish is None else {"wish": wish}
    return msgspec.json.encode({**msgspec.to_builtins(holder), **beside}).decode()
