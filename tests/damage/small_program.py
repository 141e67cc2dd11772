"""The small program whose stored states are damaged everywhere. Executions are counted outside any store."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from limpet import Limpet, StateBackend, StateMetadata, agent, tool
from limpet.testing import CrashingBackend

executions: Counter[str] = Counter()


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return f"{name}!"


@tool
async def fragile(name: str) -> str:
    executions[name] += 1
    raise LookupError(name)


@agent
async def inner(name: str) -> list[str]:
    return [await step(f"{name}.1"), await step(f"{name}.2")]


@agent
async def small(name: str) -> list[Any]:
    first = await step("a")
    nested = await inner("b")
    try:
        await fragile("c")
    except LookupError as error:
        nested.append(repr(error))
    return [name, first, nested, *await asyncio.gather(step("d"), step("e"))]


EXPECTED = ["kelp", "a!", ["b.1!", "b.2!", "LookupError('c')"], "d!", "e!"]

METADATA = StateMetadata(tags=["x"], pipeline_name="small", description="ü", custom_data={"n": 1})

STOPPED_AT = 7


def fill(backend: StateBackend) -> None:
    """Two states: one that is done, and one whose process died in the middle."""
    executions.clear()
    with pytest.MonkeyPatch.context() as patched:
        # What is captured of the environment would only be more of the same bytes.
        patched.setenv("LIMPET_CAPTURE", "off")
        _fill(backend)


def _fill(backend: StateBackend) -> None:
    assert EXPECTED == Limpet(backend).run_sync(small, "kelp", state_id="done", metadata=METADATA)
    crashing = CrashingBackend(backend, stop_at=STOPPED_AT, when="after")
    try:
        Limpet(crashing).run_sync(small, "kelp", state_id="stopped", metadata=METADATA)
    except BaseException:
        assert crashing.is_stopped
    assert crashing.is_stopped
