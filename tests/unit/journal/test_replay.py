"""What happens with a call follows from the mode, what is recorded, and whether it is to be tried again."""

from __future__ import annotations

import pytest

from limpet.journal.replay import Decision, decide, drift
from limpet.model import EventRecord, ExecutionStatus, ReplayMode

E = ExecutionStatus
STATUSES = [None, *ExecutionStatus]


@pytest.mark.parametrize("is_to_retry", [False, True])
@pytest.mark.parametrize("recorded", STATUSES)
def test_a_validation_executes_and_compares_everything(recorded: E | None, is_to_retry: bool) -> None:
    assert Decision.COMPARE is decide(ReplayMode.VALIDATION, recorded, is_to_retry)


@pytest.mark.parametrize("is_to_retry", [False, True])
@pytest.mark.parametrize("mode", [ReplayMode.NORMAL, ReplayMode.REPUBLISH_ALL, ReplayMode.REHEARSAL])
def test_what_is_completed_is_skipped(mode: ReplayMode, is_to_retry: bool) -> None:
    assert Decision.SKIP is decide(mode, E.COMPLETED, is_to_retry)


@pytest.mark.parametrize("mode", [ReplayMode.NORMAL, ReplayMode.REPUBLISH_ALL, ReplayMode.REHEARSAL])
def test_a_failure_that_was_caught_is_skipped(mode: ReplayMode) -> None:
    assert Decision.SKIP is decide(mode, E.FAILED)
    assert Decision.SKIP is decide(mode, E.FAILED, is_to_retry=False)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ReplayMode.NORMAL, Decision.EXECUTE),
        (ReplayMode.REPUBLISH_ALL, Decision.EXECUTE),
        (ReplayMode.REHEARSAL, Decision.REFUSE),
    ],
)
def test_a_failure_to_be_tried_again_is_executed_unless_nothing_may_be(mode: ReplayMode, expected: Decision) -> None:
    assert expected is decide(mode, E.FAILED, is_to_retry=True)


@pytest.mark.parametrize("is_to_retry", [False, True])
@pytest.mark.parametrize("recorded", [status for status in STATUSES if status not in (E.COMPLETED, E.FAILED)])
@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        (ReplayMode.NORMAL, Decision.EXECUTE),
        (ReplayMode.REPUBLISH_ALL, Decision.EXECUTE),
        (ReplayMode.REHEARSAL, Decision.REFUSE),
    ],
)
def test_what_has_no_outcome_is_executed_unless_nothing_may_be(
    mode: ReplayMode, expected: Decision, recorded: E | None, is_to_retry: bool
) -> None:
    assert expected is decide(mode, recorded, is_to_retry)


def recorded(version: str | None = None, fingerprint: bytes = b"") -> EventRecord:
    return EventRecord(
        seq=1, address="a::tool_call", status=E.COMPLETED, at=0.0, version=version, fingerprint=fingerprint
    )


@pytest.mark.parametrize(
    ("expected", "record", "version", "fingerprint"),
    [
        (None, recorded(), None, b""),
        (None, recorded("1", b"same"), "1", b"same"),
        (None, recorded("1", b""), "1", b"not recorded"),
        (None, recorded("1", b"not looked at"), "1", b""),
        ("its input changed", recorded("1", b"old"), "1", b"new"),
        ("its version was 1 and is 2", recorded("1", b"same"), "2", b"same"),
        ("its version was not set and is 2", recorded(), "2", b""),
        ("its version was 1 and is not set", recorded("1"), None, b""),
        ("its input changed and its version was 1 and is 2", recorded("1", b"old"), "2", b"new"),
    ],
)
def test_drift_names_what_no_longer_agrees(
    expected: str | None, record: EventRecord, version: str | None, fingerprint: bytes
) -> None:
    assert expected == drift(record, version, fingerprint)
