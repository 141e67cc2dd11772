"""Reads records without any lock, of one moment: also of a fork, whose first ones lie in the folders of other states.

What is read is given only if nothing was moved meanwhile: the folder is still that of the state, no segment was
replaced, no rewriting is under way. Otherwise it is read again. Appends do not disturb: they only add to the end.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import msgspec

from limpet.backends.files.states import layout
from limpet.backends.files.states.forks import owner_folder
from limpet.backends.files.states.header_lines import Span
from limpet.backends.files.states.layout import Segment
from limpet.backends.files.states.pieces import Piece, committed, pieces_of
from limpet.backends.files.states.segments import read_segment, segments_in
from limpet.backends.files.states.standing import look
from limpet.backends.files.states.walk import Walk
from limpet.backends.files.tree import open_folder
from limpet.lines import LineDamaged, frame_of

_WITHOUT_END = 1 << 62
_MOST_PLACES = 256
_MOST_MISSING = 100_000


class _Place(msgspec.Struct, frozen=True):
    """Where in a segment a reader stopped."""

    next: int
    offset: int
    sum: int


class Disturbed(Exception):
    """Something was moved while it was read."""


class Places:
    """Where readers stopped last in some segments: who reads a long journal window by window goes on from there."""

    def __init__(self) -> None:
        self._places: dict[tuple[int, int], _Place] = {}

    def find(self, folder: int, segment: Segment, after: int) -> _Place | None:
        place = self._places.get((os.fstat(folder).st_ino, segment.first))
        return place if place is not None and place.next <= after + 1 else None

    def keep(self, folder: int, segment: Segment, place: _Place) -> None:
        if len(self._places) >= _MOST_PLACES:
            self._places.clear()
        self._places[os.fstat(folder).st_ino, segment.first] = place


class Reader:
    """One reading of the records of one state, which may be given up and begun again."""

    def __init__(self, root: int, state_id: str, places: Places) -> None:
        self._root = root
        self._state_id = state_id
        self._places = places
        self._visited: list[tuple[int, int]] = []

    def read(self, after: int, limit: int | None) -> list[tuple[int, bytes]]:
        """The records behind a position. Raises Disturbed, FileNotFoundError or OtherState."""
        stop = _WITHOUT_END if limit is None else max(after, 0) + max(limit, 0)
        if stop <= max(after, 0):
            return []
        with ExitStack() as stack:
            folder = self._enter(stack)
            if folder is None:
                return []
            segments = segments_in(folder)
            shared: Sequence[Span] = ()
            if not segments or segments[0].first > 1 or after <= 0:
                found = look(folder, self._state_id)
                if found is None:
                    return []
                shared = found.standing.header.bases
            records = self._shared(stack, shared, max(after, 0), stop)
            begin = max(after, 0, records[-1][0] if records else 0)
            records += own_records(folder, self._state_id, begin, stop, self._places)
            self._require_undisturbed(folder)
        return records

    def _enter(self, stack: ExitStack) -> int | None:
        states = open_folder(self._root, layout.STATES)
        if states is None:
            return None
        stack.callback(os.close, states)
        folder = open_folder(states, self._state_id)
        if folder is not None:
            stack.callback(os.close, folder)
            self._visit(folder)
        if is_rewriting(self._root):
            raise Disturbed
        return folder

    def _visit(self, folder: int) -> None:
        self._visited.append((folder, moves_in(folder)))

    def _shared(self, stack: ExitStack, spans: Sequence[Span], after: int, stop: int) -> list[tuple[int, bytes]]:
        records: list[tuple[int, bytes]] = []
        for span in spans:
            if span.last <= after or after >= stop:
                continue
            last = min(span.last, stop)
            folder = stack.enter_context(owner_folder(self._root, span))
            if folder is None:
                records += missing(after, last)
            else:
                self._visit(folder)
                found = own_records(folder, span.state_id, after, last, self._places, is_shared=True)
                records += found
                records += missing(found[-1][0] if found else after, last)
            after = last
        return records

    def _require_undisturbed(self, folder: int) -> None:
        now = _inode(self._root, self._state_id)
        if now != os.fstat(folder).st_ino or is_rewriting(self._root):
            raise Disturbed
        if any(moves != moves_in(visited) for visited, moves in self._visited):
            raise Disturbed


def own_records(
    folder: int, owner: str, after: int, stop: int, places: Places, *, is_shared: bool = False
) -> list[tuple[int, bytes]]:
    """The records behind one number and up to another that a state wrote itself. One that is damaged has no bytes.

    What others share of a deleted state may end inside a commit: all of it was committed once.
    """
    records: list[tuple[int, bytes]] = []
    segments = segments_in(folder)
    for number, segment in enumerate(segments):
        following = segments[number + 1].first if number + 1 < len(segments) else None
        if segment.first > stop:
            break
        if following is not None and following <= after + 1:
            continue
        walk = _followed(folder, owner, segment, following, after, stop, places, is_shared)
        begin = max(after + 1, segment.first)
        # A segment is missing, or the header of a fork that said who wrote what comes first.
        records += missing(records[-1][0] if records else after, begin - 1)
        records += _frames(walk, owner, begin, min(stop, walk.next - 1))
    return records


def missing(after: int, last: int) -> list[tuple[int, bytes]]:
    """Records that cannot be read: no reader takes empty bytes for one."""
    return [(seq, b"") for seq in range(after + 1, min(last, after + _MOST_MISSING) + 1)]


def is_rewriting(root: int) -> bool:
    try:
        os.stat(layout.REWRITING_FILE, dir_fd=root, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def moves_in(folder: int) -> int:
    """Grows whenever files of a state are moved elsewhere or replaced, and not with the segments that are begun."""
    try:
        return os.stat(layout.LOCK_FILE, dir_fd=folder, follow_symlinks=False).st_size // layout.MOVE
    except FileNotFoundError:
        return 0


def _followed(
    folder: int,
    owner: str,
    segment: Segment,
    following: int | None,
    after: int,
    stop: int,
    places: Places,
    is_shared: bool,
) -> Walk:
    """The lines of one segment, not much further than asked for."""
    walk, found, is_all = _begun(folder, owner, segment, after, stop, places)
    if is_all and following is None and not is_shared:
        del found[committed(found) :]
    walk.follow(found)
    if is_all and following is not None:
        walk.reach(following)
    elif is_all:
        walk.finish()
    elif walk.sum is not None:
        places.keep(folder, segment, _Place(walk.next, found[-1].end, walk.sum))
    return walk


def _begun(
    folder: int, owner: str, segment: Segment, after: int, stop: int, places: Places
) -> tuple[Walk, list[Piece], bool]:
    """A walk that has not begun, and its lines: from where a reader stopped last, if that helps."""
    place = places.find(folder, segment, after)
    if place is not None:
        text = read_segment(folder, segment, place.offset)
        found, is_all = _up_to(stop, pieces_of(text or b"", owner, place.offset))
        if text == b"" or (found and found[0].line is not None and found[0].line.after == place.sum):
            return Walk(place.next, sum=place.sum), found, is_all
    text = read_segment(folder, segment)
    if text is None:
        raise FileNotFoundError
    return Walk(segment.first), *_up_to(stop, pieces_of(text, owner))


def _up_to(stop: int, pieces: Iterable[Piece]) -> tuple[list[Piece], bool]:
    """The lines up to the end of the commit that has a number; and whether these are all there are."""
    found: list[Piece] = []
    for piece in pieces:
        found.append(piece)
        line = piece.line
        if line is not None and not line.left:
            seq = line.content.get("seq", 0)
            if isinstance(seq, int) and seq >= stop:
                return found, False
    return found, True


def _frames(walk: Walk, owner: str, begin: int, last: int) -> list[tuple[int, bytes]]:
    frames: list[tuple[int, bytes]] = []
    for seq in range(begin, min(last, begin + len(walk.records) + _MOST_MISSING) + 1):
        content = walk.records.get(seq)
        frames.append((seq, b"" if content is None else _frame(content, owner)))
    return frames


def _frame(content: Mapping[str, Any], owner: str) -> bytes:
    try:
        return frame_of(content, owner)
    except LineDamaged:
        return b""


def _inode(root: int, state_id: str) -> int | None:
    try:
        return os.stat(f"{layout.STATES}/{state_id}", dir_fd=root, follow_symlinks=False).st_ino
    except (FileNotFoundError, NotADirectoryError):
        return None
