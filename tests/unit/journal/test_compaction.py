"""What a cleanup drops is not needed: the current timeline, and all that is run on from it, read the same without."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.errors import CheckpointDropped, TimelineDropped
from limpet.journal.address import SEPARATOR
from limpet.journal.compaction import dropped_by, reads_the_same, without
from limpet.journal.history import History
from limpet.journal.new_timeline import from_checkpoint, from_event, on_timeline
from limpet.journal.recovery import recovery_of
from limpet.journal.usage import totals_of
from limpet.model import (
    CheckpointRecord,
    DamagedRecord,
    Details,
    DroppedRecord,
    DropReason,
    EventRecord,
    ExecutionStatus,
    Part,
    ReadRecord,
    Record,
    StateStatus,
    StorageRecord,
    TimelineRecord,
    Usage,
)

E = ExecutionStatus
SUPERSEDED, INTERMEDIATE = DropReason.SUPERSEDED, DropReason.INTERMEDIATE
RUN, A, B, C = "run::agent_call", "run::a::tool_call", "run::b::llm_call", "run::c::tool_call"


class Journal:
    """A journal that is written by hand."""

    def __init__(self) -> None:
        self.history = History("s")

    def event(self, address: str, status: ExecutionStatus, order: int = 0, **more: Any) -> int:
        seq = self.history.position + 1
        if not order:
            known = self.history.latest.get(address)
            order = self.history.next_order if known is None else known.order
        self.history.add(EventRecord(seq, address, status, float(seq), seq - order, **more))
        return seq

    def store(self, key: str, value: bytes | None) -> int:
        seq = self.history.position + 1
        self.history.add(StorageRecord(seq, key, float(seq), value, behind=seq - self.history.next_order + 1))
        return seq

    def checkpoint(self) -> int:
        seq = self.history.position + 1
        self.history.add(CheckpointRecord(seq, StateStatus.PAUSED, float(seq), "{}"))
        return seq

    def run_on(self, address: str, timeline: int | None = None) -> int:
        seq = self.history.position + 1
        new = from_event(self.history, address, timeline)
        for record in new.records(seq, float(seq), self.history.timelines.current + 1):
            self.history.add(record)
        return seq

    @property
    def records(self) -> tuple[Record, ...]:
        return self.history.intact_journal()

    def goes(self, *, is_completed: bool = True, compacts: bool = True) -> dict[int, DropReason]:
        return dict(dropped_by(self.records, is_completed=is_completed, compacts=compacts))

    def after(self, *, is_completed: bool = True, compacts: bool = True) -> History:
        return History("s", without(self.records, self.goes(is_completed=is_completed, compacts=compacts)))


def ran(calls: tuple[str, ...] = (A, B, C)) -> Journal:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    for address in calls:
        journal.event(address, E.COMPLETED)
    journal.event(RUN, E.COMPLETED)
    return journal


def test_nothing_goes_of_a_run_without_detours() -> None:
    assert {} == ran().goes()


def test_pruning_drops_what_only_earlier_timelines_had() -> None:
    journal = ran()
    began = journal.run_on(B)
    journal.event(B, E.COMPLETED, 5)
    journal.event(C, E.COMPLETED, 6)
    journal.event(RUN, E.COMPLETED, 1)
    assert dict.fromkeys((3, 4, 5), SUPERSEDED) == journal.goes(compacts=False)
    after = journal.after(compacts=False)
    assert reads_the_same(journal.history, after)
    assert journal.history.records == after.records
    assert DroppedRecord(3, SUPERSEDED, began, 0, Usage()) == after.journal[2]
    assert isinstance(after.journal[began - 1], TimelineRecord)
    assert journal.history.next_order == after.next_order
    with pytest.raises(TimelineDropped, match="Timeline 1 of state"):
        on_timeline(after, 1)


def test_a_timeline_that_began_since_a_pruning_is_whole() -> None:
    journal = ran()
    journal.run_on(B)
    journal.event(B, E.COMPLETED, 5)
    journal.event(RUN, E.COMPLETED, 1)
    journal.history = journal.after(compacts=False)
    journal.run_on(B)
    assert {RUN, A, B} == set(on_timeline(journal.history, 2).latest)
    with pytest.raises(TimelineDropped):
        on_timeline(journal.history, 1)


def test_the_first_record_stays_on_whatever_timeline_it_is() -> None:
    journal = ran()
    journal.run_on(RUN)
    journal.event(RUN, E.COMPLETED, 5)
    assert {2, 3, 4, 5} == set(journal.goes())
    assert journal.after().first_event() == journal.history.first_event()


def test_what_an_attempt_used_stays_known() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    journal.event(B, E.RETRYING, details=Details(usage=Usage(3, 0.5, "m")))
    journal.event(B, E.COMPLETED, details=Details(usage=Usage(4, 0.25, "m")))
    journal.run_on(B)
    journal.event(B, E.RETRYING, 4, details=Details(usage=Usage(5, 1.0, "m")))
    journal.event(B, E.COMPLETED, 4)
    journal.event(RUN, E.COMPLETED, 1)
    assert {2, 3} == set(journal.goes())
    assert totals_of(journal.records) == totals_of(journal.after().intact_journal())
    assert 12 == totals_of(journal.records).tokens


def test_compacting_keeps_the_outcome_of_each_call() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    dropped = [journal.event(A, E.RETRYING), journal.event(A, E.RETRYING), journal.event(A, E.INTERRUPTED)]
    dropped += [journal.event(RUN, E.INTERRUPTED), journal.event(RUN, E.STARTED), journal.event(A, E.STARTED)]
    journal.event(A, E.COMPLETED)
    dropped += [journal.event(C, E.AWAITING), journal.event(C, E.CANCELLED)]
    journal.event(C, E.FAILED)
    journal.event(RUN, E.COMPLETED)
    assert dict.fromkeys(dropped, INTERMEDIATE) == journal.goes()
    assert {} == journal.goes(is_completed=False)
    assert {} == journal.goes(compacts=False)
    assert reads_the_same(journal.history, journal.after())
    assert {RUN} == journal.after().started


def test_what_is_to_be_tried_again_stays_to_be_tried_again() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    journal.event(A, E.FAILED)
    journal.event(RUN, E.FAILED, causes=(A,))
    journal.event(C, E.COMPLETED)
    journal.event(RUN, E.COMPLETED)
    assert {A} == journal.history.to_retry
    assert {} == journal.goes()
    journal = Journal()
    journal.event(RUN, E.STARTED)
    failures = {journal.event(A, E.FAILED), journal.event(RUN, E.FAILED, causes=(A,))}
    journal.event(A, E.FAILED)
    journal.event(RUN, E.COMPLETED)
    assert failures == set(journal.goes())
    assert set() == journal.after().to_retry


def test_a_failure_for_which_something_is_tried_again_survives_a_pruning() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    journal.event(A, E.FAILED)
    journal.event(B, E.COMPLETED)
    journal.event(C, E.COMPLETED)
    failed = journal.event(RUN, E.FAILED, causes=(A,))
    journal.run_on(B)
    assert {RUN, A} == journal.history.to_retry
    goes = journal.goes(is_completed=False)
    assert failed not in goes
    assert {3} == set(goes), "one of what was cut off stays, to tell that the run is entered again"
    assert reads_the_same(journal.history, journal.after(is_completed=False))


def test_a_value_goes_that_was_superseded_before_another_call_started() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    gone = {journal.store("x", b"1"), journal.store("y", b"1"), journal.store("y", None)}
    journal.store("x", b"2")
    journal.event(A, E.COMPLETED)
    journal.store("x", b"3")
    journal.event(RUN, E.COMPLETED)
    assert gone == set(journal.goes())
    after = journal.after()
    assert {"x": b"3"} == after.storage
    assert {"x": b"2"} == after.on(from_event(after, A).parts).storage


def test_what_code_inside_a_call_has_written_and_read_stays() -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    for number in (1, 2):
        journal.history.add(StorageRecord(1 + number, "x", 0.0, b"1", behind=number, place="run", number=number))
    journal.history.add(ReadRecord(4, 0.0, "run", "x", False, 1, 2, 3))
    journal.event(A, E.COMPLETED)
    journal.event(RUN, E.COMPLETED)
    assert {} == journal.goes()


def test_what_code_has_read_goes_with_its_timeline() -> None:
    journal = ran()
    seq = journal.history.position + 1
    journal.history.add(ReadRecord(seq, 0.0, "run", "x", False, 1, 0, seq - journal.history.next_order + 1))
    journal.run_on(A)
    assert SUPERSEDED is journal.goes()[seq]
    assert [] == [record for record in journal.after().records if isinstance(record, ReadRecord)]


def test_checkpoints_go_with_a_compaction_and_are_told_to_be_dropped() -> None:
    journal = ran()
    position = journal.checkpoint()
    assert {position: INTERMEDIATE} == journal.goes()
    with pytest.raises(CheckpointDropped, match=f"position {position}"):
        from_checkpoint(journal.after(), position)


def test_an_unfinished_state_keeps_what_its_newest_checkpoint_needs() -> None:
    journal = ran()
    position = journal.checkpoint()
    journal.event("late::tool_call", E.COMPLETED, 7)
    journal.run_on(A)
    journal.event(A, E.COMPLETED, 8)
    assert {7} == set(journal.goes(is_completed=False))
    assert {2, 3, 4, 5, 7} == set(journal.goes(compacts=False))
    kept, gone = journal.after(is_completed=False), journal.after(compacts=False)
    assert journal.history.on(from_checkpoint(journal.history, position).parts).latest == (
        kept.on(from_checkpoint(kept, position).parts).latest
    )
    with pytest.raises(CheckpointDropped):
        from_checkpoint(gone, position)


class Program:
    """A state that does what the numbers say: calls begin anywhere, end, fail, are retried and cut off in any order."""

    def __init__(self) -> None:
        self.journal = Journal()
        self.begun: dict[str, int] = {}

    @property
    def history(self) -> History:
        return self.journal.history

    def begin(self, choice: int) -> None:
        places = ["", *self.begun]
        place = places[choice % len(places)]
        for number in range(1, 4):
            path = f"{place}{SEPARATOR}c{number}" if place else f"c{number}"
            known = self.history.latest.get(f"{path}{SEPARATOR}agent_call")
            is_open = known is None or known.status not in (E.COMPLETED, E.FAILED)
            is_open = is_open or (known is not None and known.address in self.history.to_retry)
            if path not in self.begun and is_open:
                self.begun[path] = self.history.next_order if known is None else known.order
                self.history.next_order += known is None
                return

    def end(self, choice: int, status: ExecutionStatus) -> None:
        if not self.begun:
            return
        path = list(self.begun)[choice % len(self.begun)]
        if any(other.startswith(path + SEPARATOR) for other in self.begun):
            return
        parts = path.split(SEPARATOR)
        for length in range(1, len(parts)):
            above = f"{SEPARATOR.join(parts[:length])}{SEPARATOR}agent_call"
            known = self.history.latest.get(above)
            if known is None or known.status is not E.STARTED:
                self.journal.event(above, E.STARTED, self.begun[SEPARATOR.join(parts[:length])])
        address = f"{path}{SEPARATOR}agent_call"
        causes: tuple[str, ...] = ()
        if status in (E.FAILED, E.RETRYING):
            failed = [each.address for each in self.history.latest.values() if each.status is E.FAILED]
            causes = tuple(each for each in failed if each.startswith(path + SEPARATOR))[choice % 2 :]
        self.journal.event(address, status, self.begun[path], causes=causes)
        if status is not E.RETRYING:
            del self.begun[path]

    def crash(self) -> None:
        self.begun.clear()

    def run_on(self, choice: int, timeline: int) -> None:
        number = max(1, self.history.timelines.current - timeline // 2)
        base = list(self.history.on_timeline(number).latest)
        if base:
            self.journal.run_on(base[choice % len(base)], number)
            self.begun.clear()

    def do(self, what: str, choice: int, more: int) -> None:
        match what:
            case "begin":
                self.begin(choice)
            case "crash":
                self.crash()
            case "run on":
                self.run_on(choice, more)
            case "checkpoint":
                self.journal.checkpoint()
            case "store":
                self.journal.store("xyz"[choice % 3], None if more == 3 else bytes([choice]))
            case _:
                self.end(choice, E(what))


WHAT = (
    *("begin",) * 6,
    *("completed",) * 5,
    *("failed", "failed", "retrying", "cancelled", "interrupted", "awaiting"),
    *("crash", "run on", "run on", "checkpoint", "store", "store"),
)


def generated(seed: int) -> Program:
    """A long life, made from one number: short ones rarely have what is hard."""
    numbers = random.Random(seed)
    program = Program()
    for _ in range(numbers.randrange(20, 160)):
        program.do(numbers.choice(WHAT), numbers.randrange(31), numbers.randrange(4))
    return program


def exact(history: History) -> tuple[object, ...]:
    """All that a timeline is."""
    return history.latest, history.to_retry, history.open, history.started, history.storage, history.records


def given_again(history: History) -> tuple[object, ...]:
    """What counts of a timeline for whoever goes on with it: outcomes, what has an inside, and the storage."""
    settled = {
        address: record
        for address, record in history.latest.items()
        if record.status is E.COMPLETED or (record.status is E.FAILED and address not in history.to_retry)
    }
    return settled, history.started, history.storage


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, 10**9), st.booleans())
def test_pruning_changes_no_timeline_that_can_still_be_asked_for(seed: int, is_completed: bool) -> None:
    journal = generated(seed).journal
    before, after = journal.history, journal.after(is_completed=is_completed, compacts=False)
    assert exact(before) == exact(after)
    assert before.listed_timelines() == after.listed_timelines()
    began = before.timelines.began(before.timelines.current)
    assert exact(before) == exact(History("s", after.journal, began))
    for address in before.latest:
        parts = from_event(before, address).parts
        assert parts == from_event(after, address).parts
        assert exact(before.on(parts)) == exact(after.on(parts))
    for number in range(1, before.timelines.current):
        try:
            whole = on_timeline(after, number)
        except TimelineDropped:
            continue
        assert given_again(before.on_timeline(number)) == given_again(whole)
    newest = max((each.position for each in before.checkpoints()), default=0)
    for checkpoint in before.checkpoints():
        position = checkpoint.position
        try:
            point = from_checkpoint(after, position)
        except CheckpointDropped:
            assert is_completed or position != newest
            continue
        assert exact(before.on(from_checkpoint(before, position).parts)) == exact(after.on(point.parts))
    assert totals_of(before.intact_journal()) == totals_of(after.intact_journal())
    again = dropped_by(after.intact_journal(), is_completed=is_completed, compacts=False)
    assert {} == dict(again), "what was pruned is pruned"


@settings(max_examples=500, deadline=None, derandomize=True)
@given(st.integers(0, 10**9))
def test_whatever_is_run_on_from_a_compacted_state_finds_what_it_would_have_found(seed: int) -> None:
    journal = generated(seed).journal
    before, after = journal.history, journal.after()
    assert reads_the_same(before, after)
    assert before.started == after.started
    assert [] == after.checkpoints()
    for address in before.latest:
        parts = from_event(before, address).parts
        assert parts == from_event(after, address).parts
        assert given_again(before.on(parts)) == given_again(after.on(parts))
    again = dropped_by(after.intact_journal(), is_completed=True, compacts=True)
    assert {} == dict(again), "what was compacted is compacted"


@pytest.mark.parametrize(("damaged", "kept"), [(7, 3), (6, 3), (9, 9), (2, 1)])
def test_a_damaged_state_is_gone_on_with_from_before_what_is_missed(damaged: int, kept: int) -> None:
    journal = Journal()
    journal.event(RUN, E.STARTED)
    journal.event(A, E.COMPLETED)
    journal.event(B, E.COMPLETED)
    journal.event(C, E.RETRYING)
    journal.event("run::d::tool_call", E.COMPLETED)
    journal.event(C, E.COMPLETED)
    journal.event(RUN, E.COMPLETED)
    after = journal.after()
    assert [4] == [record.seq for record in after.dropped()]
    began = 0
    if damaged > 7:
        # What was compacted before this timeline began is not missed on it.
        journal.history = after
        began = journal.run_on("run::d::tool_call")
        journal.event("run::d::tool_call", E.COMPLETED, 6)
        journal.event(RUN, E.COMPLETED, 1)
        after = journal.history
        damaged, kept = 10, 9
    records: list[Record | DamagedRecord] = list(after.journal)
    records[damaged - 1] = DamagedRecord("s", damaged, "it is missing")
    found = recovery_of(records, began)
    assert found is not None
    assert (damaged, kept) == (found.first_damaged, found.new.parts[-1].last)


def test_a_pruned_timeline_is_not_gone_back_to_where_the_record_that_began_the_current_one_is_damaged() -> None:
    journal = ran()
    began = journal.run_on(B)
    journal.event(B, E.COMPLETED, 5)
    records: list[Record | DamagedRecord] = list(journal.after(compacts=False).journal)
    records[began - 1] = DamagedRecord("s", began, "it is missing")
    found = recovery_of(records, began)
    assert found is not None
    assert (Part(1, 2),) == found.new.parts
