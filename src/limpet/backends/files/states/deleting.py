"""Deletes states. What others share of one stays, under its key, until the last of them is deleted as well.

A folder vanishes in one step, by being moved; only then is anything in it removed. So whoever reads finds it whole, or
sees that it is no longer there.
"""

from __future__ import annotations

import os

from limpet.backends.files.states import layout
from limpet.backends.files.states.forks import owner_folder, remove_note, shared_last
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.journal import Journal
from limpet.backends.files.states.layout import Segment, segment_name
from limpet.backends.files.states.letters import letters_going
from limpet.backends.files.states.pieces import pieces_of
from limpet.backends.files.states.segments import read_segment, segments_in
from limpet.backends.files.states.small_files import remove_file, replace_file
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.errors import StateCorrupted


def delete(store: Store, root: int, journal: Journal) -> None:
    """Delete a state whose lock is held, as is that of the store."""
    header = journal.standing.header
    with (
        store.folder(root, layout.STATES) as states,
        store.folder(root, layout.DELETED) as deleted,
        store.folder(root, layout.TEMPORARY) as temporary,
    ):
        last = shared_last(journal.folder)
        if last and not header.key:
            raise StateCorrupted(header.state_id, 0, "others share its records, and the key they know it by is lost")
        # Whoever has it open must see that it is gone, also where its files stay.
        journal.moved()
        with letters_going(store, root, journal.folder, header.state_id):
            if last:
                os.rename(header.state_id, str(header.key), src_dir_fd=states, dst_dir_fd=deleted)
                if store.is_synced:
                    os.fsync(deleted)
                    os.fsync(states)
            else:
                store.discard(states, header.state_id, temporary)
        if last:
            for name in (layout.HEADER_FILE, layout.LEASE_FILE, layout.WISH_FILE):
                remove_file(journal.folder, name)
            trim(journal.folder, header.state_id, last)
        give_up_shares(store, root, header, deleted, temporary)


def give_up_shares(store: Store, root: int, header: Header, deleted: int, temporary: int) -> None:
    """Remove the notes of a state that is gone, and what only it still shared of deleted ones."""
    for span in header.bases:
        with owner_folder(root, span) as folder:
            if folder is None:
                continue
            remove_note(folder, header.key)
            if _is_deleted(folder, deleted, span.key):
                keep_shared(store, folder, span.state_id, span.key, deleted, temporary)


def keep_shared(store: Store, folder: int, state_id: str, key: int, deleted: int, temporary: int) -> None:
    """Keep of a deleted state what is still shared, or nothing of it."""
    last = shared_last(folder)
    if last:
        trim(folder, state_id, last)
    else:
        store.discard(deleted, str(key), temporary)


def trim(folder: int, state_id: str, last: int) -> bool:
    """Remove the records behind a number from the folder of a deleted state; False if there are none."""
    is_changed = False
    for segment in reversed(segments_in(folder)):
        if segment.first > last:
            remove_file(folder, segment.name)
            is_changed = True
        else:
            return _cut_behind(folder, segment, state_id, last) or is_changed
    return is_changed


def length_up_to(folder: int, segment: Segment, state_id: str, last: int) -> int | None:
    """How long a segment is when it is cut behind a record; None where nothing stands behind it."""
    text = read_segment(folder, segment) or b""
    end = _end_of(text, state_id, last)
    return None if end >= len(text) else end


def _cut_behind(folder: int, segment: Segment, state_id: str, last: int) -> bool:
    text = read_segment(folder, segment) or b""
    end = _end_of(text, state_id, last)
    if end >= len(text):
        return False
    replace_file(folder, segment_name(segment.first), text[:end], is_synced=False)
    if segment.suffix:
        remove_file(folder, segment.name)
    return True


def _end_of(text: bytes, state_id: str, last: int) -> int:
    """Where the line of a record ends; the whole length if it is not found, since damage must not cost more records."""
    end = len(text)
    for piece in pieces_of(text, state_id):
        if piece.line is not None:
            seq = piece.line.content.get("seq", 0)
            if isinstance(seq, int) and seq > last:
                return min(end, piece.start)
            if seq == last:
                end = piece.end
    return end


def _is_deleted(folder: int, deleted: int, key: int) -> bool:
    there = open_folder(deleted, str(key))
    if there is None:
        return False
    try:
        return os.fstat(there).st_ino == os.fstat(folder).st_ino
    finally:
        os.close(there)
