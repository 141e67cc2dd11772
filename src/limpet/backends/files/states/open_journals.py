"""The journals that a backend has open for writing, and the locks of their states. Opens, bounds and forgets them.

A journal that nobody else has written since is used as it is; any other one is looked at anew. Used under the lock of
the backend, by one thread at a time.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager, suppress

from limpet.backends.files.states import layout
from limpet.backends.files.states.journal import Journal, Rules
from limpet.backends.files.states.reading import is_rewriting
from limpet.backends.files.states.standing import Found, OtherState, look
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import FILE_MODE, open_folder, wait_for_lock
from limpet.errors import StoreReplaced

_MOST_OPEN = 100
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Rewriting(Exception):
    """Records are being rewritten: that has to be finished first, and needs the lock of the store."""


class _Moved(Exception):
    """What was opened is no longer where it was."""


class OpenJournals:
    """By the ids of their states, the one that was used last behind the others."""

    def __init__(self, store: Store, rules: Rules) -> None:
        self._store = store
        self._rules = rules
        self._open: OrderedDict[str, Journal] = OrderedDict()
        self._states = os.path.join(store.tree.path, layout.STATES)
        self._torn_away: set[str] = set()
        """The states whose files were deleted or replaced by somebody else. They have to be claimed anew."""

    @contextmanager
    def locked(self, state_ids: Iterable[str]) -> Generator[dict[str, Journal]]:
        """The journals of the states that exist, each locked. In one order for all, so that nobody waits in a circle.

        More may be put into what is given; they are unlocked with the others. An error undoes what was not settled.
        Raises Rewriting.
        """
        journals: dict[str, Journal] = {}
        try:
            for state_id in sorted(set(state_ids)):
                journal = self._enter(state_id)
                if journal is not None:
                    journals[state_id] = journal
            yield journals
        except BaseException:
            for journal in journals.values():
                journal.undo()
            raise
        finally:
            for journal in journals.values():
                journal.unlock()
            for state_id, journal in journals.items():
                self._keep(state_id, journal)

    def require_in_place(self, journals: Mapping[str, Journal]) -> None:
        """Raises StoreReplaced where a journal was moved away or replaced while it was open, now or before."""
        for state_id, journal in journals.items():
            if not journal.stands_in(self._states):
                self._torn_away.add(state_id)
                journal.forget()
        self.require_whole(journals)

    def require_whole(self, state_ids: Iterable[str]) -> None:
        """Raises StoreReplaced where files of these states were found to be deleted or replaced."""
        if not self._torn_away.isdisjoint(state_ids):
            state_id = min(self._torn_away.intersection(state_ids))
            why = f"the journal of state {state_id!r} in {self._states}/{state_id} was deleted, moved or replaced"
            raise StoreReplaced(self._store.name, why)

    def take_anew(self, state_ids: Iterable[str]) -> None:
        """Whoever claims these states goes on from what is there now."""
        self._torn_away.difference_update(state_ids)

    def forget(self, state_id: str) -> None:
        journal = self._open.pop(state_id, None)
        if journal is not None:
            journal.close()

    def close(self) -> None:
        """Forget all of them: in a forked child as well, which has the same handles, and would share the locks."""
        for state_id in list(self._open):
            self.forget(state_id)

    def _enter(self, state_id: str) -> Journal | None:
        if state_id in self._torn_away:
            self.forget(state_id)
        journal = self._open.get(state_id)
        if journal is not None:
            self._lock(journal.lock)
            if journal.is_as_left():
                return journal
            if journal.is_torn_away():
                self._torn_away.add(state_id)
            self.forget(state_id)
        return self._opened(state_id)

    def _opened(self, state_id: str) -> Journal | None:
        """The journal of a state, opened and locked; None if there is none."""
        with self._store.tree.opened() as root:
            states = None if root is None else open_folder(root, layout.STATES)
            if root is None or states is None:
                return None
            try:
                while (folder := open_folder(states, state_id)) is not None:
                    with suppress(_Moved):
                        return self._entered(folder, root, states, state_id)
            finally:
                os.close(states)
        return None

    def _entered(self, folder: int, root: int, states: int, state_id: str) -> Journal | None:
        """The journal in a folder, whose handle is given over. Raises _Moved if the state has another folder now."""
        lock = -1
        try:
            lock = os.open(layout.LOCK_FILE, _LOCK, FILE_MODE, dir_fd=folder)
            self._lock(lock)
            if not _is_same(folder, states, state_id) or not os.fstat(lock).st_nlink:
                raise _Moved
            if is_rewriting(root):
                raise Rewriting
            found = _looked(folder, state_id)
            if found is None:
                return None
            journal = Journal(folder, lock, found, self._rules)
            folder = lock = -1
            self._open[state_id] = _ready(journal, found)
            return journal
        finally:
            for handle in (lock, folder):
                if handle >= 0:
                    os.close(handle)

    def _lock(self, handle: int) -> None:
        wait_for_lock(handle, self._store.lock_timeout_s, self._store.name)

    def _keep(self, state_id: str, journal: Journal) -> None:
        if journal.folder < 0:
            self._open.pop(state_id, None)
            return
        self._open[state_id] = journal
        self._open.move_to_end(state_id)
        while len(self._open) > _MOST_OPEN:
            _, oldest = self._open.popitem(last=False)
            oldest.close()


def _looked(folder: int, state_id: str) -> Found | None:
    try:
        return look(folder, state_id)
    except OtherState:
        return None


def _ready(journal: Journal, found: Found) -> Journal:
    try:
        journal.open_segment(found)
    except BaseException:
        journal.close()
        raise
    return journal


def _is_same(folder: int, states: int, state_id: str) -> bool:
    try:
        there = os.stat(state_id, dir_fd=states, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return there.st_ino == os.fstat(folder).st_ino
