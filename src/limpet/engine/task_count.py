"""The count of the tasks that code inside a run has made and that have not ended."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.engine.live import LiveState
    from limpet.engine.scope import Scope


class TaskCount:
    """The tasks of the code inside one call. As a callback of a task it takes note that the task has ended.

    A loop with our hooks calls it as soon as the task ends (``loops.py``), and not as one more callback.
    """

    __slots__ = ("_tasks", "_writer", "alive")

    def __init__(self, live: LiveState | None) -> None:
        if live is not None:
            self._writer, self._tasks = live.writer, live.stopper.tasks
        self.alive = 0
        """How many have not ended."""

    def begin(self, task: asyncio.Future[Any], scope: Scope, context: Context) -> None:
        """Count the task among what is under way, and know it as long as it is: a run that is stopped cancels it."""
        self._writer.crowd += 1
        self._tasks[task] = scope
        self.alive += 1
        task.add_done_callback(self, context=context)

    def __call__(self, task: asyncio.Future[Any]) -> None:
        self._writer.crowd -= 1
        self.alive -= 1
        self._tasks.pop(task, None)
