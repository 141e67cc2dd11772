"""What a person says of a call that is declared ``once`` and was cut off, put on record."""

from __future__ import annotations

from typing import Any

import msgspec

from limpet.artifacts.stored_values import Encoded, StoredValues
from limpet.backends.contract import StateUpdate
from limpet.engine.bus import EventBus
from limpet.engine.effects import kept_details, said_of
from limpet.engine.failures import failure_of
from limpet.engine.live import LiveState
from limpet.engine.opening import take_lease
from limpet.engine.reading import read_history
from limpet.engine.replacement import NOTHING
from limpet.engine.writer import Writer
from limpet.errors import AmbiguousAddress, EventFailed, UnknownAddress, UsageError
from limpet.journal.address import matching, nearest, nearest_ends
from limpet.journal.history import History
from limpet.journal.rollback import unknown_effects
from limpet.model import EventRecord, ExecutionStatus, Settled, StateHeader, StateStatus


class Word(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a call: exactly one of three."""

    happened: Any = NOTHING
    """It did its work, and this is its result."""
    again: bool = False
    """It did not, and is executed when the run is taken up."""
    failed: str | None = None
    """It failed, for this reason."""
    by: str = ""

    def __post_init__(self) -> None:
        if (self.happened is not NOTHING) + self.again + (self.failed is not None) != 1:
            raise UsageError(
                "There is no telling what became of the call.",
                "Say one of three: `happened=` with its result, `again=True`, or `failed=` with the reason.",
            )


def settle(writer: Writer, stored: StoredValues, header: StateHeader, at: str | None, word: Word) -> str:
    """Record what became of a call, and give its address. Raises what ``Limpet.settle`` says."""
    history, link = read_history(header, writer.backend.read(header.state_id), stored)
    _find(history, at)
    # Before the lease is taken, so that what cannot be stored changes nothing.
    encoded = None if word.happened is NOTHING else stored.encode(word.happened, "happened")
    live = LiveState(writer=writer, stored=stored, header=header, history=history, link=link, bus=EventBus())
    take_lease(live)
    try:
        # Under the lease, since another person may have said it in the meantime.
        record = _find(live.history, at)
        others = [each for each in unknown_effects(live.history, failed=False) if each.address != record.address]
        update = StateUpdate(
            at=live.clock.now(), status=StateStatus.AWAITING if others else StateStatus.PAUSED, releases=True
        )
        _write(live, record, word, encoded, update)
        return record.address
    except BaseException:
        live.release(None)
        raise
    finally:
        live.forget()


def _find(history: History, at: str | None) -> EventRecord:
    unknown = {record.address: record for record in unknown_effects(history)}
    if not unknown:
        raise UsageError(
            f"State {history.state_id!r} has no call whose outcome is unknown.", "There is nothing to settle: run it."
        )
    found = list(unknown) if at is None else matching(at, unknown.keys())
    if not found:
        assert at is not None
        raise UnknownAddress(at, history.state_id, nearest(at, unknown) or nearest_ends(at, unknown))
    if len(found) > 1:
        raise AmbiguousAddress(at or "", history.state_id, tuple(found))
    return unknown[found[0]]


def _write(live: LiveState, record: EventRecord, word: Word, encoded: Encoded | None, update: StateUpdate) -> None:
    more: dict[str, Any] = {}
    if encoded is not None:
        status, settled = ExecutionStatus.COMPLETED, Settled.HAPPENED
        result, pending = encoded
        ids = live.put_artifacts_now(pending) if pending else ()
        more = {"result": result, "artifacts": tuple(dict.fromkeys((*record.artifacts, *ids)))}
    elif word.again:
        status, settled = ExecutionStatus.CANCELLED, Settled.AGAIN
    else:
        status, settled = ExecutionStatus.FAILED, Settled.FAILED
        more = {"error": failure_of(EventFailed(record.address, word.failed or "somebody said so")).failure}
    details = kept_details(record, settled, word.by)
    live.write_event(lambda seq, now: said_of(record, seq, now, status, details, **more), update)
