"""How much room states take on the disk: the lengths of their files. Takes no lock, and changes nothing.

The note of a fork in another folder belongs to the fork, as it goes with it. A lock does not count: what it grows by is
a hole, which takes no room.
"""

from __future__ import annotations

import os
from stat import S_ISREG

from limpet.backends.files.states import layout
from limpet.backends.files.states.deleting import length_up_to
from limpet.backends.files.states.forks import owner_folder
from limpet.backends.files.states.header_lines import Header, Span
from limpet.backends.files.states.seeing import state_folder
from limpet.backends.files.states.segments import segments_in
from limpet.backends.files.states.standing import OtherState, look
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.model import Room, SharedRoom


class Measuring:
    """Measures states. What forks keep of others is looked at once, however many of them share it."""

    def __init__(self, store: Store, root: int) -> None:
        self._store = store
        self._root = root
        self._kept: dict[tuple[int, int], int] = {}

    def room_of(self, state_id: str) -> Room | None:
        """None where there is no such state. Raises FileNotFoundError if it is just moved."""
        with state_folder(self._store, state_id) as folder:
            if folder is None:
                return None
            try:
                found = look(folder, state_id)
            except OtherState:
                return None
            if found is None:
                return None
            size = sum(_length(folder, name) for name in os.listdir(folder) if name != layout.LOCK_FILE)
            size += _letters_in(folder)
        header = found.standing.header
        shared = tuple(SharedRoom(str(span.key), span.last, self._kept_of(span)) for span in header.bases)
        # Where its key is lost, nobody can share its records under it.
        return Room(str(header.key or state_id), size + self._notes_of(header), shared)

    def _kept_of(self, span: Span) -> int:
        """The length of what stays of a deleted state for a fork: some of its segments."""
        place = span.key, span.last
        if place not in self._kept:
            with owner_folder(self._root, span) as folder:
                self._kept[place] = 0 if folder is None else _kept_in(folder, span)
        return self._kept[place]

    def _notes_of(self, header: Header) -> int:
        size = 0
        for span in header.bases:
            with owner_folder(self._root, span) as folder:
                if folder is not None:
                    size += _length(folder, os.path.join(layout.FORKS, str(header.key)))
        return size


def _kept_in(folder: int, span: Span) -> int:
    size = 0
    segments = [segment for segment in segments_in(folder) if segment.first <= span.last]
    for segment in segments[:-1]:
        size += _length(folder, segment.name)
    if segments:
        cut = length_up_to(folder, segments[-1], span.state_id, span.last)
        size += _length(folder, segments[-1].name) if cut is None else cut
    return size


def _letters_in(folder: int) -> int:
    letters = open_folder(folder, layout.LETTERS)
    if letters is None:
        return 0
    try:
        return sum(_length(letters, name) for name in os.listdir(letters))
    finally:
        os.close(letters)


def _length(folder: int, name: str) -> int:
    """How long a file is; 0 for anything else."""
    try:
        seen = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return 0
    return seen.st_size if S_ISREG(seen.st_mode) else 0
