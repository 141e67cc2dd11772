"""How it is told that a run was stopped, when it is and afterwards: why, by whom, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from limpet.errors import ExecutionInterrupted
from limpet.model import EventRecord, ExecutionStatus, InterruptReason, StateHeader
from limpet.model.header import utc
from limpet.model.interrupts import ROLLED_BACK, from_plain

_ENDS_A_SENTENCE = (".", "!", "?", "…")


def told_of(error: ExecutionInterrupted) -> str:
    """Why a run was stopped, in whole sentences."""
    message = " ".join(error.message.split())
    match error.reason:
        case InterruptReason.SIGNAL:
            return "Interrupted."
        case InterruptReason.BUDGET | InterruptReason.TIMEOUT:
            return _ended(f"Stopped by its {error.reason}. {message}")
        case _:
            word = "" if error.reason in list(InterruptReason) else f" ({error.reason})"
            by = f" by {error.triggered_by}" if error.triggered_by else ""
            return _ended(f"Interrupted{by}{word}{f': {message}' if message else ''}")


def _ended(text: str) -> str:
    text = text.rstrip()
    return text if text.endswith(_ENDS_A_SENTENCE) else f"{text}."


def stop_for_people(header: StateHeader, rollback: EventRecord | None = None) -> str:
    """Why and when a state was stopped; empty where it was not, or goes on.

    ``rollback`` is the newest record of its rollback, if that was begun.
    """
    if rollback is not None and rollback.status is ExecutionStatus.COMPLETED:
        return f"{_readable(rollback.recorded_at)}rolled back"
    if not header.metadata.stopped:
        return ""
    signal = from_plain(header.metadata.stopped)
    # That is noted when a rollback begins.
    reason = "to be rolled back" if signal.reason == ROLLED_BACK else signal.reason.replace("_", " ")
    return f"{_readable(_stopped_at(header))}{msgspec.structs.replace(signal, reason=reason)}"


def _readable(at: datetime | None) -> str:
    return "" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC, "


def stop_for_programs(header: StateHeader) -> dict[str, Any] | None:
    """The same as JSON says it."""
    if not header.metadata.stopped:
        return None
    signal = from_plain(header.metadata.stopped)
    return {
        "reason": signal.reason,
        "message": signal.message,
        "triggered_by": signal.triggered_by,
        "at": _stopped_at(header),
    }


def _stopped_at(header: StateHeader) -> datetime | None:
    # Metadata is plain JSON, which anybody may write.
    at = header.metadata.stopped.get("at")
    try:
        return utc(at) if isinstance(at, int | float) else None
    except (OverflowError, ValueError, OSError):
        return None
