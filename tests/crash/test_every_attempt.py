"""A program whose calls are tried again and timed out is stopped at every write, before it and after it, and taken up.

An attempt that has a recorded end is never executed again. One that was in flight is, under its own number.
"""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from crash.attempts_program import ALONE, MOST, QUICKLY, attempts, executions
from crash.recorded_attempts import (
    Attempts,
    Recorded,
    Undisturbed,
    allowed,
    history_of,
    recorded,
    require_made,
    require_whole,
    run_undisturbed,
)
from crash.stores import KINDS, opener
from crash.sweeping import When, places

from limpet import Encryption, Limpet, StateBackend, StateStatus, new_key
from limpet.testing import CrashingBackend

KEY = new_key()


def client_on(backend: StateBackend, kind: str = "") -> Limpet:
    return Limpet(backend, encryption=Encryption(KEY) if kind == "encrypted" else None)


def run(client: Limpet) -> Any:
    return client.run_sync(attempts, "attempts", state_id="swept")


def run_until_stopped(backend: CrashingBackend, kind: str) -> Any:
    """The result, or None where the backend was stopped: a task group wraps the crash, so its type does not tell."""
    try:
        return run(client_on(backend, kind))
    except BaseException:
        if not backend.is_stopped:
            raise
    # The tasks that the crash left behind are reported when they are collected: here, and not in the middle of a test.
    gc.collect()
    return None


@pytest.fixture(scope="module")
def undisturbed() -> Undisturbed:
    return run_undisturbed()


def require_bounds(found: Attempts, crashes: int, undisturbed: Undisturbed) -> None:
    """No attempt has a higher number than there may be, and none is made more often than it was cut off."""
    assert set() == {each for each in found if each[1] > QUICKLY.max_attempts}
    assert set() == set(found) - set(undisturbed.attempts)
    for (name, attempt), count in found.items():
        assert count <= undisturbed.attempts[name, attempt] + crashes + name.endswith(".hangs")


def test_as_many_attempts_are_made_as_there_may_be(undisturbed: Undisturbed) -> None:
    most: dict[str, int] = {}
    for name, attempt in undisturbed.attempts:
        most[name] = max(attempt, most.get(name, 0))
    assert MOST == {name: most[name] for name in MOST}


@pytest.mark.parametrize("kind", [*KINDS, "encrypted"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_attempts_stopped_at_any_write_end_as_the_undisturbed_ones(
    kind: str, when: When, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    writes = places(kind, when)
    stop_at = 0
    crashing = None
    while crashing is None or crashing.is_stopped:
        stop_at = next(writes)
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        result = run_until_stopped(crashing, kind)
        survivor = client_on(open_store(), kind)
        if crashing.is_stopped:
            result = resumed(survivor, undisturbed)
        assert undisturbed.result == result
        require_bounds(executions, 1, undisturbed)
        if when == "after":
            # What ends with a write is over when that is made: only what is under way beside it is cut off.
            assert set() == {attempt for attempt, count in executions.items() if attempt[0] in ALONE and count > 1}
        require_whole(survivor, undisturbed)
        assert StateStatus.COMPLETED is survivor.show("swept").header.status
    # How many writes there are depends on what comes together in one commit, and so, a little, on timing.
    assert stop_at > undisturbed.writes // 2


def resumed(client: Limpet, undisturbed: Undisturbed) -> Any:
    """What the run gives that is taken up: it makes the attempts that have no recorded end, each exactly once."""
    before, so_far = recorded(history_of(client)), executions.copy()
    assert before.outcomes <= so_far
    result = run(client)
    require_made(executions - so_far, undisturbed.attempts, before, recorded(history_of(client)))
    return result


@pytest.mark.parametrize("kind", [*KINDS, "encrypted"])
def test_attempts_stopped_again_and_again_are_never_more_than_there_may_be(
    kind: str, tmp_path: Path, undisturbed: Undisturbed
) -> None:
    open_store = opener(kind, tmp_path / "store")
    before = Recorded(Counter(), Counter())
    total: Attempts = Counter()
    crashes = 0
    while True:
        executions.clear()
        # The first write finds a dead holder, the second takes the lease over from it, the third is of a record. What
        # cuts off a branch is made anew each time, so the write behind it is reached by every other process only.
        crashing = CrashingBackend(open_store(), stop_at=3 + crashes % 2, when="after")
        result = run_until_stopped(crashing, kind)
        client = client_on(open_store(), kind)
        after = recorded(history_of(client))
        assert executions <= allowed(undisturbed.attempts, before, after)
        assert before.outcomes <= after.outcomes
        total += executions
        if not crashing.is_stopped:
            break
        crashes += 1
        assert crashes < undisturbed.writes * 2, "it makes no progress"
        before = after
    assert undisturbed.result == result
    assert crashes > 10
    require_bounds(total, crashes, undisturbed)
    require_whole(client, undisturbed)
    assert StateStatus.COMPLETED is client.show("swept").header.status
