"""Forking a state: a new one that begins with the records of another, up to some point, and goes on by itself.

Nothing is copied. The fork shares the records of its parent up to the last one that belongs to it, and its own begin
with one that says what of them belongs to it. All of it is one commit. An event that is given by its whole address is
looked for where it should stand, so that the cost does not grow with the journal; where it is not found there the whole
journal is read.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import msgspec

from limpet.artifacts.stored_values import Pending, StoredValues
from limpet.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.declared import names_declared_once
from limpet.engine.lease import new_holder
from limpet.engine.reading import JournalReader
from limpet.engine.replacement import NOTHING, replacement_of
from limpet.errors import OnceAgain, UnknownState, UsageError
from limpet.journal.address import parse
from limpet.journal.history import History
from limpet.journal.new_timeline import NewTimeline, from_end, from_record, on_timeline, point_of
from limpet.journal.plan import plan_of
from limpet.journal.rollback import is_rolled_back, names_undoing
from limpet.journal.search import WINDOW, last_shared, search
from limpet.journal.timeline import belonging, cut_behind, intact, standing_in
from limpet.model import (
    Base,
    End,
    EventRecord,
    Part,
    Pin,
    StateHeader,
    StateMetadata,
    StateStatus,
)
from limpet.model.defaults import LEASE_TTL_S
from limpet.model.header import utc

_FOLLOWING = 32
"""How many records are read at once to see whether anything was under way beside an event."""


class ForkPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a state is forked: at an event, a checkpoint or the end, on the current timeline or the one named."""

    address: str | None = None
    checkpoint: int | None = None
    timeline: int | None = None
    replace: object = NOTHING
    any_type: bool = False
    again: bool = False
    """Whether the fork may execute again what is declared ``once``."""


def fork_state(
    backend: StateBackend,
    stored: StoredValues,
    parent: StateHeader,
    new_id: str,
    point: ForkPoint,
    metadata: StateMetadata | None,
) -> None:
    """Make a fork. Raises what the point asks for and is not there, or UsageError where the id is taken."""
    while not _is_forked(backend, stored, parent, new_id, point, metadata):
        # Between the look at the parent and the claim a cleanup has rewritten it.
        found = backend.find_state(parent.state_id)
        if found is None:
            raise UnknownState(parent.state_id)
        parent = found


def _is_forked(
    backend: StateBackend,
    stored: StoredValues,
    parent: StateHeader,
    new_id: str,
    point: ForkPoint,
    metadata: StateMetadata | None,
) -> bool:
    """Make a fork; False, and there is none, where what it shares is no longer what was read."""
    reader = JournalReader(backend, stored, parent)
    new, last, history = _located(reader, point)
    pending: Sequence[Pending] = ()
    if new.event is not None:
        replacement, pending = replacement_of(stored, new.event, point.replace, point.any_type)
        new = msgspec.structs.replace(new, replacement=replacement)
    if history is not None and not point.again:
        require_not_again(on_timeline(history, point.timeline), new)
    if pending:
        stored.put(pending, None)
    shared = reader.frame(last)
    claim = _claim(reader, stored, new, last, shared, _header(parent, new_id, last, metadata), bool(pending))
    (grant,) = backend.acquire((claim,))
    if grant is None:
        raise UnknownState(parent.state_id)
    if not grant.is_new:
        raise UsageError(f"There is a state {new_id!r} already.", "Give the fork another id, or none.")
    if backend.read(new_id, last - 1, 1) != [(last, shared)]:
        backend.delete_state(new_id, grant.lease)
        return False
    if pending:
        _put_under_lease(backend, stored, grant, pending)
    return True


def _located(reader: JournalReader, point: ForkPoint) -> tuple[NewTimeline, int, History | None]:
    """What the fork goes on from, the last record that it shares, and the history where all of it had to be read."""
    if point.address is not None and point.timeline is None:
        found = _found_quickly(reader, point)
        if found is not None:
            return *found, None
    history, _ = reader.history()
    new = point_of(history, point.address, point.checkpoint, point.timeline) or from_end(history)
    kept = history.on(new.parts).records
    last = max(1, kept[-1].seq if kept else 1)
    return msgspec.structs.replace(new, parts=cut_behind(new.parts, last)), last, history


