"""What is recorded of the storage inside each call, for code that is replayed."""

from __future__ import annotations

from typing import Any

from limpet.journal.executions import Execution, branches_of, is_made
from limpet.journal.history import History
from limpet.model import Details, EventRecord, ExecutionStatus, ReadRecord, StorageRecord

E = ExecutionStatus
RUN, STEP, LOOK = "run::agent_call", "run::step::tool_call", "run::look::agent_call"


class Journal:
    """A journal that is written by hand."""

    def __init__(self) -> None:
        self.history = History("s")
        self.event(RUN, E.STARTED)

    def event(self, address: str, status: ExecutionStatus, **more: Any) -> int:
        seq = self.history.position + 1
        known = self.history.latest.get(address)
        order = self.history.next_order if known is None else known.order
        self.history.add(EventRecord(seq, address, status, float(seq), seq - order, **more))
        return seq

    def store(self, place: str, key: str, number: int, value: bytes | None = b"v") -> int:
        seq = self.history.position + 1
        self.history.add(StorageRecord(seq, key, float(seq), value, behind=seq - 1, place=place, number=number))
        return seq

    def read(self, place: str, key: str, number: int, saw: int) -> int:
        seq = self.history.position + 1
        self.history.add(ReadRecord(seq, float(seq), place, key, False, number, saw, seq - 1))
        return seq

    def inside(self, path: str) -> Execution:
        found = self.history.executions_until(self.history.position).get(path)
        assert found is not None
        return found

    def written(self, path: str) -> dict[tuple[str, str, int], int]:
        return {(place, key, n): record.seq for (place, _, key, n), record in self.inside(path).writes.items()}


def test_writes_are_known_by_place_key_and_number() -> None:
    journal = Journal()
    first, second = journal.store("run", "a", 1), journal.store("run", "a", 2)
    branch = journal.store("run::task[x]", "a", 1)
    journal.event(STEP, E.STARTED)
    inside = journal.store("run::step", "a", 1)
    assert {("run", "a", 1): first, ("run", "a", 2): second, ("run::task[x]", "a", 1): branch} == journal.written("run")
    assert {("run::step", "a", 1): inside} == journal.written("run::step")


def test_what_was_written_outside_of_calls_is_in_none() -> None:
    journal = Journal()
    journal.history.add(StorageRecord(2, "a", 0.0, b"v", behind=1))
    assert {} == journal.written("run")


def test_replay_comes_to_its_own_records_and_those_of_its_calls_only() -> None:
    journal = Journal()
    assert {} == journal.inside("run").lasts(())
    journal.event(LOOK, E.STARTED)
    journal.store("run::look", "a", 1)
    assert ({"run": 2}, {"run::look": 3}) == (journal.inside("run").lasts(()), journal.inside("run::look").lasts(()))
    journal.event("run::look::step::tool_call", E.COMPLETED)
    assert ({"run": 2}, {"run::look": 4}) == (journal.inside("run").lasts(()), journal.inside("run::look").lasts(()))
    journal.read("run", "a", 1, 3)
    journal.event("run::task[x]::step::tool_call", E.COMPLETED)
    journal.store("run::task[y]", "a", 1)
    assert {"run": 5, "run::task[x]": 6, "run::task[y]": 7} == journal.inside("run").lasts(())


def test_a_call_began_when_the_record_before_its_start_was_the_newest_unless_that_says_otherwise() -> None:
    journal = Journal()
    journal.event(STEP, E.COMPLETED)
    journal.event(LOOK, E.STARTED)
    journal.event("run::more::agent_call", E.STARTED, details=Details(unseen=2))
    assert (0, 2, 1) == tuple(journal.inside(path).began for path in ("run", "run::look", "run::more"))


def test_each_attempt_of_a_tool_is_an_execution_of_its_own() -> None:
    journal = Journal()
    journal.event(STEP, E.STARTED)
    journal.store("run::step", "a", 1)
    journal.event(STEP, E.RETRYING)
    journal.event(STEP, E.STARTED, attempt=2)
    assert {} == journal.written("run::step")
    again = journal.store("run::step", "a", 1)
    assert {("run::step", "a", 1): again} == journal.written("run::step")


