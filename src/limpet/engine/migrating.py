"""Rewriting what is stored in an older format. Reading needs none of this: older records are read as they are.

States that share records are rewritten together, all or none, since the chain of a fork goes on from what it shares.
Records that outlived the state which wrote them stay in the format they have: nobody can have the right to write them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Append, Claim, StateBackend, StateUpdate
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import new_holder
from limpet.engine.opening import acquire_now
from limpet.engine.reading import Frames
from limpet.engine.rewriting import all_records, own_frames, rewriting
from limpet.engine.writer import Writer
from limpet.errors import StateCorrupted
from limpet.model import FORMAT_VERSION, Lease, StateHeader

_ALL = 1 << 62

Rewritten = dict[tuple[str, int, bytes], int]
"""The new link of a record, by the state that wrote it, its number, and its old frame: another state may have had the
same id before."""


class Family(msgspec.Struct, frozen=True):
    """States that share records, each behind those that it shares some of, and whether any has older records."""

    headers: tuple[StateHeader, ...]
    old: int
    """How many of their own records are of an older format."""


def families_of(backend: StateBackend) -> list[Family]:
    """All states of a store, by what they share."""
    headers = {header.state_id: header for header in reversed(backend.list_states(limit=_ALL))}
    leader: dict[str, str] = {}
    for header in headers.values():
        # Records of a deleted state tie its forks together as well.
        names = [*(base.state_id for base in header.bases), header.state_id]
        heads = {_head(leader, name) for name in names}
        for head in heads:
            leader[head] = min(heads)
    groups: dict[str, list[StateHeader]] = {}
    for header in headers.values():
        groups.setdefault(_head(leader, header.state_id), []).append(header)
    return [
        Family(_owners_first(group), sum(_old_in(backend, header) for header in group)) for group in groups.values()
    ]


def _head(leader: dict[str, str], name: str) -> str:
    while (above := leader.setdefault(name, name)) != name:
        name = above
    return name


def _owners_first(headers: Sequence[StateHeader]) -> tuple[StateHeader, ...]:
    return tuple(sorted(headers, key=lambda header: len(header.bases)))


def _old_in(backend: StateBackend, header: StateHeader) -> int:
    own = own_frames(header, backend.read(header.state_id))
    return sum(len(frame) > 4 and not frames.is_newest(frame) for _, frame in own)


def migrate_family(writer: Writer, stored: StoredValues, family: Family) -> None:
    """Rewrite the records of states that share some. Raises LeaseHeld, StateCorrupted or WrongKey: nothing changed."""
    leases: list[Lease] = []
    try:
        leases.extend(_lease_of(writer, header) for header in family.headers)
        rewritten: Rewritten = {}
        appends = [_rewritten(writer.backend, stored, lease, rewritten) for lease in leases]
        writer.backend.rewrite(appends)
    except BaseException:
        _give_back(writer.backend, leases)
        raise


def _lease_of(writer: Writer, header: StateHeader) -> Lease:
    claim = Claim(header=header, holder=new_holder(), ttl_s=writer.keeper.ttl_s, create=False, reopen=True)
    grant = acquire_now(writer, claim)
    if grant is None or grant.lease is None:
        raise StateCorrupted(header.state_id, 0, "it was deleted meanwhile")
    return grant.lease


def _give_back(backend: StateBackend, leases: Sequence[Lease]) -> None:
    update = StateUpdate(at=SYSTEM_CLOCK.now(), releases=True)
    backend.append([Append(lease, 1, (), update) for lease in leases])


def _rewritten(backend: StateBackend, stored: StoredValues, lease: Lease, rewritten: Rewritten) -> Append:
    """The own records of a state in the newest format. ``rewritten`` has the new links of what others wrote."""
    header = backend.find_state(lease.state_id)
    assert header is not None, "it is leased"
    read = backend.read(header.state_id)
    records = all_records(header, read, stored)
    own = own_frames(header, read)
    cipher = stored.record_cipher(header.state_id)
    link = _link_before(header, read, rewritten)
    owner = frames.first_link(header.state_id)
    bodies: list[bytes] = []
    for (seq, frame), record in zip(own, records[len(read) - len(own) :], strict=True):
        body, link = frames.to_frame(record, link, owner, cipher if frames.is_sealed(frame) else None)
        bodies.append(body)
        rewritten[header.state_id, seq, frame] = link
    return rewriting(lease, header, own[0][0] if own else 1, bodies, link if read else None, FORMAT_VERSION)


def _link_before(header: StateHeader, read: Frames, rewritten: Rewritten) -> int:
    if not header.bases:
        return frames.first_link(header.state_id)
    base = header.bases[-1]
    frame = read[base.last - 1][1]
    shared = rewritten.get((base.state_id, base.last, frame), frames.link_of(frame))
    return frames.forked_link(header.state_id, shared)
