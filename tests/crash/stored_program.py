"""The program whose agents and tools keep things in the storage, and which is stopped everywhere.

Every execution is counted by name in ``executions``, outside any store. ``warnings`` are errors in the tests, so code
that is replayed must write what it wrote before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from limpet import Agent, ExecutionEvent, ExecutionState, RetryConfig, Tool, current_event

executions: Counter[str] = Counter()

QUICKLY = RetryConfig(max_attempts=3, initial_delay=0.0001, jitter=False)
ONCE_ONLY = RetryConfig(enabled=False)


def increase(state: ExecutionState, key: str) -> int:
    """Count one more, and give how many there were before."""
    number = state.storage.get(key, 0)
    state.storage.set(key, number + 1)
    return number


async def call(actor: Any, data: Any, state: ExecutionState) -> Any:
    return (await ExecutionEvent(actor)(data, None, state)).result


async def _step(name: str, context: Any, state: ExecutionState) -> str:
    executions[name] += 1
    await asyncio.sleep(0)
    return name


async def _bump(name: str, context: Any, state: ExecutionState) -> int:
    executions[name] += 1
    await asyncio.sleep(0)
    return increase(state, "bumped")


async def _flaky(name: str, context: Any, state: ExecutionState) -> int:
    """Writes in its failed attempts, too."""
    executions[name] += 1
    before = increase(state, "tried")
    if current_event().attempt < 3:
        raise ConnectionError(name)
    return before


def _plain(name: str, context: Any, state: ExecutionState) -> list[int]:
    """A plain function that writes around a call."""
    executions[name] += 1
    first = increase(state, "plain")
    step_of_plain.call(f"{name}.inner")
    return [first, increase(state, "plain")]


async def _broken(name: str, context: Any, state: ExecutionState) -> None:
    executions[name] += 1
    increase(state, "broken")
    raise LookupError(name)


async def _counts(name: str, context: Any, state: ExecutionState) -> list[int]:
    """Shares its counter with the agents beside it."""
    found: list[int] = []
    for number in range(3):
        found.append(increase(state, "shared"))
        await call(step, f"{name}.{number}", state)
    return found


async def _keeps(name: str, context: Any, state: ExecutionState) -> list[Any]:
    """Sets, reads and deletes values and artifacts between its calls."""
    storage = state.storage
    seen: list[Any] = [storage.keys(), storage.has("gone"), storage.artifact_keys()]
    storage.set("gone", name)
    storage.set("stays", [name])
    page = storage.set_artifact("page", "kelp and tide, " * 50)
    seen += [await call(step, f"{name}.first", state), storage.get("gone"), storage.get_artifact("page")[:4]]
    seen += [storage.delete("gone"), storage.delete("gone"), storage.has("gone")]
    seen += [await call(bump, f"{name}.bump", state), storage.keys(), storage.get("bumped")]
    storage.set("gone", "again")
    storage.delete_artifact("page")
    await call(step, f"{name}.second", state)
    other = storage.set_artifact("page", "wrack and tide, " * 50)
    seen += [storage.get("gone"), storage.delete("gone"), storage.artifact_keys(), page != other]
    return seen


async def _stores(start: int, context: Any, state: ExecutionState) -> dict[str, Any]:
    looped = []
    for number in range(3):
        looped.append(increase(state, "looped"))
        looped.append(await call(bump, f"bump.{number}", state))
    kept = await call(keeps, "kept", state)
    tried = [await call(flaky, "flaky", state), state.storage.get("tried")]
    try:
        await call(broken, "broken", state)
    except LookupError:
        increase(state, "caught")
    plain_found = await call(plain, "plain", state)
    increase(state, "looped")
    shared = await asyncio.gather(*(call(counts, f"counts.{number}", state) for number in range(3)))
    await asyncio.gather(*(call(bump, f"beside.{number}", state) for number in range(3)))
    storage = state.storage
    return {
        "looped": looped,
        "kept": kept,
        "tried": tried,
        "plain": plain_found,
        # Who counts when depends on timing; that each counts on does not.
        "shared": sorted(number for each in shared for number in each),
        "at the end": {key: storage.get(key) for key in sorted(storage.keys())},
        "page": storage.get_artifact("page"),
    }


step = Tool(name="step", handler=_step)
step_of_plain = Tool(name="step_of_plain", handler=_step)
bump = Tool(name="bump", handler=_bump)
flaky = Tool(name="flaky", handler=_flaky, retry_config=QUICKLY)
plain = Tool(name="plain", handler=_plain)
broken = Tool(name="broken", handler=_broken, retry_config=ONCE_ONLY)
counts = Agent(name="counts", handler=_counts)
keeps = Agent(name="keeps", handler=_keeps)
stores = Agent(name="stores", handler=_stores)
