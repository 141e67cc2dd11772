"""A cleanup that drops records is stopped at every write: a state is as it was or as it is to be, and runs on."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from pathlib import Path

import pytest
from crash.stores import opener
from crash.sweeping import When

from limpet import Limpet, Retention, RetryConfig, StateStatus, agent, tool
from limpet.engine.state import ExecutionState
from limpet.testing import CrashingBackend, SimulatedCrash

RULES = Retention(max_per_pipeline=2, compact_after=timedelta(0), prune_after=timedelta(0))
STEP = "stepping::step#2::tool_call"
tried: dict[int, int] = {}


@tool(retry_config=RetryConfig(max_attempts=2, initial_delay=0.0))
async def step(number: int) -> int:
    tried[number] = tried.get(number, 0) + 1
    if tried[number] % 2:
        raise ConnectionError(str(number))
    return number


@agent
async def stepping(count: int) -> int:
    return sum([await step(number) for number in range(count)])


def fill(client: Limpet) -> None:
    """One that is deleted, two that are compacted, and one that is pruned, since it is not completed."""
    for state_id in ("old", "first", "second", "paused"):
        tried.clear()
        client.run_sync(stepping, 3, state_id=state_id)
        asyncio.run(client.rerun(state_id, STEP))
    state = ExecutionState.load_from_state_id("paused", client.backend)
    state.save_checkpoint(StateStatus.RUNNING)
    state.save_checkpoint(StateStatus.PAUSED)


@pytest.mark.parametrize("kind", ["memory", "normal", "files", "files packed"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_compaction_that_is_stopped_at_any_write_is_finished_by_the_next(
    kind: str, when: When, tmp_path: Path
) -> None:
    states = ["first", "paused", "second"]
    for stop_at in itertools.count(1):
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        fill(Limpet(open_store()))
        before = {state_id: list(Limpet(open_store()).history(state_id)) for state_id in states}
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        try:
            Limpet(crashing).cleanup(RULES)
        except SimulatedCrash:
            assert crashing.is_stopped
        client = Limpet(open_store())
        for header in client.list_states():
            assert client.verify(header.state_id).is_sound, "it is as it was, or as it is to be"
        assert before["paused"] == list(client.history("paused"))
        done = client.cleanup(RULES)
        assert states == sorted(header.state_id for header in client.list_states())
        for state_id in states:
            assert {record.address for record in client.history(state_id).get_event_list()} == {
                "stepping::agent_call",
                *(f"stepping::step{number}::tool_call" for number in ("", "#2", "#3")),
            }
            assert 3 == asyncio.run(client.rerun(state_id, STEP))
        assert client.doctor().is_sound
        if not crashing.is_stopped:
            assert ([], {"nothing to drop": 3}) == (done.compacted, done.left_whole)
            assert stop_at > 8
            return
