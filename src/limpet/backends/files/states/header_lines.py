"""What the lines of a journal say that are no records, and what they make of a header. Pure: touches no file."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec

from limpet.backends.contract import Claim, StateUpdate
from limpet.errors import LimpetError
from limpet.lines import LineDamaged
from limpet.model import Base, End, Holder, StateHeader, StateMetadata, StateStatus
from limpet.model.header import utc

_Said = TypeVar("_Said")


class Span(msgspec.Struct, frozen=True):
    """Records at the beginning of a journal that another state wrote: those up to a number."""

    state_id: str
    key: int
    last: int


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A header as it is written, with the lease that stands. A holder that is None gave its lease back."""

    state_id: str
    key: int
    status: StateStatus
    created_at: datetime
    updated_at: datetime
    version: int
    agent: str | None = None
    timeline: int = 0
    end: End | None = None
    bases: tuple[Span, ...] = ()
    fence: int
    holder: Holder | None = None
    metadata: StateMetadata = StateMetadata()


class Granted(msgspec.Struct, frozen=True):
    """A lease was granted."""

    fence: int
    holder: Holder


class Update(msgspec.Struct, frozen=True, omit_defaults=True):
    """What of a header changed. None leaves a field as it is."""

    at: datetime
    status: StateStatus | None = None
    timeline: int | None = None
    end: End | None = None
    releases: bool = False
    metadata: StateMetadata | None = None


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """A state as its journal says up to some line."""

    header: Header
    position: int
    sum: int
    """Of that line."""
    damage: str | None = None


def said(content: Mapping[str, Any], key: str, kind: type[_Said]) -> _Said:
    """What stands under a key, typed. Raises LineDamaged."""
    try:
        return msgspec.convert(content.get(key), kind)
    except (msgspec.ValidationError, LimpetError, RecursionError) as error:
        raise LineDamaged(f"its {key} cannot be read ({error})") from error


def header_content(header: Header) -> dict[str, Any]:
    return {"header": msgspec.to_builtins(header)}


def lease_content(fence: int, holder: Holder) -> dict[str, Any]:
    return {"lease": msgspec.to_builtins(Granted(fence, holder))}


def update_content(update: Update) -> dict[str, Any]:
    return {"update": msgspec.to_builtins(update)}


def update_of(update: StateUpdate) -> Update:
    return Update(utc(update.at), update.status, update.timeline, update.end, update.releases, update.metadata)


def leased(header: Header, granted: Granted) -> Header:
    return msgspec.structs.replace(header, fence=granted.fence, holder=granted.holder)


def updated(header: Header, update: Update) -> Header:
    """The header behind an update. By itself a timeline or an end does not change when the state was updated."""
    is_change = update.status is not None or update.metadata is not None
    return msgspec.structs.replace(
        header,
        status=update.status or header.status,
        metadata=header.metadata if update.metadata is None else update.metadata,
        updated_at=update.at if is_change else header.updated_at,
        timeline=header.timeline if update.timeline is None else update.timeline,
        end=update.end or header.end,
        holder=None if update.releases else header.holder,
    )


def new_header(claim: Claim, key: int, fence: int, bases: tuple[Span, ...]) -> Header:
    """The header of a state that a claim creates."""
    header = claim.header
    return _written(header, header.state_id, key, bases, fence, claim.holder)


def mended(header: Header, anew: StateHeader) -> Header:
    """The header with everything anew that a caller can know of it."""
    return _written(anew, header.state_id, header.key, header.bases, header.fence, header.holder)


def _written(
    header: StateHeader, state_id: str, key: int, bases: tuple[Span, ...], fence: int, holder: Holder | None
) -> Header:
    return Header(
        state_id=state_id,
        key=key,
        status=header.status,
        created_at=header.created_at,
        updated_at=header.updated_at,
        version=header.version,
        agent=header.agent,
        timeline=header.timeline,
        end=header.end,
        bases=bases,
        fence=fence,
        holder=holder,
        # A copy, so that what the caller does to its own later does not change what is known here.
        metadata=StateMetadata.from_json(header.metadata.to_json()),
    )


def state_header(standing: Standing, is_held: bool) -> StateHeader:
    """The header as callers see it."""
    header = standing.header
    return StateHeader(
        state_id=header.state_id,
        status=header.status,
        created_at=header.created_at,
        updated_at=header.updated_at,
        metadata=StateMetadata.from_json(header.metadata.to_json()),
        agent=header.agent,
        version=header.version,
        position=standing.position,
        holder=header.holder if is_held else None,
        bases=tuple(Base(span.state_id, span.last) for span in header.bases),
        timeline=header.timeline,
        end=header.end,
        damage=standing.damage,
    )
