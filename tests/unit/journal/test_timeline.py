from __future__ import annotations

import pytest

from limpet.errors import AmbiguousAddress, StateCorrupted, UnknownAddress, UnknownCheckpoint, UnknownTimeline
from limpet.journal.history import History
from limpet.journal.new_timeline import (
    NewTimeline,
    Replacement,
    find_event,
    from_checkpoint,
    from_end,
    from_event,
    point_of,
)
from limpet.journal.timeline import belonging, cut_before, cut_behind
from limpet.model import (
    CheckpointRecord,
    EventRecord,
    ExecutionStatus,
    Part,
    Record,
    StateStatus,
    StorageRecord,
    TimelineRecord,
)

E = ExecutionStatus


class Journal:
    """Writes records one by one, as a state would."""

    def __init__(self) -> None:
        self.history = History("s")
        self.orders: dict[str, int] = {}

    def start(self, address: str) -> None:
        """The start of a call that has others inside it, as a record of its own."""
        self.begin(address)
        self.event(address, E.STARTED)

    def begin(self, address: str) -> None:
        self.orders[address] = self.history.next_order
        self.history.next_order += 1

    def end(self, address: str, status: ExecutionStatus = E.COMPLETED, causes: tuple[str, ...] = ()) -> None:
        self.event(address, status, causes)

    def call(self, *addresses: str) -> None:
        for address in addresses:
            self.begin(address)
            self.end(address)

    def event(self, address: str, status: ExecutionStatus, causes: tuple[str, ...] = ()) -> None:
        seq = self.history.position + 1
        record = EventRecord(seq, address, status, 0.0, seq - self.orders[address], causes=causes)
        self.history.add(record)

    def store(self, key: str, value: bytes | None) -> None:
        seq = self.history.position + 1
        self.history.add(StorageRecord(seq, key, 0.0, value, behind=seq - (self.history.next_order - 1)))

    def checkpoint(self) -> int:
        seq = self.history.position + 1
        self.history.add(CheckpointRecord(seq, StateStatus.PAUSED, 0.0, "{}"))
        return seq

    def begin_timeline(self, new: NewTimeline) -> None:
        number = self.history.timelines.current + 1
        for record in new.records(self.history.position + 1, 0.0, number):
            self.history.add(record)

    def run_on_from(self, text: str, number: int | None = None) -> None:
        self.begin_timeline(from_event(self.history, text, number))

    @property
    def settled(self) -> list[str]:
        return [address for address, record in self.history.latest.items() if record.status is not E.STARTED]

    @property
    def open(self) -> list[str]:
        return [address for address, record in self.history.latest.items() if record.status is E.STARTED]


A, B, C = (f"run::{name}::tool_call" for name in "abc")
RUN = "run::agent_call"


@pytest.fixture
def journal() -> Journal:
    """A run that called a, b and c, one after the other."""
    journal = Journal()
    journal.start(RUN)
    journal.call(A, B, C)
    journal.end(RUN)
    return journal


def test_what_started_before_is_kept_and_the_rest_is_not(journal: Journal) -> None:
    journal.run_on_from(B)
    assert [A] == journal.settled


def test_what_encloses_the_event_is_entered_again(journal: Journal) -> None:
    journal.run_on_from(B)
    assert [RUN] == journal.open


def test_running_on_from_the_whole_run_keeps_nothing(journal: Journal) -> None:
    journal.run_on_from(RUN)
    assert {} == journal.history.latest
    first = journal.history.first_event()
    assert first is not None
    assert RUN == first.address


def test_the_old_timeline_is_read_as_it_was(journal: Journal) -> None:
    before = dict(journal.history.latest)
    journal.run_on_from(B)
    journal.call(B)
    assert before == journal.history.on_timeline(1).latest
    assert [A, B] == journal.settled


def test_starts_are_counted_through_all_timelines(journal: Journal) -> None:
    before = journal.history.next_order
    journal.run_on_from(B)
    assert before == journal.history.next_order


def test_a_timeline_that_is_run_on_from_a_second_time_keeps_what_both_cuts_leave(journal: Journal) -> None:
    journal.run_on_from(B)
    journal.call(B, C)
    journal.end(RUN)
    journal.run_on_from(C)
    assert ([A, B], [RUN]) == (journal.settled, journal.open)
    newest = journal.history.latest[B]
    journal.run_on_from(B, 1)
    assert ([A], [RUN]) == (journal.settled, journal.open)
    assert newest is journal.history.on_timeline(2).latest[B]


