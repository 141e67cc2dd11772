"""Whether a run has nothing left to do but to wait, so that it can leave the memory of its process.

Tools and models that are executed are counted. Of the code of agents only asyncio knows what it awaits: each task of
the run is asked for it. One that awaits a wait, another task of the run, or the end of a group of them, cannot go on by
itself. Of what else code may await nothing is known, and the run is given a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any

_GROUP, _WAIT = asyncio.TaskGroup.__aexit__.__code__, asyncio.wait.__code__


def can_only_wait(tasks: Collection[asyncio.Future[Any]], waits: Collection[asyncio.Future[Any]]) -> bool:
    """Whether every task of a run certainly waits for one of the waits, or for other tasks of the run."""
    return all(task.done() or _is_held(task, tasks, waits) for task in tasks)


def _is_held(
    task: asyncio.Future[Any], tasks: Collection[asyncio.Future[Any]], waits: Collection[asyncio.Future[Any]]
) -> bool:
    if not isinstance(task, asyncio.Task):
        return False
    awaited = getattr(task, "_fut_waiter", None)
    if awaited is None:
        return False  # It is about to run.
    return _leads_to_wait(awaited, tasks, waits) or _joins(task.get_coro())


def _leads_to_wait(
    awaited: asyncio.Future[Any], tasks: Collection[asyncio.Future[Any]], waits: Collection[asyncio.Future[Any]]
) -> bool:
    if awaited.done():
        return False
    if awaited in waits or awaited in tasks:
        return True
    gathered = getattr(awaited, "_children", None)  # What ``gather`` gives knows what it has gathered.
    return bool(gathered) and all(child.done() or _leads_to_wait(child, tasks, waits) for child in gathered)


def _joins(coro: Any) -> bool:
    """Whether a coroutine stands in code of asyncio that waits for the end of tasks, and for nothing else."""
    while coro is not None:
        code = getattr(coro, "cr_code", None)
        if code is _GROUP:
            return True
        if code is _WAIT:
            return coro.cr_frame is not None and coro.cr_frame.f_locals.get("timeout") is None
        coro = getattr(coro, "cr_await", None)
    return False
