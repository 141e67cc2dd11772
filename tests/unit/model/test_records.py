"""Records, notices, holders and snapshots are frozen data, with a few ways to read them."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from limpet.engine.snapshot import StateSnapshot
from limpet.model import (
    CheckpointRecord,
    EventNotice,
    EventRecord,
    EventType,
    ExecutionStatus,
    Holder,
    ReplayMode,
    StateHeader,
    StateMetadata,
    StateStatus,
    StorageRecord,
    fingerprint,
)

NOTICE = EventNotice(
    state_id="kelp-42", address="run::agent_call", status=ExecutionStatus.COMPLETED, attempt=2, execution_time=0.5
)


def test_a_notice_is_read_by_attribute_and_by_item() -> None:
    for name in EventNotice.__struct_fields__:
        assert getattr(NOTICE, name) == NOTICE[name]
    assert ("kelp-42", 2, 0.5) == (NOTICE["state_id"], NOTICE["attempt"], NOTICE["execution_time"])


def test_a_notice_has_no_items_beyond_its_fields() -> None:
    with pytest.raises(KeyError) as caught:
        NOTICE["colour"]
    assert ("colour",) == caught.value.args
    assert caught.value.__suppress_context__


def test_a_notice_says_nothing_that_it_was_not_told() -> None:
    notice = EventNotice(state_id="s", address="a::tool_call", status=ExecutionStatus.STARTED)
    assert (1, False, False, None, None, 0.0, None) == (
        notice.attempt,
        notice.is_replayed,
        notice.is_retry,
        notice.retry_delay,
        notice.original_error,
        notice.execution_time,
        notice.drift,
    )


EVENT = EventRecord(
    seq=1, address="a::tool_call", status=ExecutionStatus.COMPLETED, at=1_700_000_000.5, behind=-3, duration_s=2.5
)


@pytest.mark.parametrize(
    "record",
    [
        EVENT,
        CheckpointRecord(seq=1, status=StateStatus.PAUSED, at=1_700_000_000.5, metadata="{}"),
        StorageRecord(seq=1, key="k", at=1_700_000_000.5, value=None),
    ],
    ids=lambda record: type(record).__name__,
)
def test_a_record_knows_when_it_was_made(record: EventRecord | CheckpointRecord | StorageRecord) -> None:
    assert datetime(2023, 11, 14, 22, 13, 20, 500_000, tzinfo=UTC) == record.recorded_at


def test_an_outcome_knows_when_its_attempt_began() -> None:
    assert datetime(2023, 11, 14, 22, 13, 18, tzinfo=UTC) == EVENT.started_at


@pytest.mark.parametrize("frozen", [EVENT, NOTICE], ids=["record", "notice"])
def test_what_happened_cannot_be_changed(frozen: EventRecord | EventNotice) -> None:
    with pytest.raises(AttributeError):
        frozen.address = "b::tool_call"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_holder_is_named_for_people() -> None:
    holder = Holder(host="reef", boot="b", process_space="p", pid=42, started="7", token="t")
    assert "process 42 on reef" == str(holder)


def test_a_snapshot_shows_what_its_header_says() -> None:
    created, updated = datetime(2024, 1, 1, tzinfo=UTC), datetime(2024, 1, 2, tzinfo=UTC)
    metadata = StateMetadata(tags=["x"])
    header = StateHeader(
        state_id="s", status=StateStatus.PAUSED, created_at=created, updated_at=updated, metadata=metadata, version=1
    )
    snapshot = StateSnapshot(header=header, records=(EVENT,))
    assert ("s", StateStatus.PAUSED, metadata, created, updated, 1) == (
        snapshot.state_id,
        snapshot.status,
        snapshot.metadata,
        snapshot.created_at,
        snapshot.updated_at,
        snapshot.version,
    )


def test_the_words_are_the_documented_ones() -> None:
    assert ["tool_call", "llm_call", "agent_call"] == list(EventType)
    assert [
        *("started", "completed", "failed", "retrying"),
        *("recovered", "awaiting", "interrupted", "cancelled"),
    ] == list(ExecutionStatus)
    assert ["RUNNING", "PAUSED", "AWAITING", "COMPLETED", "FAILED", "INTERRUPTED"] == list(StateStatus.__members__)
    assert ["NORMAL", "REPUBLISH_ALL", "VALIDATION", "REHEARSAL"] == list(ReplayMode.__members__)


def test_a_recorded_input_tells_itself_from_others_as_its_fingerprint_would() -> None:
    told = msgspec.structs.replace(EVENT, fingerprint=fingerprint(b"in"))
    assert fingerprint(b"in") == told.input_fingerprint == msgspec.structs.replace(EVENT, input=b"in").input_fingerprint
    assert fingerprint(b"in") != fingerprint(b"out")
    assert 16 == len(fingerprint(b""))