def test_a_concurrent_call_that_started_before_and_ended_later_is_kept() -> None:
    journal = Journal()
    journal.start(RUN)
    journal.begin(A)
    journal.begin(B)
    journal.end(B)
    journal.end(A)
    journal.call(C)
    journal.run_on_from(B)
    assert [A] == journal.settled


def test_an_agent_beside_the_event_is_entered_again_where_its_inside_started_later() -> None:
    journal = Journal()
    inner, one, two = "run::inner::agent_call", "run::inner::one::tool_call", "run::inner::two::tool_call"
    journal.start(RUN)
    journal.begin(inner)
    journal.begin(one)
    journal.event(inner, E.STARTED)
    journal.end(one)
    journal.begin(A)
    journal.begin(two)
    journal.end(A)
    journal.end(two)
    journal.end(inner)
    journal.run_on_from(A)
    assert ([one], [RUN, inner]) == (journal.settled, journal.open)
    journal.call(A, two)
    journal.end(inner)
    assert [one, A, two, inner] == sorted(journal.settled, key=[one, A, two, inner].index)


def test_an_agent_that_ended_since_an_earlier_cut_is_kept() -> None:
    # It had not ended on the first timeline; on the second it did, and the third is cut behind it.
    journal = Journal()
    inner, one, two = "run::inner::agent_call", "run::inner::one::tool_call", "run::inner::two::tool_call"
    journal.start(RUN)
    journal.start(inner)
    journal.call(one, two)
    journal.run_on_from(two)
    journal.call(two)
    journal.end(inner)
    journal.call(C)
    journal.run_on_from(C)
    assert {one, two, inner} == set(journal.settled)


def test_an_agent_that_ended_on_a_later_timeline_is_entered_again_by_a_cut_inside_it() -> None:
    journal = Journal()
    inner, one = "run::inner::agent_call", "run::inner::one::tool_call"
    journal.start(RUN)
    journal.start(inner)
    journal.call(one, A)
    journal.run_on_from(A)
    journal.end(inner)
    journal.run_on_from(one)
    assert ([], [RUN, inner]) == (journal.settled, journal.open)


def test_storage_is_as_it_stood_when_the_event_started(journal: Journal) -> None:
    journal = Journal()
    journal.start(RUN)
    journal.store("k", b"before")
    journal.call(A)
    journal.store("k", b"behind a")
    journal.begin(B)
    journal.store("k", b"inside b")
    journal.store("new", b"inside b")
    journal.end(B)
    journal.run_on_from(B)
    assert {"k": b"behind a"} == journal.history.storage
    journal.run_on_from(A)
    assert {"k": b"before"} == journal.history.storage


def test_storage_from_before_starts_were_noted_is_placed_by_its_number() -> None:
    assert 7 == StorageRecord(7, "k", 0.0, b"v").order


def test_what_a_failed_run_failed_of_is_tried_again_on_a_new_timeline() -> None:
    journal = Journal()
    journal.start(RUN)
    journal.begin(A)
    journal.begin(B)
    journal.end(A, E.FAILED)
    journal.end(B)
    journal.end(RUN, E.FAILED, causes=(A,))
    assert {RUN, A} == journal.history.to_retry
    journal.run_on_from(B)
    assert A in journal.history.to_retry


def test_a_checkpoint_is_gone_on_from_as_it_stood(journal: Journal) -> None:
    journal = Journal()
    journal.call("a::tool_call")
    journal.store("k", b"1")
    position = journal.checkpoint()
    journal.call("b::tool_call")
    journal.store("k", b"2")
    journal.begin_timeline(from_checkpoint(journal.history, position))
    assert (["a::tool_call"], {"k": b"1"}) == (journal.settled, journal.history.storage)
    assert [1] == [checkpoint.timeline for checkpoint in journal.history.checkpoints()]


def test_an_unknown_checkpoint_is_refused_with_those_there_are(journal: Journal) -> None:
    position = journal.checkpoint()
    with pytest.raises(UnknownCheckpoint, match=str(position)):
        from_checkpoint(journal.history, position + 1)


def test_the_end_of_another_timeline_is_gone_on_from(journal: Journal) -> None:
    journal.run_on_from(B)
    journal.begin_timeline(from_end(journal.history, 1))
    assert [A, B, C, RUN] == sorted(journal.settled, key=[A, B, C, RUN].index)


@pytest.mark.parametrize("number", [0, 2, -1])
def test_an_unknown_timeline_is_refused(journal: Journal, number: int) -> None:
    with pytest.raises(UnknownTimeline, match="only the timeline 1"):
        point_of(journal.history, timeline=number)


