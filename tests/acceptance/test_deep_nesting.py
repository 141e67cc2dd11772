"""Agents that are nested hundreds deep: they run, stop, resume and fail, whatever way they call each other."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from limpet import AwaitingAnswer, ExecutionInterrupted, HistorySet, Limpet, agent, ask, tool

DEPTH = int(os.environ.get("LIMPET_TEST_DEPTH", "500"))
FEWER = min(100, DEPTH)
"""Where each level has a thread of its own, or a commit on a disk."""
PROGRAM = Path(__file__).with_name("deep_program.py")

innermost: list[Callable[[], Any]] = []
behaviour: list[Callable[[], Any]] = []
"""What the leaf does before it ends."""
executed: list[int] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()
    behaviour.clear()
    innermost[:] = [lambda: leaf()]


@tool
async def leaf() -> int:
    for each in behaviour:
        await each()
    executed.append(0)
    return 0


@agent
async def awaits(depth: int) -> int:
    return 1 + await awaits(depth - 1) if depth else await innermost[0]()


@agent
async def gathers(depth: int) -> int:
    return 1 + (await asyncio.gather(gathers(depth - 1)))[0] if depth else await innermost[0]()


@agent
async def groups(depth: int) -> int:
    if not depth:
        return await innermost[0]()
    async with asyncio.TaskGroup() as group:
        inner = group.create_task(groups(depth - 1))
    return 1 + inner.result()


@agent
def blocks(depth: int) -> int:
    return 1 + blocks.call(depth - 1) if depth else asyncio.run(innermost[0]())


@agent
async def mixes(depth: int) -> int:
    return 1 + await mixes_plainly(depth - 1) if depth else await innermost[0]()


@agent
def mixes_plainly(depth: int) -> int:
    return 1 + mixes.call(depth - 1) if depth else asyncio.run(innermost[0]())


WAYS = [awaits, gathers, groups, blocks, mixes]


def depth_of(way: Any) -> int:
    return FEWER if way in (blocks, mixes) else DEPTH


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_hundreds_of_nested_agents_run(way: Any) -> None:
    depth = depth_of(way)
    assert depth == Limpet("memory://").run_sync(way, depth)


@pytest.mark.parametrize("way", [awaits, gathers, blocks, mixes], ids=lambda way: way.name)
def test_hundreds_of_nested_agents_that_failed_are_resumed(way: Any) -> None:
    client, depth = Limpet("memory://"), depth_of(way)
    behaviour[:] = [raises]
    with pytest.raises(ValueError, match="the leaf broke"):
        client.run_sync(way, depth, state_id="deep")
    behaviour.clear()
    assert depth == client.run_sync(way, depth, state_id="deep")
    assert [0] == executed


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
def test_a_run_that_waits_hundreds_deep_leaves_memory_and_is_resumed(way: Any) -> None:
    innermost[:] = [lambda: ask("How many?", type=int)]
    client, depth = Limpet("memory://"), depth_of(way)
    with pytest.raises(AwaitingAnswer):
        client.run_sync(way, depth, state_id="deep")
    client.answer("deep", 7)
    assert depth + 7 == client.run_sync(way, depth, state_id="deep")


@pytest.mark.parametrize("way", [awaits, gathers])
def test_a_run_that_is_stopped_hundreds_deep_is_interrupted(way: Any) -> None:
    client = Limpet("memory://")

    async def never() -> None:
        client.interrupt("deep")
        await asyncio.Event().wait()

    behaviour[:] = [never]

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(way, DEPTH, state_id="deep")
    behaviour.clear()
    assert DEPTH == client.run_sync(way, DEPTH, state_id="deep")


@pytest.mark.parametrize("store", ["sqlite:///{}/runs.db", "file://{}/states"])
def test_a_process_that_is_killed_hundreds_deep_is_resumed(store: str, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), store.format(tmp_path), str(tmp_path / "log"), str(FEWER)]
    assert -signal.SIGKILL == subprocess.run(command, check=False, capture_output=True).returncode
    assert f"{FEWER}\n" == subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert [str(number) for number in range(FEWER, 0, -50)] == (tmp_path / "log").read_text().split()


@pytest.mark.parametrize("depth", [1, 60])
def test_what_nested_code_sets_in_its_context_is_seen_by_its_caller_however_deep(depth: int) -> None:
    seen: contextvars.ContextVar[int] = contextvars.ContextVar("seen", default=-1)
    found: list[int] = []

    @agent
    async def sets(depth: int) -> None:
        if depth:
            await sets(depth - 1)
            found.append(seen.get())
        seen.set(depth)

    Limpet("memory://").run_sync(sets, depth)
    assert list(range(depth)) == found


# --- Failures


async def raises() -> None:
    raise ValueError("the leaf broke")


@tool
async def breaks() -> int:
    raise ValueError("the leaf broke")


@agent
async def wraps(depth: int) -> int:
    try:
        return 1 + await wraps(depth - 1) if depth else await breaks()
    except Exception as error:
        raise RuntimeError(f"at {depth}") from error


@agent
async def notes(depth: int) -> int:
    try:
        return 1 + await notes(depth - 1) if depth else await breaks()
    except Exception as error:
        error.add_note("seen")
        raise


def failed(way: Any, depth: int) -> tuple[Any, HistorySet]:
    innermost[:] = [lambda: breaks()]
    client = Limpet("memory://")
    with pytest.raises((ValueError, RuntimeError)) as caught:
        client.run_sync(way, depth, state_id="failed")
    return caught.value, client.history("failed")


def recorded_bytes(history: HistorySet) -> int:
    """How many bytes are recorded of failures, without the addresses."""
    errors = [record.error for record in history.get_event_list() if record.error is not None]
    return sum(len(error.traceback) + len(error.value or b"") for error in errors)


@pytest.mark.parametrize("way", [awaits, gathers, mixes, wraps], ids=lambda way: way.name)
def test_what_is_recorded_of_a_failure_grows_with_the_number_of_agents_it_goes_through(way: Any) -> None:
    few, many = (recorded_bytes(failed(way, depth)[1]) for depth in (10, 100))
    assert many <= 11 * few


def test_a_failure_has_the_whole_traceback_at_its_address_and_its_own_frames_in_the_journal() -> None:
    error, history = failed(awaits, 3)
    outermost = history["awaits::agent_call"].error
    assert outermost is not None
    assert error.recorded_traceback == outermost.traceback
    lines = outermost.traceback.splitlines()
    assert ["Traceback (most recent call last):", "ValueError: the leaf broke"] == [lines[0], lines[-1]]
    assert ["awaits"] * 4 + ["breaks"] == [line.rpartition(" in ")[2] for line in lines if __file__ in line]
    own = [record.error.traceback for record in history.get_event_list() if record.error is not None]
    assert [1, 1, 1, 1, 1] == [text.count(__file__) for text in own]
    assert all(text.endswith("ValueError: the leaf broke\n") for text in own)


def test_the_exceptions_that_a_failure_was_raised_from_are_in_its_whole_traceback() -> None:
    error, history = failed(wraps, 2)
    outermost = history["wraps::agent_call"].error
    assert outermost is not None
    assert error.recorded_traceback == outermost.traceback
    told = [
        line for line in outermost.traceback.splitlines() if line and not line.startswith((" ", "Traceback", "The"))
    ]
    assert ["ValueError: the leaf broke", "RuntimeError: at 0", "RuntimeError: at 1", "RuntimeError: at 2"] == told


def test_of_a_very_long_way_up_both_ends_are_shown() -> None:
    error, _ = failed(awaits, 200)
    assert "  ... 154 more calls, each in the record of its own ...\n" in error.recorded_traceback
    assert "in breaks" in error.recorded_traceback
    assert len(error.recorded_traceback) < 60_000


def outermost_again(way: Any, depth: int) -> tuple[Any, Any]:
    """The failure of nested agents as it is caught, live and as it is replayed."""
    caught: list[Any] = []

    @agent
    async def catches() -> None:
        try:
            await way(depth)
        except Exception as error:
            caught.append(error)
        if len(caught) < 2:
            raise KeyError("a bug that comes later")

    client = Limpet("memory://")
    innermost[:] = [lambda: breaks()]
    with pytest.raises(KeyError):
        client.run_sync(catches, state_id="caught")
    client.run_sync(catches, state_id="caught")
    return caught[0], caught[1]


@pytest.mark.parametrize("way", [awaits, gathers, groups, blocks, mixes, wraps, notes], ids=lambda way: way.name)
def test_a_replayed_failure_has_the_same_text_causes_and_notes(way: Any) -> None:
    live, replayed = outermost_again(way, 30 if way is not groups else 3)
    assert live.recorded_traceback == replayed.recorded_traceback
    assert "in breaks" in replayed.recorded_traceback
    while live is not None:
        assert (type(live), str(live), live.__suppress_context__) == (
            *(type(replayed), str(replayed)),
            replayed.__suppress_context__,
        )
        assert getattr(live, "__notes__", []) == getattr(replayed, "__notes__", [])
        live, replayed = live.__cause__, replayed.__cause__
    assert replayed is None


def test_a_cause_that_was_changed_since_it_was_recorded_comes_back_as_it_was_raised() -> None:
    @agent
    async def changes(_: int) -> None:
        try:
            await breaks()
        except ValueError as error:
            error.add_note("by the agent")
            raise RuntimeError("it cannot go on") from error

    _, replayed = outermost_again(changes, 0)
    assert ["by the agent"] == replayed.__cause__.__notes__


def test_a_failure_that_goes_on_after_a_replay_names_where_it_came_from() -> None:
    calls: list[int] = []

    @agent
    async def passes_on() -> None:
        try:
            await breaks()
        except ValueError:
            calls.append(1)
            if len(calls) == 1:
                raise KeyError("a bug") from None
            raise

    client = Limpet("memory://")
    with pytest.raises(KeyError):
        client.run_sync(passes_on, state_id="on")
    with pytest.raises(ValueError, match="the leaf broke"):
        client.run_sync(passes_on, state_id="on")
    error = client.history("on")["passes_on::agent_call"].error
    assert error is not None
    assert "in breaks" in error.traceback
