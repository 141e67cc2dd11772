"""A branch for every task that is created inside a scope, numbered at its creation.

Plain asyncio (``gather``, ``TaskGroup``, ``create_task``) makes its tasks through the loop's task factory. While a
state is live on a loop, a factory of ours stands before the one that was there: it gives the new task a scope of its
own, named after its coroutine, before anything of it runs. So the addresses do not depend on which task gets to call
first. Coroutines are counted by name, so tasks that a library makes do not shift the user's. What is created inside a
run, tasks and async generators, is known to it as long as it lives, so that nothing is left open where it is stopped.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any
from weakref import WeakKeyDictionary

from limpet.engine.perform import perform, perform_call
from limpet.engine.scope import Scope, current_scope
from limpet.journal.address import label

_CALLS = (perform.__code__, perform_call.__code__)

AnyCoroutine = Coroutine[Any, Any, Any] | Generator[Any, Any, Any]


class _Factory:
    """Our task factory on one loop, for as long as a state is live there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self.before = loop.get_task_factory()
        self.hooks = sys.get_asyncgen_hooks()

    def opened(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An async generator is used for the first time: a run that is stopped closes those that it has opened."""
        scope = current_scope.get()
        if scope is not None:
            if scope.live.generators is None:
                scope.live.generators = WeakKeyDictionary()
            scope.live.generators[generator] = scope
        if self.hooks.firstiter is not None:
            self.hooks.firstiter(generator)

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: AnyCoroutine, context: Context | None = None, **options: Any
    ) -> asyncio.Future[Any]:
        scope = current_scope.get() if context is None else context.get(current_scope)
        if scope is not None and not scope.event.is_closed and not _is_call(coro):
            scope = scope.branch(label("task", _name_of(coro)))
            context = copy_context() if context is None else context.copy()
            context.run(current_scope.set, scope)
        make: Callable[..., asyncio.Future[Any]] = _new_task if self.before is None else self.before
        if context is not None:
            options["context"] = context
        task = make(loop, coro, **options)
        if scope is not None:
            _keep_track(task, scope)
        return task


def _new_task(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Future[Any]:
    return asyncio.Task(coro, loop=loop, **options)


def _is_call(coro: AnyCoroutine) -> bool:
    """Whether this is the call of an actor, which has its address already and needs no branch to be told apart."""
    return getattr(coro, "cr_code", None) in _CALLS


def _name_of(coro: AnyCoroutine) -> str:
    name = getattr(coro, "__qualname__", None) or type(coro).__name__
    return name.rpartition("<locals>.")[2]


def _keep_track(task: asyncio.Future[Any], scope: Scope) -> None:
    """Count the task among what is under way, and know it as long as it is: a run that is stopped cancels it."""
    writer, tasks = scope.live.writer, scope.live.stopper.tasks
    writer.crowd += 1
    tasks[task] = scope

    def ended(_: object) -> None:
        writer.crowd -= 1
        tasks.pop(task, None)

    task.add_done_callback(ended)


_factories: WeakKeyDictionary[asyncio.AbstractEventLoop, _Factory] = WeakKeyDictionary()


@contextmanager
def branching(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    """Give every task that is created inside a scope a branch of its own, as long as this lasts."""
    factory = _factories.get(loop)
    if factory is None:
        factory = _factories[loop] = _Factory(loop)
        loop.set_task_factory(factory)
        sys.set_asyncgen_hooks(firstiter=factory.opened)
    factory.users += 1
    try:
        yield
    finally:
        factory.users -= 1
        if not factory.users:
            del _factories[loop]
            if loop.get_task_factory() is factory:
                loop.set_task_factory(factory.before)
            if sys.get_asyncgen_hooks().firstiter == factory.opened:
                sys.set_asyncgen_hooks(firstiter=factory.hooks.firstiter)
