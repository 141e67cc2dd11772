"""Says what is wrong with the files of one state. Takes no lock, and mends nothing.

A torn end is harmless, and so is whatever is derived. What is lost is named by the file, the line and the record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from limpet.backends.contract import Flaw
from limpet.backends.files.states import layout
from limpet.backends.files.states.forks import owner_folder
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.layout import Segment
from limpet.backends.files.states.letters import files_in, read_letter
from limpet.backends.files.states.pieces import Piece, committed, pieces_of
from limpet.backends.files.states.seeing import state_folder
from limpet.backends.files.states.segments import doubled_in, is_packed_badly, read_segment, segments_in
from limpet.backends.files.states.small_files import read_line
from limpet.backends.files.states.standing import OtherState, look
from limpet.backends.files.states.store import Store
from limpet.backends.files.states.walk import Oddity, Walk
from limpet.backends.files.tree import open_folder
from limpet.lines import LineDamaged, frame_of


def flaws_of_state(store: Store, root: int, state_id: str) -> list[Flaw]:
    """What is wrong with a state; nothing of one that does not exist. Raises FileNotFoundError if it is just moved."""
    with state_folder(store, state_id) as folder:
        if folder is None:
            return []
        try:
            found = look(folder, state_id)
        except OtherState:
            return []
        if found is None:
            return []
        flaws = list(_journal_flaws(folder, state_id))
        flaws += _owner_flaws(root, found.standing.header)
        flaws += _derived_flaws(folder, state_id)
        flaws += _letter_flaws(folder, state_id)
    return flaws


def _journal_flaws(folder: int, state_id: str) -> Iterator[Flaw]:
    segments = segments_in(folder)
    if not segments:
        return
    walk = Walk(segments[0].first)
    for number, segment in enumerate(segments):
        following = segments[number + 1] if number + 1 < len(segments) else None
        text = read_segment(folder, segment)
        if text is None:
            raise FileNotFoundError
        if segment.suffix and is_packed_badly(folder, segment):
            yield Flaw(f"The segment {segment.name} of state {state_id!r} cannot be unpacked to its end.")
        pieces = list(pieces_of(text, state_id))
        count = len(pieces) if following else committed(pieces)
        walk.follow(pieces[:count])
        if following is not None:
            walk.reach(following.first)
        else:
            walk.finish()
        yield from (_flaw(state_id, segment, text, oddity) for oddity in walk.oddities)
        yield from _record_flaws(state_id, segment, walk)
        yield from _torn_end(state_id, segment, pieces, count, len(text))
        walk.oddities.clear()
        walk.records.clear()


def _flaw(state_id: str, segment: Segment, text: bytes, oddity: Oddity) -> Flaw:
    if oddity.start < 0:
        what = oddity.what[0].upper() + oddity.what[1:]
        return Flaw(f"{what} in {segment.name} of state {state_id!r}.", oddity.seq)
    line = text.count(b"\n", 0, oddity.start) + 1
    which = f" (record {oddity.seq})" if oddity.seq is not None else ""
    return Flaw(
        f"Line {line} of {segment.name} of state {state_id!r}{which} is not as it was written: {oddity.what}.",
        oddity.seq,
    )


def _record_flaws(state_id: str, segment: Segment, walk: Walk) -> Iterator[Flaw]:
    for seq, content in walk.records.items():
        try:
            frame_of(content, state_id)
        except LineDamaged as error:
            yield Flaw(f"Record {seq} in {segment.name} of state {state_id!r} cannot be rebuilt: {error}.", seq)


def _torn_end(state_id: str, segment: Segment, pieces: Sequence[Piece], count: int, length: int) -> Iterator[Flaw]:
    size = pieces[count - 1].end if count else 0
    if count < len(pieces):
        yield Flaw(
            f"{segment.name} of state {state_id!r} ends with {length - size} bytes of a commit that was never "
            "finished. Nothing that was acknowledged is lost; they are cut off when the state is next written.",
            is_harmless=True,
        )


def _owner_flaws(root: int, header: Header) -> Iterator[Flaw]:
    first = 1
    for span in header.bases:
        with owner_folder(root, span) as folder:
            if folder is None:
                yield Flaw(
                    f"The records {first} to {span.last} of state {header.state_id!r} were written by "
                    f"{span.state_id!r}, whose folder is not there.",
                    first,
                )
        first = span.last + 1


def _derived_flaws(folder: int, state_id: str) -> Iterator[Flaw]:
    for name in (layout.HEADER_FILE, layout.LEASE_FILE):
        try:
            read_line(folder, name, state_id)
        except LineDamaged as error:
            yield Flaw(
                f"{name} of state {state_id!r} is damaged ({error}). It is derived from the journal, and is made anew.",
                is_harmless=True,
            )
    for name in doubled_in(folder):
        yield Flaw(f"{name} of state {state_id!r} was left by a crash, and counts for nothing.", is_harmless=True)


def _letter_flaws(folder: int, state_id: str) -> Iterator[Flaw]:
    inbox = open_folder(folder, layout.LETTERS)
    if inbox is None:
        return
    try:
        for file in files_in(inbox):
            try:
                read_letter(inbox, file, state_id)
            except LineDamaged as error:
                yield Flaw(f"Letter {file.number} of state {state_id!r} ({file.name}) cannot be read: {error}.")
    finally:
        os.close(inbox)
