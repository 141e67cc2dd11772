"""The contract of a state backend: where the journals of states live.

A backend stores bytes that it does not look into, and knows nothing of actors, values or replay. It promises:

* **Durable when it returns.** ``acquire``, ``append``, ``delete_state``, ``deliver`` and ``swap_note`` return when what
  they wrote survives the death of the process (and, where the backend says so, of the machine).
* **All or nothing.** Each ``Append`` becomes visible whole or not at all.
* **Fenced.** An ``Append`` whose lease is not the newest of its state writes nothing and is answered with LeaseLost.
* **Idempotent by position.** Appending again the very bytes that stand at a position succeeds and changes nothing;
  where only the first of them stand there, the rest is added. Other bytes there, or a gap before ``first_seq``, are
  answered with PositionTaken. A lease that was given back stays good for that until another one is granted.
* **Shared, not copied.** A state may begin with the records of another one (``Claim.base``). It reads them as its own,
  whatever happens to the other: what that one appends later is not seen, and when it is deleted they stay.
* **One round trip each.** Every verb is one request to a database server; nothing is read record by record.
* **Its own time.** Whether a lease has run out is decided by the clock of the store, never by the caller's.

Every verb may be called from any thread. Foreign errors are translated here, ``from`` the original: what cannot be done
now raises BackendUnavailable (StoreFull where there is no room), and leaves nothing half-written.
``limpet.testing.StateBackendConformance`` is this page as tests; run it on a backend of your own.
"""

from __future__ import annotations

import hashlib
import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.errors import BackendError, LeaseLost, UsageError
from limpet.model import (
    Base,
    DiskUse,
    End,
    Holder,
    Lease,
    Letter,
    Room,
    SharedRoom,
    StateHeader,
    StateMetadata,
    StateStatus,
    checked_note,
    checked_note_name,
)

_PAGE = 1000


def first_fence(key: int) -> int:
    """The fence of the first lease of a state, from a key that is never used twice and only grows.

    There is room for a million leases before the fences of the next key begin.
    """
    return (key << 20) + 1


def bases_of_fork(parent: StateHeader, last: int) -> tuple[Base, ...]:
    """The bases of a state that begins with the records of another one up to a number, which has to be there.

    They name the states that wrote the records, so a fork of a fork is read as quickly as a fork. The n-th of them is
    the n-th of the parent's bases, or the parent itself behind those.
    """
    bases: list[Base] = []
    reached = 0
    for base in (*parent.bases, Base(parent.state_id, parent.position)):
        if reached >= last:
            break
        bases.append(Base(base.state_id, min(base.last, last)))
        reached = base.last
    return tuple(bases)


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A wish to write a state, which is created where it does not exist."""

    header: StateHeader
    """The state's header if it is new; of one that exists, only ``state_id`` counts."""
    bodies: tuple[bytes, ...] = ()
    """The first records, numbered from 1, or from behind ``base``, if the state is new."""
    holder: Holder
    ttl_s: float
    supersede: int | None = None
    """The fence of a lease that is known to be dead: it is taken over although it has not run out."""
    create: bool = True
    """False: a state that does not exist is not created."""
    reopen: bool = False
    """True: a completed state is leased too; otherwise its lease is refused."""
    base: Base | None = None
    """Of a new state: the state whose records it begins with, and up to which number. Its own records (``bodies``) are
    numbered from there on. A state that exists is what it is: this is ignored, just as ``bodies`` are."""
    mend: bool = False
    """True: a state whose header is damaged is leased too, so that it can be mended; otherwise its lease is refused."""


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a claim, one of four: a lease; another's lease (``held_by``); a completed state without one; a
    state without one whose header is damaged (``header.damage``)."""

    header: StateHeader
    is_new: bool = False
    lease: Lease | None = None
    held_by: Holder | None = None
    held_fence: int = 0
    held_for_s: float = 0.0
    """How long the other's lease lasts unless it is renewed."""
    held_until: float = 0.0
    """Until when the lease certainly lasts, as the engine counts time; a backend leaves it alone."""


class StateUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the header that belongs to an append. None leaves a field as it is."""

    at: float
    status: StateStatus | None = None
    metadata: StateMetadata | None = None
    releases: bool = False
    """True: the lease is given back."""
    timeline: int | None = None
    """The record that began the current timeline. It says which records count, as records do, and so by itself it does
    not change ``updated_at``, which tells of the status and the metadata."""
    end: End | None = None
    """Where the journal ends with this append; kept in the header."""
    header: StateHeader | None = None
    """The whole header anew, where the one that stands is damaged: all of it but ``state_id``, ``bases``, and what the
    backend fills in when it reads."""


class Append(msgspec.Struct, frozen=True):
    """Records to add to one state, and what changes in its header with them; either may be empty."""

    lease: Lease
    first_seq: int
    bodies: Sequence[bytes]
    update: StateUpdate | None = None


class Flaw(msgspec.Struct, frozen=True):
    """Something that is not as it should be in a store, told to people."""

    what: str
    """A whole sentence."""
    seq: int | None = None
    """The number of the record that it is about."""
    is_harmless: bool = False
    """True: nothing that was acknowledged is lost, as where a crash left half a line behind."""
    is_mended: bool = False


class StateBackend(ABC):
    """Where states live. See the module for what every method promises."""

    commit_waits: bool
    """True where a commit waits for a disk or a network: it is then made on a thread, in groups."""

    inline_when_quick: bool = False
    """True where such a commit may be made on the event loop after all, for a run that is alone, once the last few were
    quick. For a local disk, whose stalls are short and rare; never for a network."""

    outlives_process: bool = True
    """False where the states are gone with the process, so that no other one can resume them."""

    name: str
    """What the store is called in messages; a password never stands in it."""

    own_artifacts: ArtifactBackend | None = None
    """Where artifacts go that are put nowhere else, if the store has such a place. It is closed with the store."""

    artifacts_folder: str | None = None
    """A folder beside the store for those that are too large for ``own_artifacts``. It is made when it is needed."""

    @property
    def store_id(self) -> str:
        """What tells this store from all others, wherever and however often it is opened: 32 hexadecimal digits."""
        return hashlib.sha256(self.name.encode()).hexdigest()[:32]

    @abstractmethod
    def acquire(self, claims: Sequence[Claim]) -> list[Grant | None]:
        """Answer each claim, all in one transaction. None: the state does not exist and was not created.

        A claim with a ``base`` creates a state that shares the records 1 to ``base.last`` of another one, which may be
        held, completed, a fork itself, or created by an earlier claim of this call. Its header has the ``bases`` that
        ``bases_of_fork`` gives. It is not created where the other one does not exist, has fewer records, or
        ``base.last`` is less than 1.

        A lease is given where the state is new, its last lease was given back or has run out, or ``supersede`` names
        the lease that stands. Its fence is greater than every earlier one of the state, also where a state of the same
        id was deleted before: a pin that names a fence then never stands for two leases. Nothing else changes.
        """

    @abstractmethod
    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        """Write all in one transaction. Each is answered with None or why it was refused (LeaseLost, PositionTaken).

        A refused one does not hinder the others. Two of one call may be of the same state, in order.
        """

    @abstractmethod
    def renew(self, leases: Sequence[Lease], ttl_s: float) -> list[bool]:
        """Prolong leases; False for each that was given back or is no longer the newest of its state."""

    @abstractmethod
    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        """The records behind position ``after``, in order, with their numbers; none for a state that does not exist.

        Those that the state shares come first, then its own. All are of one moment: a state that is deleted meanwhile
        is read whole or not at all.
        """

    @abstractmethod
    def find_state(self, state_id: str) -> StateHeader | None:
        """The header of one state, or None."""

    @abstractmethod
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
        """The states that have every tag, the status, the pipeline name and the parent asked for, the newest first.

        The parent is the one that the metadata names, whether records are shared with it or not, and whether it exists.
        Newest is what was created last. With ``before``, a state that was listed, only what stands behind it: a long
        listing is read page by page. If it was deleted since, states that were created at the same moment come again.
        """

    @abstractmethod
    def delete_state(self, state_id: str, lease: Lease | None = None) -> bool:
        """Delete a state, its records and its letters; False if there is none.

        Records that other states begin with stay readable through these, also where a new state takes the id. They go
        with the last state that shares them; those behind the greatest shared number go at once.

        Without a lease, a state whose lease has not run out is refused with LeaseHeld, unless ``holders.py`` knows that
        its holder writes no more; that one is told. With a lease, LeaseLost is raised if it is not the newest.
        """

    def delete_states(self, leases: Sequence[Lease]) -> list[bool]:
        """Delete the states of these leases as ``delete_state`` does, in one transaction where that is possible.

        False for each that does not exist, or whose lease is not the newest: it stays as it is.
        """
        return [self._is_deleted(lease) for lease in leases]

    def _is_deleted(self, lease: Lease) -> bool:
        try:
            return self.delete_state(lease.state_id, lease)
        except LeaseLost:
            return False

    def measure(self, state_ids: Sequence[str]) -> list[Room | None]:
        """The room that states take in the store, None for each that does not exist. Damage is no hindrance.

        It is what the store can tell without compressing or moving anything: the bytes of records and headers, or those
        of files. Where a state is deleted, ``bytes`` of it go but for what others share; that goes with the last of
        them. Here the bytes of the records are counted by reading them all; a backend that knows better says so in one
        request.
        """
        return [self._measured(state_id) for state_id in state_ids]

    def _measured(self, state_id: str) -> Room | None:
        header = self.find_state(state_id)
        if header is None:
            return None
        # Who wrote a record is told by its number; a later state of the same id by its first record.
        owners = [*header.bases, Base(state_id, 1 << 62)]
        counted = [0] * len(owners)
        counted[-1] = sum(len(letter.body) for letter in self.letters(state_id))
        keys = [owner.state_id for owner in owners]
        after = place = 0
        while page := self.read(state_id, after, _PAGE):
            for seq, body in page:
                while seq > owners[place].last:
                    place += 1
                if not counted[place]:
                    keys[place] = f"{owners[place].state_id} {zlib.crc32(body)}"
                counted[place] += len(body)
            after = page[-1][0]
        parts = zip(keys, owners[:-1], counted, strict=False)
        return Room(keys[-1], counted[-1], tuple(SharedRoom(key, owner.last, size) for key, owner, size in parts))

    def disk_use(self) -> DiskUse | None:
        """What the file of the store takes; None where deleting gives room back by itself."""
        return None

    def compact(self) -> bool:
        """Give the room that is free inside the store back to the disk. It may keep others from writing meanwhile.

        False where there is nothing to do, since deleting gives room back by itself.
        """
        return False

    def leave_wish(self, state_id: str, wish: str) -> Holder | None:
        """Leave a wish for whoever holds a state, and give the holder; None, and nothing is left, where nobody does.

        The holder is the one that ``find_state`` shows. The newest wish takes the place of an earlier one. It belongs
        to the lease that stands: when that is given back or taken over, the wish is gone. Nothing else changes, and a
        wish need not survive the death of the machine. A backend that cannot do this raises UsageError.
        """
        raise UsageError(
            f"The store {self.name} cannot tell its holder anything.", "Stop the process that runs the state instead."
        )

    def wishes(self, leases: Sequence[Lease]) -> list[str | None]:
        """The wish that was left for each lease.

        None where there is none, or the lease was given back or is no longer the newest of its state. Reads only: a
        wish stays until its lease ends. It is asked a few times a second, for all leases of a process at once, and
        neither holds up who writes nor waits for them.
        """
        return [None] * len(leases)

    def deliver(self, state_id: str, name: str, body: bytes) -> Letter | None:
        """Put a letter into the inbox of a state, whoever holds it; None, and nothing is put, where it does not exist.

        Idempotent by name: the first letter of a name stays until it is discarded, whatever is delivered under that
        name later, and it is what is given back. Nothing else changes: not the lease, the header, nor the journal. A
        state begins with an empty inbox, also a fork, and also where one of the same id was deleted before.

        Raises UsageError for a name that ``checked_letter_name`` refuses. A backend that has no inboxes raises
        UsageError, too.
        """
        raise UsageError(
            f"The store {self.name} has no inboxes for its states.",
            "Use another store, such as an SQLite file: `Limpet.copy` brings the states along.",
        )

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        """The letters of a state whose numbers are greater, in the order of numbers; none if it does not exist.

        Reads only, and neither holds up who writes nor waits for them.
        """
        return []

    def arrivals(self, after: int = 0, limit: int = 1000) -> list[tuple[int, str]]:
        """The numbers, and the ids of the states, of all letters behind a number, in order: the first ones of them.

        Whoever goes on behind the greatest number that was given misses none: a letter is never seen after one with a
        greater number. It is asked many times a second, and costs what is new; it reads only, as ``letters`` does.
        """
        return []

    def discard_letters(self, lease: Lease, names: Sequence[str]) -> None:
        """Forget letters that are not needed any more; names that no letter of the state has are ignored.

        Raises LeaseLost if the lease is not the newest of its state, and forgets nothing then. One that was given back
        stays good until another one is granted. A backend that has no inboxes raises UsageError.
        """
        raise UsageError(
            f"The store {self.name} has no inboxes for its states.",
            "Use another store, such as an SQLite file: `Limpet.copy` brings the states along.",
        )

    def note(self, name: str) -> str | None:
        """The note of the store that has this name; None if there is none. Reads only, and waits for nobody.

        Notes are small texts that belong to the store as a whole, and to no state: they stay whatever becomes of
        states, and are not copied with them. Raises UsageError for a name that ``checked_note_name`` refuses.
        """
        checked_note_name(name)
        return None

    def swap_note(self, name: str, before: str | None, after: str) -> bool:
        """Put a note in the place of the one that was read before, None where there was none, in one step.

        False, and nothing changes, where another one stands there: of all who swap the same note, in any thread or
        process, one succeeds. Raises UsageError for a name or a text that ``checked_note_name`` or ``checked_note``
        refuses. A backend that keeps no notes raises UsageError, too.
        """
        checked_note_name(name)
        checked_note(after)
        raise UsageError(
            f"The store {self.name} keeps no notes.",
            "Use another store, such as an SQLite file: `Limpet.copy` brings the states along.",
        )

    def rewrite(self, appends: Sequence[Append]) -> None:
        """Put other bytes in the place of records that stand, of several states at once: all of them or none.

        For a new format of the same records, or something small in the place of some: every number that is named has a
        record which the state wrote itself, and keeps one. States that share them see the new bytes. Raises LeaseLost,
        or PositionTaken also where a state shares some of them that is not among those of the appends, since its own
        records go on from these; nothing is changed then. A backend that cannot do this raises UsageError.
        """
        raise UsageError(
            f"The store {self.name} cannot rewrite its records.", "Copy it into a new store with `Limpet.copy`."
        )

    def examine(self, state_id: str) -> list[Flaw]:
        """What is wrong with the way in which a state is stored, as far as the backend can tell by itself.

        The records are checked by whoever reads them, and need not be checked here as well.
        """
        return []

    def examine_store(self, *, repair: bool = False) -> list[Flaw]:
        """What is wrong with the store as a whole. With ``repair`` what can be derived anew is, and is said."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Give back files and connections. Closing twice is harmless."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
