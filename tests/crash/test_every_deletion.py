"""A cleanup is stopped at every write: states are there whole or gone, and the next cleanup finishes."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest
from crash.stores import opener
from crash.sweeping import When

from limpet import Limpet, Retention, agent, tool
from limpet.testing import CrashingBackend, SimulatedCrash

RULES = Retention(max_per_pipeline=2, keep_latest=1)
STATES = 45


@tool
async def step(number: int) -> int:
    return number


@agent
async def stepping(count: int) -> int:
    return sum([await step(number) for number in range(count)])


def fill(client: Limpet) -> None:
    """More states than are deleted at once, and a fork that shares records with one that goes, as the newest."""
    for number in range(STATES):
        client.run_sync(stepping, 3, state_id=f"s{number:02}")
    client.fork("s00", at="stepping::step#3::tool_call", new_state_id="fork")
    asyncio.run(client.resume("fork"))


@pytest.mark.parametrize("kind", ["memory", "normal", "files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_cleanup_that_is_stopped_at_any_write_is_finished_by_the_next(kind: str, when: When, tmp_path: Path) -> None:
    for stop_at in itertools.count(1):
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        fill(Limpet(open_store()))
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        try:
            Limpet(crashing).cleanup(RULES)
        except SimulatedCrash:
            assert crashing.is_stopped
        client = Limpet(open_store())
        left = {header.state_id for header in client.list_states(limit=1000)}
        assert {"fork", "s44"} <= left
        for state_id in left:
            assert client.verify(state_id).is_sound, "a state is there whole or not at all"
        done = client.cleanup(RULES)
        assert left - {"fork", "s44"} == {each.state_id for each in done.removed}
        assert {"fork", "s44"} == {header.state_id for header in client.list_states(limit=1000)}
        assert 3 == client.run_sync(stepping, 3, state_id="fork")
        assert client.doctor().is_sound
        if not crashing.is_stopped:
            assert 0 == len(done.removed)
            assert stop_at > 4
            return
