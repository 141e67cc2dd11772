"""The text of a failure's traceback, put together from what several failures have recorded of it.

A failure that goes up through calls is recorded by each of them. Each records the frames of its own, and for the rest
names the record of the call inside it (``Details.blocks``). So what is recorded of a failure grows with the number of
calls that it goes up through, and not with the square of that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import NamedTuple

from limpet.model import EventRecord

FindRecord = Callable[[int], EventRecord | None]
"""From the number of a record to the record of a failure; None where there is none any more."""

Block = tuple[int, int, int]
"""Of one exception in a text: where its title begins and its frames end, and the number of the record that has the
frames behind those; 0: there are none."""

TITLE = "Traceback (most recent call last):\n"
_TITLE_OF_GROUP = "  + Exception Group Traceback (most recent call last):\n"
_IN_GROUP = "  | "

MOST = 24
"""So many calls on the way of a failure are shown from the outside, and as many from the inside."""


class Pieces(NamedTuple):
    """The text of a failure in pieces, one for each call that it came through."""

    before: tuple[str, ...]
    """The exceptions that it was raised from or in the wake of, the first one first."""
    title: str
    frames: tuple[str, ...]
    """The frames, from the outermost call to the innermost."""
    end: str
    """What it says."""
    left_out: tuple[int, int] = (0, 0)
    """How many pieces are not shown in the middle, of those before and of the frames."""

    def __str__(self) -> str:
        before, frames = self.left_out
        shown_before = _shown(self.before, before, "... {} more exceptions, each in the record of its own ...\n\n")
        margin = _IN_GROUP if self.title == _TITLE_OF_GROUP else ""
        shown = _shown(self.frames, frames, margin + "  ... {} more calls, each in the record of its own ...\n")
        return f"{shown_before}{self.title}{shown}{self.end}"


def whole_traceback(record: EventRecord, find: FindRecord) -> str:
    """The text of the traceback of a failure, with what the failures inside it have recorded of it."""
    return str(pieces_of(record, find))


def pieces_of(record: EventRecord, find: FindRecord) -> Pieces:
    """As ``whole_traceback``, in pieces. Of the failures that it names, only earlier ones count, so it always ends."""
    needed = {record.seq: record}
    to_look_at = [record]
    while to_look_at:
        one = to_look_at.pop()
        for *_, number in blocks_of(one):
            if 0 < number < one.seq and number not in needed and (found := find(number)) is not None:
                needed[number] = found
                to_look_at.append(found)
    known: dict[int, Pieces] = {}
    for number in sorted(needed):
        one = needed[number]
        assert one.error is not None, "only failures are found"
        known[number] = joined(one.error.traceback, blocks_of(one), known)
    return known[record.seq]


def blocks_of(record: EventRecord) -> tuple[Block, ...]:
    return () if record.details is None else record.details.blocks


def joined(text: str, blocks: Sequence[Block], known: Mapping[int, Pieces]) -> Pieces:
    """The pieces of a recorded text, with those of the failures that it names."""
    blocks = blocks or _only_block(text)
    before: list[str] = [text[: blocks[0][0]]] if blocks[0][0] else []
    left_out = 0
    ends = (*(begin for begin, *_ in blocks[1:]), len(text))
    for (begin, end, number), tail_end in zip(blocks, ends, strict=True):
        inner = known.get(number, _GONE if number else _NOTHING)
        title, line_end, own = text[begin:end].partition("\n")
        title, tail = title + line_end, text[end:tail_end]
        if inner.title == _TITLE_OF_GROUP and title == TITLE:
            title, own = inner.title, indent(own, _IN_GROUP)
            tail = inner.end if tail_end == len(text) else tail
        before += inner.before
        frames, frames_left_out = _shortened((own, *inner.frames), inner.left_out[1])
        if tail_end < len(text):
            before.append(str(Pieces((), title, frames, tail, (0, frames_left_out))))
        else:
            shown, left_out = _shortened(tuple(before), inner.left_out[0] + left_out)
            return Pieces(shown, title, frames, tail, (left_out, frames_left_out))
        left_out += inner.left_out[0]
    raise AssertionError("the last block reaches to the end")


_NOTHING = Pieces((), "", (), "")
_GONE = Pieces((), "", ("  ... the calls inside are not recorded any more ...\n",), "")


def _only_block(text: str) -> tuple[Block, ...]:
    """The one block of a text that says nothing of its blocks: its frames are the lines that are indented."""
    if not text.startswith(TITLE):
        return ((0, 0, 0),)
    end = len(TITLE)
    while text.startswith("  ", end):
        end = (text.find("\n", end) + 1) or len(text)
    return ((0, end, 0),)


def _shortened(pieces: tuple[str, ...], left_out: int) -> tuple[tuple[str, ...], int]:
    """Not more pieces than are shown, without those in the middle; and how many are left out in all."""
    if len(pieces) <= 2 * MOST:
        return pieces, left_out
    return (*pieces[:MOST], *pieces[-MOST:]), left_out + len(pieces) - 2 * MOST


def _shown(pieces: tuple[str, ...], left_out: int, note: str) -> str:
    if not left_out:
        return "".join(pieces)
    return "".join((*pieces[:MOST], note.format(left_out), *pieces[MOST:]))
