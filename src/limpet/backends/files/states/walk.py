"""Follows the lines of a journal in their order: numbers, header, leases, and what damage takes away of them. Pure.

Lines are written in order, so what a damaged one was can be told from its neighbours: a number that is left out was a
record. A damaged record is lost by itself and no more. Damage that may have been a change of the header makes that
doubtful until the next whole one; what may have been a lease moves the fence far ahead, so that none is given twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from limpet.backends.files.states.header_lines import (
    Granted,
    Header,
    Standing,
    Update,
    leased,
    said,
    updated,
)
from limpet.backends.files.states.pieces import Piece
from limpet.lines import Line, LineDamaged

FENCES_SKIPPED = 1000
"""For every damaged line that may have been a lease."""

_MOST_LOST = 100_000
"""A number that lies further ahead is no number that was written here."""


class Oddity(msgspec.Struct, frozen=True):
    """Something in a segment that is not as it was written."""

    start: int
    """Where in the text of the segment; -1 where it is no line that is odd."""
    what: str
    seq: int | None = None


class Walk:
    """What is known of a journal behind the lines that were followed."""

    def __init__(self, first: int, known: Standing | None = None, *, sum: int | None = None) -> None:
        self.first = first
        self.next = first
        """The number of the next record."""
        self.header: Header | None = None if known is None else known.header
        self.damage: str | None = None if known is None else known.damage
        self.records: dict[int, dict[str, Any]] = {}
        """The contents of the lines of records, without their numbers."""
        self.oddities: list[Oddity] = []
        self.sum: int | None = sum if known is None else known.sum
        self._lost_records = 0
        self._lost_unknown = 0
        self._lost_at: list[int] = []
        """Which oddities may be those of lost records."""
        self._is_behind_damage = False
        self._seen: set[tuple[int, int]] = set()
        """The sums of the lines so far and of those before them, by which one that stands there again is known."""

    def follow(self, pieces: Iterable[Piece]) -> None:
        for piece in pieces:
            if piece.line is None and piece.start == 0:
                # The header that every segment begins with. Of a later one it says nothing that is not known.
                self._note(piece, piece.why)
                self._is_behind_damage = True
                continue
            if piece.line is None:
                self._lose(piece)
                continue
            try:
                self._take(piece, piece.line)
            except LineDamaged as error:
                self._lose(Piece(piece.start, piece.end, None, str(error)))

    def reach(self, number: int) -> None:
        """Take note that the next segment begins with this number."""
        self._explain(max(number - self.next, 0))
        self.next = max(self.next, number)

    def finish(self) -> None:
        """Nothing stands behind what was followed: damage that may have been records is taken for records."""
        lost = self._lost_records + self._lost_unknown
        if self._lost_unknown:
            self._doubt("a damaged line at the end of the journal may have been part of it")
        self._number(lost)
        self.next += lost

    def _take(self, piece: Piece, line: Line) -> None:
        content = line.content
        # A line that fits the one before is never a repeated one: sums alone are too short to tell them all apart.
        if line.after != self.sum and (line.sum, line.after) in self._seen:
            self._note(piece, "the line stands here again", content.get("seq"))
            return
        self._seen.add((line.sum, line.after))
        is_next = self.sum is None or self._is_behind_damage or line.after == self.sum
        if not is_next:
            self._note(piece, "it does not follow the line before it: something was removed or replaced")
        if "seq" in content:
            seq = said(content, "seq", int)
            record = {key: value for key, value in content.items() if key != "seq"}
            # What stands behind a line in the wrong place followed another one.
            self._is_behind_damage = not self._record(piece, seq, record, is_next)
        else:
            if not is_next:
                self._lost_unknown += 1
            self._change(content)
            self._is_behind_damage = False
        self.sum = line.sum

    def _record(self, piece: Piece, seq: int, content: dict[str, Any], is_next: bool) -> bool:
        """Take up a record; False if it stands in the wrong place."""
        if seq - self.next > _MOST_LOST or seq < 1:
            raise LineDamaged(f"its number {seq} cannot be right")
        if seq < self.next:
            # It is not put where it belongs: who reads a window of the journal would not find it there.
            self._note(piece, f"record {seq} stands in the wrong place", seq)
            return False
        if not is_next and seq == self.next:
            self._lost_unknown += 1
        self._explain(seq - self.next)
        self.records[seq] = content
        self.next = seq + 1
        return True

    def _change(self, content: Mapping[str, Any]) -> None:
        if "header" in content:
            self.header = said(content, "header", Header)
            self.damage = None
            self._lost_unknown = 0
        elif "lease" in content:
            granted = said(content, "lease", Granted)
            if self.header is not None:
                self.header = leased(self.header, granted)
        elif "update" in content:
            update = said(content, "update", Update)
            if update.end is not None and update.end.position - self.next <= _MOST_LOST:
                # It was written behind that record, whatever became of it.
                self.reach(update.end.position + 1)
            if self.header is not None:
                self.header = updated(self.header, update)
        else:
            raise LineDamaged("it says nothing that is known here")

    def _lose(self, piece: Piece) -> None:
        kind = piece.kind
        self._note(piece, piece.why)
        self._is_behind_damage = True
        if kind in ("record", "unknown"):
            self._lost_at.append(len(self.oddities) - 1)
        if kind == "record":
            self._lost_records += 1
        elif kind == "unknown":
            self._lost_unknown += 1
        elif kind == "lease":
            self._skip_fences()
        else:
            self._doubt(f"a line that changed it is damaged ({piece.why})")

    def _explain(self, gap: int) -> None:
        """Decide what lost lines were: so many numbers are left out. The rest of them may have changed the header."""
        unexplained = self._lost_unknown - max(gap - self._lost_records, 0)
        if unexplained > 0:
            self._doubt("a line that may have changed it is damaged or missing")
        self._number(gap)

    def _number(self, gap: int) -> None:
        """Say of the damaged lines which records they were, if there are as many as numbers are left out."""
        if gap and gap == len(self._lost_at):
            for place, seq in zip(self._lost_at, range(self.next, self.next + gap), strict=True):
                self.oddities[place] = msgspec.structs.replace(self.oddities[place], seq=seq)
        elif gap:
            last = self.next + gap - 1
            which = f"record {last} is" if gap == 1 else f"the records {self.next} to {last} are"
            self.oddities.append(Oddity(-1, f"{which} missing", self.next))
        self._lost_at.clear()
        self._lost_records = self._lost_unknown = 0

    def _doubt(self, why: str) -> None:
        self.damage = why
        self._skip_fences()

    def _skip_fences(self) -> None:
        if self.header is not None:
            self.header = msgspec.structs.replace(self.header, fence=self.header.fence + FENCES_SKIPPED, holder=None)

    def _note(self, piece: Piece, what: str, seq: int | None = None) -> None:
        self.oddities.append(Oddity(piece.start, what, seq))
