from __future__ import annotations

import msgspec
import pytest

from limpet import Details, EventRecord, ExecutionStatus, StateHeader, StateMetadata, StateStatus
from limpet.journal.history import History
from limpet.journal.waits import (
    answer_name,
    is_in_time,
    letter_key,
    message_name,
    noted_in,
    noted_waiting,
    open_waits,
    taken_letters,
    topic_key,
    waiting_of,
)
from limpet.model.header import utc
from limpet.model.waits import Waiting

AWAITING = ExecutionStatus.AWAITING


def record(seq: int, address: str, status: ExecutionStatus = AWAITING, **details: object) -> EventRecord:
    return EventRecord(
        seq, address, status, 1.0, input=b"\xc0", details=msgspec.convert(details, Details) if details else None
    )


def test_what_waits_is_open_until_it_has_an_outcome() -> None:
    history = History(
        "w",
        [
            record(1, "a::agent_call", ExecutionStatus.STARTED),
            record(2, "a::ask::question"),
            record(3, "a::sleep::timer", due_at=5.0),
            record(4, "a::once::tool_call"),
            record(5, "a::ask#2::question"),
            record(6, "a::ask::question", ExecutionStatus.COMPLETED, letter="answer:2:x"),
        ],
    )
    assert [3, 5] == [each.seq for each in open_waits(history)]
    assert {"answer:2:x"} == taken_letters(history)


def test_the_earliest_time_counts() -> None:
    records = [record(5, "a::ask::question"), record(3, "a::sleep::timer", due_at=9.0), record(4, "b", due_at=7.0)]
    assert Waiting((3, 4, 5), 7.0, 2) == waiting_of(records, 2)
    assert Waiting() == waiting_of([], 0)


def header(metadata: StateMetadata, timeline: int = 0) -> StateHeader:
    now = utc(0.0)
    return StateHeader(
        state_id="w",
        status=StateStatus.AWAITING,
        created_at=now,
        updated_at=now,
        metadata=metadata,
        timeline=timeline,
    )


def test_the_metadata_says_what_is_waited_for_on_this_timeline() -> None:
    waiting = Waiting((3,), 7.0, 2)
    metadata = noted_in(StateMetadata(tags=["x"]), waiting)
    assert {"records": (3,), "due_at": 7.0, "timeline": 2} == metadata.waiting
    read = StateMetadata.from_json(metadata.to_json())
    assert waiting == noted_waiting(header(read, 2))
    assert Waiting() == noted_waiting(header(read, 4)), "they are of another timeline"
    assert Waiting() == noted_waiting(header(StateMetadata(waiting={"records": "?"})))
    assert metadata is noted_in(metadata, waiting)
    assert {} == noted_in(metadata, Waiting()).waiting


def test_an_answer_is_bound_to_the_record_and_to_what_it_asks() -> None:
    asked = record(3, "a::ask::question")
    assert answer_name(asked) == answer_name(record(3, "a::ask::question"))
    assert answer_name(asked) != answer_name(record(4, "a::ask::question"))
    assert answer_name(asked) != answer_name(msgspec.structs.replace(asked, input=b"\xc3"))


def test_a_message_is_told_by_its_topic() -> None:
    assert topic_key("news") == letter_key(message_name("news", "k:1"))
    assert topic_key("news") != letter_key(message_name("newsletter", "k"))
    answer = answer_name(record(3, "a::ask::question"))
    assert answer == letter_key(answer)


@pytest.mark.parametrize(("due_at", "at", "expected"), [(0.0, 9e9, True), (5.0, 4.9, True), (5.0, 5.0, True)])
def test_what_comes_by_the_deadline_is_in_time(due_at: float, at: float, expected: bool) -> None:
    assert expected is is_in_time(due_at, at)


def test_what_comes_after_the_deadline_is_late() -> None:
    assert is_in_time(5.0, 5.000001) is False
