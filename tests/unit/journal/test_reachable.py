"""Which artifacts records name, and which of the stored ones may go."""

from __future__ import annotations

from limpet.journal.reachable import named_by, pins_on, unnamed
from limpet.model import (
    ArtifactInfo,
    CheckpointRecord,
    EventRecord,
    ExecutionStatus,
    Pin,
    StateStatus,
    StorageRecord,
)

OLD, YOUNG, NAMED = ArtifactInfo("old", 1, 10.0), ArtifactInfo("young", 2, 20.0), ArtifactInfo("named", 3, 5.0)
OURS, THEIRS = Pin("store", "kelp", 1), Pin("store", "wrack", 1)


def test_events_and_storage_name_artifacts_and_checkpoints_do_not() -> None:
    records = [
        EventRecord(1, "a::agent_call", ExecutionStatus.STARTED, 1.0, artifacts=("input",)),
        EventRecord(2, "a::b::tool_call", ExecutionStatus.COMPLETED, 2.0, artifacts=("input", "result")),
        CheckpointRecord(3, StateStatus.RUNNING, 3.0, "{}"),
        StorageRecord(4, "key", 4.0, b"\xc0", ("stored",), True),
    ]
    assert {"input", "result", "stored"} == named_by(records)


def test_a_key_that_was_deleted_is_still_named_by_the_record_that_set_it() -> None:
    records = [StorageRecord(1, "key", 1.0, b"\xc0", ("stored",)), StorageRecord(2, "key", 2.0, None)]
    assert {"stored"} == named_by(records)


def test_only_what_no_record_names_and_was_not_put_since_may_go() -> None:
    assert [OLD] == unnamed([OLD, YOUNG, NAMED], {"named"}, put_before=10.0)
    assert [OLD, YOUNG] == unnamed([OLD, YOUNG, NAMED], {"named"}, put_before=20.0)
    assert [] == unnamed([OLD, YOUNG, NAMED], {"named"}, put_before=9.0)


def test_the_pins_that_count_are_those_on_what_may_go() -> None:
    pins = {OURS: frozenset({"old", "named"}), THEIRS: frozenset({"named"})}
    assert [OURS] == pins_on([OLD, YOUNG], pins)
    assert [] == pins_on([YOUNG], pins)
