"""Lists states by the index, and makes it anew where it is broken. What a state is like is read from its folder.

Where there is no room for the index, all folders are looked at instead.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from limpet.backends.files.faults import translating
from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.index import LAST, Index, Place, Wanted
from limpet.backends.files.states.index_file import Broken
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.seeing import Seen, see, seen_for_sure
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import FILE_MODE, open_folder, wait_for_lock
from limpet.errors import StoreFull
from limpet.model import StateHeader

_TRIES = 5
_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Listing:
    """The verb ``list_states``. Takes the lock of the store only where the index has to be mended."""

    def __init__(self, store: Store, index: Index) -> None:
        self._store = store
        self._index = index

    def list(self, wanted: Wanted, limit: int, now: float, before: StateHeader | None = None) -> list[StateHeader]:
        if limit <= 0 or not self._has_states():
            return []
        end = LAST if before is None else self._place_of(before)
        found = self._by_index(wanted, end, limit)
        if found is None:
            found = self._by_folders(wanted, end, limit)
        return [seen.header_at(now) for seen in found]

    def make_index(self) -> None:
        """Make the index anew from the folders, unless that has just been done. Raises Broken.

        It may take long, and so has a lock of its own: that of the store is only taken for the moment in which it is
        begun.
        """
        with self._store.tree.made() as root:
            lock = os.open(layout.INDEX_LOCK, _LOCK, FILE_MODE, dir_fd=root)
            try:
                wait_for_lock(lock, self._store.lock_timeout_s, self._store.name)
                if self._index.is_broken():
                    with self._store.changing():
                        self._index.begin()
                    self._index.fill(self._all_headers(root))
            finally:
                os.close(lock)

    def settle_unsure(self) -> list[Seen]:
        """Look at the states whose rows are not sure, and give those that are being written. Raises Broken."""
        unsettled: list[Seen] = []
        for state_id in self._index.unsure():
            with seen_for_sure(self._store, state_id) as certain:
                if certain is not None:
                    self._index.settle(certain.standing.header)
            seen = None if certain is not None else see(self._store, state_id)
            if seen is not None:
                unsettled.append(seen)
            elif certain is None:
                self._forget_missing(state_id)
        return unsettled

    def _by_index(self, wanted: Wanted, end: Place, limit: int) -> list[Seen] | None:
        """None where the index cannot be used, nor made anew: on a full disk it cannot even be read."""
        for _ in range(_TRIES):
            try:
                with translating(self._store.name):
                    if self._index.is_broken():
                        self.make_index()
                    return self._found(wanted, end, limit)
            except Broken:
                self._index.discard()
            except StoreFull:
                break
        return None

    def _by_folders(self, wanted: Wanted, end: Place, limit: int) -> list[Seen]:
        """The same by a look at every state, which takes long but needs nothing else."""
        with self._store.tree.opened() as root:
            ids = [] if root is None else state_ids(root)
        seen = (see(self._store, state_id) for state_id in ids)
        found = [each for each in seen if each is not None and wanted.fits(each.standing.header)]
        return _newest(found, end, limit)

    def _found(self, wanted: Wanted, end: Place, limit: int) -> list[Seen]:
        self._index.flush()
        found = [seen for seen in self.settle_unsure() if wanted.fits(seen.standing.header)]
        sure = 0
        for _, key, state_id in self._index.candidates(wanted, end):
            seen = see(self._store, state_id)
            if seen is None:
                self._index.forget_stale(state_id, key)
            elif wanted.fits(seen.standing.header):
                found.append(seen)
                sure += 1
                if sure >= limit:
                    break
        return _newest(found, end, limit)

    def _place_of(self, header: StateHeader) -> Place:
        """Where a state stands in a listing; behind no other of its moment where it is gone."""
        created_at = header.created_at.timestamp()
        seen = see(self._store, header.state_id)
        place = LAST if seen is None else _place(seen)
        return place if place[0] == created_at else (created_at, LAST[1])

    def _forget_missing(self, state_id: str) -> None:
        """Under the lock of the store: it may be a state that is just being created."""
        with self._store.changing():
            if see(self._store, state_id) is None:
                self._index.forget(state_id)

    def _all_headers(self, root: int) -> Iterator[tuple[Header, bool]]:
        """What is to stand in the index of each state, and whether that is sure."""
        for state_id in state_ids(root):
            with seen_for_sure(self._store, state_id) as certain:
                if certain is not None:
                    yield certain.standing.header, True
                    continue
            seen = see(self._store, state_id)
            if seen is not None:
                yield seen.standing.header, False

    def _has_states(self) -> bool:
        with self._store.tree.opened() as root:
            states = None if root is None else open_folder(root, layout.STATES)
            if states is not None:
                os.close(states)
            return states is not None


def state_ids(root: int) -> list[str]:
    """The states that have a folder."""
    states = open_folder(root, layout.STATES)
    if states is None:
        return []
    try:
        return [name for name in os.listdir(states) if is_state_id(name)]
    finally:
        os.close(states)


def _newest(found: list[Seen], end: Place, limit: int) -> list[Seen]:
    return sorted((seen for seen in found if _place(seen) < end), key=_place, reverse=True)[:limit]


def _place(seen: Seen) -> Place:
    header = seen.standing.header
    return header.created_at.timestamp(), header.key
