"""A program is stopped at every write, before it and after it, and taken up again."""

from __future__ import annotations

import asyncio
import gc
import itertools
from pathlib import Path
from typing import Any, Literal

import pytest
from crash.stores import KINDS, opener
from crash.swept_program import everything, executions

from limpet import (
    EventRecord,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateBackend,
    StateStatus,
)
from limpet.codec import values
from limpet.testing import CrashingBackend

When = Literal["before", "after"]


def run(backend: StateBackend) -> Any:
    return Limpet(backend).run_sync(everything, 1, state_id="swept")


def run_until_stopped(backend: CrashingBackend) -> Any:
    """The result, or None where the backend was stopped: a task group wraps the crash, so its type does not tell."""
    try:
        return run(backend)
    except BaseException:
        if not backend.is_stopped:
            raise
    # The tasks that the crash left behind are reported when they are collected: here, and not in the middle of a test.
    gc.collect()
    return None


def undisturbed() -> tuple[Any, int, list[str]]:
    executions.clear()
    backend = CrashingBackend(MemoryStateBackend())
    result = run(backend)
    assert {1} == set(executions.values())
    return result, backend.writes, sorted(Limpet(backend).history("swept").addresses())


def recorded_names(backend: StateBackend) -> set[str]:
    """The names, as the program counts them, of the calls whose outcome is in the store."""
    if backend.find_state("swept") is None:
        return set()
    settled = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
    return {
        values.decode(record.input)[0]
        for record in Limpet(backend).history("swept")
        if isinstance(record, EventRecord) and record.status in settled and record.input is not None
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_stopped_at_any_write_ends_as_the_undisturbed_one(kind: str, when: When, tmp_path: Path) -> None:
    expected, writes, addresses = undisturbed()
    numbers = itertools.count()
    stop_at = 0
    crashing = None
    while crashing is None or crashing.is_stopped:
        stop_at += 1
        open_store = opener(kind, tmp_path / f"store-{next(numbers)}")
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        result = run_until_stopped(crashing)
        if crashing.is_stopped:
            before = executions.copy()
            survivor = open_store()
            recorded = recorded_names(survivor)
            result = run(survivor)
            again = {name for name in recorded if executions[name] != before[name]}
            assert set() == again, "a recorded result ran again"
        assert expected == result
        assert max(executions.values()) <= 2, "what was in flight runs at most once more"
        assert addresses == sorted(Limpet(open_store()).history("swept").addresses())
    # How many writes there are depends on what comes together in one commit, and so, a little, on timing.
    assert stop_at > writes // 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_again_and_again_makes_one_write_of_progress_each_time(kind: str, tmp_path: Path) -> None:
    expected, writes, _ = undisturbed()
    open_store = opener(kind, tmp_path / "store")
    recorded: set[str] = set()
    result = None
    for _ in range(writes):
        executions.clear()
        # The first write finds a dead holder, the second takes the lease over from it, the third is of a record.
        crashing = CrashingBackend(open_store(), stop_at=3, when="after")
        result = run_until_stopped(crashing)
        assert set() == recorded & set(executions), "a recorded result ran again"
        if not crashing.is_stopped:
            break
        progress = recorded_names(open_store())
        assert recorded < progress
        recorded = progress
    assert expected == result
    header = open_store().find_state("swept")
    assert header is not None
    assert StateStatus.COMPLETED is header.status


def test_resuming_a_finished_state_again_and_again_runs_and_adds_nothing(tmp_path: Path) -> None:
    backend = SQLiteStateBackend(tmp_path / "runs.db", synchronous="normal")
    expected = run(backend)
    position = Limpet(backend).list_states()[0].position
    executions.clear()
    for _ in range(4):
        assert expected == run(backend)
        assert expected == asyncio.run(Limpet(backend).resume("swept"))
    assert not executions
    assert position == Limpet(backend).list_states()[0].position
