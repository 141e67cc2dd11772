"""What a fork shares, in a store that it is copied to: with the state that wrote it, or with a stand-in for that.

Where the state that wrote the shared records is not in the store, since it was deleted or is not to be copied, a
*stand-in* takes its place for a moment, with just those records. The contract keeps them when it is deleted again. A
stand-in is held under a lease and says what it is, so that one that a crash has left behind is known, and deleted as
soon as anybody comes across it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from limpet.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate, bases_of_fork
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import mark_ended, mark_running, new_holder, takeover
from limpet.engine.reading import Frames
from limpet.errors import LeaseHeld, LeaseLost, UsageError
from limpet.model import Base, End, Holder, Lease, StateHeader, StateMetadata, StateStatus
from limpet.model.defaults import LEASE_TTL_S

_TAG = "limpet-stand-in"
_METADATA = StateMetadata(
    tags=[_TAG], description="Stands for another state while a fork of that is being copied. It can be deleted."
)
_ALL = 1 << 62


class MissingOwner(msgspec.Struct, frozen=True):
    """A state that wrote some of the records of a fork, and is not in the store."""

    base: Base
    before: int
    """Its records begin behind this number."""
    parent: Base | None
    """What it shares itself."""


class StandIns:
    """Makes stand-ins in one store, and clears them away."""

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend
        self._has_cleared = False

    def clear(self) -> None:
        """Delete what was left behind, unless it is in use. Looks once."""
        if self._has_cleared:
            return
        self._has_cleared = True
        for header in self._backend.list_states(tags=[_TAG], limit=_ALL):
            with suppress(LeaseHeld):
                self.find_real(header.state_id)

    def find_real(self, state_id: str) -> StateHeader | None:
        """The header of a state. A stand-in that was left behind is deleted. Raises LeaseHeld where it is in use."""
        header = self._backend.find_state(state_id)
        if header is None or not _is_stand_in(header):
            return header
        grant = leased(self._backend, header, new_holder())
        if grant is not None and _is_stand_in(grant.header):
            self._backend.delete_state(state_id, grant.lease)
        return self._backend.find_state(state_id)

    def missing_owners(self, header: StateHeader, read: Frames) -> list[MissingOwner]:
        """The states whose records a state begins with and that are not here, in the order of the records.

        The last one that is here must have the very same records, else UsageError is raised.
        """
        missing: list[MissingOwner] = []
        for number in range(len(header.bases), 0, -1):
            base = header.bases[number - 1]
            standing = self.find_real(base.state_id)
            if standing is not None and base.state_id != header.state_id:
                self._require_same(standing, header, read[: base.last])
                break
            parent = header.bases[number - 2] if number > 1 else None
            missing.append(MissingOwner(base, parent.last if parent else 0, parent))
        return missing[::-1]

    def claim_behind(self, missing: Sequence[MissingOwner], claim: Claim, read: Frames) -> Grant | None:
        """Answer a claim that creates a fork, with stand-ins for the states that are missing."""
        stand_in: Grant | None = None
        holder = new_holder()
        mark_running(holder)
        try:
            for owner in missing:
                (made,) = self._backend.acquire((_stand_in(owner, claim.header, holder, read),))
                if made is None or not made.is_new:
                    return None
                self._delete(stand_in)
                stand_in = made
            (grant,) = self._backend.acquire((claim,))
            return grant
        finally:
            mark_ended(holder)
            self._delete(stand_in)

    def _delete(self, stand_in: Grant | None) -> None:
        if stand_in is None:
            return
        # One that was made so long ago that its lease has run out may have been cleared away by others.
        with suppress(LeaseLost):
            self._backend.delete_state(stand_in.header.state_id, stand_in.lease)

    def _require_same(self, standing: StateHeader, header: StateHeader, shared: Frames) -> None:
        last = shared[-1][0]
        bases = bases_of_fork(standing, last)
        read = self._backend.read(standing.state_id, 0, last)
        if read == list(shared) and bases == header.bases[: len(bases)] and standing.damage is None:
            return
        is_shorter = len(read) < last and read == list(shared[: len(read)])
        problem = f"with only {len(read)} of these" if is_shorter else "with other records"
        remedy = f"Copy {standing.state_id!r} too" if is_shorter else f"Delete {standing.state_id!r} there"
        raise UsageError(
            f"State {header.state_id!r} shares {last} records with {standing.state_id!r}, which is in "
            f"{self._backend.name} {problem}.",
            f"{remedy}, or use another store.",
        )


def _is_stand_in(header: StateHeader) -> bool:
    return header.metadata == _METADATA


def _stand_in(owner: MissingOwner, fork: StateHeader, holder: Holder, read: Frames) -> Claim:
    written = read[owner.before : owner.base.last]
    header = StateHeader(
        state_id=owner.base.state_id,
        status=StateStatus.PAUSED,
        created_at=fork.created_at,
        updated_at=fork.created_at,
        metadata=_METADATA,
        version=fork.version,
        end=End(owner.base.last, frames.link_of(written[-1][1])),
    )
    bodies = tuple(frame for _, frame in written)
    return Claim(header=header, bodies=bodies, base=owner.parent, holder=holder, ttl_s=LEASE_TTL_S)


def leased(backend: StateBackend, header: StateHeader, holder: Holder) -> Grant | None:
    """The lease of a state that exists, taken over from the dead; None if it is gone. Raises LeaseHeld."""
    claim = Claim(header=header, holder=holder, ttl_s=LEASE_TTL_S, create=False, reopen=True)
    while True:
        (grant,) = backend.acquire((claim,))
        if grant is None or grant.held_by is None:
            return grant
        claim = takeover(claim, grant)


def release(backend: StateBackend, lease: Lease, position: int) -> None:
    """Give a lease back. Whoever has taken it over meanwhile keeps it."""
    backend.append((Append(lease, position + 1, (), StateUpdate(at=SYSTEM_CLOCK.now(), releases=True)),))
