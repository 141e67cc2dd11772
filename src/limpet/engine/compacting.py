"""Drops the records of states that are not needed any more, by the rules in ``journal/compaction.py``.

The records of a state are rewritten in one step, under a lease that lasts no time: whoever takes the state up meanwhile
has a newer one, and the state stays as it is. If the process dies, all records are there as they were, or none of those
that go. What is computed is read again and compared with what it was before it is written.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Grant
from limpet.codec import frames
from limpet.engine.cleaning import CHANGED, claimed, leave_to_others
from limpet.engine.progress import Told
from limpet.engine.reading import Frames
from limpet.engine.rewriting import all_records, rewriting
from limpet.engine.writer import Writer
from limpet.errors import (
    LeaseLost,
    NotEncrypted,
    PositionTaken,
    StateCorrupted,
    UnsupportedVersion,
    UsageError,
    WrongKey,
)
from limpet.journal.compaction import dropped_by, reads_the_same, without
from limpet.journal.history import History
from limpet.journal.retention import BEING_RUN, DAMAGED, NOTHING_TO_DROP, SHARED, Reduction
from limpet.model import Compacted, Record, StateHeader, StateStatus

UNREADABLE = "cannot be read with the keys and the version at hand"
NOT_THE_SAME = "would not read the same"
NO_REWRITING = "the store cannot rewrite records"


class Anew(msgspec.Struct, frozen=True):
    """The records of a state from the first that goes on, as they are to stand."""

    first: int
    bodies: tuple[bytes, ...]
    link: int
    dropped: int
    """How many go."""
    freed: int
    """How many bytes they are less than before."""


def anew(header: StateHeader, read: Frames, stored: StoredValues, *, compacts: bool) -> Anew | str:
    """What becomes of the journal of a state; or why nothing does."""
    try:
        records = all_records(header, read, stored)
    except StateCorrupted:
        return DAMAGED
    except (WrongKey, NotEncrypted, UnsupportedVersion):
        return UNREADABLE
    goes = dropped_by(records, is_completed=header.status is StateStatus.COMPLETED, compacts=compacts)
    if not goes:
        return NOTHING_TO_DROP
    left = without(records, goes)
    before, after = (History(header.state_id, each, header.timeline) for each in (records, left))
    if not reads_the_same(before, after):
        return NOT_THE_SAME
    made = _framed(header, read, {seq: left[seq - 1] for seq in goes}, stored)
    freed = sum(len(frame) for seq, frame in read if seq >= made[0]) - sum(map(len, made[1]))
    return Anew(*made, len(goes), freed) if freed > 0 else NOTHING_TO_DROP


def _framed(
    header: StateHeader, read: Frames, in_place: Mapping[int, Record], stored: StoredValues
) -> tuple[int, tuple[bytes, ...], int]:
    """The frames from the first that goes on: of these new ones, of all others those that stood, behind other ones."""
    first = min(in_place)
    owner = frames.first_link(header.state_id)
    cipher = stored.record_cipher(header.state_id)
    link = frames.link_of(read[first - 2][1]) if first > 1 else owner
    bodies: list[bytes] = []
    for seq, frame in read[first - 1 :]:
        record = in_place.get(seq)
        if record is not None:
            body, link = frames.to_frame(record, link, owner, cipher if frames.is_sealed(frame) else None)
        else:
            body, link = frames.relinked(frame, link)
        bodies.append(body)
    return first, tuple(bodies), link


class Compacting:
    """Compacts and prunes states of one store."""

    def __init__(self, writer: Writer, stored: StoredValues, on_progress: Told | None = None) -> None:
        self._backend = writer.backend
        self._keeper = writer.keeper
        self._stored = stored
        self._on_progress = on_progress

    def foresee(self, planned: Sequence[Reduction]) -> tuple[list[Compacted], Counter[str]]:
        """What would become of states, and why some would stay as they are. Changes nothing."""
        found: list[Compacted] = []
        left_whole: Counter[str] = Counter()
        for each in planned:
            state_id = each.candidate.state_id
            header = self._backend.find_state(state_id)
            if header is None or not each.candidate.is_still(header):
                left_whole[CHANGED] += 1
                continue
            outcome = anew(header, self._backend.read(state_id), self._stored, compacts=each.compacts)
            _note(outcome, each, found, left_whole)
        return found, left_whole

    def carry_out(self, planned: Sequence[Reduction]) -> tuple[list[Compacted], Counter[str]]:
        """Drop what is to go of states that have not changed since. Gives what went, and why the others are whole."""
        found: list[Compacted] = []
        left_whole: Counter[str] = Counter()
        for done, each in enumerate(planned, 1):
            grants = claimed(self._backend, self._keeper, [each.candidate])
            began = time.monotonic()
            outcome = self._compact(each, grants[0][1]) if grants else CHANGED
            _note(outcome, each, found, left_whole)
            if self._on_progress is not None:
                self._on_progress(done, len(planned), each.candidate.state_id)
            if done < len(planned):
                leave_to_others(began)
        return found, left_whole

    def _compact(self, each: Reduction, grant: Grant) -> Anew | str:
        if grant.held_by is not None:
            return BEING_RUN
        header = grant.header
        if grant.lease is None or not each.candidate.is_still(header):
            return CHANGED
        made = anew(header, self._backend.read(header.state_id), self._stored, compacts=each.compacts)
        if isinstance(made, str):
            return made
        try:
            self._backend.rewrite([rewriting(grant.lease, header, made.first, made.bodies, made.link)])
        except LeaseLost:
            return BEING_RUN
        except PositionTaken:
            return SHARED
        except UsageError:
            return NO_REWRITING
        return made


def _note(outcome: Anew | str, each: Reduction, found: list[Compacted], left_whole: Counter[str]) -> None:
    if isinstance(outcome, str):
        left_whole[outcome] += 1
    else:
        found.append(Compacted(each.candidate.state_id, each.reason, outcome.dropped, outcome.freed))
