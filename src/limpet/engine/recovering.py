"""Going on with a damaged state: a new timeline that keeps what stands before the damage.

Nothing is deleted. What is damaged stays where it is, outside of the current timeline, and so does what is intact
behind it; both can be looked at, and compared with a backup that turns up later.
"""

from __future__ import annotations

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import Append, Claim, StateUpdate
from limpet.codec import frames
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.declared import names_declared_once
from limpet.engine.header_anew import header_anew
from limpet.engine.lease import new_holder
from limpet.engine.named_agent import disagreement
from limpet.engine.opening import acquire_now
from limpet.engine.reading import Frames, decoded, next_link, whole_journal
from limpet.engine.writer import Writer
from limpet.errors import OnceAgain, UnknownState, UsageError
from limpet.journal.address import parse
from limpet.journal.recovery import Recovery, recovery_of
from limpet.model import End, Lease, Recovered, StateHeader, StateStatus


def recover_state(writer: Writer, stored: StoredValues, header: StateHeader, *, again: bool) -> Recovered:
    """Make what stands before the damage the current timeline. Raises LeaseHeld, OnceAgain, WrongKey, UsageError."""
    ttl_s = writer.keeper.ttl_s
    claim = Claim(header=header, holder=new_holder(), ttl_s=ttl_s, create=False, reopen=True, mend=True)
    grant = acquire_now(writer, claim)
    if grant is None or grant.lease is None:
        raise UnknownState(header.state_id)
    update = None
    try:
        return _recover(writer, stored, grant.header, grant.lease, again=again)
    except BaseException:
        update = StateUpdate(at=SYSTEM_CLOCK.now(), releases=True)
        raise
    finally:
        if update is not None:
            writer.backend.append((Append(grant.lease, 1, (), update),))


def _recover(writer: Writer, stored: StoredValues, header: StateHeader, lease: Lease, *, again: bool) -> Recovered:
    backend = writer.backend
    read = backend.read(header.state_id)
    mended = None
    if header.damage is not None or _names_another_agent(header, read, stored):
        mended = header = header_anew(header, read, stored)
    journal = list(whole_journal(header, read, stored))
    recovery = recovery_of(journal, header.timeline)
    now = SYSTEM_CLOCK.now()
    if not read and (mended is not None or journal):
        raise UsageError(
            f"State {header.state_id!r} cannot be gone on with: none of its records is left.",
            "Restore it from a backup, or delete it and run again.",
        )
    if recovery is None:
        update = StateUpdate(at=now, header=mended, releases=True)
        _written(writer, Append(lease, 1, (), update))
        return _report(header, recovery, kept=len(journal), mended=mended is not None)
    if not recovery.new.parts:
        raise UsageError(
            f"State {header.state_id!r} cannot be gone on with: record {recovery.first_damaged}, with which it begins, "
            "is damaged, and nothing stands before it.",
            "Restore it from a backup, or delete it and run again.",
        )
    if not again:
        _require_not_again(header.state_id, recovery)
    position = read[-1][0] if read else 0
    bodies, end = _frames_of(header, recovery, stored, read, position, now)
    status, timeline = StateStatus.INTERRUPTED, position + 1
    update = StateUpdate(at=now, status=status, timeline=timeline, end=end, header=mended, releases=True)
    _written(writer, Append(lease, position + 1, bodies, update))
    kept = sum(part.last - part.first + 1 for part in recovery.new.parts)
    return _report(header, recovery, kept=kept, mended=mended is not None)


def _names_another_agent(header: StateHeader, read: Frames, stored: StoredValues) -> bool:
    first = next(decoded(header, read[:1], stored), None)
    return disagreement(header, first) is not None


def _report(header: StateHeader, recovery: Recovery | None, *, kept: int, mended: bool) -> Recovered:
    given_up = () if recovery is None else tuple(dict.fromkeys(record.address for record in recovery.given_up))
    return Recovered(
        state_id=header.state_id,
        kept=kept,
        first_damaged=None if recovery is None else recovery.first_damaged,
        given_up=given_up,
        mended_header=mended,
        was_needed=recovery is not None or mended,
    )


def _written(writer: Writer, append: Append) -> None:
    (refusal,) = writer.backend.append((append,))
    if refusal is not None:
        raise refusal


def _frames_of(
    header: StateHeader, recovery: Recovery, stored: StoredValues, read: Frames, position: int, now: float
) -> tuple[list[bytes], End]:
    owner, cipher = frames.first_link(header.state_id), stored.record_cipher(header.state_id)
    link = next_link(header, read[-1] if read else None)
    bodies: list[bytes] = []
    for record in recovery.new.records(position + 1, now, recovery.number):
        body, link = frames.to_frame(record, link, owner, cipher)
        bodies.append(body)
    return bodies, End(position + len(bodies), link)


def _require_not_again(state_id: str, recovery: Recovery) -> None:
    """What is declared ``once`` and is recorded behind the damage would be executed again."""
    once = names_declared_once()
    actors = (parse(record.address) for record in recovery.given_up)
    again = dict.fromkeys(actor.name for actor in actors if (actor.name, actor.event_type) in once)
    if again:
        raise OnceAgain(state_id, tuple(again))