def require_not_again(before: History, new: NewTimeline) -> None:
    """Raises OnceAgain where a new timeline would execute again what is declared ``once`` and has been begun."""
    again = {calls.actor for calls in plan_of(before, new, names_declared_once()).once_again}
    if is_rolled_back(before):
        again -= names_undoing(before)
    if again:
        raise OnceAgain(before.state_id, tuple(sorted(again)))


def _found_quickly(reader: JournalReader, point: ForkPoint) -> tuple[NewTimeline, int] | None:
    assert point.address is not None
    number, parts = reader.current_parts()
    for part in reversed(parts):
        found = _searched(reader, point.address, part)
        if found is None:
            continue
        if not point.again and names_declared_once():
            if not found.is_settled_with_all:
                return None  # What started after it may stand anywhere.
            _require_not_begun_behind(reader, parts, found, point)
        following = standing_in(parts, reader.stream(found.seq, _FOLLOWING))
        last = last_shared(found, itertools.chain([found], intact(following)))
        new = from_record(number, parts, found)
        return msgspec.structs.replace(new, parts=cut_behind(new.parts, last)), last
    return None


def _require_not_begun_behind(
    reader: JournalReader, parts: tuple[Part, ...], found: EventRecord, point: ForkPoint
) -> None:
    """As ``require_not_again``, for an event that was alone: what started after it stands behind it."""
    once = names_declared_once()
    replaced = None if point.replace is NOTHING else found.address
    for record in belonging(reader.stream(found.seq - 1), parts):
        if type(record) is EventRecord and record.order >= found.order and record.address != replaced:
            actor = parse(record.address)
            if (actor.name, actor.event_type) in once:
                raise OnceAgain(reader.header.state_id, (actor.name,))


def _searched(reader: JournalReader, address: str, part: Part) -> EventRecord | None:
    searching = search(address, part)
    try:
        after = next(searching)
        while True:
            after = searching.send(reader.intact_window(after, WINDOW))
    except StopIteration as ended:
        return ended.value


def _header(parent: StateHeader, new_id: str, last: int, metadata: StateMetadata | None) -> StateHeader:
    now = utc(SYSTEM_CLOCK.now())
    return StateHeader(
        state_id=new_id,
        status=StateStatus.PAUSED,
        created_at=now,
        updated_at=now,
        metadata=msgspec.structs.replace(
            metadata or parent.metadata,
            parent_state_id=parent.state_id,
            stopped={},
            replayed={},
            origin=parent.metadata.origin,
        ),
        agent=parent.agent,
        timeline=last + 1,
    )


def _claim(
    reader: JournalReader,
    stored: StoredValues,
    new: NewTimeline,
    last: int,
    shared: bytes,
    header: StateHeader,
    holds: bool,
) -> Claim:
    owner = frames.first_link(header.state_id)
    link = frames.forked_link(header.state_id, frames.link_of(shared))
    cipher = stored.record_cipher(header.state_id)
    bodies: list[bytes] = []
    for record in new.records(last + 1, SYSTEM_CLOCK.now(), 1, reader.header.state_id):
        body, link = frames.to_frame(record, link, owner, cipher)
        bodies.append(body)
    return Claim(
        header=msgspec.structs.replace(header, end=End(last + len(bodies), link)),
        bodies=tuple(bodies),
        base=Base(reader.header.state_id, last),
        holder=new_holder(),
        # A lease that lasts no time: whoever takes the fork up need not wait for it.
        ttl_s=LEASE_TTL_S if holds else 0.0,
    )


def _put_under_lease(backend: StateBackend, stored: StoredValues, grant: Grant, pending: Sequence[Pending]) -> None:
    """Put again what was put before the fork named it, so that it is there even if a collector found it first."""
    lease = grant.lease
    assert lease is not None
    stored.put(pending, Pin(stored.store_id, lease.state_id, lease.fence))
    update = StateUpdate(at=SYSTEM_CLOCK.now(), releases=True)
    (refusal,) = backend.append((Append(lease, grant.header.position + 1, (), update),))
    if refusal is not None:
        raise refusal
