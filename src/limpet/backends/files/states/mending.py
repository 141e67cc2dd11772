"""Says what is wrong with a store as a whole, and mends what can be derived anew or is left over.

Needs the lock of the store. What is not ours is named and left alone.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from limpet.backends.contract import Flaw
from limpet.backends.files.states import layout
from limpet.backends.files.states.deleting import keep_shared, trim
from limpet.backends.files.states.forks import notes_in, remove_note, shared_last
from limpet.backends.files.states.header_lines import Header
from limpet.backends.files.states.index import Index
from limpet.backends.files.states.index_file import Broken
from limpet.backends.files.states.layout import STORE, is_state_id
from limpet.backends.files.states.mending_letters import letter_flaws
from limpet.backends.files.states.seeing import see
from limpet.backends.files.states.segments import read_segment, segments_in
from limpet.backends.files.states.small_files import read_file, read_line, remove_file
from limpet.backends.files.states.standing import OtherState, look
from limpet.backends.files.states.store import Store
from limpet.backends.files.states.store_notes import note_flaws
from limpet.backends.files.tree import open_folder
from limpet.lines import LineDamaged

_KEYS_SKIPPED = 1_000_000
_STORE_ID = re.compile(rb'"store_id":"([0-9a-f]{32})"')
_KNOWN = re.compile(
    r"format|lock|store(\.copy)?\.json|last\.json|rewriting\.json|index\.(lock|db|db-wal|db-shm|db-journal)|states|deleted|letters|notes|artifacts|tmp"
)


class Mending:
    """One examination of a store."""

    def __init__(self, store: Store, index: Index, root: int, *, repair: bool) -> None:
        self._store = store
        self._index = index
        self._root = root
        self._repair = repair
        self._headers: dict[str, Header] = {}

    def flaws(self) -> list[Flaw]:
        with (
            self._store.folder(self._root, layout.STATES) as states,
            self._store.folder(self._root, layout.DELETED) as deleted,
            self._store.folder(self._root, layout.TEMPORARY) as temporary,
        ):
            flaws = [*self._leftovers(), *self._states(states, temporary)]
            keys = {header.key for header in self._headers.values()}
            flaws += self._store_file(keys)
            # A state whose key cannot be read may be any fork.
            if 0 not in keys:
                flaws += self._notes(states, keys)
                flaws += self._notes(deleted, keys)
            flaws += self._deleted(deleted, temporary)
        flaws += letter_flaws(self._store, self._root, self._headers, repair=self._repair)
        flaws += note_flaws(self._root, repair=self._repair)
        flaws += self._small_files()
        flaws += self._rows()
        return flaws

    def _harmless(self, what: str, *, is_mended: bool | None = None) -> Flaw:
        return Flaw(what, is_harmless=True, is_mended=self._repair if is_mended is None else is_mended)

    def _leftovers(self) -> Iterator[Flaw]:
        names = self._store.clear_leftovers(self._root) if self._repair else self._store.leftovers(self._root)
        for name in names:
            yield self._harmless(f"{layout.TEMPORARY}/{name} was left by a process that died.")

    def _states(self, states: int, temporary: int) -> Iterator[Flaw]:
        for name in sorted(os.listdir(states)):
            folder = open_folder(states, name) if is_state_id(name) else None
            if folder is None:
                yield self._harmless(f"{layout.STATES}/{name} is no state, and is left alone.", is_mended=False)
                continue
            try:
                look(folder, name)
            except OtherState as error:
                yield self._harmless(
                    f"{layout.STATES}/{name} is a folder of {error}; it is left alone.", is_mended=False
                )
                continue
            except OSError:
                pass
            finally:
                os.close(folder)
            seen = see(self._store, name)
            if seen is not None:
                self._headers[name] = seen.standing.header
                continue
            if self._repair:
                self._store.discard(states, name, temporary)
            yield self._harmless(f"{layout.STATES}/{name} is left of a state that never came to be.")

    def _store_file(self, keys: set[int]) -> Iterator[Flaw]:
        """The file that says the id of the store, and its copy."""
        names = (layout.STORE_FILE, layout.STORE_COPY)
        damaged = [name for name in names if self._is_damaged(name)]
        if self._repair and damaged:
            texts = (read_file(self._root, name) or b"" for name in sorted(names, key=damaged.__contains__))
            seen = next((found for text in texts if (found := _STORE_ID.search(text))), None)
            store_id = seen[1].decode() if seen else secrets.token_hex(16)
            self._store.write(self._root, store_id, max(keys, default=0) + _KEYS_SKIPPED)
        if len(damaged) == 1:
            yield self._harmless(f"{damaged[0]} is damaged or missing; what it says stands in its copy as well.")
        elif damaged:
            yield Flaw(
                f"{layout.STORE_FILE} and its copy are damaged: no state can be created. Made anew, the store skips "
                "many keys, and may have another id.",
                is_mended=self._repair,
            )

    def _is_damaged(self, name: str) -> bool:
        try:
            return read_line(self._root, name, STORE) is None
        except LineDamaged:
            return True

    def _notes(self, parent: int, keys: set[int]) -> Iterator[Flaw]:
        for name in sorted(os.listdir(parent)):
            folder = open_folder(parent, name)
            if folder is None:
                continue
            try:
                for key, (state_id, last) in notes_in(folder).items():
                    if key not in keys:
                        if self._repair:
                            remove_note(folder, key)
                        yield self._harmless(
                            f"The state {state_id!r} that shares the records of {name!r} up to {last} is not there."
                        )
            finally:
                os.close(folder)

    def _deleted(self, deleted: int, temporary: int) -> Iterator[Flaw]:
        for name in sorted(os.listdir(deleted)):
            folder = open_folder(deleted, name) if layout.KEY.fullmatch(name) else None
            if folder is None:
                yield self._harmless(
                    f"{layout.DELETED}/{name} is no deleted state, and is left alone.", is_mended=False
                )
                continue
            try:
                state_id = _owner_of(folder)
                if not shared_last(folder):
                    if self._repair:
                        keep_shared(self._store, folder, state_id, int(name), deleted, temporary)
                    yield self._harmless(f"Nobody shares the records of the deleted state {name} any more.")
                elif self._repair and trim(folder, state_id, shared_last(folder)):
                    yield self._harmless(f"The deleted state {name} had records that nobody shares.")
            finally:
                os.close(folder)

    def _small_files(self) -> Iterator[Flaw]:
        try:
            read_line(self._root, layout.LAST_FILE, STORE)
        except LineDamaged as error:
            if self._repair:
                remove_file(self._root, layout.LAST_FILE)
            yield self._harmless(f"{layout.LAST_FILE} is damaged ({error}); nothing depends on it.")
        for name in sorted(os.listdir(self._root)):
            if not _KNOWN.fullmatch(name):
                yield self._harmless(f"{name} does not belong to the store, and is left alone.", is_mended=False)

    def _rows(self) -> Iterator[Flaw]:
        expected = {(name, header.key, header.status.value) for name, header in self._headers.items()}
        why = ""
        try:
            self._index.flush()
            rows = self._index.rows()
            # Of a row that is not sure only the key is said.
            sure = {(state_id, key, status) for state_id, key, status, is_sure in rows if is_sure}
            named = {(state_id, key) for state_id, key, _, _ in rows}
            if not sure <= expected or not {(name, key) for name, key, _ in expected} <= named:
                why = "does not say what the states are"
        except Broken:
            why = "is missing or damaged" if expected else ""
        if why:
            if self._repair:
                # The next listing makes it anew, and so does whoever repairs the store, without its lock.
                self._index.discard()
            yield self._harmless(f"The index {why}. It is derived from the folders, and is made anew.")


def _owner_of(folder: int) -> str:
    """The id that a deleted state had, as its journal says; empty where that cannot be read."""
    for segment in segments_in(folder):
        text = read_segment(folder, segment) or b""
        with suppress(msgspec.MsgspecError, LookupError, TypeError):
            return str(msgspec.json.decode(text[: text.find(b"\n") + 1])["header"]["state_id"])
    return ""
