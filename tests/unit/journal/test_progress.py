"""How far a run is, from its records."""

from __future__ import annotations

from limpet import CheckpointNote, CheckpointRecord, EventRecord, ExecutionStatus, StateStatus
from limpet.journal.history import History
from limpet.journal.progress import events_done, progress_of
from limpet.model import Record

RUNNING = StateStatus.RUNNING


def history(*, notes: tuple[CheckpointNote | None, ...] = ()) -> History:
    records: list[Record] = [
        EventRecord(1, "run::agent_call", ExecutionStatus.STARTED, 0.0),
        EventRecord(2, "run::a::tool_call", ExecutionStatus.COMPLETED, 0.0, result=b""),
        EventRecord(3, "run::b::tool_call", ExecutionStatus.COMPLETED, 0.0, result=b""),
    ]
    records += [CheckpointRecord(4 + place, RUNNING, 0.0, "", note) for place, note in enumerate(notes)]
    return History("s", records)


def test_nothing_known_is_said_as_unknown() -> None:
    found = progress_of(history(), RUNNING, None)
    assert (2, None, "unknown", None) == (found.done, found.total, found.source, found.fraction)
    assert "2 events done; of how many is unknown" == str(found)


def test_what_the_program_said_last_counts_first() -> None:
    notes = (CheckpointNote(done=1, total=8), CheckpointNote(done=2, total=8), None, CheckpointNote(trigger="manual"))
    found = progress_of(history(notes=notes), RUNNING, 100, ("earlier", 50))
    assert ("said", 0.25) == (found.source, found.fraction)
    assert "25%, 2 of 8" == str(found)


def test_what_is_declared_counts_over_an_earlier_run() -> None:
    found = progress_of(history(), RUNNING, 4, ("earlier", 50))
    assert ("declared", 0.5, "50%, 2 of 4 events that were declared") == (found.source, found.fraction, str(found))


def test_an_earlier_run_tells_about_how_much_there_is() -> None:
    found = progress_of(history(), RUNNING, None, ("earlier", 8))
    assert "25%, 2 of 8 events, as in an earlier run (earlier)" == str(found)
    assert 1.0 == progress_of(history(), RUNNING, None, ("earlier", 1)).fraction


def test_a_completed_run_is_done_whatever_was_said() -> None:
    found = progress_of(history(notes=(CheckpointNote(done=1, total=8),)), StateStatus.COMPLETED, 100)
    assert ("ended", 1.0) == (found.source, found.fraction)
    assert 2 == events_done(history())
