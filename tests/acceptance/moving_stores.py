"""Stores of every kind that states are moved between, and one that has a state of every sort in it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    Encryption,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    StateBackend,
    StateHeader,
    StateMetadata,
    StateStatus,
    Tool,
    agent,
    tool,
)
from limpet.backends.files.states import FileSystemStateBackend
from limpet.engine.lease import is_dead
from limpet.model.origin import without_origin

KINDS: Mapping[str, Callable[[Path], StateBackend]] = {
    "memory": lambda folder: MemoryStateBackend(),
    "sqlite": lambda folder: SQLiteStateBackend(folder / "s.db", "normal"),
    "files": lambda folder: FileSystemStateBackend(folder / "s", "normal"),
}

executions: Counter[str] = Counter()
failing: set[str] = set()


@tool
async def step(name: str) -> str:
    executions[name] += 1
    if name in failing:
        raise LookupError(f"{name} does not answer")
    return f"{name}/{executions[name]}"


@tool
async def written(size: int) -> str:
    executions[f"written {size}"] += 1
    return "kelp " * (size // 5)


@agent
async def stepping(count: int) -> list[str]:
    return [await step(f"s{number}") for number in range(1, count + 1)]


@agent
async def writing(name: str) -> list[Any]:
    """Names an artifact that is small enough for the store itself, and one that is not."""
    return [await written(50_000), await written(300_000), await step(name)]


STATES = ("run", "failed", "explicit", "timelines", "gone", "artifacts", "child", "grandchild", "orphan", "of-orphan")


def fill(client: Limpet, encryption: Encryption | None = None) -> None:
    """A state of every sort. The state `gone` is deleted, and `orphan` has begun with its records."""
    client.run_sync(stepping, 4, state_id="run", metadata=StateMetadata(tags=["a", "b"], custom_data={"n": [1, None]}))
    failing.add("s3")
    with pytest.raises(LookupError):
        client.run_sync(stepping, 4, state_id="failed")
    failing.clear()
    explicit = ExecutionState(state_backend=client.backend, encryption=encryption, state_id="explicit")
    add = Tool(name="add", handler=lambda value, context, state: value + 1)
    assert 6 == asyncio.run(ExecutionEvent(actor=add)(5, None, explicit)).result
    explicit.storage.set("depth", {"fathoms": 20})
    explicit.storage.set_artifact("chart", b"\x00" * 40_000)
    explicit.save_checkpoint(StateStatus.PAUSED, StateMetadata(description="in the middle"))
    client.run_sync(stepping, 3, state_id="timelines")
    asyncio.run(client.rerun("timelines", "step#2"))
    client.run_sync(writing, "end", state_id="artifacts")
    _fork_all(client)


def _fork_all(client: Limpet) -> None:
    client.run_sync(stepping, 3, state_id="gone")
    asyncio.run(client.resume(client.fork("run", "step#2", new_state_id="child")))
    client.fork("child", "step#4", new_state_id="grandchild")
    asyncio.run(client.resume(client.fork("gone", "step#2", new_state_id="orphan")))
    client.fork("orphan", "step#3", new_state_id="of-orphan")
    client.delete("gone")


def present() -> list[str]:
    """The states that a filled store has, in the order of their making."""
    return [state_id for state_id in STATES if state_id != "gone"]


def told(header: StateHeader | None) -> dict[str, Any]:
    """What a header says of its state, whoever holds it and wherever it came from."""
    assert header is not None
    hidden = ("holder",)
    found = {field: getattr(header, field) for field in header.__struct_fields__ if field not in hidden}
    return {**found, "metadata": without_origin(header.metadata)}


def told_but_end(header: StateHeader | None) -> dict[str, Any]:
    """What a header says, without where the journal ended when it was last written, which may be long ago."""
    return {field: value for field, value in told(header).items() if field != "end"}


def artifacts_in(client: Limpet) -> dict[str, bytes]:
    assert client.artifacts is not None
    ids = [info.artifact_id for info in client.artifacts.list_artifacts()]
    return {artifact_id: b"".join(client.artifacts.read(artifact_id)) for artifact_id in ids}


def require_equal(source: Limpet, target: Limpet, states: list[str]) -> None:
    """Headers and records are the same in both stores, and each state can be taken up at once."""
    for state_id in states:
        there, here = source.backend.find_state(state_id), target.backend.find_state(state_id)
        assert told_but_end(there) == told_but_end(here)
        assert source.backend.read(state_id) == target.backend.read(state_id)
        assert here is not None
        assert here.holder is None or is_dead(here.holder)
