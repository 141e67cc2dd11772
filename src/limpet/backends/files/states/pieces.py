"""Takes the text of a segment apart into lines, whatever became of it, and says where its last whole commit ends. Pure.

A torn end is what a crash leaves: the text stops inside a line or a commit, or goes on with zeros that a file system
put in place of what it had not written yet. Anything else that is no line is damage, also at the very end: a record
that was acknowledged must not be taken for one that never was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import msgspec

from limpet.lines import Line, LineDamaged, from_line

_OPENING = b'{"sum":"'
# A line end that was damaged, between two lines that need not be.
_SEAM = re.compile(rb'\}[^\n](?=\{"sum":")', re.DOTALL)
_UNWRITTEN = bytes(16)
_LOOKED_AT = 160

# What can still be seen of a damaged line. In this order: the fields of a record may be named as those of a header are.
_SIGNS = (
    ("record", re.compile(rb'"(?:seq|record|sealed|bytes|event)":')),
    ("header", re.compile(rb'"(?:header|state_id)":')),
    ("lease", re.compile(rb'"(?:lease|fence)":')),
    ("update", re.compile(rb'"(?:update|at)":')),
)


class Piece(msgspec.Struct, frozen=True, gc=False):
    """A line of a segment, or something in the place of one."""

    start: int
    end: int
    line: Line | None
    """None where it is damaged."""
    why: str = ""
    raw: bytes = b""
    """The bytes of a damaged one."""

    @property
    def is_torn(self) -> bool:
        """Whether it is what a crash leaves of a line, at the end of a text."""
        return not self.raw.endswith(b"\n") or self.raw.rstrip(b"\n").endswith(b"\0") or _UNWRITTEN in self.raw

    @property
    def kind(self) -> str:
        """What a damaged line still seems to be: ``record``, ``header``, ``lease``, ``update`` or ``unknown``."""
        seen = self.raw[:_LOOKED_AT]
        return next((kind for kind, sign in _SIGNS if sign.search(seen)), "unknown")


def pieces_of(text: bytes, owner: str, offset: int = 0) -> Iterator[Piece]:
    """The lines of a text that begins at an offset of its segment. Damaged parts of one line are given as one."""
    waiting: Piece | None = None
    raw_of_waiting = bytearray()
    start, size = 0, len(text)
    while start < size:
        end = text.find(b"\n", start) + 1 or size
        raw = text[start:end]
        try:
            found = (Piece(offset + start, offset + end, from_line(raw, owner)),)
        except LineDamaged as error:
            if not _begins_a_line(raw):
                # There may be millions of line ends, and none of them a line.
                end = _next_beginning(text, end)
                raw = text[start:end]
            found = _taken_apart(raw, offset + start, owner, str(error))
        for piece in found:
            if piece.line is None and waiting is not None and not _begins_a_line(piece.raw):
                raw_of_waiting += piece.raw
                continue
            if waiting is not None:
                yield _longer(waiting, raw_of_waiting)
            if piece.line is None:
                waiting, raw_of_waiting = piece, bytearray(piece.raw)
            else:
                waiting = None
                yield piece
        start = end
    if waiting is not None:
        yield _longer(waiting, raw_of_waiting)


def _longer(piece: Piece, raw: bytearray) -> Piece:
    """A damaged line with what stands behind its first line end."""
    return Piece(piece.start, piece.start + len(raw), None, piece.why, bytes(raw))


def committed(pieces: Sequence[Piece]) -> int:
    """How many of the last pieces of a text belong to it; those behind them are what a crash left."""
    count = len(pieces)
    while count:
        piece = pieces[count - 1]
        is_open = piece.is_torn if piece.line is None else piece.line.left > 0
        if not is_open:
            break
        count -= 1
    return count


def _next_beginning(text: bytes, start: int) -> int:
    """Where the next line begins that looks like one; else what stands behind the last line end."""
    return text.find(b"\n" + _OPENING, start - 1) + 1 or max(start, text.rfind(b"\n") + 1)


def _begins_a_line(raw: bytes) -> bool:
    return _OPENING.startswith(raw[: len(_OPENING)])


def _taken_apart(raw: bytes, start: int, owner: str, why: str) -> Sequence[Piece]:
    """A damaged line; or the lines in it, where only line ends are damaged."""
    pieces: list[Piece] = []
    begin = 0
    for end in (*(seam.end() for seam in _SEAM.finditer(raw)), len(raw)):
        part = raw[begin:end]
        try:
            pieces.append(Piece(start + begin, start + end, from_line(part[:-1] + b"\n", owner)))
        except LineDamaged as error:
            pieces.append(Piece(start + begin, start + end, None, str(error), part))
        begin = end
    return pieces if any(piece.line for piece in pieces) else [Piece(start, start + len(raw), None, why, raw)]
