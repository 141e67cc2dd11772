"""What the stories of interrupts are told with: actors that wait at a place until it is opened, and what is left of a
run that was stopped there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from limpet import Agent, ExecutionInterrupted, ExecutionState, Limpet, StateStatus, tool

executions: Counter[str] = Counter()
"""How often each place was reached by a tool."""
cleaned: list[str] = []
"""The places whose finally blocks have run."""
states: dict[str, ExecutionState] = {}
"""The state of each run that is under way, or was."""
_reached: Counter[str] = Counter()
_opened: set[str] = set()
_threads_go_on = threading.Event()

LONG_S = 3600.0
AT_MOST_S = 0.5
"""An interrupt takes effect within 100 ms. A busy machine is given five times as long."""


def begin_anew() -> None:
    """Forget everything, for the next test."""
    let_threads_go_on()
    _threads_go_on.clear()
    for each in (executions, cleaned, states, _reached, _opened):
        each.clear()


def open_all(*names: str) -> None:
    """From now on nothing waits at these places; without names: at any."""
    _opened.update(names or {"*"})


def let_threads_go_on() -> None:
    _threads_go_on.set()


async def stay(name: str) -> None:
    """Wait at a place, unless it is open."""
    _reached[name] += 1
    try:
        if not {name, "*"} & _opened:
            await asyncio.sleep(LONG_S)
    finally:
        cleaned.append(name)


async def until(*names: str) -> None:
    """Wait until these places are reached."""
    async with asyncio.timeout(20):
        while not all(_reached[name] for name in names):
            await asyncio.sleep(0)


async def until_true(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0)


async def ended(running: asyncio.Task[Any], within_s: float = 10) -> Any:
    """What a task gives or raises that is to end by itself; it is not cancelled, which would end it in any case."""
    await asyncio.wait((running,), timeout=within_s)
    assert running.done(), f"it goes on after {within_s} s"
    return await running


@tool
async def work(name: str) -> str:
    """A tool that is done at once."""
    executions[name] += 1
    return name


@tool
async def wait_at(name: str) -> str:
    """A tool that awaits at a place."""
    executions[name] += 1
    await stay(name)
    return name


@tool
def wait_in_thread(name: str) -> str:
    """A plain tool that stays at a place in its thread."""
    executions[name] += 1
    _reached[name] += 1
    if not {name, "*"} & _opened:
        _threads_go_on.wait(LONG_S)
        cleaned.append(name)
    return name


Body = Callable[[ExecutionState], Awaitable[Any]]


def pipeline(body: Body, name: str = "pipeline", **options: Any) -> Agent:
    """An agent that does this."""

    async def handler(data: Any, context: Any, state: ExecutionState) -> Any:
        states[state.state_id] = state
        return await body(state)

    return Agent(name=name, handler=handler, **options)


async def interrupted(
    client: Limpet,
    actor: Any,
    *places: str,
    state_id: str = "s",
    stop: Callable[[ExecutionState], object] = ExecutionState.request_interrupt,
    **options: Any,
) -> ExecutionInterrupted:
    """Run an agent until these places are reached, stop it, and give what is raised."""
    running = asyncio.create_task(client.run(actor, None, state_id=state_id, **options))
    waiting = asyncio.create_task(until(*places))
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    assert not running.done(), running
    stop(states[state_id])
    asked = time.perf_counter()
    with pytest.raises(ExecutionInterrupted) as caught:
        await ended(running)
    assert AT_MOST_S > time.perf_counter() - asked
    return caught.value


def require_interrupted(client: Limpet, state_id: str = "s", reason: str = "requested") -> dict[str, Any]:
    """See to it that a state was left as one that was interrupted is, and give what is noted of that."""
    header = client.show(state_id).header
    assert (StateStatus.INTERRUPTED, None) == (header.status, header.holder)
    stopped = header.metadata.stopped
    assert reason == stopped["reason"]
    assert 60 > abs(time.time() - stopped["at"])
    assert StateStatus.INTERRUPTED is client.checkpoints(state_id)[-1].status
    return stopped


def require_handed_back(client: Limpet, state_id: str = "s", reason: str = "cancelled") -> dict[str, Any]:
    """See to it that a state was left for whoever comes next, and give what is noted of that."""
    header = client.show(state_id).header
    assert (StateStatus.RUNNING, None) == (header.status, header.holder)
    assert "failed" not in statuses(client, state_id).values()
    assert reason == header.metadata.stopped["reason"]
    assert StateStatus.RUNNING is client.checkpoints(state_id)[-1].status
    return header.metadata.stopped


def statuses(client: Limpet, state_id: str = "s") -> dict[str, str]:
    """The newest status of each event, by its address."""
    history = client.history(state_id)
    return {address: str(history[address].status) for address in history.addresses()}
