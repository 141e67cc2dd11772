"""What is undone when a run is rolled back, and that a run which was cannot go on.

The undoing is an event at the top of the same state, beside the run: ``rollback[order]::agent_call``. Inside it stands
a call for each thing that is undone, from the newest to the oldest, with the path of what it undoes as its key.
"""

from __future__ import annotations

from collections.abc import Collection

from limpet.errors import RolledBack
from limpet.journal.address import SEPARATOR, label
from limpet.journal.history import History
from limpet.model import EventRecord, EventType, ExecutionStatus, Settled

ROLLBACK = "rollback"


def rollback_key(run_address: str) -> str:
    """What tells the rollback of a run from others: the path of the run."""
    return run_address.rpartition(SEPARATOR)[0]


def rollback_address(run_address: str) -> str:
    return f"{label(ROLLBACK, rollback_key(run_address))}{SEPARATOR}{EventType.AGENT_CALL}"


def to_undo(history: History) -> list[EventRecord]:
    """The results that something undoes, in the order in which that is done: what ended last is undone first."""
    done = [
        record
        for record in history.latest.values()
        if record.status is ExecutionStatus.COMPLETED and record.details is not None and record.details.undo
    ]
    return sorted(done, key=lambda record: record.seq, reverse=True)


def unknown_effects(history: History, *, failed: bool = True) -> list[EventRecord]:
    """The calls that are declared ``once``, have begun, and are not executed again without a word.

    With ``failed`` also those of which somebody has said that they failed.
    """
    settled = ("", Settled.FAILED) if failed else ("",)
    return [record for record in history.latest.values() if _is_unknown(record, history, settled)]


def _is_unknown(record: EventRecord, history: History, settled: Collection[str]) -> bool:
    # Only what is declared ``once`` has a recorded key. A failure that the program has caught is known to it.
    details = record.details
    is_once = details is not None and bool(details.key) and details.settled in settled
    is_caught = record.status is ExecutionStatus.FAILED and record.address not in history.to_retry
    return is_once and record.status is not ExecutionStatus.COMPLETED and not is_caught


def names_undoing(history: History) -> set[str]:
    """The names of what undoes something here: a new timeline does not execute that again."""
    return {record.details.undo for record in to_undo(history) if record.details is not None}


def is_rolled_back(history: History) -> bool:
    """Whether the run has been rolled back, or that was begun."""
    first = history.first_event()
    return first is not None and rollback_address(first.address) in history.latest


def require_not_rolled_back(history: History) -> None:
    """Raises RolledBack where what a run has done was undone: its results must not be given again."""
    if is_rolled_back(history):
        raise RolledBack(history.state_id)
