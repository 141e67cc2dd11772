"""The notes of a store: small texts that belong to it as a whole, each in a file of its own.

Written under the lock of the store, and read without any. Names become hashes, never paths. A note that is damaged
counts as none, and the next one takes its place.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from limpet.backends.contract import Flaw
from limpet.backends.files.states import layout
from limpet.backends.files.states.layout import STORE
from limpet.backends.files.states.small_files import read_line, read_whole_line, remove_file, replace_line
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.lines import LineDamaged


def read_note(root: int, name: str) -> str | None:
    """The note of a name; None if it is missing or damaged."""
    folder = open_folder(root, layout.NOTES)
    if folder is None:
        return None
    try:
        line = read_whole_line(folder, layout.note_file(name), STORE)
    finally:
        os.close(folder)
    if line is None or line.content.get("name") != name:
        return None
    body = line.content.get("body")
    return body if isinstance(body, str) else None


def write_note(store: Store, root: int, name: str, body: str) -> None:
    """Put a note in the place of the one that has this name. Needs the lock of the store."""
    # A folder without an id is one that was damaged, or is just being made.
    store.begin(root)
    with store.folder(root, layout.NOTES) as folder:
        content = {"name": name, "body": body}
        replace_line(folder, layout.note_file(name), content, STORE, is_synced=store.is_synced)


def note_flaws(root: int, *, repair: bool) -> Iterator[Flaw]:
    """Which notes are damaged; with ``repair`` these are removed. Needs the lock of the store."""
    folder = open_folder(root, layout.NOTES)
    if folder is None:
        return
    try:
        for file in sorted(filter(layout.is_note_file, os.listdir(folder))):
            try:
                read_line(folder, file, STORE)
            except LineDamaged as error:
                if repair:
                    remove_file(folder, file)
                yield Flaw(
                    f"The note {layout.NOTES}/{file} is damaged ({error}), and counts as none.", is_mended=repair
                )
    finally:
        os.close(folder)
