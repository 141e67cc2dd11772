"""What somebody asks of the holder of a state: ``wish.json`` in its folder, for the lease with one fence.

Written and removed under the lock of the state, and read without any. Nothing depends on it: what cannot be read, for
whatever reason, is no wish.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.small_files import read_whole_line, remove_file, replace_line
from limpet.backends.files.tree import open_folder
from limpet.model import Lease


def note_wish(folder: int, header: Header, wish: str) -> None:
    """Leave a wish for the lease that stands, in the place of an earlier one."""
    content = {"fence": header.fence, "wish": wish}
    # In one step, as it is read without a lock. Not synced: after the death of the machine there is no holder to ask.
    replace_line(folder, layout.WISH_FILE, content, header.state_id, is_synced=False)


def drop_wish(folder: int, before: Header, after: Header) -> None:
    """Remove the wish if the lease that it was left for has ended with a change of the header."""
    if (before.fence, before.holder) != (after.fence, after.holder):
        remove_file(folder, layout.WISH_FILE)


def wishes_for(root: int, leases: Sequence[Lease]) -> list[str | None]:
    """The wish for each lease, by one look into its folder."""
    states = open_folder(root, layout.STATES)
    if states is None:
        return [None] * len(leases)
    try:
        return [_wish_for(states, lease) for lease in leases]
    finally:
        os.close(states)


def _wish_for(states: int, lease: Lease) -> str | None:
    # One that cannot be read, or is being moved, keeps nobody from the others.
    with suppress(OSError):
        if is_state_id(lease.state_id):
            # Almost always there is none, and this is all. Only what is opened folder by folder follows no link.
            os.stat(f"{lease.state_id}/{layout.WISH_FILE}", dir_fd=states, follow_symlinks=False)
            return _read(states, lease)
    return None


def _read(states: int, lease: Lease) -> str | None:
    folder = open_folder(states, lease.state_id)
    if folder is None:
        return None
    try:
        line = read_whole_line(folder, layout.WISH_FILE, lease.state_id)
    finally:
        os.close(folder)
    if line is None or line.content.get("fence") != lease.fence:
        return None
    wish = line.content.get("wish")
    return wish if isinstance(wish, str) else None