def test_no_point_is_the_end_of_the_current_timeline(journal: Journal) -> None:
    assert point_of(journal.history) is None
    assert point_of(journal.history, timeline=1) is None


def test_an_event_is_found_by_the_end_of_its_address(journal: Journal) -> None:
    journal.call("run::inner::b::tool_call", "run::b#2::tool_call")
    assert "run::b#2::tool_call" == find_event(journal.history, "b#2").address
    assert "run::inner::b::tool_call" == find_event(journal.history, "inner::b").address
    assert B == find_event(journal.history, B).address
    with pytest.raises(AmbiguousAddress, match="'run::b::tool_call', 'run::inner::b::tool_call'"):
        find_event(journal.history, "b")


def test_an_unknown_event_is_refused_with_the_nearest_ones(journal: Journal) -> None:
    with pytest.raises(UnknownAddress, match="Nearest: 'run::a::tool_call'"):
        find_event(journal.history, "run::aa::tool_call")


def test_a_replaced_result_stands_where_it_stood(journal: Journal) -> None:
    order = journal.history.latest[B].order
    journal.begin_timeline(from_event(journal.history, B, replacement=Replacement(b"edited", ("sha256:1",))))
    replaced = journal.history.latest[B]
    assert (b"edited", order, ("sha256:1",)) == (replaced.result, replaced.order, replaced.artifacts)
    assert replaced.details is not None
    assert 3 == replaced.details.before
    assert [A, B] == journal.settled
    journal.call(C)
    journal.run_on_from(C)
    assert b"edited" == journal.history.latest[B].result


def test_timelines_are_listed_with_where_they_come_from(journal: Journal) -> None:
    journal.run_on_from(B)
    journal.call(B)
    journal.run_on_from(A, 1)
    first, second, third = journal.history.listed_timelines()
    assert (None, None, 1, 5) == (first.base, first.address, first.first, first.last)
    assert (1, B, 7, 7, False) == (second.base, second.address, second.first, second.last, second.is_current)
    assert (1, A, True) == (third.base, third.address, third.is_current)


def test_a_fork_counts_its_timelines_from_one(journal: Journal) -> None:
    journal.run_on_from(B)
    new = from_event(journal.history, A)
    for record in new.records(journal.history.position + 1, 0.0, 1, "parent"):
        journal.history.add(record)
    (only,) = journal.history.listed_timelines()
    assert (1, 2, "parent", A) == (only.number, only.base, only.forked_from, only.address)


def test_a_history_read_at_once_is_that_of_its_records_one_by_one(journal: Journal) -> None:
    journal.run_on_from(B)
    journal.call(B)
    journal.run_on_from(A)
    journal.call(A)
    grown = journal.history
    for hint in (0, 8):
        read = History("s", grown.journal, hint)
        assert (grown.latest, grown.records, grown.journal) == (read.latest, read.records, read.journal)
        assert grown.listed_timelines() == read.listed_timelines()
        assert (grown.next_order, grown.started) == (read.next_order, read.started)


@pytest.mark.parametrize(
    "parts", [(Part(0, 2),), (Part(3, 2),), (Part(1, 9),), (Part(2, 3), Part(3, 4)), (Part(1, 2, -1),)]
)
def test_parts_that_the_journal_does_not_have_are_damage(journal: Journal, parts: tuple[Part, ...]) -> None:
    with pytest.raises(StateCorrupted):
        journal.history.add(TimelineRecord(6, 0.0, 2, 1, parts))


def test_cuts_take_the_narrower_bound() -> None:
    parts = (Part(1, 4, 3), Part(6, 9))
    assert (Part(1, 4, 2), Part(6, 9, 2)) == cut_before(parts, 2)
    assert (Part(1, 4, 3), Part(6, 9, 7)) == cut_before(parts, 7)
    assert () == cut_before(parts, 1)
    assert (Part(1, 4, 3), Part(6, 7)) == cut_behind(parts, 7)
    assert (Part(1, 2, 3),) == cut_behind(parts, 2)


def test_records_belong_in_order_and_without_those_that_begin_timelines(journal: Journal) -> None:
    journal.run_on_from(B)
    journal.call(B)
    records: list[Record] = list(belonging(journal.history.journal, journal.history.parts()))
    assert journal.history.records == records


@pytest.mark.parametrize("at", [1e18, 253_402_300_800.0, -1.0, float("inf"), float("nan")])
def test_a_timeline_that_began_at_no_time_that_there_is_is_damage(at: float) -> None:
    with pytest.raises(StateCorrupted, match="a timeline began at"):
        History("kelp-42", [TimelineRecord(1, at, 2, 1)], 1)
