"""What of a damaged journal can be gone on from: the timeline that ends right before the damage.

A journal up to any of its records is the journal of a run that was stopped there. So whatever is damaged, what stands
before it is sound, and a new timeline that keeps just that goes on as a crash at that place would have. Of a state that
was compacted some of what stood before is gone: there it is gone on from before the first of that.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from limpet.journal.new_timeline import NewTimeline
from limpet.journal.timeline import TimelineIndex, cut_behind, first_lost
from limpet.model import DamagedRecord, DroppedRecord, DropReason, EventRecord, Part, Record, TimelineRecord

Journal = Sequence[Record | DamagedRecord]


class Recovery(msgspec.Struct, frozen=True):
    """How a damaged state is gone on with."""

    new: NewTimeline
    """The timeline that keeps what stands before the damage. It keeps nothing where the first record is damaged."""
    number: int
    """The how-manieth timeline of the state it is."""
    first_damaged: int
    """The number of the first record that the current timeline needs and that is damaged."""
    given_up: tuple[EventRecord, ...]
    """The records behind the damage that are intact and no longer count: their calls are executed again."""


def recovery_of(journal: Journal, timeline: int) -> Recovery | None:
    """How to go on with a journal whose current timeline began with that record; None where nothing it needs is lost.

    ``journal`` has an entry for every number from 1 on.
    """
    index = TimelineIndex()
    for record in journal:
        if type(record) is TimelineRecord:
            index.add(record)
    index.position = len(journal)
    base, parts = index.current, _current_parts(journal, timeline)
    first = timeline
    if parts is None:
        # The record that began the timeline is damaged itself: what came before it was on another one.
        base = max(1, index.number_at(timeline - 1))
        index.position = timeline - 1
        parts = index.parts(base)
    else:
        first = _first_damaged(journal, parts)
    if not first:
        return None
    kept = cut_behind(parts, first - 1)
    while again := _first_damaged(journal, kept):
        kept = cut_behind(kept, again - 1)
    lost = _first_lost(journal, kept, index.began(base), first)
    if lost:
        kept = cut_behind(kept, lost - 1)
    begins = bool(kept) and kept[0].first == 1
    new = NewTimeline(base=base, parts=kept if begins else ())
    given_up = tuple(record for record in journal[lost or first :] if type(record) is EventRecord)
    return Recovery(new, index.current + 1, first, given_up)


def _first_lost(journal: Journal, parts: Sequence[Part], began: int, damaged: int) -> int:
    """The number of the first record in these parts that a cleanup has dropped and that is missed here, or 0.

    What was dropped because later records say the same is missed where these may be among what is damaged. They stand
    before the next timeline, since what was dropped was of the one that was the current one then.
    """
    dropped = [record for record in journal if type(record) is DroppedRecord]
    began_at = [record.seq for record in journal if type(record) is TimelineRecord]
    lost = first_lost(dropped, parts, began)
    for record in dropped:
        is_intermediate = record.why is DropReason.INTERMEDIATE and (lost is None or record.seq < lost.seq)
        end = next((seq for seq in began_at if seq > record.timeline), len(journal) + 1)
        if is_intermediate and damaged < end and any(part.first <= record.seq <= part.last for part in parts):
            return record.seq
    return 0 if lost is None else lost.seq


def _current_parts(journal: Journal, timeline: int) -> tuple[Part, ...] | None:
    """What the current timeline is made of; None where the record that says so is damaged."""
    if not timeline:
        return (Part(1, len(journal)),) if journal else ()
    began = journal[timeline - 1] if 0 < timeline <= len(journal) else None
    if type(began) is not TimelineRecord:
        return None
    own = (Part(timeline + 1, len(journal)),) if len(journal) > timeline else ()
    return (*began.parts, *own)


def _first_damaged(journal: Journal, parts: Sequence[Part]) -> int:
    """The number of the first damaged record inside these parts, or 0."""
    for part in parts:
        for record in journal[part.first - 1 : part.last]:
            if type(record) is DamagedRecord:
                return record.seq
    return 0
