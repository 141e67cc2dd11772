"""A header in the place of a damaged one: what the journal says, and for the rest what could be read of it."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.named_agent import reference_of
from limpet.engine.reading import Frames, whole_journal
from limpet.errors import NotEncrypted, StateCorrupted, WrongKey
from limpet.model import DamagedRecord, DroppedRecord, End, Record, StateHeader, StateStatus, TimelineRecord

_UNKNOWN = datetime.fromtimestamp(0, UTC)


def header_anew(header: StateHeader, read: Frames, stored: StoredValues) -> StateHeader:
    """The header of a state that can be gone on with. Its timeline and its end are those that the journal shows."""
    bare = msgspec.structs.replace(header, end=None, timeline=0, damage=None)
    journal = _journal(bare, read, stored)
    began = [record.seq for record in journal if isinstance(record, TimelineRecord)]
    first = next((record for record in journal if not isinstance(record, DamagedRecord | DroppedRecord)), None)
    created_at = header.created_at
    if created_at <= _UNKNOWN and first is not None:
        created_at = first.recorded_at
    return msgspec.structs.replace(
        bare,
        status=StateStatus.INTERRUPTED,
        agent=reference_of(header, journal[0] if journal else None),
        created_at=created_at,
        updated_at=datetime.fromtimestamp(SYSTEM_CLOCK.now(), UTC),
        timeline=began[-1] if began else 0,
        end=End(read[-1][0], frames.link_of(read[-1][1])) if read else None,
    )


def _journal(header: StateHeader, read: Frames, stored: StoredValues) -> list[Record | DamagedRecord]:
    """The records, or none where they cannot be opened: recovering them will say why."""
    try:
        return list(whole_journal(header, read, stored))
    except (WrongKey, NotEncrypted, StateCorrupted):
        return []