def test_all_attempts_of_an_agent_are_one_execution() -> None:
    journal = Journal()
    journal.event(LOOK, E.STARTED)
    first = journal.store("run::look", "a", 1)
    journal.event(LOOK, E.RETRYING)
    journal.event(LOOK, E.STARTED, attempt=2)
    second = journal.store("run::look", "a", 2)
    assert {("run::look", "a", 1): first, ("run::look", "a", 2): second} == journal.written("run::look")
    assert (1, 4) == (journal.inside("run::look").began, journal.inside("run::look").ended)


def test_what_followed_from_a_failure_does_not_count_once_the_call_is_executed_again() -> None:
    journal = Journal()
    before = journal.store("run", "status", 1)
    journal.event(STEP, E.FAILED)
    journal.store("run", "status", 2)
    journal.read("run", "status", 1, 4)
    beside = journal.store("run::task[other]", "status", 1)
    kept = {("run", "status", 1): before, ("run::task[other]", "status", 1): beside}
    assert {**kept, ("run", "status", 2): 4} == journal.written("run")
    assert {"run": 5, "run::task[other]": 6} == journal.inside("run").lasts(())
    assert {"run": 3, "run::task[other]": 6} == journal.inside("run").lasts({STEP})
    assert kept == journal.written("run")
    assert journal.inside("run").read(("run", False, "status", 1)) is None


def test_what_followed_from_a_failure_does_not_count_where_the_call_was_executed_again() -> None:
    journal = Journal()
    journal.event("run::task[x]::step::tool_call", E.FAILED)
    journal.store("run::task[x]", "status", 1)
    journal.store("run", "status", 1)
    journal.event("run::task[x]::step::tool_call", E.COMPLETED)
    after = journal.store("run", "status", 1)
    assert {("run", "status", 1): after} == journal.written("run")


def test_a_read_is_found_under_every_number_that_it_stands_for() -> None:
    execution = Execution(0, is_agent=True)
    first, second = ReadRecord(2, 0.0, "run", "a", False, 2, 1, count=2), ReadRecord(5, 0.0, "run", "a", False, 5, 4)
    for record in (first, second):
        execution.add_read(record)
    assert [first, first, None, None, second, None] == [execution.read(("run", False, "a", n)) for n in range(1, 7)]
    assert execution.read(("run", True, "a", 1)) is None
    again = ReadRecord(9, 0.0, "run", "a", False, 4, 8, count=2**62)
    execution.add_read(again)
    assert [again, again, None] == [execution.read(("run", False, "a", n)) for n in (1, 4, 5)]


def test_branches_are_known_by_where_they_were_made() -> None:
    places = ["run", "run::task[x]", "run::task[x]::task[y]#2", "run::pages[0]::task[z]"]
    assert {
        "run": {"task[x]", "pages[0]"},
        "run::task[x]": {"task[y]#2"},
        "run::pages[0]": {"task[z]"},
    } == branches_of(places, "run")
    made = {"task[y]": 2, "task[x]": 1}
    assert [True, True, False, False] == [
        is_made(branch, made) for branch in ("task[x]", "task[y]#2", "task[y]#3", "task[z]")
    ]


def test_the_newest_start_inside_a_call_is_known() -> None:
    journal = Journal()
    journal.event(LOOK, E.STARTED)
    journal.event("run::look::step::tool_call", E.COMPLETED)
    journal.event(STEP, E.COMPLETED)
    assert (4, 3) == (journal.inside("run").newest, journal.inside("run::look").newest)


def test_an_earlier_position_is_read_without_what_came_later() -> None:
    journal = Journal()
    journal.store("run", "a", 1)
    journal.store("run", "a", 2)
    assert {"run": 3} == journal.inside("run").lasts(())
    early = journal.history.executions_until(2).get("run")
    assert early is not None
    assert {"run": 2} == early.lasts(())
    assert {"run": 3} == journal.inside("run").lasts(())


def test_a_call_that_is_begun_later_starts_behind_those_that_a_change_came_after() -> None:
    journal = Journal()
    journal.history.add(StorageRecord(2, "a", 0.0, b"v", behind=-3, place="run", number=1))
    assert 6 == journal.history.next_order
