"""A history of which most completed events are left out of memory tells what one tells that has all of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.journal import pages
from limpet.journal.history import History
from limpet.journal.order import RecordedOrder, outcome_in
from limpet.journal.pages import Page, PagedJournal
from limpet.model import (
    DroppedRecord,
    DropReason,
    EventRecord,
    ExecutionStatus,
    Part,
    Record,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
)

E = ExecutionStatus
RUN = "run::agent_call"

kinds = st.lists(st.sampled_from(["result", "failure", "again", "inside", "timer", "storage"]), max_size=40)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "SIZE", 4)
    monkeypatch.setattr(pages, "MOST_OPEN", 2)


class Store:
    """Records that are read page by page; it counts that."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = list(records)
        self.reads = 0

    def read(self, page: Page) -> Sequence[Record]:
        self.reads += 1
        return self.records[page.first - 1 : page.last]


def event(seq: int, address: str, status: ExecutionStatus = E.COMPLETED) -> EventRecord:
    return EventRecord(seq, address, status, float(seq), behind=0, result=b"%d" % seq)


def records_of(kinds_of_records: Sequence[str]) -> list[Record]:
    records: list[Record] = [event(1, RUN, E.STARTED)]
    failed: list[str] = []
    for seq, kind in enumerate(kinds_of_records, 2):
        if kind == "result":
            records.append(event(seq, f"run::step#{seq}::tool_call"))
        elif kind == "failure":
            failed.append(f"run::step#{seq}::tool_call")
            records.append(event(seq, failed[-1], E.FAILED))
        elif kind == "again" and failed:
            records.append(event(seq, failed.pop()))
        elif kind == "inside":
            records.append(event(seq, f"run::task[one]::step#{seq}::tool_call"))
        elif kind == "timer":
            records.append(TimerRecord(seq, float(seq), "run", (seq,)))
        else:
            records.append(StorageRecord(seq, "key", float(seq), b"value"))
    return records


def paged(records: Sequence[Record]) -> tuple[History, Store]:
    history, store = History("kelp-42", records), Store(records)
    history.read_in_pages(store.read)
    history.close_pages(history.position)
    return history, store


def simple(count: int) -> list[Record]:
    return records_of(["result"] * (count - 1))


@given(kinds)
def test_what_is_left_out_is_read_again(kinds_of_records: list[str]) -> None:
    records = records_of(kinds_of_records)
    whole, (history, _) = History("kelp-42", records), paged(records)
    assert list(whole.journal) == list(history.journal) == list(history.records)
    assert list(reversed(whole.journal)) == list(reversed(history.journal))
    assert [*whole.journal[1:7]] == [*history.journal[1:7]]
    assert [whole.journal[-1]] == [history.journal[-1]]
    assert whole.latest == dict(history.latest)
    assert list(whole.latest) == list(history.latest)
    assert len(whole.latest) == len(history.latest)
    assert (whole.to_retry, whole.open, whole.next_order) == (history.to_retry, history.open, history.next_order)
    assert history.latest.get("run::other::tool_call") is None
    assert "run::other::tool_call" not in history.latest


@given(kinds)
def test_the_order_of_results_is_the_same(kinds_of_records: list[str]) -> None:
    records = records_of(kinds_of_records)
    whole, few = RecordedOrder(History("kelp-42", records)), RecordedOrder(paged(records)[0])
    for path in ("run", ""):
        expected = [outcome_in(each) or each for each in whole.entries(path)]
        assert expected == [outcome_in(each) or each for each in few.entries(path)]
        assert list(whole.outcomes(path)) == list(few.outcomes(path))


@given(kinds)
def test_a_history_that_is_read_closed_is_the_same(kinds_of_records: list[str]) -> None:
    records = records_of(kinds_of_records)
    history, store = History("kelp-42"), Store(records)
    history.read_in_pages(store.read)
    for begin in range(0, len(records), 4):
        some = records[begin : begin + 4]
        history.read_closed(some, some[-1].seq, None)
    assert records == list(history.journal)
    assert History("kelp-42", records).latest == dict(history.latest)


def test_the_events_of_a_page_are_left_out_of_memory() -> None:
    history, store = paged(simple(9))
    raw = [list.__getitem__(history.journal, place) for place in range(9)]
    assert [EventRecord, *[Page] * 7, EventRecord] == [type(each) for each in raw]
    assert 0 == store.reads


def test_a_page_that_is_open_is_not_read_again() -> None:
    history, store = paged(simple(9))
    assert [2, 3, 4] == [history.latest[f"run::step#{seq}::tool_call"].seq for seq in (2, 3, 4)]
    assert 1 == store.reads


def test_few_pages_are_open_where_one_follows_the_other() -> None:
    history, store = paged(simple(81))
    for seq in range(2, 81):
        assert seq == history.latest[f"run::step#{seq}::tool_call"].seq
    assert 20 == store.reads
    assert 2 == len([page for page in set(history.index.values()) if type(page) is Page and page._events is not None])


def test_pages_stay_open_where_events_are_asked_for_without_any_order() -> None:
    history, store = paged(simple(81))
    for _ in range(50):
        for seq in range(2, 81, 4):
            assert seq == history.latest[f"run::step#{seq}::tool_call"].seq
    assert store.reads <= 3 * 20


def test_a_new_record_follows_what_is_left_out() -> None:
    history, _ = paged(simple(9))
    history.add(event(10, "run::step#10::tool_call"))
    assert 10 == history.position
    assert 10 == history.latest["run::step#10::tool_call"].seq
    history.close_pages(8)
    assert list(range(1, 11)) == [record.seq for record in history.journal]


def test_a_timeline_has_all_records_in_memory_again() -> None:
    records = simple(9)
    history, store = paged(records)
    history.add(TimelineRecord(10, 10.0, 2, 1, (Part(1, 9, 6),)))
    assert type(history.journal) is list
    assert not isinstance(history.journal, PagedJournal)
    reads = store.reads
    assert [1, 2, 3, 4, 5] == [record.seq for record in history.latest.values()]
    assert reads == store.reads


def test_a_journal_with_timelines_is_not_paged() -> None:
    records = [*simple(9), TimelineRecord(10, 10.0, 2, 1, (Part(1, 9, 6),))]
    history = History("kelp-42", records, 10)
    history.read_in_pages(Store(records).read)
    history.close_pages(10)
    assert [1, 2, 3, 4, 5] == [record.seq for record in history.records]
    assert type(history.journal) is list


@pytest.mark.parametrize("place", [1, 4, 6, 7, 10])
def test_a_journal_of_which_records_were_dropped_is_in_memory_again(place: int) -> None:
    records = simple(14)
    records[place] = DroppedRecord(place + 1, next(iter(DropReason)))
    whole, history, store = History("kelp-42", records), History("kelp-42"), Store(records)
    history.read_in_pages(store.read)
    for begin in range(0, len(records), 4):
        some = records[begin : begin + 4]
        history.read_closed(some, some[-1].seq, None)
    assert records == list(history.journal)
    assert list(whole.records) == list(history.records)
    assert whole.latest == dict(history.latest)
    assert whole.next_order == history.next_order
