"""Two states, timelines, checkpoints or snapshots held against each other, from records to readable differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.comparing import differences, shown
from limpet.engine.reading import JournalReader
from limpet.errors import (
    CheckpointDropped,
    LimpetError,
    TimelineDropped,
    UnknownCheckpoint,
    UnknownTimeline,
    UsageError,
)
from limpet.journal.diff import Alignment, Pair, Side, put_otherwise
from limpet.journal.reachable import named_by
from limpet.journal.timeline import TimelineIndex, belonging, cut_behind, first_lost
from limpet.model import (
    CheckpointRecord,
    Difference,
    DifferenceKind,
    DroppedRecord,
    EventChange,
    EventRecord,
    Part,
    Record,
    StateDiff,
    StatePoint,
    StorageChange,
    StorageRecord,
    TimelineRecord,
)

Read = Callable[[bytes], Any]
"""From an encoded value to what is compared, and shown to people."""

MOST = 20
"""So many differences of one value are told."""


class Compared(msgspec.Struct, frozen=True):
    """One of the two sides: a name for people, its records as often as they are wanted, and how its values are read."""

    name: str
    records: Callable[[], Iterator[Record]]
    read: Read


def point_from_text(text: str) -> StatePoint:
    """``ID``, ``ID:TIMELINE`` or ``ID:cPOSITION``, taken apart. Raises UsageError."""
    state_id, sign, point = text.partition(":")
    number = point.removeprefix("c")
    if not sign:
        return StatePoint(state_id)
    if not number.isdecimal():
        raise UsageError(
            f"{text!r} names no point of a state.", "Write ID, ID:2 (its timeline 2) or ID:c17 (its checkpoint at 17)."
        )
    return StatePoint(state_id, checkpoint=int(number)) if point != number else StatePoint(state_id, int(number))


def stored_side(reader: JournalReader, stored: StoredValues, point: StatePoint, read: Read | None = None) -> Compared:
    """A point of a stored state, read as a stream. Raises UnknownTimeline, UnknownCheckpoint, and what was dropped."""
    parts = _parts(reader, point)
    return Compared(str(point), lambda: belonging(reader.stream(), parts), read or readable(stored))


def readable(stored: StoredValues) -> Read:
    """Reads values as they were; one that this program cannot build again as what is known of it."""

    def read(data: bytes) -> Any:
        try:
            return stored.decode(data)
        except LimpetError as error:
            return Unreadable(data, str(error))

    return read


class Unreadable(msgspec.Struct, frozen=True):
    """Stands for a value that cannot be built again here."""

    data: bytes
    why: str

    def __repr__(self) -> str:
        return f"<{len(self.data)} bytes that cannot be read: {self.why}>"


def _parts(reader: JournalReader, point: StatePoint) -> tuple[Part, ...]:
    position = reader.header.position
    if point.timeline is None and point.checkpoint is None and not reader.header.timeline:
        return (Part(1, position),)
    index = TimelineIndex()
    checkpoints: list[int] = []
    dropped: list[DroppedRecord] = []
    for record in reader.stream():
        if type(record) is TimelineRecord:
            index.add(record)
        elif type(record) is CheckpointRecord:
            checkpoints.append(record.seq)
        elif type(record) is DroppedRecord:
            dropped.append(record)
    index.position = position
    if point.checkpoint is not None:
        return _parts_at_checkpoint(point.state_id, point.checkpoint, index, checkpoints, dropped)
    number = index.current if point.timeline is None else point.timeline
    if not 1 <= number <= index.current:
        raise UnknownTimeline(number, point.state_id, index.current)
    parts = index.parts(number)
    if first_lost(dropped, parts, index.began(number)) is not None:
        raise TimelineDropped(number, point.state_id, index.current)
    return parts


def _parts_at_checkpoint(
    state_id: str, position: int, index: TimelineIndex, checkpoints: list[int], dropped: list[DroppedRecord]
) -> tuple[Part, ...]:
    if position not in checkpoints:
        if any(record.seq == position for record in dropped):
            raise CheckpointDropped(position, state_id, ())
        raise UnknownCheckpoint(position, state_id, tuple(checkpoints))
    # 0: what a fork has from others. It is read as it stands.
    number = max(1, index.number_at(position))
    parts = cut_behind(index.parts(index.number_at(position)), position)
    if first_lost(dropped, parts, index.began(number)) is not None:
        raise CheckpointDropped(position, state_id, ())
    return parts


def change_of(pair: Pair, read_before: Read, read_after: Read) -> EventChange | EventRecord | None:
    """What differs between the two records of an event; the record where there is only one; None where nothing does."""
    old, new = pair
    if old is None or new is None:
        return old or new
    found = list(_differences(old, new, read_before, read_after))
    if not found:
        return None
    return EventChange(address=old.address, before=old, after=new, differences=tuple(found))


def _differences(old: EventRecord, new: EventRecord, read_before: Read, read_after: Read) -> Iterator[Difference]:
    if old.status is not new.status:
        yield Difference("status", str(old.status), str(new.status))
    if old.result is not None and new.result is not None and old.result != new.result:
        yield from differences(read_before(old.result), read_after(new.result), "result", most=MOST)
    error, other = _error(old), _error(new)
    if error != other and (error or other):
        yield Difference("error", error, other)
    if old.input != new.input and old.input is not None and new.input is not None:
        yield from differences(read_before(old.input), read_after(new.input), "input", most=MOST)
    elif old.input_fingerprint != new.input_fingerprint:
        yield Difference("input", old.input_fingerprint.hex(), new.input_fingerprint.hex())
    if old.version != new.version:
        yield Difference("version", str(old.version), str(new.version))


def _error(record: EventRecord) -> str:
    return "" if record.error is None else f"{record.error.type_name}: {record.error.message}"


def diff_of(before: Compared, after: Compared) -> StateDiff:
    """All that became different."""
    aligned = Alignment()
    new: list[EventRecord] = []
    removed: list[EventRecord] = []
    changed: list[EventChange] = []
    for pair in aligned.pairs(before.records(), after.records()):
        found = change_of(pair, before.read, after.read)
        if isinstance(found, EventChange):
            changed.append(found)
        elif found is not None:
            (new if pair[0] is None else removed).append(found)
    gone, come = put_otherwise(aligned.before, aligned.after), put_otherwise(aligned.after, aligned.before)
    return StateDiff(
        before=before.name,
        after=after.name,
        new_events=tuple(new),
        removed_events=tuple(removed),
        changed_events=tuple(changed),
        changed_storage=_changed_storage(aligned.before, aligned.after, before.read, after.read),
        new_artifacts=tuple(sorted({*come, *_only_in(aligned.after, aligned.before, before)})),
        removed_artifacts=tuple(sorted({*gone, *_only_in(aligned.before, aligned.after, after)})),
        artifact_keys=gone | come,
        totals_before=aligned.before.totals(),
        totals_after=aligned.after.totals(),
    )


def _only_in(side: Side, other: Side, records_of_other: Compared) -> set[str]:
    """Which of the artifacts of a side nothing of the other one names: neither its events, nor what stands in its
    storage. Only where there are any is that side read again."""
    left = side.artifacts.union(*side.named.values()).difference(*other.named.values())
    if left:
        left -= named_by(record for record in records_of_other.records() if type(record) is not StorageRecord)
    return left


def _changed_storage(before: Side, after: Side, read_before: Read, read_after: Read) -> dict[str, StorageChange]:
    """What changed but for what ``set_artifact`` has put there, which is told under the artifacts."""
    changed: dict[str, StorageChange] = {}
    for entry in dict.fromkeys((*before.storage, *after.storage)):
        is_artifact, key = entry
        old, new = before.storage.get(entry), after.storage.get(entry)
        if is_artifact or old == new:
            continue
        found = _storage_differences(old, new, f"storage[{key!r}]", read_before, read_after)
        if found:
            changed[key] = StorageChange(key=key, differences=found)
    return changed


def _storage_differences(
    old: bytes | None, new: bytes | None, place: str, read_before: Read, read_after: Read
) -> tuple[Difference, ...]:
    if old is None and new is not None:
        return (Difference(place, "", shown(read_after(new)), DifferenceKind.ADDED),)
    if new is None and old is not None:
        return (Difference(place, shown(read_before(old)), "", DifferenceKind.REMOVED),)
    assert old is not None
    assert new is not None
    return tuple(differences(read_before(old), read_after(new), place, most=MOST))
