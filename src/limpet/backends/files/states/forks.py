"""Who shares whose records: the notes of forks in the folders of those that wrote the records, and these folders.

A note is a file named after the key of the fork that says up to which number it shares. It stands before the fork does
and goes after it, so it may be there in vain after a crash, but is never missing.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Header, Span, said
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.pieces import pieces_of
from limpet.backends.files.states.segments import read_segment, segments_in
from limpet.backends.files.states.small_files import read_whole_line, remove_file, replace_line
from limpet.backends.files.tree import open_folder
from limpet.lines import LineDamaged


@contextmanager
def owner_folder(root: int, span: Span) -> Generator[int | None]:
    """The folder of the state that wrote the records of a span, whether it is deleted or not; None if it is gone."""
    handle = _open_owner(root, span)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def key_in(folder: int, state_id: str) -> int | None:
    """The key of the state whose folder this is; None where that cannot be read."""
    noted = read_whole_line(folder, layout.HEADER_FILE, state_id)
    if noted is not None:
        with suppress(LineDamaged):
            return said(noted.content, "header", Header).key
    for segment in segments_in(folder):
        # Every segment begins with the whole header.
        for piece in pieces_of(read_segment(folder, segment) or b"", state_id):
            if piece.line is not None and "header" in piece.line.content:
                with suppress(LineDamaged):
                    return said(piece.line.content, "header", Header).key
            break
    return None


def add_note(folder: int, key: int, state_id: str, last: int, *, is_synced: bool) -> None:
    forks = open_folder(folder, layout.FORKS, make=True)
    assert forks is not None
    try:
        replace_line(forks, str(key), {"state_id": state_id, "last": last}, layout.STORE, is_synced=is_synced)
    finally:
        os.close(forks)
    if is_synced:
        os.fsync(folder)


def remove_note(folder: int, key: int) -> None:
    forks = open_folder(folder, layout.FORKS)
    if forks is not None:
        try:
            remove_file(forks, str(key))
        finally:
            os.close(forks)


def notes_in(folder: int) -> dict[int, tuple[str, int]]:
    """By the keys of forks, their ids and up to which number they share; of a damaged note, everything."""
    forks = open_folder(folder, layout.FORKS)
    if forks is None:
        return {}
    try:
        return {int(name): _note(forks, name) for name in os.listdir(forks) if layout.KEY.fullmatch(name)}
    finally:
        os.close(forks)


def is_standing(root: int, state_id: str, key: int) -> bool:
    """Whether a fork that a note tells of is there; a note that cannot be read is not taken to be in vain."""
    if not is_state_id(state_id):
        return True
    handle = _open_inside(root, layout.STATES, state_id)
    if handle is None:
        return False
    try:
        return key_in(handle, state_id) in (key, None)
    finally:
        os.close(handle)


def shared_last(folder: int) -> int:
    """Up to which number records of a folder are shared by others; 0 if none is."""
    return max((last for _, last in notes_in(folder).values()), default=0)


def spans_up_to(header: Header, position: int, last: int) -> tuple[Span, ...]:
    """What a fork of a state shares up to a number, which has to be there. The order is that of ``bases_of_fork``."""
    spans: list[Span] = []
    reached = 0
    for span in (*header.bases, Span(header.state_id, header.key, position)):
        if reached >= last:
            break
        spans.append(Span(span.state_id, span.key, min(span.last, last)))
        reached = span.last
    return tuple(spans)


def note_fork(root: int, spans: Iterable[Span], key: int, state_id: str, *, is_synced: bool) -> bool:
    """Write the notes of a fork that is about to be created; False if one of the owners is not there."""
    for span in spans:
        with owner_folder(root, span) as folder:
            if folder is None:
                return False
            add_note(folder, key, state_id, span.last, is_synced=is_synced)
    return True


def _note(forks: int, name: str) -> tuple[str, int]:
    line = read_whole_line(forks, name, layout.STORE)
    with suppress(LineDamaged):
        if line is not None:
            return said(line.content, "state_id", str), said(line.content, "last", int)
    return "", 10**18


def _open_owner(root: int, span: Span) -> int | None:
    if is_state_id(span.state_id):
        handle = _open_inside(root, layout.STATES, span.state_id)
        if handle is not None:
            if key_in(handle, span.state_id) == span.key:
                return handle
            os.close(handle)
    return _open_inside(root, layout.DELETED, str(span.key))


def _open_inside(root: int, parent: str, name: str) -> int | None:
    handle = open_folder(root, parent)
    if handle is None:
        return None
    try:
        return open_folder(handle, name)
    finally:
        os.close(handle)
