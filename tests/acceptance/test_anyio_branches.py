"""Branches of anyio's task groups are named after the code of the user, whichever version of anyio makes the tasks."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus

from limpet import Limpet, agent, tool
from limpet.engine.completion import coroutine_of_user


@tool
async def fetch(number: int) -> int:
    return number


async def worker(number: int) -> None:
    await fetch(number)


async def ready(number: int, *, task_status: TaskStatus[None]) -> None:
    await fetch(number)
    task_status.started()


class Box:
    async def go(self) -> None:
        await fetch(9)


@agent
async def program() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(worker, 1)
        group.start_soon(worker, 2)
        group.start_soon(fetch, 3)
        group.start_soon(fetch, 4)
        group.start_soon(Box().go)
        await group.start(ready, 5)


def test_branches_of_anyio_are_named_after_the_coroutine_of_the_user() -> None:
    client = Limpet("memory://")
    client.run_sync(program, state_id="kelp-42")
    assert {
        "program::agent_call",
        "program::fetch::tool_call",
        "program::fetch#2::tool_call",
        "program::task[worker]::fetch::tool_call",
        "program::task[worker]#2::fetch::tool_call",
        "program::task[Box.go]::fetch::tool_call",
        "program::task[ready]::fetch::tool_call",
    } == {record.address for record in client.history("kelp-42").get_event_list()}


class _Handle:
    def __init__(self, coro: Coroutine[Any, Any, None]) -> None:
        self._coro = coro


async def _given(coro: Coroutine[Any, Any, None], future: object) -> None:
    await coro


async def _held(self: _Handle) -> None:
    await self._coro


@pytest.mark.parametrize("form", ["as an argument", "by its object"])
def test_the_wrappers_of_other_versions_are_seen_through(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "__name__", "anyio._backends._asyncio")
    inner = worker(1)
    outer = _given(inner, None) if form == "as an argument" else _held(_Handle(inner))
    assert inner is coroutine_of_user(outer)
    inner.close()
    outer.close()


def test_coroutines_of_users_that_take_coroutines_are_what_they_are() -> None:
    inner = worker(1)
    outer = _given(inner, None)
    assert outer is coroutine_of_user(outer)
    assert inspect.CORO_CREATED == inspect.getcoroutinestate(inner)
    inner.close()
    outer.close()
