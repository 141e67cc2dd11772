"""``now``, ``random`` and ``uuid4``: inside a run each value is an event that is recorded, and given again on replay.

They are plain functions, so they cannot wait until their record is durable. Inside an agent the next call waits
before its handler starts (``unconfirmed.py``). Tools and models, which have effects of their own, and worker threads
wait at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar
from uuid import UUID
from uuid import uuid4 as new_uuid

from limpet.codec import values
from limpet.engine.actors import Actor
from limpet.engine.call import Call
from limpet.engine.clock import SYSTEM_CLOCK, Clock
from limpet.engine.drift import check_given, check_new
from limpet.engine.live import LiveState
from limpet.engine.notices import tell
from limpet.engine.opening import take_lease
from limpet.engine.outcomes import order_in
from limpet.engine.scope import Scope, Start, current_scope
from limpet.engine.stopping import Stopped
from limpet.engine.storage_view import note_given
from limpet.engine.threads import wait_on
from limpet.engine.unconfirmed import remember
from limpet.engine.user_threads import require_scope_not_lost
from limpet.errors import Drift
from limpet.model import Details, DeterminismLevel, EventRecord, ExecutionStatus, ReplayMode, fingerprint

T = TypeVar("T")

_COMPLETED = ExecutionStatus.COMPLETED
_NO_INPUT = values.encode_arguments([])

_Given = tuple[Any, asyncio.Future[None] | None]
"""A value, and what to wait for until it is durable; None: it is."""


class ValueActor(Actor[..., Any]):
    """What an event calls that is one value of the outside world. There is one of each kind."""

    is_plain = False

    def __init__(self, name: str, wanted: type, make: Callable[[Clock], Any]) -> None:
        super().__init__(name=name, determinism=DeterminismLevel.NON_DETERMINISTIC)
        self.wanted = wanted
        self.make = make


_NOW = ValueActor("now", datetime, lambda clock: datetime.fromtimestamp(clock.now(), UTC))
# The seed is text, so that `limpet show` has something to show and a replacement can be written by hand.
_RANDOM = ValueActor("random", str, lambda clock: os.urandom(16).hex())
_UUID4 = ValueActor("uuid4", UUID, lambda clock: new_uuid())


def now() -> datetime:
    """The time, in UTC. Inside a run it is recorded, and every replay is given the recorded one."""
    return _value(_NOW)


def random() -> Random:
    """A generator of random numbers. Inside a run its seed is recorded, so every replay has the same numbers.

    Each call gives a new generator, with a seed of its own.
    """
    return Random(_value(_RANDOM))


def uuid4() -> UUID:
    """A random UUID. Inside a run it is recorded, and every replay is given the recorded one."""
    return _value(_UUID4)


def given_at_once(scope: Scope, record: EventRecord) -> None:
    """Take note that a recorded value was given where it was asked for, without waiting for its turn."""
    scope.live.given += 1


def _value(actor: ValueActor) -> Any:
    scope = current_scope.get()
    if scope is None:
        require_scope_not_lost(actor.name)
        return actor.make(SYSTEM_CLOCK)
    live = scope.live
    if live.threads.outstanding:
        live.threads.note_call(scope, actor.label, "Take the value before the threads are started, or inside a tool.")
    call = Call(actor, scope.take(actor.label), (), {}, ())
    if live.rehearsal is not None:
        live.rehearsal.note_site(call.address)
    if live.loop is not None and not _is_running(live.loop):
        return wait_on(_give_and_wait(scope, call), live.loop)
    value, durable = _give(scope, call)
    if durable is not None:
        remember(live, durable)
        if not _is_in_agent(scope):
            live.write_through()
    return value


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this is the thread of that loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _is_in_agent(scope: Scope) -> bool:
    call = scope.event.call
    return call is None or call.actor.is_agent


async def _give_and_wait(scope: Scope, call: Call) -> Any:
    value, durable = _give(scope, call)
    if durable is not None:
        await durable
    return value


def _give(scope: Scope, call: Call) -> _Given:
    """The recorded value of a call, or a new one that is being recorded. Called on the loop of the run."""
    live, actor = scope.live, call.actor
    assert isinstance(actor, ValueActor)
    if live.has_cut_off and scope.is_given_up:
        raise Stopped
    if call.address == live.resume_from_address:
        live.resume_from_address = None
    record = live.history.latest.get(call.address)
    if record is not None and record.status is _COMPLETED:
        note_given(scope, record)
        return _recorded(scope, call, actor, record), None
    if live.stopper.is_cancelling:
        return actor.make(live.clock), None  # Nothing is recorded any more, so nothing can come of it.
    if live.reads_only:
        _note_missing(scope, call)
        return actor.make(live.clock), None
    if record is None:
        order = order_in(scope)
        check_new(scope, call, None if order is None or order.count.alive else order.place_taken())
    value = actor.make(live.clock)
    durable = _record(scope, call, value, record)
    note_given(scope, live.history.latest[call.address])
    if live.bus.is_heard:
        _tell_when_durable(live, call, durable)
    return value, durable


def _recorded(scope: Scope, call: Call, actor: ValueActor, record: EventRecord) -> Any:
    live = scope.live
    call.is_replayed = True
    assert record.result is not None, "a completed event has a result"
    value = live.stored.decode(record.result) if record.artifacts else values.decode(record.result)
    if not isinstance(value, actor.wanted):
        what = (
            f"its recorded result is of type {type(value).__name__}, and {actor.name}() gives {actor.wanted.__name__}"
        )
        raise Drift(call.address, live.state_id, what)
    if live.rehearsal is not None:
        live.rehearsal.given(scope, call, record, _NO_INPUT)
        return value
    if live.validation is not None:
        live.validation.note_reused(call.address)
        return value
    check_given(scope, call, record, _NO_INPUT)
    given_at_once(scope, record)
    if live.mode is ReplayMode.REPUBLISH_ALL and live.bus.is_heard:
        tell(live, call, ExecutionStatus.RECOVERED, is_replayed=True)
    return value


def _note_missing(scope: Scope, call: Call) -> None:
    """Report a value that is not recorded, where nothing is to be recorded."""
    live = scope.live
    if live.rehearsal is not None:
        live.rehearsal.note_missing(scope, call)
    if live.validation is not None:
        live.validation.note_extra(call.address)


def _record(scope: Scope, call: Call, value: Any, before: EventRecord | None) -> asyncio.Future[None] | None:
    live = scope.live
    if live.lease is None:
        take_lease(live)
    what, input_ = (b"", _NO_INPUT) if live.records_inputs else (fingerprint(_NO_INPUT), None)
    order = live.next_order() if before is None else before.order
    at = live.clock.now()
    start = Start(call.address, at, order, None, what, input_)
    live.under_way += 1
    try:
        return live.write_outcome(
            *(scope, start, _COMPLETED, at, 0.0),
            result=live.stored.encode_inline(value),
            details=Details(at_once=True),
        )
    finally:
        live.under_way -= 1


def _tell_when_durable(live: LiveState, call: Call, durable: asyncio.Future[None] | None) -> None:
    if durable is None:
        tell(live, call, _COMPLETED)
        return

    def answered(future: asyncio.Future[None]) -> None:
        if not future.cancelled() and future.exception() is None:
            tell(live, call, _COMPLETED)

    durable.add_done_callback(answered)
