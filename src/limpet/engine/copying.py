"""Copying states from one store to another, while others may write to either.

A state is copied as it stood at one moment: its header is read first, and then the records up to the position that it
tells. What comes later is left for the next time, which costs only what is new. No state hinders another: what cannot
be copied is reported. What concerns a store as a whole is raised, and the copy can simply be begun again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend, bases_of_fork
from limpet.engine.arriving import Arrivals, Brought, Original, Way, without_gaps
from limpet.engine.progress import Told
from limpet.engine.reading import Frames
from limpet.errors import (
    ArtifactMissing,
    BackendUnavailable,
    LimpetError,
    NotAStore,
    StoreDamaged,
    StoreNotWritable,
    UnknownState,
)
from limpet.model import Content, Letter, StateHeader, checked_state_id
from limpet.model.moving import Copied
from limpet.model.origin import Arrival

_ALL = 1 << 62

_OF_THE_WHOLE_STORE = (BackendUnavailable, NotAStore, StoreDamaged, StoreNotWritable)


class Copying:
    """One copy from a store to another. With ``verifies`` each state is read back where it arrived."""

    def __init__(
        self,
        source: tuple[StateBackend, StoredValues],
        target: tuple[StateBackend, StoredValues],
        *,
        verifies: bool = False,
    ) -> None:
        self._backend, self._stored = source
        backend, stored = target
        how = Arrival.BACKUP if verifies else Arrival.COPY
        self._arrivals = Arrivals(backend, stored.artifacts, how, self._backend.name)
        self._verifies = verifies
        self._named: set[str] = set()
        """The states that were asked for by their ids."""
        self._waiting: dict[str, None] = {}
        """The states that are yet to be copied, in order."""
        self._brought: dict[str, Brought] = {}
        self._refused: dict[str, str] = {}

    def copy_one(self, state_id: str) -> Copied:
        """Copy one state. Raises why it cannot be copied."""
        self._brought[state_id] = self._bring(state_id)
        return self._report()

    def copy(self, state_ids: Iterable[str] | None, on_progress: Told | None) -> Copied:
        """Copy the states named, or all of them."""
        # The oldest first: a fork is younger than what it shares, and older than a state that took a deleted one's id.
        listed = (header.state_id for header in reversed(self._backend.list_states(limit=_ALL)))
        named = () if state_ids is None else tuple(map(checked_state_id, state_ids))
        self._named = set(named)
        waiting = [state_id for state_id in listed if state_ids is None or state_id in self._named]
        self._waiting = dict.fromkeys((*waiting, *named))
        total, done = len(self._waiting), 0
        while self._waiting:
            for state_id in self._copy_next(next(iter(self._waiting))):
                done += 1
                if on_progress is not None:
                    on_progress(done, total, state_id)
        return self._report()

    def _copy_next(self, state_id: str) -> list[str]:
        """Copy a state, after those whose records it shares if they wait, too. Gives the ids of all of them."""
        family: list[str] = []
        following: str | None = state_id
        while following is not None:
            family.append(following)
            self._waiting.pop(following, None)
            following = self._waiting_owner(following)
        for each in reversed(family):
            try:
                self._brought[each] = self._bring(each)
            except _OF_THE_WHOLE_STORE:
                raise
            except LimpetError as error:
                # What was deleted since it was listed is not there to be copied, and nobody has asked for it.
                if each in self._named or not isinstance(error, UnknownState):
                    self._refused[each] = str(error)
        return family[::-1]

    def _waiting_owner(self, state_id: str) -> str | None:
        """The state whose records this one shares, if it waits to be copied. Clocks may have put it behind its fork."""
        header = self._backend.find_state(state_id)
        if header is None or not header.bases or header.bases[-1].state_id not in self._waiting:
            return None
        owner, last = header.bases[-1].state_id, header.bases[-1].last
        parent = self._backend.find_state(owner)
        if parent is None or bases_of_fork(parent, last) != header.bases:
            return None
        # Another state may have taken the id since.
        is_same = self._backend.read(owner, last - 1, 1) == self._backend.read(state_id, last - 1, 1)
        return owner if is_same else None

    def _bring(self, state_id: str) -> Brought:
        brought = self._arrivals.bring(original_in(self._backend, self._stored, state_id))
        if self._verifies and brought.way is not Way.UNCHANGED:
            self._arrivals.verify(state_id, brought.named, self._stored)
        return brought

    def _report(self) -> Copied:
        ways: dict[Way, list[str]] = {way: [] for way in Way}
        for state_id, brought in self._brought.items():
            ways[brought.way].append(state_id)
        return Copied(
            copied=ways[Way.COPIED],
            updated=ways[Way.UPDATED],
            unchanged=ways[Way.UNCHANGED],
            refused=self._refused,
            records=sum(brought.records for brought in self._brought.values()),
            artifacts=sum(brought.artifacts for brought in self._brought.values()),
            bytes=sum(brought.size for brought in self._brought.values()),
        )


def original_in(backend: StateBackend, stored: StoredValues, state_id: str) -> Original:
    """A state of a store, as it stands now. Raises UnknownState."""
    header = backend.find_state(state_id)
    if header is None:
        raise UnknownState(state_id)

    def content(artifact_id: str) -> Content:
        info = None if stored.artifacts is None else stored.artifacts.find(artifact_id)
        if info is None:
            raise ArtifactMissing(backend.name if stored.artifacts is None else stored.artifacts.name, artifact_id)
        return Content(info.size, lambda: stored.stored_content(artifact_id), f"The artifact {artifact_id}")

    def letters() -> Sequence[Letter]:
        found = backend.letters(state_id)
        _require_same(backend, header)
        return found

    return Original(header, lambda after: _read(backend, header, after), content, stored, letters)


def _read(backend: StateBackend, header: StateHeader, after: int) -> Frames:
    """The records of a state up to the position of its header. Raises UnknownState where it is gone since."""
    read = backend.read(header.state_id, after, header.position - after) if after < header.position else []
    _require_same(backend, header)
    return without_gaps(read, after)


def _require_same(backend: StateBackend, header: StateHeader) -> None:
    """Raises UnknownState where a state is gone since its header was read, or another one has its id."""
    now = backend.find_state(header.state_id)
    # A state of the same id may have been made in the place of a deleted one.
    if now is None or (now.created_at, now.bases) != (header.created_at, header.bases):
        raise UnknownState(header.state_id)
