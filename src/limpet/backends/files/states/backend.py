"""States in a folder of plain, readable files. ``layout.py`` opens with the format, and what is true after a crash.

Several backends, in one process or in many, may have the same folder open. Nothing here decides what a record means.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from typing import Literal, TypeVar

from limpet.backends.contract import Append, Claim, Flaw, Grant, StateBackend
from limpet.backends.files.faults import translated, translating
from limpet.backends.files.states import layout
from limpet.backends.files.states.appending import is_newest
from limpet.backends.files.states.appends import Appends
from limpet.backends.files.states.claiming import Claims
from limpet.backends.files.states.deleting import delete
from limpet.backends.files.states.examining import flaws_of_state
from limpet.backends.files.states.index import Index, Wanted
from limpet.backends.files.states.index_file import Broken
from limpet.backends.files.states.journal import Journal, Rules
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.letters import Inboxes
from limpet.backends.files.states.listing import Listing
from limpet.backends.files.states.measuring import Measuring
from limpet.backends.files.states.mending import Mending
from limpet.backends.files.states.open_journals import OpenJournals, Rewriting
from limpet.backends.files.states.reading import Disturbed, Places, Reader, is_rewriting
from limpet.backends.files.states.rewriting import Rewritten, finish_rewriting, require_unshared, rewrite, rewritten
from limpet.backends.files.states.seeing import see
from limpet.backends.files.states.standing import OtherState, lease_until, note_lease
from limpet.backends.files.states.store import Store
from limpet.backends.files.states.store_notes import read_note, write_note
from limpet.backends.files.states.wishes import note_wish, wishes_for
from limpet.backends.holders import tell_deleted, writes_no_more
from limpet.errors import BackendError, BackendUnavailable, LeaseHeld, LeaseLost, UsageError
from limpet.model import (
    Holder,
    Lease,
    Letter,
    Room,
    StateHeader,
    StateStatus,
    checked_letter_name,
    checked_note,
    checked_note_name,
    is_letter_name,
)
from limpet.processes import new_reentrant_lock, tell_of_forks

_TRIES = 200
_Answer = TypeVar("_Answer")


class FileSystemStateBackend(StateBackend):
    """States in a folder, which is made when something is first written there, readable by its owner alone.

    ``synchronous="full"`` waits for the disk at every commit and loses nothing when the machine dies; ``"normal"`` does
    not wait, and loses nothing when the process dies. A journal is kept in segments of about ``segment_size`` bytes;
    with ``compression`` those that are finished are packed. Raises NotAStore for a folder with something else in it,
    and UnsupportedVersion; both leave it alone.

    Artifacts belong into a folder inside.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ".state_store",
        synchronous: Literal["full", "normal"] = "full",
        clock: Callable[[], float] = time.time,
        lock_timeout_s: float = 30.0,
        compression: Literal["zstd", "gzip"] | None = None,
        segment_size: int = 4 << 20,
    ) -> None:
        if synchronous not in ("full", "normal"):
            raise UsageError(
                f"synchronous={synchronous!r} is no setting of a folder of states.", "Use 'full' or 'normal'."
            )
        if compression not in (None, *layout.SUFFIXES):
            raise UsageError(
                f"compression={compression!r} is no setting of a folder of states.", "Use 'zstd', 'gzip' or None."
            )
        is_synced = synchronous == "full"
        self._store = Store(path, is_synced, lock_timeout_s)
        self.name = self._store.name
        self.artifacts_folder = os.path.join(self._store.tree.path, layout.ARTIFACTS)
        self.commit_waits = is_synced
        self.inline_when_quick = True
        self._clock = clock
        self._writing = new_reentrant_lock(is_awaited=True)
        self._is_closed = False
        self._store_id = ""
        rules = Rules(is_synced, compression, segment_size)
        self._places = Places()
        self._journals = OpenJournals(self._store, rules)
        self._index = Index(self._store.tree.path, self.name, is_synced, lock_timeout_s, self._store.boot)
        self._claims = Claims(self._store, self._journals, self._index, rules, clock)
        self._appends = Appends(self._store, self._journals, self._index, self._read)
        self._listing = Listing(self._store, self._index)
        self._inboxes = Inboxes(self._store)
        tell_of_forks(self)
        with translating(self.name):
            self._begin()

    @property
    def store_id(self) -> str:
        if not self._store_id:
            with self._working():
                self._store_id = self._store.store_id()
        return self._store_id

    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        if not claims:
            return []
        with self._working():
            return self._undisturbed(lambda: self._claims.answer(claims))

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        if not appends:
            return []
        with self._writing:
            self._require_open()
            # Every event of every run takes this way, so it is a short one.
            try:
                return self._appends.append(appends)
            except OSError as error:
                raise translated(error, self.name) from error
            except Rewriting:
                with translating(self.name):
                    return self._undisturbed(lambda: self._appends.append(appends))

    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        with self._working():
            return [self._undisturbed(lambda lease=lease: self._renew(lease, ttl_s)) for lease in leases]

    def leave_wish(self, state_id: str, wish: str) -> Holder | None:
        if not is_state_id(state_id):
            return None
        with self._working():
            return self._undisturbed(lambda: self._leave_wish(state_id, wish))

    def wishes(self, leases: Sequence[Lease]) -> list[str | None]:
        self._require_open()
        with translating(self.name), self._store.tree.opened() as root:
            return [None] * len(leases) if root is None else wishes_for(root, leases)

    def deliver(self, state_id: str, name: str, body: bytes) -> Letter | None:
        self._require_open()
        checked_letter_name(name)
        if not is_state_id(state_id):
            return None
        # Without the lock of the backend: a run must not wait for what others have to say.
        with translating(self.name):
            return self._inboxes.deliver(state_id, name, body, self._clock())

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        self._require_open()
        with translating(self.name):
            return self._inboxes.read(state_id, after)

    def arrivals(self, after: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        self._require_open()
        with translating(self.name), self._store.tree.opened() as root:
            return [] if root is None else self._inboxes.arrivals(root, after, limit)

    def discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        with self._working():
            self._undisturbed(lambda: self._discard_letters(lease, [name for name in names if is_letter_name(name)]))

    def note(self, name: str) -> str | None:
        self._require_open()
        checked_note_name(name)
        with translating(self.name), self._store.tree.opened() as root:
            return None if root is None else read_note(root, name)

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        self._require_open()
        checked_note_name(name)
        checked_note(after)
        # Without the lock of the backend, as a letter is delivered.
        with translating(self.name), self._store.changing() as (root, _):
            is_as_before = read_note(root, name) == before
            if is_as_before:
                write_note(self._store, root, name, after)
            return is_as_before

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        self._require_open()
        if not is_state_id(state_id):
            return []
        with translating(self.name):
            return self._read(state_id, after, limit)

    def find_state(self, state_id: str) -> StateHeader | None:
        self._require_open()
        with translating(self.name):
            seen = see(self._store, state_id)
        return None if seen is None else seen.header_at(self._clock())

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        parent_state_id: str | None = None,
        before: StateHeader | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        self._require_open()
        wanted = Wanted(tuple(tags or ()), status, pipeline_name, parent_state_id)
        with translating(self.name):
            return self._listing.list(wanted, limit, self._clock(), before)

    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        if not is_state_id(state_id):
            return False
        with self._working(), self._store.changing() as (root, _):
            finish_rewriting(self._store, root)
            with self._journals.locked([state_id]) as journals:
                journal = journals.get(state_id)
                if journal is None:
                    return False
                holder = self._require_free(journal, lease)
                delete(self._store, root, journal)
            self._journals.forget(state_id)
            self._index.forget(state_id)
        if lease is None:
            tell_deleted(state_id, holder)
        return True

    def measure(self, state_ids: Sequence[str]) -> list[Room | None]:
        self._require_open()
        with translating(self.name), self._store.tree.opened() as root:
            if root is None:
                return [None] * len(state_ids)
            measuring = Measuring(self._store, root)
            return [self._room(measuring, state_id) for state_id in state_ids]

    def rewrite(self, appends: Sequence[Append]) -> None:
        if not appends:
            return
        with self._working(), self._store.changing() as (root, _):
            finish_rewriting(self._store, root)
            ids = {append.lease.state_id for append in appends if is_state_id(append.lease.state_id)}
            with self._journals.locked(ids) as journals:
                changes: dict[str, Rewritten] = {}
                for append in appends:
                    state_id = append.lease.state_id
                    journal = journals.get(state_id)
                    changes[state_id] = rewritten(append, journal, changes.get(state_id))
                require_unshared(root, changes)
                self._index.expect([change.standing.header for change in changes.values()])
                rewrite(self._store, root, list(changes.values()))
            self._index.confirm(changes)

    def examine(self, state_id: str) -> list[Flaw]:
        self._require_open()
        with translating(self.name):
            for _ in range(_TRIES):
                with self._store.tree.opened() as root, suppress(FileNotFoundError):
                    return [] if root is None else flaws_of_state(self._store, root, state_id)
        raise BackendUnavailable(self.name, f"the files of state {state_id!r} change all the time")

    def examine_store(self, *, repair: bool = False) -> list[Flaw]:
        with self._working():
            with self._store.tree.opened() as root:
                if root is None:
                    return []
            with self._store.changing() as (root, _):
                finish_rewriting(self._store, root)
                flaws = Mending(self._store, self._index, root, repair=repair).flaws()
            if repair and self._index.is_broken():
                with suppress(Broken):
                    self._listing.make_index()
            return flaws

    def close(self) -> None:
        with self._writing:
            if not self._is_closed:
                self._is_closed = True
                self._journals.close()
                self._index.close()

    def after_fork(self) -> None:
        """In a forked child: what the parent has locked there stays locked by the parent alone."""
        self._journals.close()

    def _begin(self) -> None:
        """Finish what others have begun, and clear away what they left behind."""
        with self._store.tree.opened() as root:
            if root is None or not self._store.has_leftovers(root):
                return
        with self._store.changing() as (root, _):
            finish_rewriting(self._store, root)
            self._store.clear_leftovers(root)

    @contextmanager
    def _working(self) -> Generator[None]:
        """The lock of the backend, for whatever writes."""
        with self._writing:
            self._require_open()
            with translating(self.name):
                yield

    def _undisturbed(self, work: Callable[[], _Answer]) -> _Answer:
        """Do something that needs the locks of states, after a rewriting that is under way is finished."""
        for _ in range(_TRIES):
            try:
                return work()
            except Rewriting:
                with self._store.changing() as (root, _):
                    finish_rewriting(self._store, root)
        raise BackendUnavailable(self.name, "its records are being rewritten all the time")

    def _read(self, state_id: str, after: int, limit: int | None) -> list[tuple[int, bytes]]:
        for attempt in range(_TRIES):
            with self._store.tree.opened() as root:
                if root is None:
                    return []
                try:
                    return Reader(root, state_id, self._places).read(after, limit)
                except OtherState:
                    return []
                except (Disturbed, FileNotFoundError):
                    is_stuck = attempt and is_rewriting(root)
            if is_stuck:
                with self._store.changing() as (root, _):
                    finish_rewriting(self._store, root)
        raise BackendUnavailable(self.name, f"the files of state {state_id!r} change all the time")

    def _room(self, measuring: Measuring, state_id: str) -> Room | None:
        for _ in range(_TRIES):
            with suppress(FileNotFoundError):
                return measuring.room_of(state_id)
        raise BackendUnavailable(self.name, f"the files of state {state_id!r} change all the time")

    def _renew(self, lease: Lease, ttl_s: float) -> bool:
        if not is_state_id(lease.state_id):
            return False
        with self._journals.locked([lease.state_id]) as journals:
            journal = journals.get(lease.state_id)
            header = None if journal is None else journal.standing.header
            if journal is None or header is None or not is_newest(lease, header) or header.holder is None:
                return False
            note_lease(journal.folder, lease.state_id, lease.fence, self._clock() + ttl_s)
        return True

    def _leave_wish(self, state_id: str, wish: str) -> Holder | None:
        with self._journals.locked([state_id]) as journals:
            journal = journals.get(state_id)
            if journal is None or lease_until(journal.folder, journal.standing.header) <= self._clock():
                return None
            note_wish(journal.folder, journal.standing.header, wish)
            return journal.standing.header.holder

    def _discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        ids = [lease.state_id] if is_state_id(lease.state_id) else []
        with self._journals.locked(ids) as journals:
            journal = journals.get(lease.state_id)
            if journal is None or not is_newest(lease, journal.standing.header):
                raise LeaseLost(lease.state_id, lease.fence)
            with self._store.tree.made() as root:
                self._inboxes.discard(root, journal.folder, lease.state_id, names)

    def _require_free(self, journal: Journal, lease: Lease | None) -> Holder | None:
        """Raise LeaseLost or LeaseHeld where a state must not be deleted; else give the holder of its last lease."""
        header = journal.standing.header
        now = self._clock()
        if lease is not None and not is_newest(lease, header):
            raise LeaseLost(header.state_id, lease.fence)
        until = lease_until(journal.folder, header)
        holder = header.holder if until > now else None
        if lease is None and until > now and (holder is None or not writes_no_more(holder)):
            raise LeaseHeld(header.state_id, str(header.holder), until - now)
        return holder

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"The store {self.name} is closed.", "Open it again, and close it when everything is done."
            )
