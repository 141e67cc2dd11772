"""Programs that are data: agents that read and write the storage between calls, nested and side by side.

    ["read", key]  ["write", key]  ["delete", key]  ["keys"]  ["artifact", key]    on the storage
    ["step"]                a call whose input is all that this code has read so far
    ["bump", key]           a tool that counts one more
    ["flaky", key]          the same, in each of three attempts
    ["nest", [part, …]]     an agent of its own
    ["fail", [part, …]]     one that fails at its end, and is caught
    ["again", [part, …]]    one that fails at the end of its first attempt, and is retried
    ["agents", [[part, …], …]]     agents side by side
    ["branches", [[part, …], …]]   coroutines of this agent side by side

What is read goes into what is written and called, so code that reads something else when it is replayed drifts. Every
pause depends on ``timing``, which stands outside the program: no two runs of one program need have the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
from typing import Any

from limpet import Agent, ExecutionEvent, ExecutionState, RetryConfig, Tool, current_event

Part = list[Any]

timing = random.Random()


async def pause() -> None:
    for _ in range(timing.randrange(4)):
        await asyncio.sleep(0)


def digest(log: list[Any]) -> str:
    return hashlib.sha256(json.dumps(log).encode()).hexdigest()[:8]


async def call(actor: Any, data: Any, state: ExecutionState) -> Any:
    return (await ExecutionEvent(actor)(data, None, state)).result


async def _step(given: str, context: Any, state: ExecutionState) -> str:
    await pause()
    return f"after {given}"


async def _bump(key: str, context: Any, state: ExecutionState) -> int:
    await pause()
    number = state.storage.get(key, 0)
    count = number + 1 if isinstance(number, int) else 1
    state.storage.set(key, count)
    return count


async def _evaluate(parts: list[Part], context: Any, state: ExecutionState) -> list[Any]:
    return await evaluate(parts, state)


async def _flaky(key: str, context: Any, state: ExecutionState) -> int:
    count = await _bump(key, context, state)
    if current_event().attempt < 3:
        raise ConnectionError(key)
    return count


async def _fail(parts: list[Part], context: Any, state: ExecutionState) -> list[Any]:
    raise LookupError(digest(await evaluate(parts, state)))


async def _again(parts: list[Part], context: Any, state: ExecutionState) -> list[Any]:
    log = await evaluate(parts, state)
    if current_event().attempt < 2:
        raise ConnectionError
    return log


QUICKLY = RetryConfig(max_attempts=3, initial_delay=0.0001, jitter=False)

step = Tool(name="step", handler=_step)
bump = Tool(name="bump", handler=_bump)
program = Agent(name="program", handler=_evaluate)
nest = Agent(name="nest", handler=_evaluate)
fail = Agent(name="fail", handler=_fail)
again = Agent(name="again", handler=_again, retry_config=QUICKLY)
flaky = Tool(name="flaky", handler=_flaky, retry_config=QUICKLY)


async def evaluate(parts: list[Part], state: ExecutionState) -> list[Any]:
    log: list[Any] = []
    for part in parts:
        await pause()
        log.append(await evaluate_one(part, log, state))
    return log


async def evaluate_one(part: Part, log: list[Any], state: ExecutionState) -> Any:
    storage = state.storage
    match part:
        case ["read", key]:
            return [storage.get(key), storage.has(key), storage.get_artifact(key)]
        case ["write", key]:
            return storage.set(key, digest(log))
        case ["delete", key]:
            return [storage.delete(key), storage.delete_artifact(key)]
        case ["keys"]:
            return [storage.keys(), storage.artifact_keys()]
        case ["artifact", key]:
            return storage.set_artifact(key, digest(log) * 10)
        case ["step"]:
            return await call(step, digest(log), state)
        case ["bump", key]:
            return await call(bump, key, state)
        case ["flaky", key]:
            return await call(flaky, key, state)
        case ["nest", parts]:
            return await call(nest, parts, state)
        case ["again", parts]:
            return await call(again, parts, state)
        case ["fail", parts]:
            return await caught(parts, state)
        case ["agents", lists]:
            return list(await asyncio.gather(*(call(nest, parts, state) for parts in lists)))
        case ["branches", lists]:
            return list(await asyncio.gather(*(evaluate(parts, state) for parts in lists)))
        case _:
            raise AssertionError(part)


async def caught(parts: list[Part], state: ExecutionState) -> str:
    try:
        return await call(fail, parts, state)
    except LookupError as error:
        return str(error)
