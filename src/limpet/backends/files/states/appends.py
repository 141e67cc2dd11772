"""Makes appends: plans them by what stands, tells the index, writes all of them, and then waits for the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from limpet.backends.contract import Append
from limpet.backends.files.states.appending import Addition, addition_of
from limpet.backends.files.states.header_lines import Header, Standing
from limpet.backends.files.states.index import Index
from limpet.backends.files.states.journal import Journal
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.open_journals import OpenJournals
from limpet.backends.files.states.store import Store
from limpet.errors import BackendError, LeaseLost
from limpet.model import StateStatus

_FINISHED = frozenset({StateStatus.COMPLETED, StateStatus.FAILED, StateStatus.INTERRUPTED})


class Appends:
    """The verb ``append``. Used under the lock of the backend."""

    def __init__(
        self,
        store: Store,
        journals: OpenJournals,
        index: Index,
        read: Callable[[str, int, int | None], list[tuple[int, bytes]]],
    ) -> None:
        self._store = store
        self._journals = journals
        self._index = index
        self._read = read

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        ids = {append.lease.state_id for append in appends if is_state_id(append.lease.state_id)}
        with self._journals.locked(ids) as journals:
            self._journals.require_whole(ids)
            answers, additions = self._planned(appends, journals)
            changed = {journal.state_id for journal, addition in additions if addition.is_change}
            listed: dict[str, Header] = {}
            for journal, addition in additions:
                if addition.is_listed_otherwise:
                    listed[journal.state_id] = addition.standing.header
            if listed:
                # What a state is listed by stands in the index before it stands in the journal.
                self._index.expect(list(listed.values()))
            for journal, addition in additions:
                journal.write(addition.contents, addition.standing)
            for journal in journals.values():
                journal.sync()
            self._journals.require_in_place(journals)
            for state_id, journal in journals.items():
                journal.settle(note=state_id in changed)
        if listed:
            self._follow(listed)
        return answers

    def _planned(
        self, appends: Sequence[Append], journals: dict[str, Journal]
    ) -> tuple[list[BackendError | None], list[tuple[Journal, Addition]]]:
        """The answers, and what is to be written where. Each append sees those before it."""
        answers: list[BackendError | None] = []
        additions: list[tuple[Journal, Addition]] = []
        standings: dict[str, Standing] = {}
        planned: dict[str, dict[int, bytes]] = {}
        for append in appends:
            state_id = append.lease.state_id
            journal = journals.get(state_id)
            if journal is None:
                answers.append(LeaseLost(state_id, append.lease.fence))
                continue
            standing = standings.get(state_id, journal.standing)
            bodies = planned.setdefault(state_id, {})
            added = addition_of(append, standing, partial(self._standing, state_id, bodies))
            if isinstance(added, BackendError):
                answers.append(added)
                continue
            answers.append(None)
            additions.append((journal, added))
            standings[state_id] = added.standing
            bodies.update(enumerate(append.bodies, append.first_seq))
        return answers, additions

    def _standing(self, state_id: str, planned: dict[int, bytes], after: int, count: int) -> list[tuple[int, bytes]]:
        """What stands at some positions, or is about to."""
        found = dict(self._read(state_id, after, count))
        return sorted({**{seq: body for seq, body in planned.items() if after < seq <= after + count}, **found}.items())

    def _follow(self, listed: dict[str, Header]) -> None:
        """What is derived from a change that is committed."""
        self._index.confirm(listed)
        finished = [header for header in listed.values() if header.status in _FINISHED]
        if finished:
            with self._store.tree.opened() as root:
                if root is not None:
                    self._store.note_last(root, finished[-1].state_id, finished[-1].status.value)
