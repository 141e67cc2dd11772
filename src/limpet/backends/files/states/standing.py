"""Finds out what a state's folder says of the state: its header, where its journal ends, and who holds its lease.

Takes no lock, and changes nothing: who has the lock of the state finds what is certain, others what was so a moment
ago. It reads what was written since the last ``header.json``, and the newest segment where that cannot be used.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise

import msgspec

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Header, Standing, said, state_header
from limpet.backends.files.states.layout import Segment
from limpet.backends.files.states.pieces import Piece, committed, pieces_of
from limpet.backends.files.states.segments import read_segment, segments_in
from limpet.backends.files.states.small_files import read_file, read_whole_line, write_line
from limpet.backends.files.states.walk import Walk
from limpet.lines import LineDamaged, from_line
from limpet.model import StateHeader, StateStatus
from limpet.model.header import FORMAT_VERSION, utc

_CUT_OFF = "its journal ends before what was noted of it: lines that were acknowledged are missing at its end"
_OTHER_JOURNAL = "its journal is that of another state"
_NO_JOURNAL = "its journal is not there"
_NO_HEADER = "the line that its journal begins with is damaged"
_LINE_END = 0x0A
_LOOKED_BACK = 4096


class OtherState(Exception):
    """The folder is that of a state with another id: the file system does not tell the two names apart."""


class Found(msgspec.Struct, frozen=True):
    """A state, and where the newest segment of its journal ends."""

    standing: Standing
    segment: Segment
    size: int
    """Of the whole commits in it."""
    torn: int = 0
    """How many bytes behind them a crash has left."""
    ends_badly: bool = False
    """The last line is whole but for its line end."""


def look(folder: int, state_id: str) -> Found | None:
    """What a folder says of its state; None if the state never came to be. Raises OtherState.

    Raises FileNotFoundError where a file of it went away meanwhile: look again then.
    """
    found = _look(folder, state_id)
    if found is not None and found.standing.header.state_id != state_id:
        raise OtherState(found.standing.header.state_id)
    return found


def _look(folder: int, state_id: str) -> Found | None:
    # First: what is noted was in the journal by then, so what is read of that afterwards is never shorter.
    noted = _noted(folder, state_id)
    segments = segments_in(folder)
    if not segments:
        return Found(Standing(header=_unknown(folder, state_id), position=0, sum=0, damage=_NO_JOURNAL), Segment(1), 0)
    newest = segments[-1]
    if noted is not None and noted.segment == newest.name and not newest.suffix:
        found = _from_note(folder, state_id, newest, noted)
        if found is not None:
            return found
    try:
        found = _from_segments(folder, state_id, segments)
    except OtherState:
        if noted is None:
            raise
        return Found(Standing(header=noted.known.header, position=0, sum=0, damage=_OTHER_JOURNAL), newest, 0)
    return found if found is None or noted is None else _held_to(noted, found)


def note_standing(folder: int, standing: Standing, segment: Segment, size: int) -> None:
    """Write ``header.json``, for people and for a quick look."""
    content = {
        "segment": segment.name,
        "offset": size,
        "position": standing.position,
        "header": msgspec.to_builtins(standing.header),
    }
    write_line(folder, layout.HEADER_FILE, content, standing.header.state_id, standing.sum)


def lease_until(folder: int, header: Header) -> float:
    """When the lease that stands runs out; 0 where that is not known."""
    if header.holder is None:
        return 0.0
    line = read_whole_line(folder, layout.LEASE_FILE, header.state_id)
    if line is None or line.content.get("fence") != header.fence:
        return 0.0
    until = line.content.get("until")
    return float(until) if isinstance(until, (int, float)) else 0.0


def note_lease(folder: int, state_id: str, fence: int, until: float) -> None:
    write_line(folder, layout.LEASE_FILE, {"fence": fence, "until": until}, state_id)


def header_at(folder: int, standing: Standing, now: float) -> StateHeader:
    return state_header(standing, lease_until(folder, standing.header) > now)


class _Noted(msgspec.Struct, frozen=True):
    """What ``header.json`` says: the header as it was behind some line."""

    segment: str
    offset: int
    known: Standing


def _noted(folder: int, state_id: str) -> _Noted | None:
    """What was noted; None where that is damaged or missing."""
    line = read_whole_line(folder, layout.HEADER_FILE, state_id)
    if line is None:
        return None
    try:
        header = said(line.content, "header", Header)
        known = Standing(header=header, position=said(line.content, "position", int), sum=line.after)
        return _Noted(said(line.content, "segment", str), said(line.content, "offset", int), known)
    except LineDamaged:
        return None


def _from_note(folder: int, state_id: str, newest: Segment, noted: _Noted) -> Found | None:
    """By what was noted and what came behind it; None where that cannot be done."""
    text = _behind(folder, newest, noted)
    if text is None:
        return None
    pieces = list(pieces_of(text, state_id, noted.offset))
    if pieces and pieces[0].line is not None and pieces[0].line.after != noted.known.sum:
        return None
    return _ended(Walk(noted.known.position + 1, noted.known), pieces, newest, noted.offset, text)


def _behind(folder: int, newest: Segment, noted: _Noted) -> bytes | None:
    """The text behind what was noted; None unless the line right before it is the one that was the last then."""
    reach = _LOOKED_BACK
    while True:
        begin = max(0, noted.offset - reach)
        text = read_segment(folder, newest, begin)
        before = noted.offset - begin
        if text is None or len(text) < before or text[before - 1 : before] != b"\n":
            return None
        start = text.rfind(b"\n", 0, before - 1) + 1
        if start or not begin:
            return text[before:] if text.startswith(b'{"sum":"%08x"' % noted.known.sum, start) else None
        reach *= 16


def _held_to(noted: _Noted, found: Found) -> Found:
    """What was found, unless more was there when ``header.json`` was written, which comes behind what it notes."""
    is_of_it = noted.known.header.key == found.standing.header.key
    is_shorter = (found.segment.name, found.size) < (noted.segment, noted.offset)
    if not is_of_it or not is_shorter:
        return found
    damage = found.standing.damage or _CUT_OFF
    standing = msgspec.structs.replace(found.standing, header=noted.known.header, damage=damage)
    return msgspec.structs.replace(found, standing=standing)


def _from_segments(folder: int, state_id: str, segments: Sequence[Segment]) -> Found | None:
    """By reading from the newest segment on whose first line is whole: all that matters is repeated there."""
    texts: list[tuple[Segment, bytes, list[Piece]]] = []
    for segment in reversed(segments):
        text = read_segment(folder, segment)
        if text is None:
            raise FileNotFoundError
        pieces = list(pieces_of(text, state_id))
        texts.insert(0, (segment, text, pieces))
        if _begins_whole(pieces, is_newest=len(texts) == 1):
            break
    first, text, pieces = texts[0]
    known: Standing | None = None
    if not _begins_whole(pieces, is_newest=len(texts) == 1):
        _require_own(text, state_id)
        if len(segments) == 1 and not committed(pieces) and read_file(folder, layout.HEADER_FILE) is None:
            return None
        known = Standing(header=_unknown(folder, state_id), position=0, sum=0, damage=_NO_HEADER)
    walk = Walk(first.first, known)
    for (_, _, pieces), (following, _, _) in pairwise(texts):
        walk.follow(pieces)
        walk.reach(following.first)
    segment, text, pieces = texts[-1]
    return _ended(walk, pieces, segment, 0, text)


def _ended(walk: Walk, pieces: list[Piece], newest: Segment, offset: int, text: bytes) -> Found:
    """What is found behind the lines of the newest segment."""
    count = committed(pieces)
    walk.follow(pieces[:count])
    walk.finish()
    size = pieces[count - 1].end if count else offset
    header = walk.header
    assert header is not None
    if not header.key:
        # A fence begins with the key, and is in every lease.
        header = msgspec.structs.replace(header, key=header.fence >> 20)
    standing = Standing(header=header, position=walk.next - 1, sum=walk.sum or 0, damage=walk.damage)
    ends_badly = count > 0 and text[size - offset - 1] != _LINE_END
    return Found(standing, newest, size, offset + len(text) - size, ends_badly)


def _begins_whole(pieces: list[Piece], *, is_newest: bool) -> bool:
    """Whether a segment begins with a header that was committed."""
    if not pieces or pieces[0].line is None:
        return False
    try:
        said(pieces[0].line.content, "header", Header)
    except LineDamaged:
        return False
    return not is_newest or committed(pieces) > 0


def _unknown(folder: int, state_id: str) -> Header:
    """What stands for a header that cannot be read: what was noted of it, if that can be."""
    line = read_whole_line(folder, layout.HEADER_FILE, state_id)
    if line is not None:
        with suppress(LineDamaged):
            return said(line.content, "header", Header)
    return unknown_header(state_id, os.fstat(folder).st_mtime)


def unknown_header(state_id: str, made_at_s: float) -> Header:
    """What stands for a header of which nothing is known but when its folder was made."""
    made_at = utc(int(made_at_s))
    return Header(
        state_id=state_id,
        key=0,
        status=StateStatus.INTERRUPTED,
        created_at=made_at,
        updated_at=made_at,
        version=FORMAT_VERSION,
        fence=0,
    )


class _Owner(msgspec.Struct):
    state_id: str


class _FirstLine(msgspec.Struct):
    header: _Owner


def _require_own(text: bytes, state_id: str) -> None:
    """Raise OtherState if the first line is a whole one of another state."""
    line = text[: text.find(b"\n") + 1]
    try:
        other = msgspec.json.decode(line, type=_FirstLine).header.state_id
        if other != state_id and from_line(line, other):
            raise OtherState(other)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return
