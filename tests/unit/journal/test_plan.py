from __future__ import annotations

import pytest

from limpet.journal.history import History
from limpet.journal.new_timeline import Replacement, from_event
from limpet.journal.plan import plan_of
from limpet.model import EventRecord, EventType, ExecutionStatus, RerunPlan

E = ExecutionStatus


def record(
    seq: int, address: str, status: ExecutionStatus = E.COMPLETED, order: int = 0, took: float = 1.0
) -> EventRecord:
    return EventRecord(seq, address, status, 0.0, seq - (order or seq), duration_s=took)


HISTORY = History(
    "s",
    [
        record(1, "run::agent_call", E.STARTED),
        record(2, "run::fetch::tool_call"),
        record(3, "run::fetch#2::tool_call", took=2.0),
        record(4, "run::think::llm_call", took=4.0),
        record(5, "run::fetch#3::tool_call"),
        record(6, "run::agent_call", order=1, took=9.0),
    ],
)


def plan(at: str, replacement: Replacement | None = None) -> RerunPlan:
    new = from_event(HISTORY, at, replacement=replacement)
    return plan_of(HISTORY, new, {("fetch", EventType.TOOL_CALL)})


def test_a_plan_counts_what_is_reused_and_what_runs_again() -> None:
    told = plan("fetch#2")
    assert [("fetch", 1)] == [(calls.actor, calls.calls) for calls in told.reused]
    assert [("fetch", 2), ("think", 1)] == [(calls.actor, calls.calls) for calls in told.again]
    assert (3, 1, ("run::agent_call",)) == (told.calls_again, told.model_calls_again, told.entered_again)


def test_a_plan_tells_the_recorded_time_of_tools_and_models() -> None:
    told = plan("fetch#2")
    assert (1.0, 7.0) == (told.duration_reused_s, told.duration_again_s)


def test_a_plan_from_the_start_executes_everything_again() -> None:
    told = plan("run::agent_call")
    assert ((), 5, ()) == (told.reused, told.calls_again, told.entered_again)
    assert 8.0 == pytest.approx(told.duration_again_s)


def test_what_is_replaced_is_not_executed() -> None:
    told = plan("think", Replacement(b"x"))
    assert (1, 0, True) == (told.calls_again, told.model_calls_again, told.replaces)


def test_what_a_replaced_call_had_called_is_neither_reused_nor_executed() -> None:
    told = plan("run::agent_call", Replacement(b"x"))
    assert ([("run", 1)], 0) == ([(calls.actor, calls.calls) for calls in told.reused], told.calls_again)


def test_a_plan_marks_what_is_declared_once() -> None:
    assert ["fetch"] == [calls.actor for calls in plan("fetch#2").once_again]


def test_a_plan_reads_well() -> None:
    assert (
        "Running s on from run::fetch#2::tool_call\n"
        "reused: 1 call, 1 s of tools and models\n"
        "  fetch (tool_call): 1 call, 1 s, declared once\n"
        "executed again: 3 calls, 7 s of tools and models\n"
        "  fetch (tool_call): 2 calls, 3 s, declared once\n"
        "  think (llm_call): 1 call, 4 s, costs money"
    ) == str(plan("fetch#2"))
