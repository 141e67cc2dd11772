"""The checks of the kit find each way in which a run can go wrong, and nothing in one that went right."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from order.checks import Ending, Process, faults
from order.outside import Entry, Kind

RESULT = ["got a", "too late", "got b, receipt for fee"]


def entry(line: str) -> Entry:
    kind, who, what = (*line.split(": "), "")[:3]
    return Entry(Kind(kind), who, what)


def process(
    *lines: str,
    recorded: Sequence[str] = (),
    ending: Ending = Ending.STOPPED,
    result: Sequence[str] | None = None,
    error: str = "",
    warnings: Sequence[str] = (),
) -> Process:
    return Process(
        entries=[entry(line) for line in lines],
        recorded=frozenset(recorded),
        ending=ending,
        result=result,
        error=error,
        warnings=warnings,
    )


STOPPED = process(
    "executed: a#1",
    "executed: b#1",
    "decided: program: got a",
    "perhaps: program: too late",
    "effect: fee: fee",
    "decided: program: got b, receipt for fee",
    "perhaps: program: or never",
)
FINISHED = process(
    "executed: b#1",
    *(f"decided: program: {decision}" for decision in RESULT),
    recorded=["a#1", "fee"],
    ending=Ending.FINISHED,
    result=RESULT,
)
REHEARSED = process(*(f"decided: program: {decision}" for decision in RESULT), ending=Ending.REHEARSED)


def test_a_run_that_went_on_as_it_had_begun_has_no_faults() -> None:
    assert [] == faults([STOPPED, FINISHED, REHEARSED])


def test_a_complete_run_that_is_given_its_result_again_has_no_faults() -> None:
    assert [] == faults([STOPPED, FINISHED, process(ending=Ending.FINISHED, result=RESULT)])


def test_what_a_timer_alone_decided_may_be_decided_otherwise() -> None:
    loose = process("executed: a#1", "decided: program: got a", "perhaps: program: early")
    other = process("decided: program: got a", "decided: program: got c", recorded=["a#1"])
    assert [] == faults([loose, other])


@pytest.mark.parametrize(
    ("wrong", "fault"),
    [
        (process("executed: a#1", recorded=["a#1"]), "a#1 was recorded, and process 1 executed it again"),
        (process("executed: b#1", "executed: b#1"), "b#1 was executed 2 times by process 1"),
        (process("effect: fee: fee"), "fee is declared once, and happened 2 times"),
        (process("decided: program: got b"), "program had decided 'got a' at 0, and decided 'got b' in process 1"),
        (
            process("decided: program: got a", "perhaps: program: in time"),
            "program had decided 'too late' at 1, and decided 'in time' in process 1",
        ),
        (
            process("decided: program: got a", ending=Ending.FINISHED, result=["got a"]),
            "fee happened, and the result knows nothing of it",
        ),
        (process(ending=Ending.FAILED, error="it hangs"), "process 1 failed: it hangs"),
        (process("executed: c#1", ending=Ending.REHEARSED), "c#1 was executed by the rehearsal"),
        (process(warnings=["drift"]), "process 1 warned: drift"),
    ],
)
def test_each_fault_is_told(wrong: Process, fault: str) -> None:
    assert fault in faults([STOPPED, wrong])


def test_a_result_without_what_was_decided_before_is_a_fault() -> None:
    short = process("decided: program: got a", ending=Ending.FINISHED, result=["got a"])
    (fault,) = faults([process("decided: program: got a", "decided: program: got b"), short])
    assert "program had decided ['got b'] after that, and process 1 ended without it" == fault


def test_a_rehearsal_that_comes_to_something_else_is_a_fault() -> None:
    other = process("decided: program: got a", ending=Ending.REHEARSED)
    (fault,) = faults([STOPPED, FINISHED, other])
    assert f"a rehearsal decided ['got a'], and the result is {RESULT}" == fault
