"""One wait, from the call to its outcome: a question that is asked, a time that is let pass, a message that is due."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from limpet.artifacts.stored_values import Pending
from limpet.backends.contract import StateUpdate
from limpet.engine.drift import changed, check_going_on, check_new
from limpet.engine.failures import failure_in, mark_failed
from limpet.engine.live import LiveState
from limpet.engine.notices import tell
from limpet.engine.opening import take_lease
from limpet.engine.outcomes import refuse_late, settle
from limpet.engine.scope import Scope, Start
from limpet.engine.untaken import Arrived
from limpet.engine.waits import waits_of
from limpet.journal.waits import due_at_of, is_question, noted_in, open_waits, waiting_of
from limpet.logs import logger
from limpet.model import Details, EventRecord, ExecutionStatus

if TYPE_CHECKING:
    from limpet.engine.call import Call

log = logger("limpet.questions")

_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED


class WaitEnd(msgspec.Struct, frozen=True):
    """What has ended a wait: its result, or why it failed."""

    ended: str
    result: Any = None
    error: Exception | None = None
    by: str = ""
    letter: str = ""
    is_refused: bool = False
    """Whether this ends nothing: what was said is no answer, and why is the error."""


class Awaited:
    """What is waited for; each kind of wait says for itself what ends it."""

    def due_at(self, now: float) -> float:
        """When the waiting ends at the latest; 0: never."""
        return 0.0

    async def ask_here(self, scope: Scope, record: EventRecord) -> WaitEnd | None:
        """What somebody in this process says at once."""
        return None

    def key(self, record: EventRecord) -> str:
        """What letters are for it (``journal.waits.letter_key``); empty where none are."""
        return ""

    def taken(self, live: LiveState, record: EventRecord, letter: Arrived) -> WaitEnd:
        """How a letter that came in time ends the waiting."""
        raise NotImplementedError

    def overdue(self, record: EventRecord) -> WaitEnd:
        """How the waiting ends where nothing had come in time."""
        raise NotImplementedError


async def perform_wait(
    scope: Scope,
    call: Call,
    encoded: bytes,
    pending: Sequence[Pending],
    record: EventRecord | None,
    drift: str | None,
) -> Any:
    """Give what was waited for; raise why it did not come."""
    live = scope.live
    awaited: Awaited = call.args[0]
    if live.lease is None:
        take_lease(live)
    if record is None:
        check_new(scope, call, drift)
    else:
        _go_on(scope, call, encoded, record)
    if record is None or record.status is not ExecutionStatus.AWAITING or changed(live, call, record, encoded):
        record = await _begin(scope, call, encoded, pending, record, awaited)
    try:
        # What was said before counts, whoever would be asked here.
        end = await _end_now(live, record, awaited) or await awaited.ask_here(scope, record)
        while end is None or end.is_refused:
            if end is not None:
                record = await _ask_anew(scope, call, record, end)
                end = await _end_now(live, record, awaited)
                continue
            await waits_of(live).until_noticed(scope, record, awaited.key(record))
            if scope.event.is_closed:
                refuse_late(scope, call)
            if live.lease is None:
                live.require_own()
            end = await _end_now(live, record, awaited)
    except asyncio.CancelledError:
        is_by_code = not (live.is_stopping or live.is_left or scope.is_being_ended or scope.event.is_closed)
        if is_by_code and live.lease is not None and live.can_be_left:
            # The code waits for it no longer, and so nobody need answer.
            await _write(scope, call, record, ExecutionStatus.CANCELLED, details=None)
        raise
    return await _end(scope, call, record, end)


async def _ask_anew(scope: Scope, call: Call, record: EventRecord, refused: WaitEnd) -> EventRecord:
    """Record that what was said is no answer. An answer is bound to the record that asks: another one can be given."""
    live = scope.live
    assert refused.error is not None
    log.warning("An answer to %s in state %s was refused: %s", record.address, live.state_id, refused.error)
    now = live.clock.now()
    start = Start(record.address, now, record.order, None, record.fingerprint, record.input, record.artifacts)
    details = Details(due_at=due_at_of(record), by=refused.by, letter=refused.letter)
    told = failure_in(live, refused.error)
    durable = live.write_outcome(
        *(scope, start, ExecutionStatus.AWAITING, now, 0.0), error=told.failure, details=told.with_blocks(details)
    )
    waits_of(live).take(refused.letter)
    if durable is not None:
        await durable
    if live.bus.is_heard:
        tell(live, call, ExecutionStatus.AWAITING)
        live.bus.give_a_moment()
    return live.history.latest[call.address]


async def _end_now(live: LiveState, record: EventRecord, awaited: Awaited) -> WaitEnd | None:
    # Asked before the inbox is: all that came in time is there by then.
    is_due, key, waits = is_overdue(live, record), awaited.key(record), waits_of(live)
    letter = await waits.find_new(key, record)
    if letter is not None:
        return awaited.taken(live, record, letter)
    return awaited.overdue(record) if is_due and not (key and waits.is_cut_off) else None


def is_overdue(live: LiveState, record: EventRecord) -> bool:
    """Whether what comes now is too late for a wait, or just in time for the last time."""
    due_at = due_at_of(record)
    return bool(due_at) and live.clock.now() >= due_at


def _go_on(scope: Scope, call: Call, encoded: bytes, record: EventRecord) -> None:
    scope.reached = max(scope.reached, record.order)
    if record.status is ExecutionStatus.AWAITING:
        check_going_on(scope.live, call, record, encoded)
    elif scope.tried_again is None or record.order < scope.tried_again:
        scope.tried_again = record.order


async def _begin(
    scope: Scope,
    call: Call,
    encoded: bytes,
    pending: Sequence[Pending],
    record: EventRecord | None,
    awaited: Awaited,
) -> EventRecord:
    """Record what is waited for, and until when."""
    live = scope.live
    waits_of(live)
    named = await live.put_artifacts(pending) if pending else ()
    now = live.clock.now()
    due_at = awaited.due_at(now)
    order = live.next_order() if record is None else record.order
    start = Start(call.address, now, order, None, b"", encoded, named)
    details = Details(due_at=due_at) if due_at else None
    durable = live.write_outcome(*(scope, start, ExecutionStatus.AWAITING, now, 0.0), details=details)
    if durable is not None:
        await durable
    if live.bus.is_heard:
        tell(live, call, ExecutionStatus.AWAITING)
        live.bus.give_a_moment()
    return live.history.latest[call.address]


async def _end(scope: Scope, call: Call, record: EventRecord, end: WaitEnd) -> Any:
    """Record what has ended the waiting, and give it."""
    live = scope.live
    if end.letter:
        waits_of(live).take(end.letter)
    details = Details(due_at=due_at_of(record), settled=end.ended, by=end.by, letter=end.letter)
    if end.error is not None:
        live.has_failed = True
        mark_failed(scope, call.address, end.error)
        await _write(scope, call, record, _FAILED, details=details, error=end.error)
        raise end.error
    encoded = live.stored.encode_small(end.result)
    results: tuple[str, ...] = ()
    if encoded is None:
        encoded, produced = await live.stored.encode_result(end.result, False)
        results = await live.put_artifacts(produced) if produced else ()
    await _write(scope, call, record, _COMPLETED, details=details, result=encoded, artifacts=results)
    return end.result


async def _write(
    scope: Scope,
    call: Call,
    record: EventRecord,
    status: ExecutionStatus,
    *,
    details: Details | None,
    result: bytes | None = None,
    artifacts: tuple[str, ...] = (),
    error: Exception | None = None,
) -> None:
    live = scope.live
    if scope.event.is_closed:
        refuse_late(scope, call)
    now = live.clock.now()
    call.execution_time = max(0.0, now - record.at)
    start = Start(record.address, record.at, record.order, None, record.fingerprint, record.input, record.artifacts)
    told = None if error is None else failure_in(live, error)
    durable = live.write_outcome(
        *(scope, start, status, now, call.execution_time),
        result=result,
        artifacts=artifacts,
        error=None if told is None else told.failure,
        details=details if told is None else told.with_blocks(details),
        update=_without(live, record, now, details),
    )
    call.news = (status, {"execution_time": call.execution_time})
    settle(scope, call, durable)


def _without(live: LiveState, record: EventRecord, now: float, details: Details | None) -> StateUpdate | None:
    """What changes of the header at once when something is waited for no longer, where that was noted there."""
    metadata = live.header.metadata
    if not metadata.waiting:
        return None
    if live.root is not None and not (is_question(record.address) and (details is None or not details.letter)):
        # The letter itself tells that a question is answered, and nobody is told of a message or a time in vain. So the
        # header, which costs more with each wait that is open, is written for many of them together.
        waits_of(live).note_soon()
        return None
    left = [each for each in open_waits(live.history) if each.seq != record.seq]
    return StateUpdate(at=now, metadata=noted_in(metadata, waiting_of(left, live.header.timeline)))
