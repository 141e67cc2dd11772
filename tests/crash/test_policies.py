"""Processes that are saved by a policy are killed after every outcome: what is lost is what the policy allows.

The outcomes that a program has got are said by it outside of the store, so that what is lost is known exactly.
"""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from crash import policies_program
from crash.policies_program import POLICIES, STEPS
from crash.stores import KINDS, opener
from crash.sweeping import When, places
from crash.swept_program import everything, executions

from limpet import CheckpointPolicy, EventRecord, ExecutionStatus, Limpet, StateStatus
from limpet.codec import values
from limpet.testing import CrashingBackend

STORES = {
    "sqlite:///{}/runs.db?synchronous=normal": list(POLICIES),
    "sqlite:///{}/runs.db": ["every_n_steps", "on_gates"],
    "file://{}/store": ["every_n_steps", "manual"],
}
"""The policies on each store; they decide the same on all of them."""

SAVES: dict[str, set[str]] = {
    "every_step": set(STEPS),
    "on_gates": {"gate"},
    "manual": set(),
    "time_based": set(),
    "after models": {"model"},
    "after tools": {"tool", "gate", "large", "once"},
    "after large artifacts": {"large"},
}
"""After which kinds of steps a policy saves. What is ``once`` and what the program saves itself comes on top."""


def saved_of(policy: str, steps: Sequence[str]) -> int:
    """How many of these steps are saved when the process is killed behind the last of them."""
    saved, unsaved = 0, 0
    for number, kind in enumerate(steps, 1):
        # A checkpoint that the program saves is no event, and so no step of the policy.
        unsaved += kind != "save"
        is_full = policy == "every_n_steps" and unsaved >= 5
        if kind in ("once", "save") or is_full or kind in SAVES.get(policy, ()):
            saved, unsaved = number, 0
    return saved


def recorded_steps(store: str) -> set[int]:
    with Limpet(store, create=False) as limpet:
        return {
            values.decode(record.input)[0]
            for record in limpet.history("stepping")
            if isinstance(record, EventRecord)
            and record.status is ExecutionStatus.COMPLETED
            and not record.address.endswith("agent_call")
            and record.input is not None
        }


def run(store: str, policy: str, die_after: int) -> list[int]:
    """The steps whose outcome the program has got before it was killed, or came to its end."""
    program = [sys.executable, policies_program.__file__, store, policy, str(die_after)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert (0 if die_after == 0 else -9) == done.returncode, done.stderr
    return [int(line) for line in done.stdout.split()]


@pytest.mark.parametrize(("url", "policy"), [(url, policy) for url, found in STORES.items() for policy in found])
def test_a_kill_loses_exactly_what_the_policy_allows(url: str, policy: str, tmp_path: Path) -> None:
    for die_after in range(1, len(STEPS) + 1):
        folder = tmp_path / str(die_after)
        folder.mkdir()
        store = url.format(folder)
        got = run(store, policy, die_after)
        assert list(range(die_after)) == got
        saved = saved_of(policy, STEPS[:die_after])
        assert [step for step in range(saved) if STEPS[step] != "save"] == sorted(recorded_steps(store))
        if policy == "every_n_steps":
            assert die_after - saved <= 4
        if die_after % 5 == 0:
            assert list(range(len(STEPS))) == run(store, policy, 0)
            with Limpet(store) as limpet:
                assert StateStatus.COMPLETED is limpet.show("stepping").header.status
                assert limpet.verify("stepping").is_sound


def test_what_a_policy_by_time_holds_back_is_saved_though_nothing_follows(tmp_path: Path) -> None:
    program = f"""
import asyncio
from limpet import CheckpointPolicy, Limpet, agent, tool

@tool
async def quick(n: int) -> int:
    return n

@tool
async def endless() -> None:
    await asyncio.Event().wait()

@agent
async def waiting() -> None:
    for number in range(3):
        await quick(number)
    print("ready", flush=True)
    await endless()

with Limpet("sqlite:///{tmp_path}/runs.db") as limpet:
    policy = CheckpointPolicy("time_based", interval_s=0.3)
    limpet.run_sync(waiting, state_id="waiting", checkpoint_policy=policy)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process, Limpet(f"sqlite:///{tmp_path}/runs.db") as limpet:
        assert "ready\n" == process.stdout.readline()
        while len([each for each in limpet.history("waiting") if isinstance(each, EventRecord)]) < 4:
            assert process.poll() is None
        process.kill()
        process.wait()
        (checkpoint,) = limpet.checkpoints("waiting")
        assert ("time_based", 3) == (checkpoint.trigger, checkpoint.events)


SWEPT = {
    "every_n_steps": CheckpointPolicy("every_n_steps", steps=3),
    "manual": CheckpointPolicy("manual"),
    "after models": CheckpointPolicy("on_gates", triggers=["llm_call"]),
}


@pytest.mark.parametrize("policy", SWEPT)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_stopped_at_any_write_ends_as_the_undisturbed_one(
    kind: str, when: When, policy: str, tmp_path: Path
) -> None:
    executions.clear()
    undisturbed = Limpet("memory://").run_sync(everything, 3, state_id="swept")
    once_each = dict(executions)
    writes = places(kind, when)
    crashing = None
    while crashing is None or crashing.is_stopped:
        stop_at = next(writes)
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        result = _until_stopped(crashing, SWEPT[policy])
        survivor = Limpet(open_store())
        if crashing.is_stopped:
            before = executions.copy()
            recorded = _recorded(survivor)
            result = survivor.run_sync(everything, 3, state_id="swept", checkpoint_policy=SWEPT[policy])
            again = executions - before
            # What was saved is not executed again; what was not is, once.
            assert set() == recorded & set(again)
            assert {1} >= set(again.values())
        assert undisturbed == result
        assert set(once_each) == set(executions)
        assert survivor.verify("swept").is_sound
        assert StateStatus.COMPLETED is survivor.show("swept").header.status


def _until_stopped(backend: CrashingBackend, policy: CheckpointPolicy) -> object:
    try:
        return Limpet(backend).run_sync(everything, 3, state_id="swept", checkpoint_policy=policy)
    except BaseException:
        # A task group wraps the crash, so its type does not tell.
        if not backend.is_stopped:
            raise
    gc.collect()
    return None


def _recorded(limpet: Limpet) -> set[str]:
    """The names of the calls that have a recorded outcome."""
    if limpet.backend.find_state("swept") is None:
        return set()
    history = limpet.history("swept")
    found = (record for record in history if isinstance(record, EventRecord) and record.input is not None)
    outcomes = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
    inputs = (values.decode(record.input or b"") for record in found if record.status in outcomes)
    return {given[0] for given in inputs if isinstance(given[0], str)}
