"""What is known of a state without reading its journal, and the rule for state ids."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import msgspec

from limpet.errors import InvalidStateId
from limpet.model.lease import Holder
from limpet.model.metadata import StateMetadata
from limpet.model.words import StateStatus

FORMAT_VERSION = 2
"""The version of the record and header format that this code writes. ``codec/versions.py`` knows the older ones."""

MAX_STATE_ID = 200
_STATE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+=,-]*")


class Base(msgspec.Struct, frozen=True):
    """Records at the beginning of a journal that belong to another state: those up to a number."""

    state_id: str
    last: int


class End(msgspec.Struct, frozen=True):
    """Where a journal ended when its header was last written, so that records missing at the end are noticed."""

    position: int
    link: int
    """The chained checksum of that record."""


class StateHeader(msgspec.Struct, frozen=True, kw_only=True):
    """One state as a listing shows it."""

    state_id: str
    status: StateStatus
    created_at: datetime
    updated_at: datetime
    """When the status or the metadata last changed, not when the last record was written."""
    metadata: StateMetadata = StateMetadata()
    agent: str | None = None
    """Where the agent of the run was declared, 'module:name' or 'file.py:name'; None for an explicit state."""
    version: int = FORMAT_VERSION
    position: int = 0
    """The number of the newest record; filled in by the backend when it reads."""
    holder: Holder | None = None
    """Whose lease has not run out; filled in by the backend when it reads."""
    bases: tuple[Base, ...] = ()
    """The states whose records the journal begins with, in order, each up to a number; the rest is its own. Filled in
    by the backend when it creates a fork; a state that was deleted since is still named."""
    timeline: int = 0
    """The number of the record that began the current timeline; 0 for the first."""
    end: End | None = None
    """Where the journal ended when the status, the metadata or the timeline last changed; None where that is unknown.
    More records may have come since, never fewer."""
    damage: str | None = None
    """Why what is stored of the header cannot be trusted; the other fields are then what could be read of it. Filled in
    by the backend when it reads."""


def utc(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def checked_state_id(state_id: object) -> str:
    """The id, if it can name a state; it is user input, and may become part of a path or a URL.

    Raises InvalidStateId that says what is wrong with it.
    """
    if not isinstance(state_id, str):
        raise InvalidStateId(state_id, f"it is {type(state_id).__name__}, not text")
    if not state_id:
        raise InvalidStateId(state_id, "it is empty")
    if len(state_id) > MAX_STATE_ID:
        raise InvalidStateId(state_id, f"it has {len(state_id)} characters, and {MAX_STATE_ID} is the most")
    if ".." in state_id:
        raise InvalidStateId(state_id, "it contains '..'")
    if not _STATE_ID.fullmatch(state_id):
        wrong = re.sub(r"[A-Za-z0-9_.@+=,-]", "", state_id)
        raise InvalidStateId(state_id, f"it contains {wrong[0]!r}" if wrong else f"it begins with {state_id[0]!r}")
    return state_id
