"""How far a run is, from what is recorded of it. Pure."""

from __future__ import annotations

from limpet.journal.history import History
from limpet.model import CheckpointRecord, StateStatus
from limpet.model.progress import Progress, ProgressSource


def events_done(history: History) -> int:
    """How many events of a timeline have an outcome."""
    return len(history.latest) - len(history.open)


def said_progress(history: History) -> Progress | None:
    """What the program has said last of how far it is, on this timeline."""
    for record in reversed(history.records):
        if type(record) is CheckpointRecord and record.note is not None and record.note.total:
            return Progress(record.note.done, record.note.total, ProgressSource.SAID)
    return None


def progress_of(
    history: History, status: StateStatus, declared: int | None, earlier: tuple[str, int] | None = None
) -> Progress:
    """How far a run is: by its end, by what it says, by what is declared, or by an earlier run, in this order.

    ``declared`` is the number of events that its agent is declared with, ``earlier`` another run and its number.
    """
    done = events_done(history)
    if status is StateStatus.COMPLETED:
        return Progress(done, done, ProgressSource.ENDED)
    said = said_progress(history)
    if said is not None:
        return said
    if declared:
        return Progress(done, declared, ProgressSource.DECLARED)
    if earlier is not None and earlier[1]:
        return Progress(done, earlier[1], ProgressSource.EARLIER_RUN, earlier[0])
    return Progress(done, None, ProgressSource.UNKNOWN)
