"""What a new timeline begins with: where it goes on from, what it keeps, and what stands in place of a result."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from limpet.errors import (
    AmbiguousAddress,
    CheckpointDropped,
    TimelineDropped,
    UnknownAddress,
    UnknownCheckpoint,
    UnknownTimeline,
)
from limpet.journal.address import matching, nearest, nearest_ends
from limpet.journal.history import History
from limpet.journal.lifecycle import SETTLED
from limpet.journal.timeline import cut_before, cut_behind
from limpet.model import Details, EventRecord, ExecutionStatus, Part, Record, TimelineRecord


class Replacement(msgspec.Struct, frozen=True):
    """An encoded value that is to stand in place of a recorded result."""

    result: bytes
    artifacts: tuple[str, ...] = ()
    """The ids of the artifacts that it names."""


class NewTimeline(msgspec.Struct, frozen=True, kw_only=True):
    """A timeline that is about to be begun."""

    base: int
    """The number of the timeline that it goes on from."""
    parts: tuple[Part, ...]
    """What it keeps."""
    event: EventRecord | None = None
    """The newest record of the event that it is run on from; None at a checkpoint or at the end."""
    replacement: Replacement | None = None
    """What that event has given, on this timeline; None where it is executed again."""

    @property
    def address(self) -> str:
        return "" if self.event is None else self.event.address

    def records(self, seq: int, at: float, number: int, forked_from: str = "") -> list[Record]:
        """What is written to begin it as the timeline of that number; ``seq`` is the number of the first record."""
        began = TimelineRecord(seq, at, number, self.base, self.parts, self.address, forked_from)
        if self.event is None or self.replacement is None:
            return [began]
        return [began, _replaced(self.event, self.replacement, seq + 1, at)]


def _replaced(event: EventRecord, replacement: Replacement, seq: int, at: float) -> EventRecord:
    """The record of an event that gives something else. It keeps its start, and its place in the order of results."""
    return EventRecord(
        seq=seq,
        address=event.address,
        status=ExecutionStatus.COMPLETED,
        at=at,
        behind=seq - event.order,
        version=event.version,
        fingerprint=event.fingerprint,
        input=event.input,
        result=replacement.result,
        artifacts=tuple(dict.fromkeys((*event.artifacts, *replacement.artifacts))),
        beside=event.beside,
        details=_replaced_details(event),
    )


def _replaced_details(event: EventRecord) -> Details | None:
    details = event.details or Details()
    if details.at_once:
        return Details(at_once=True)
    # What was under way, or was cancelled, had given nothing yet: it comes last.
    return Details(before=details.before or event.seq) if event.status in SETTLED else None


def find_event(history: History, text: str) -> EventRecord:
    """The newest record of the one event that the text means. Raises UnknownAddress or AmbiguousAddress."""
    found = matching(text, history.latest.keys())
    if not found:
        near = nearest(text, history.latest) or nearest_ends(text, history.latest)
        raise UnknownAddress(text, history.state_id, near)
    if len(found) > 1:
        raise AmbiguousAddress(text, history.state_id, tuple(found))
    return history.latest[found[0]]


def on_timeline(history: History, number: int | None) -> History:
    """The history on one of its timelines, the current one if none is named.

    Raises UnknownTimeline, and TimelineDropped where a cleanup has dropped some of it.
    """
    known = history.timelines.current
    if number is None or number == known:
        return history
    if not 1 <= number <= known:
        raise UnknownTimeline(number, history.state_id, known)
    require_not_dropped(history, number, history.parts(number))
    return history.on_timeline(number)


def require_not_dropped(history: History, base: int, parts: Sequence[Part]) -> None:
    """Raises TimelineDropped where a cleanup has dropped some of these parts of a timeline."""
    if not history.is_whole(parts, history.timelines.began(base)):
        raise TimelineDropped(base, history.state_id, history.timelines.current)


def from_event(
    history: History, text: str, number: int | None = None, replacement: Replacement | None = None
) -> NewTimeline:
    """Run on from an event; with a replacement, from behind it. Raises what the two above raise."""
    event = find_event(on_timeline(history, number), text)
    base = number or history.timelines.current
    return from_record(base, history.parts(base), event, replacement)


def from_record(
    base: int, parts: tuple[Part, ...], event: EventRecord, replacement: Replacement | None = None
) -> NewTimeline:
    """As ``from_event``, where the event and what the timeline is made of are known."""
    kept = cut_before(parts, event.order)
    return NewTimeline(base=base, parts=kept, event=event, replacement=replacement)


def from_checkpoint(history: History, position: int) -> NewTimeline:
    """Go on from a checkpoint, on whatever timeline it stands. Raises UnknownCheckpoint, CheckpointDropped."""
    known = history.checkpoints()
    found = next((checkpoint for checkpoint in known if checkpoint.position == position), None)
    if found is None and any(record.seq == position for record in history.dropped()):
        raise CheckpointDropped(position, history.state_id, ())
    if found is None or not found.timeline:
        positions = tuple(checkpoint.position for checkpoint in known if checkpoint.timeline)
        raise UnknownCheckpoint(position, history.state_id, positions)
    parts = cut_behind(history.parts(found.timeline), position)
    if not history.is_whole(parts, history.timelines.began(found.timeline)):
        raise CheckpointDropped(position, history.state_id, ())
    return NewTimeline(base=found.timeline, parts=parts)


def from_end(history: History, number: int | None = None) -> NewTimeline:
    """Go on from the end of a timeline. Raises UnknownTimeline."""
    on_timeline(history, number)
    base = number or history.timelines.current
    return NewTimeline(base=base, parts=history.parts(base))


def point_of(
    history: History, address: str | None = None, checkpoint: int | None = None, timeline: int | None = None
) -> NewTimeline | None:
    """The point of a journal that is meant; None where that is its end, on the current timeline.

    A checkpoint names its timeline. Raises what the functions above raise.
    """
    if address is not None:
        return from_event(history, address, timeline)
    if checkpoint is not None:
        return from_checkpoint(history, checkpoint)
    on_timeline(history, timeline)
    return None if timeline in (None, history.timelines.current) else from_end(history, timeline)
