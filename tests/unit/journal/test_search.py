from __future__ import annotations

import pytest

from limpet.journal.search import MOST_WINDOWS, WINDOW, last_shared, search
from limpet.model import CheckpointRecord, EventRecord, ExecutionStatus, Part, Record, StateStatus

E = ExecutionStatus


def event(
    seq: int, address: str, status: ExecutionStatus = E.COMPLETED, order: int = 0, beside: int = 0
) -> EventRecord:
    return EventRecord(seq, address, status, 0.0, seq - (order or seq), beside=beside)


def label(name: str, number: int) -> str:
    return name if number == 1 else f"{name}#{number}"


def loop(rounds: int, *names: str) -> list[Record]:
    """A run that calls each name once in every round."""
    records: list[Record] = [event(1, "run::agent_call", E.STARTED)]
    for number in range(1, rounds + 1):
        for name in names:
            records.append(event(len(records) + 1, f"run::{label(name, number)}::tool_call"))
    records.append(event(len(records) + 1, "run::agent_call", order=1))
    return records


def found(records: list[Record], address: str, part: Part | None = None) -> tuple[EventRecord | None, int]:
    """What the search finds, and how many windows it has read."""
    searching = search(address, part or Part(1, len(records)))
    windows = 0
    try:
        after = next(searching)
        while True:
            windows += 1
            after = searching.send(records[after : after + WINDOW])
    except StopIteration as ended:
        return ended.value, windows


@pytest.mark.parametrize("number", [1, 2, 17, 900, 5000, 9000, 9999, 10_000])
def test_a_call_of_a_loop_is_found_where_its_number_says(number: int) -> None:
    records = loop(10_000, "step")
    record, windows = found(records, f"run::{label('step', number)}::tool_call")
    assert record is records[number]
    assert windows == 1


@pytest.mark.parametrize("number", [1, 2, 700, 2999, 3000])
@pytest.mark.parametrize("name", ["fetch", "read", "write"])
def test_a_call_of_a_loop_of_several_is_found_in_few_windows(name: str, number: int) -> None:
    record, windows = found(loop(3000, "fetch", "read", "write"), f"run::{label(name, number)}::tool_call")
    assert record is not None
    assert f"run::{label(name, number)}::tool_call" == record.address
    assert windows <= 12


def test_a_call_inside_numbered_agents_is_found() -> None:
    records: list[Record] = [event(1, "run::agent_call", E.STARTED)]
    for number in range(1, 400):
        topic = f"run::{label('topic', number)}"
        records.append(event(len(records) + 1, f"{topic}::agent_call", E.STARTED))
        for inner in range(1, 6):
            records.append(event(len(records) + 1, f"{topic}::{label('fetch', inner)}::tool_call"))
        records.append(event(len(records) + 1, f"{topic}::agent_call", order=len(records) - 5))
    record, windows = found(records, "run::topic#250::fetch#4::tool_call")
    assert record is not None
    assert "run::topic#250::fetch#4::tool_call" == record.address
    assert windows <= 12


@pytest.mark.parametrize(
    "address", ["run::step#11::tool_call", "run::other::tool_call", "run::agent_call", "x::tool_call"]
)
def test_what_is_not_there_or_has_an_inside_is_not_found(address: str) -> None:
    record, windows = found(loop(10, "step"), address)
    assert record is None or (record.address, record.status) == ("run::agent_call", E.COMPLETED)
    assert windows <= MOST_WINDOWS


def test_a_call_that_is_not_completed_is_not_found() -> None:
    records: list[Record] = [event(1, "run::agent_call", E.STARTED), event(2, "run::a::tool_call", E.FAILED)]
    assert found(records, "run::a::tool_call")[0] is None


def test_a_search_without_anything_to_go_by_gives_up() -> None:
    records: list[Record] = [CheckpointRecord(seq, StateStatus.RUNNING, 0.0, "{}") for seq in range(1, 200)]
    assert (None, 1) == found(records, "run::a::tool_call")


def test_what_started_too_late_for_a_part_is_not_found_in_it() -> None:
    records = loop(10, "step")
    assert found(records, "run::step#5::tool_call", Part(1, len(records), 7))[0] is records[5]
    assert found(records, "run::step#5::tool_call", Part(1, len(records), 6))[0] is None


def test_a_call_in_a_cut_part_is_found_only_where_it_surely_has_no_inside() -> None:
    records = loop(10, "step")
    inside = event(5, "run::step#5::inner::tool_call")
    assert found([*records[:4], inside, *records[5:]], "run::step#5::tool_call", Part(1, 12, 12))[0] is None
    crowded = event(6, "run::step#5::tool_call", beside=1)
    assert found([*records[:5], crowded, *records[6:]], "run::step#5::tool_call", Part(1, 12, 12))[0] is None


def test_calls_that_changed_places_lead_to_nothing_and_not_astray() -> None:
    records = loop(100, "step")
    records[10], records[90] = event(11, "run::step#90::tool_call"), event(91, "run::step#10::tool_call")
    for number in (10, 50, 90):
        record, _ = found(records, f"run::step#{number}::tool_call")
        assert record is None or f"run::step#{number}::tool_call" == record.address


def test_a_fork_shares_what_stands_before_an_event_that_was_alone() -> None:
    target = event(5, "run::a::tool_call")
    assert 4 == last_shared(target, [target, event(6, "run::b::tool_call", order=2, beside=1)])


def test_a_fork_shares_what_started_before_the_event_and_ended_beside_it() -> None:
    target = event(5, "run::a::tool_call", order=4, beside=2)
    following = [
        target,
        event(6, "run::b::tool_call", order=6, beside=2),
        event(7, "run::c::tool_call", order=3, beside=1),
        CheckpointRecord(8, StateStatus.RUNNING, 0.0, "{}"),
        event(9, "run::d::tool_call", order=9),
        event(10, "run::e::tool_call", order=2, beside=1),
    ]
    assert 7 == last_shared(target, following)
    assert 10 == last_shared(target, [*following[:3], *following[5:]])


def test_a_fork_shares_the_first_record_in_any_case() -> None:
    target = event(1, "a::tool_call")
    assert 1 == last_shared(target, [target])
