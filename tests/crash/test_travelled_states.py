"""A state is run on from an address, forked and edited, and stopped at every write on the way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from crash.stores import opener
from crash.swept_program import everything, executions

from limpet import (
    Encryption,
    EventRecord,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    StateBackend,
    StateStatus,
    UnknownState,
    UsageError,
    new_key,
)
from limpet.codec import values
from limpet.testing import CrashingBackend

When = Literal["before", "after"]

KEY = new_key()
EDITED = [700, 701]

# In the middle of a loop, deep inside nested agents, in a branch of a group, and the first call that is made; and where
# a result is edited, what of the whole becomes different by that.
PLACES: list[tuple[str, dict[str, Any]]] = [
    ("everything::step#2::tool_call", {}),
    ("everything::inner::step#2::tool_call", {}),
    ("everything::task[chain]#2::step#2::tool_call", {}),
    ("everything::step::tool_call", {}),
    ("everything::inner::agent_call", {"nested": EDITED}),
    ("everything::plain::tool_call", {"threaded": 1234}),
]


def limpet(backend: StateBackend, kind: str) -> Limpet:
    return Limpet(backend, encryption=Encryption(KEY) if kind == "encrypted" else None)


def until_stopped(backend: CrashingBackend, work: Callable[[], Any]) -> Any:
    """What the work gives, or None where the backend was stopped in it."""
    try:
        return work()
    except BaseException:
        if not backend.is_stopped:
            raise
    gc.collect()
    return None


def recorded(client: Limpet, state_id: str, timeline: int) -> set[str]:
    """The names, as the program counts them, of the calls whose outcome is on that timeline."""
    settled = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
    return {
        values.decode(record.input)[0]
        for record in client.history(state_id, timeline=timeline)
        if isinstance(record, EventRecord) and record.status in settled and record.input is not None
    }


KINDS = ["memory", "normal", "full", "encrypted", "files", "files packed"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(("place", "edited"), PLACES)
def test_a_state_that_is_run_on_and_stopped_at_any_write_ends_as_the_undisturbed_one(
    kind: str, when: When, place: str, edited: dict[str, Any], tmp_path: Path
) -> None:
    options = {"replace": next(iter(edited.values()))} if edited else {}
    numbers = itertools.count()
    stop_at = 0
    while True:
        stop_at += 1
        open_store = opener(kind, tmp_path / f"store-{next(numbers)}")
        client = limpet(open_store(), kind)
        unedited = client.run_sync(everything, 1, state_id="swept")
        kept = recorded(client, "swept", 1)
        plan = client.plan_rerun("swept", place, **options)
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        stopped = limpet(crashing, kind)
        result = until_stopped(crashing, lambda client=stopped: asyncio.run(client.rerun("swept", place, **options)))
        again = limpet(open_store(), kind)
        is_begun = len(again.timelines("swept")) == 2
        if crashing.is_stopped:
            on_new = recorded(again, "swept", 2) if is_begun else kept
            before = executions.copy()
            result = again.run_sync(everything, 1, state_id="swept")
            assert set() == {name for name in on_new if executions[name] != before[name]}, "a recorded result ran again"
        # Before the new timeline was durable, nothing has happened.
        assert result == ({**unedited, **edited} if is_begun else unedited)
        assert max(executions.values(), default=0) <= 2, "what was in flight runs at most once more"
        assert StateStatus.COMPLETED is again.show("swept").header.status
        assert kept == recorded(again, "swept", 1), "the old timeline is as it was"
        if not crashing.is_stopped:
            break
    assert plan.calls_again <= sum(executions.values()), "all that started after the place ran again"
    assert stop_at > 5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_fork_with_an_edited_result_ends_as_an_undisturbed_run_with_that_result(
    kind: str, when: When, tmp_path: Path
) -> None:
    place = "everything::inner::agent_call"
    client = limpet(MemoryStateBackend(), kind)
    unedited = client.run_sync(everything, 1, state_id="swept")
    fork = client.fork("swept", at=place, replace=EDITED)
    expected = asyncio.run(client.resume(fork))
    assert {**unedited, "nested": EDITED} == expected
    numbers = itertools.count()
    for stop_at in itertools.count(1):
        open_store = opener(kind, tmp_path / f"store-{next(numbers)}")
        limpet(open_store(), kind).run_sync(everything, 1, state_id="swept")
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        stopped = limpet(crashing, kind)

        def travel(client: Limpet) -> Any:
            with contextlib.suppress(UsageError):  # It is there already, where the fork itself was written.
                client.fork("swept", at=place, replace=EDITED, new_state_id="fork")
            return asyncio.run(client.resume("fork", agent=everything))

        result = until_stopped(crashing, lambda client=stopped: travel(client))
        again = limpet(open_store(), kind)
        assert unedited == again.run_sync(everything, 1, state_id="swept"), "the parent is as it was"
        if not crashing.is_stopped:
            assert expected == result
            return
        executions.clear()
        assert expected == travel(again)
        assert max(executions.values(), default=0) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_of_a_fork_that_is_run_on_and_stopped_again_and_again_ends_as_it_should(
    kind: str, tmp_path: Path
) -> None:
    open_store = opener(kind, tmp_path / "store")
    client = limpet(open_store(), kind)
    unedited = client.run_sync(everything, 1, state_id="swept")
    first = client.fork("swept", at="everything::inner::agent_call", replace=EDITED, new_state_id="first")
    assert {**unedited, "nested": EDITED} == asyncio.run(client.resume(first))
    asyncio.run(client.rerun(first, "everything::plain::tool_call"))
    client.fork(first, at="everything::think::llm_call", replace={"sum": 1, "count": 2}, new_state_id="second")
    expected = {**unedited, "nested": EDITED, "thought": {"sum": 1, "count": 2}}
    for stop_at in itertools.count(2):
        crashing = CrashingBackend(open_store(), stop_at=3, when="after")
        stopped = limpet(crashing, kind)
        result = until_stopped(crashing, lambda client=stopped: asyncio.run(client.resume("second", agent=everything)))
        if not crashing.is_stopped:
            assert expected == result
            break
        assert stop_at < 100
    client = limpet(open_store(), kind)
    client.delete("swept")
    client.delete("first")
    with pytest.raises(UnknownState):
        client.history("swept")
    assert expected == asyncio.run(client.resume("second", agent=everything))
    # What was edited started later, and is executed again.
    assert unedited == asyncio.run(client.rerun("second", "everything::step#3::tool_call", agent=everything))
