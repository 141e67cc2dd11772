"""A program that keeps things in the storage is stopped at every write, before it and after it, and resumed."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crash.stored_program import executions, stores
from crash.stores import opener
from crash.sweeping import When

from limpet import ExecutionState, ExecutionStatus, Limpet, MemoryStateBackend, StateBackend, StorageRecord
from limpet.testing import CrashingBackend

AT_THE_END = {
    "looped": 4,
    "bumped": 7,
    "tried": 3,
    "broken": 1,
    "caught": 1,
    "plain": 2,
    "shared": 9,
    "stays": ["kept"],
}
KINDS = ["memory", "normal"]


def run(backend: StateBackend) -> Any:
    return Limpet(backend).run_sync(stores, 1, state_id="swept")


def run_until_stopped(backend: CrashingBackend) -> Any:
    """The result, or None where the backend was stopped."""
    try:
        return run(backend)
    except BaseException:
        if not backend.is_stopped:
            raise
    # The tasks that the crash left behind are reported when they are collected: here, and not in the middle of a test.
    gc.collect()
    return None


def changes(backend: StateBackend) -> Counter[tuple[str, bool, str, int]]:
    """How often each change of the storage was made."""
    records = Limpet(backend).history("swept") if backend.find_state("swept") is not None else ()
    return Counter(
        (record.place, record.is_artifact, record.key, record.number)
        for record in records
        if isinstance(record, StorageRecord)
    )


def kept(backend: StateBackend) -> dict[str, Any]:
    storage = ExecutionState.load_from_state_id("swept", backend).storage
    return {key: storage.get(key) for key in storage.keys()}  # noqa: SIM118  # not a mapping


@pytest.fixture(scope="module")
def undisturbed() -> tuple[Any, int, Counter[tuple[str, bool, str, int]]]:
    executions.clear()
    backend = CrashingBackend(MemoryStateBackend())
    result = run(backend)
    assert AT_THE_END == result["at the end"] == kept(backend)
    assert {1, 3} == set(executions.values())
    return result, backend.writes, changes(backend)


def test_the_undisturbed_run_sees_what_it_wrote(undisturbed: tuple[Any, int, Any]) -> None:
    result, _, _ = undisturbed
    assert [0, 0, 1, 1, 2, 2] == result["looped"]
    assert ([2, 3], [0, 1], list(range(9))) == (result["tried"], result["plain"], result["shared"])
    assert "wrack and tide, " * 50 == result["page"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_storage_is_replayed_wherever_the_run_was_stopped(
    kind: str, when: When, tmp_path: Path, undisturbed: tuple[Any, int, Counter[tuple[str, bool, str, int]]]
) -> None:
    expected, writes, made = undisturbed
    stop_at = 0
    crashing = None
    while crashing is None or crashing.is_stopped:
        stop_at += 1
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        result = run_until_stopped(crashing)
        if crashing.is_stopped:
            result = run(open_store())
        assert expected == result
        assert AT_THE_END == kept(open_store())
        assert made == changes(open_store()), "every change is made once"
        assert max(count for name, count in executions.items() if name != "flaky") <= 2
    assert stop_at > writes // 2


@pytest.mark.parametrize("kind", KINDS)
def test_storage_is_replayed_in_a_run_that_is_stopped_again_and_again(
    kind: str, tmp_path: Path, undisturbed: tuple[Any, int, Counter[tuple[str, bool, str, int]]]
) -> None:
    expected, writes, made = undisturbed
    open_store = opener(kind, tmp_path / "store")
    result = None
    for _ in range(writes):
        # The first write finds a dead holder, the second takes the lease over from it. The third may be of an artifact,
        # and the fourth is of a record then.
        crashing = CrashingBackend(open_store(), stop_at=4, when="after")
        result = run_until_stopped(crashing)
        if not crashing.is_stopped:
            break
        assert changes(open_store()) <= made
    assert expected == result
    assert (AT_THE_END, made) == (kept(open_store()), changes(open_store()))


def test_a_finished_run_has_nothing_that_was_begun_and_not_ended(
    undisturbed: tuple[Any, int, Counter[tuple[str, bool, str, int]]],
) -> None:
    backend = MemoryStateBackend()
    run(backend)
    history = Limpet(backend).history("swept")
    assert {ExecutionStatus.COMPLETED, ExecutionStatus.FAILED} == {history[each].status for each in history.addresses()}
