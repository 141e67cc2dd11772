"""Answers claims: grants leases of states that exist, and creates those that do not. Takes the locks for that."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from limpet.backends.contract import Claim, Grant, first_fence
from limpet.backends.files.states import layout
from limpet.backends.files.states.appending import contents_of
from limpet.backends.files.states.forks import note_fork, owner_folder, remove_note, spans_up_to
from limpet.backends.files.states.header_lines import (
    Granted,
    Header,
    Span,
    Standing,
    header_content,
    lease_content,
    leased,
    new_header,
)
from limpet.backends.files.states.index import Index
from limpet.backends.files.states.journal import Journal, Rules
from limpet.backends.files.states.layout import Segment, is_state_id
from limpet.backends.files.states.open_journals import OpenJournals
from limpet.backends.files.states.rewriting import finish_rewriting
from limpet.backends.files.states.standing import Found, OtherState, header_at, lease_until, look, note_lease
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.errors import StateCorrupted, UsageError
from limpet.model import Lease, StateStatus, checked_state_id


class _StoreNeeded(Exception):
    """A state has to be created, which needs the lock of the store; and that comes before those of states."""


class _Creating(msgspec.Struct, frozen=True):
    """What is there to create with: the folder of the store, its lock, and what was created so far."""

    root: int
    lock: int
    states: int
    temporary: int
    created: list[Header] = []


class Claims:
    """The verb ``acquire``. Used under the lock of the backend."""

    def __init__(
        self, store: Store, journals: OpenJournals, index: Index, rules: Rules, clock: Callable[[], float]
    ) -> None:
        self._store = store
        self._journals = journals
        self._index = index
        self._rules = rules
        self._clock = clock

    def answer(self, claims: Sequence[Claim]) -> list[Grant | None]:
        """Answer all, or none where one of them fails."""
        for claim in claims:
            checked_state_id(claim.header.state_id)
        if not any(claim.mend for claim in claims):
            with suppress(_StoreNeeded):
                return self._answer_all(claims, None)
        with (
            self._store.changing() as (root, lock),
            self._store.folder(root, layout.STATES) as states,
            self._store.folder(root, layout.TEMPORARY) as temporary,
        ):
            finish_rewriting(self._store, root)
            return self._answer_creating(claims, _Creating(root, lock, states, temporary, []))

    def _answer_creating(self, claims: Sequence[Claim], creating: _Creating) -> list[Grant | None]:
        try:
            grants = self._answer_all(claims, creating)
        except BaseException:
            for header in creating.created:
                self._uncreate(header, creating)
            raise
        if creating.created:
            last = creating.created[-1]
            self._index.confirm(header.state_id for header in creating.created)
            self._store.note_last(creating.root, last.state_id, last.status.value)
        return grants

    def _answer_all(self, claims: Sequence[Claim], creating: _Creating | None) -> list[Grant | None]:
        ids = {claim.header.state_id for claim in claims}
        ids |= {claim.base.state_id for claim in claims if claim.base and is_state_id(claim.base.state_id)}
        with self._journals.locked(ids) as journals:
            self._journals.take_anew(ids)
            # Asked for under the locks: waiting for them must not eat up the leases.
            now = self._clock()
            grants = [self._answer(claim, journals, creating, now) for claim in claims]
            for journal in journals.values():
                journal.sync()
            self._journals.require_in_place(journals)
            for journal in journals.values():
                journal.settle(note=True)
        return grants

    def _answer(
        self, claim: Claim, journals: dict[str, Journal], creating: _Creating | None, now: float
    ) -> Grant | None:
        journal = journals.get(claim.header.state_id)
        if journal is None:
            return self._create(claim, journals, creating, now) if claim.create else None
        header = header_at(journal.folder, journal.standing, now)
        if header.damage is not None and not claim.mend:
            return Grant(header=header)
        if header.status is StateStatus.COMPLETED and not claim.reopen:
            return Grant(header=header)
        fence = journal.standing.header.fence
        if header.holder is not None and claim.supersede != fence:
            held_for_s = lease_until(journal.folder, journal.standing.header) - now
            return Grant(header=header, held_by=header.holder, held_fence=fence, held_for_s=held_for_s)
        return Grant(header=header, lease=self._lease(claim, journal, creating, now))

    def _lease(self, claim: Claim, journal: Journal, creating: _Creating | None, now: float) -> Lease:
        standing = journal.standing
        header = standing.header
        if not header.key and creating is not None:
            # Nothing is left that says which key it had.
            key = self._store.take_key(creating.root, creating.lock)
            header = msgspec.structs.replace(header, key=key, fence=first_fence(key) - 1)
        fence = header.fence + 1
        # First, so that the lease does not seem to have run out. Without the line below it counts for nothing.
        note_lease(journal.folder, header.state_id, fence, now + claim.ttl_s)
        after = leased(header, Granted(fence, claim.holder))
        journal.write([lease_content(fence, claim.holder)], msgspec.structs.replace(standing, header=after))
        return Lease(header.state_id, header.key, fence)

    def _create(
        self, claim: Claim, journals: dict[str, Journal], creating: _Creating | None, now: float
    ) -> Grant | None:
        state_id = claim.header.state_id
        spans: tuple[Span, ...] = ()
        if claim.base is not None:
            parent = journals.get(claim.base.state_id)
            if parent is None or not 1 <= claim.base.last <= parent.standing.position:
                return None
            if parent.standing.damage is not None:
                raise StateCorrupted(claim.base.state_id, 0, parent.standing.damage)
            spans = spans_up_to(parent.standing.header, parent.standing.position, claim.base.last)
        if creating is None:
            raise _StoreNeeded
        self._make_way(state_id, creating)
        key = self._store.take_key(creating.root, creating.lock)
        header = new_header(claim, key, first_fence(key), spans)
        try:
            if not note_fork(creating.root, spans, key, state_id, is_synced=self._rules.is_synced):
                self._remove_notes(header, creating)
                return None
            self._index.expect([header], lambda: not os.listdir(creating.states))
            journal = self._made(claim, header, creating, now)
        except BaseException:
            self._remove_notes(header, creating)
            raise
        creating.created.append(header)
        journals[state_id] = journal
        granted = header_at(journal.folder, journal.standing, now)
        return Grant(header=granted, is_new=True, lease=Lease(state_id, key, header.fence))

    def _make_way(self, state_id: str, creating: _Creating) -> None:
        """Remove what is left of a state of this id that never came to be. Raises UsageError."""
        folder = open_folder(creating.states, state_id)
        if folder is None:
            return
        try:
            look(folder, state_id)
        except OtherState as error:
            raise UsageError(
                f"State {state_id!r} cannot be created: this file system keeps it in the same folder as {error}.",
                "Use an id that differs from all others in more than upper and lower case.",
            ) from error
        finally:
            os.close(folder)
        self._store.discard(creating.states, state_id, creating.temporary)

    def _made(self, claim: Claim, header: Header, creating: _Creating, now: float) -> Journal:
        """Make the folder of a new state whole, and move it to its place."""
        name = secrets.token_hex(16)
        folder = open_folder(creating.temporary, name, make=True)
        assert folder is not None
        before = header.bases[-1].last if header.bases else 0
        found = Found(Standing(header=header, position=before, sum=0), Segment(before + 1), 0)
        journal = Journal(folder, -1, found, self._rules)
        try:
            journal.begin()
            contents = [header_content(header), *contents_of(claim.bodies, before + 1, header.state_id)]
            standing = Standing(header=header, position=before + len(claim.bodies), sum=0)
            journal.write(contents, standing)
            note_lease(folder, header.state_id, header.fence, now + claim.ttl_s)
            journal.sync()
            journal.settle(note=True)
            if self._rules.is_synced:
                os.fsync(folder)
            os.rename(name, header.state_id, src_dir_fd=creating.temporary, dst_dir_fd=creating.states)
            if self._rules.is_synced:
                os.fsync(creating.states)
        except BaseException:
            journal.close()
            with suppress(OSError):
                shutil.rmtree(name, dir_fd=creating.temporary)
            # It may have been moved already.
            with suppress(OSError):
                self._store.discard(creating.states, header.state_id, creating.temporary)
            raise
        return journal

    def _uncreate(self, header: Header, creating: _Creating) -> None:
        self._journals.forget(header.state_id)
        with suppress(OSError):
            self._store.discard(creating.states, header.state_id, creating.temporary)
        self._index.forget(header.state_id)
        self._remove_notes(header, creating)

    def _remove_notes(self, header: Header, creating: _Creating) -> None:
        with suppress(OSError):
            for span in header.bases:
                with owner_folder(creating.root, span) as folder:
                    if folder is not None:
                        remove_note(folder, header.key)
