"""Says where the letters of a store and their notices do not fit each other, and makes the notices anew."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from limpet.backends.contract import Flaw
from limpet.backends.files.states import layout
from limpet.backends.files.states.letters import files_in
from limpet.backends.files.states.notices import Notice, Notices
from limpet.backends.files.states.seeing import state_folder
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder


def letter_flaws(store: Store, root: int, state_ids: Iterable[str], *, repair: bool) -> list[Flaw]:
    """What is wrong with the notices, by the letters of these states. Needs the lock of the store."""
    inboxes = [state_id for state_id in state_ids if _letters_of(store, state_id) is not None]
    if not inboxes and layout.LETTERS not in os.listdir(root):
        return []
    with Notices.locked(store, root) as notices:
        there = {notice for state_id in inboxes for notice in _letters_of(store, state_id) or ()}
        return list(_flaws(notices, there, set(notices.all()), repair=repair))


def _flaws(notices: Notices, there: set[Notice], noted: set[Notice], *, repair: bool) -> Iterator[Flaw]:
    for notice in sorted(noted - there):
        if repair:
            notices.remove(notice)
        what = f"The notice {notice.name} is of a letter that is not there."
        yield Flaw(what, is_harmless=True, is_mended=repair)
    for notice in sorted(there - noted):
        if repair:
            notices.add(notice)
        what = f"Letter {notice.number} of state {notice.state_id!r} has no notice: whoever waits for it is not told."
        yield Flaw(what, is_mended=repair)


def _letters_of(store: Store, state_id: str) -> list[Notice] | None:
    """The notices that belong to the letters of a state; None if it has no inbox."""
    with state_folder(store, state_id) as folder:
        inbox = None if folder is None else open_folder(folder, layout.LETTERS)
        if inbox is None:
            return None
        try:
            return [Notice(file.number, file.digest, state_id) for file in files_in(inbox)]
        finally:
            os.close(inbox)
