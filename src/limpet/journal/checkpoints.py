"""The marked points of a journal, with the metadata as it stood at each."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from limpet.errors import LimpetError, StateCorrupted
from limpet.journal.timeline import TimelineIndex
from limpet.model import Checkpoint, CheckpointNote, CheckpointRecord, Progress, ProgressSource, StateMetadata


def checkpoints_of(
    state_id: str, records: Sequence[CheckpointRecord], timelines: TimelineIndex, metadata: StateMetadata | None
) -> list[Checkpoint]:
    """What ``History.checkpoints`` gives, of these records. Raises StateCorrupted where one of them cannot be read."""
    if metadata is None or any(record.metadata for record in records):
        metadata = StateMetadata()
    found: list[Checkpoint] = []
    for record in records:
        try:
            metadata = StateMetadata.from_json(record.metadata) if record.metadata else metadata
            found.append(_checkpoint(record, metadata, timelines.number_at(record.seq)))
        except (msgspec.MsgspecError, LimpetError, RecursionError, OverflowError, OSError, ValueError) as error:
            # It may come from anybody: its checksum fits, and what is in it need not be what is written here.
            why = f"its time or its metadata cannot be read ({error})"
            raise StateCorrupted(state_id, record.seq, why) from error
    return found


def _checkpoint(record: CheckpointRecord, metadata: StateMetadata, timeline: int) -> Checkpoint:
    note = record.note or CheckpointNote()
    return Checkpoint(
        position=record.seq,
        status=record.status,
        metadata=metadata,
        saved_at=record.recorded_at,
        timeline=timeline,
        trigger=note.trigger,
        address=note.address,
        events=note.events,
        progress=Progress(note.done, note.total, ProgressSource.SAID) if note.total else None,
        error=note.error,
    )
