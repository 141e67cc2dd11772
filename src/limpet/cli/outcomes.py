"""What is shown of one call: a sign, and its outcome in a word or a value; and the same as JSON."""

from __future__ import annotations

from typing import Any

import msgspec

from limpet.cli.calls import CallNode, due_at
from limpet.cli.output import duration, styled
from limpet.cli.progress import COMPLETED_SIGN, FAILED_SIGN, RETRIED_SIGN, UNFINISHED_SIGN, UNKNOWN_SIGN
from limpet.cli.readable import cut, preview, read
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.journal.waits import is_question, is_wait
from limpet.model import EventRecord, ExecutionStatus, Failure, Settled

_SIGNS = {
    ExecutionStatus.COMPLETED: (COMPLETED_SIGN, "green"),
    ExecutionStatus.FAILED: (FAILED_SIGN, "red"),
    ExecutionStatus.RETRYING: (RETRIED_SIGN, "yellow"),
    ExecutionStatus.AWAITING: (UNKNOWN_SIGN, "yellow"),
}
_UNFINISHED = (UNFINISHED_SIGN, "yellow")


def sign_of(record: EventRecord) -> str:
    """One character for how a call stands, in its colour."""
    sign, colour = _SIGNS.get(record.status, _UNFINISHED)
    return styled(sign, fg=colour)


def outcome_of(node: CallNode, left: int) -> str:
    """What became of a call, in so many characters: its result, what it failed of, or how it stands."""
    record = node.record
    assert record is not None, "only what is recorded has an outcome"
    if is_wait(record.address) and record.status is ExecutionStatus.AWAITING:
        return cut(_open_wait(record), left)
    if due_at(record) is not None:
        return cut(_waiting(node, record), left)
    told = _settled(record)
    if record.error is not None:
        return styled(error_in_a_line(record.error, left - len(told)), fg="red") + told
    if record.result is not None:
        return preview(read(record.result), left - len(told)) + told
    return cut(_word(record), left - len(told)) + told


def _word(record: EventRecord) -> str:
    match record.status:
        case ExecutionStatus.STARTED:
            return "not finished"
        case ExecutionStatus.AWAITING:
            return "outcome unknown"
        case _ if _is_settled(record, Settled.AGAIN):
            return "did not happen, and is to be executed"
        case status:
            return str(status)


def _waiting(node: CallNode, record: EventRecord) -> str:
    """How a call stands that waits for its next attempt."""
    due = due_at(record)
    assert due is not None
    left_s = due.timestamp() - SYSTEM_CLOCK.now()
    is_failed = record.status is ExecutionStatus.RETRYING
    number = record.attempt + 1 if is_failed else record.attempt
    when = f"due in {duration(left_s)}" if left_s > 0 else "due"
    why = "" if node.last_error is None else f", after {error_in_a_line(node.last_error, 10_000)}"
    return f"{'' if is_failed else f'{record.status}; '}attempt {number} {when}{why}"


def _open_wait(record: EventRecord) -> str:
    """What is waited for."""
    due = due_at(record)
    until = "" if due is None else f" until {due:%Y-%m-%d %H:%M:%S} UTC"
    if not is_question(record.address):
        return f"waiting{until}"
    return f"asks {_prompt(record.input)!r}{until}"


def _prompt(encoded: bytes | None) -> str:
    """What a recorded question asks; empty where that cannot be read."""
    asked: Any = read(encoded) if encoded is not None else None
    try:
        return str(asked[0]["prompt"])
    except (TypeError, LookupError):
        return ""


def _is_settled(record: EventRecord, word: Settled) -> bool:
    return record.details is not None and record.details.settled == word


def _settled(record: EventRecord) -> str:
    """Who said what became of a call, where somebody did."""
    if record.details is None or record.details.settled in ("", Settled.NOT_EXECUTED):
        return ""
    how = record.details.settled if is_wait(record.address) else "settled"
    return f"  ({how}{f' by {record.details.by}' if record.details.by else ''})"


def error_in_a_line(error: Failure, left: int) -> str:
    """What a call failed of, in so many characters."""
    return cut(f"{error.type_name.rpartition('.')[2]}: {error.message}", left)


def call_for_programs(node: CallNode) -> dict[str, Any]:
    """A call as JSON says it."""
    record = node.record
    assert record is not None, "only what is recorded is told"
    error, details = record.error, record.details
    return {
        "address": record.address,
        "status": record.status,
        "attempts": node.attempts,
        "attempt": record.attempt,
        "due_at": due_at(record),
        "started_at": record.started_at,
        "duration_s": record.duration_s,
        "version": record.version,
        "input": None if record.input is None else read(record.input),
        "result": None if record.result is None else read(record.result),
        "artifacts": list(record.artifacts),
        "error": None
        if error is None
        else {"type": error.type_name, "message": error.message, "traceback": error.traceback},
        "settled": None if details is None else details.settled or None,
        "settled_by": None if details is None else details.by or None,
        "usage": None if details is None or details.usage is None else msgspec.structs.asdict(details.usage),
    }
