"""A branch for every task that is created inside a scope, numbered at its creation.

Plain asyncio (``gather``, ``TaskGroup``, ``create_task``) makes its tasks through the loop's task factory. While a
state is live on a loop, a factory of ours stands before the one that was there: it gives the new task a scope of its
own, named after its coroutine, before anything of it runs. So the addresses do not depend on which task gets to call
first. Coroutines are counted by name, so tasks that a library makes do not shift the user's. What is created inside a
run, tasks and async generators, is known to it as long as it lives, so that nothing is left open where it is stopped.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import AsyncGenerator, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, cast
from weakref import WeakKeyDictionary

from limpet.engine.completion import WAIT_FOR, Listed, Lists, coroutine_of_user, name_of, who_makes
from limpet.engine.given_contexts import InGivenContext
from limpet.engine.keyed import until_released
from limpet.engine.live import LiveState
from limpet.engine.loops import Hooks
from limpet.engine.order import Order
from limpet.engine.perform import perform, perform_call
from limpet.engine.scope import Scope, current_scope
from limpet.engine.task_count import TaskCount
from limpet.engine.user_lines import Site
from limpet.journal.address import label

_CALLS = (perform.__code__, perform_call.__code__, until_released.__code__)

AnyCoroutine = Coroutine[Any, Any, Any] | Generator[Any, Any, Any]


class OrderedTask(asyncio.Task[Any]):
    """A task of code inside a run. Its hash is its number there, so sets of tasks have the same order everywhere."""

    def __init__(self, coro: Any, *, number: int, site: Site | None = None, **options: Any) -> None:
        self.number = number
        self.site = site
        """Where the code made it, of the task of a single call."""
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.number


class _Factory:
    """Our task factory on one loop, for as long as a state is live there."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.users = 0
        self.runs = 0
        """How many of these are runs that go on on this loop; the others are plain code inside a run."""
        self.main: object = None
        """The coroutine that plain code runs the loop for, and waits for: it needs no branch to be told apart."""
        self.before: Any = loop.get_task_factory()
        self._made_as = _made_by_eager(self.before)
        """What makes the tasks, where the factory that was there begins them at once."""
        self.generators: Any = None
        """The hooks for async generators that were there before, while a run goes on on this loop."""
        self.hooks = Hooks(loop)
        self._lists = Lists(_is_call)

    def opened(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An async generator is used for the first time: a run that is stopped closes those that it has opened."""
        scope = current_scope.get()
        if scope is not None and scope.live.hooks is self.hooks:
            if scope.live.generators is None:
                scope.live.generators = WeakKeyDictionary()
            scope.live.generators[generator] = scope
        if self.generators.firstiter is not None:
            self.generators.firstiter(generator)

    def dropped(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An async generator was left before its end: a task closes it, which code inside a run begins in its order."""
        scope = current_scope.get()
        if scope is not None and scope.live.hooks is self.hooks and _is_running(self.hooks.loop):
            self.hooks.loop.call_soon(self._close, generator, scope)
        elif self.generators.finalizer is not None:
            self.generators.finalizer(generator)

    def _close(self, generator: AsyncGenerator[Any, Any], scope: Scope) -> None:
        """Close a generator in a branch that is named after it, and has no number among the tasks.

        One in a cycle is closed when that is collected, whenever that is, and nothing else must be numbered by that.
        """
        closing = _closing(generator)
        closing.__qualname__ = f"{name_of(generator)}.aclose"
        order = self.hooks.order_of(scope)
        made = 0 if order is None else order.tasks
        self.hooks.loop.create_task(closing)
        if order is not None:
            order.tasks = made

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: AnyCoroutine, context: Context | None = None, **options: Any
    ) -> asyncio.Future[Any]:
        scope = current_scope.get() if context is None else context.get(current_scope)
        if scope is None:
            if context is not None:
                options["context"] = context
            return (
                asyncio.Task(coro, loop=loop, **options) if self.before is None else self.before(loop, coro, **options)
            )
        of_user = coroutine_of_user(coro)
        is_call = _is_call(of_user)
        maker, user = who_makes(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]  # the only way to know
        # In newer Pythons ``wait_for`` awaits a coroutine in the task that calls it, so its calls are of that task.
        is_awaited = maker is not None and maker.f_code is WAIT_FOR
        listed = None if maker is None or is_awaited else self._lists.find(maker, coro, scope)
        given = context
        if not scope.event.is_closed and not is_awaited and coro is not self.main:
            if not is_call:
                scope = scope.branch(label("task", name_of(of_user))) if listed is None else listed.branches[coro]
                context = copy_context() if given is None else given.copy()
                context.run(current_scope.set, scope)
            if given is not None and listed is None:
                context = given.copy() if context is None or context is given else context
                coro = cast("AnyCoroutine", InGivenContext(coro, given, context))
        if context is not None:
            options["context"] = context
        order = self.hooks.order_of(scope)
        if is_call and user is not None:
            options["site"] = user.f_code, user.f_lasti
        task = self._make(loop, coro, order, listed, options)
        if is_awaited and order is not None:
            _begin_next(task, order)
        if scope.live.hooks is self.hooks:
            begin = TaskCount(scope.live).begin if order is None else order.begin_task
            begin(task, scope, self.hooks.context)
        return task

    def _make(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: AnyCoroutine,
        order: Order | None,
        listed: Listed | None,
        options: dict[str, Any],
    ) -> asyncio.Future[Any]:
        before = self.before
        if order is None or (before is not None and self._made_as is None):
            options.pop("site", None)
            if before is None:
                return asyncio.Task(coro, loop=loop, **options)
            return (
                before(loop, coro, **options) if order is None else _made_by(before, loop, coro, order, listed, options)
            )
        kind: Any = self._made_as or OrderedTask
        if listed is not None:  # Those of a list are made in the order of a set, and must not begin in it.
            options.pop("eager_start", None)
            task = kind(coro, loop=loop, number=listed.number(coro, order), **options)
            listed.begin_in_order(task, coro, order)
            return task
        number = order.tasks = order.tasks + 1
        if not options.pop("eager_start", before is not None):
            return kind(coro, loop=loop, number=number, **options)
        order.making += 1
        try:
            return kind(coro, loop=loop, number=number, eager_start=True, **options)
        finally:
            order.making -= 1


def _made_by(
    factory: Any,
    loop: asyncio.AbstractEventLoop,
    coro: AnyCoroutine,
    order: Order,
    listed: Listed | None,
    options: dict[str, Any],
) -> asyncio.Future[Any]:
    """The task that a factory of other code makes, which may begin it at once. It has no number of its own."""
    order.making += 1
    try:
        task = factory(loop, coro, **options)
    finally:
        order.making -= 1
    if listed is not None:
        listed.begin_in_order(task, coro, order)
    return task


def _made_by_eager(factory: Any) -> type[OrderedTask] | None:
    """What makes the tasks that a factory of asyncio begins at once: its own class of tasks, with a number."""
    eager: Any = getattr(asyncio, "eager_task_factory", None)
    if eager is None or getattr(factory, "__code__", None) is not eager.__code__:
        return None
    kind = inspect.getclosurevars(factory).nonlocals.get("custom_task_constructor")
    if kind is asyncio.Task:
        return OrderedTask
    if not isinstance(kind, type) or not issubclass(kind, asyncio.Task):
        return None
    try:
        return type(cast("Any", kind).__name__, (OrderedTask, cast("Any", kind)), {})
    except TypeError:  # Its slots leave no room for a number.
        return None


async def _closing(generator: AsyncGenerator[Any, Any]) -> None:
    await generator.aclose()


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs that loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _is_call(coro: AnyCoroutine) -> bool:
    """Whether this is the call of an actor, which has its address already and needs no branch to be told apart."""
    return getattr(coro, "cr_code", None) in _CALLS


def _begin_next(task: asyncio.Future[Any], order: Order) -> None:
    """Let a task begin as soon as the code that made it awaits it."""
    ready = order.ready
    if ready and getattr(ready[-1].callback, "__self__", None) is task:
        ready.appendleft(ready.pop())


_factories: WeakKeyDictionary[asyncio.AbstractEventLoop, _Factory] = WeakKeyDictionary()


@contextmanager
def branching(live: LiveState) -> Generator[None]:
    """Give every task that is created inside a scope a branch of its own, and the code its order, as long as this
    lasts."""
    loop = live.loop
    assert loop is not None
    with _factory_on(loop) as factory:
        factory.runs += 1
        if factory.runs == 1:
            factory.hooks.install()
            factory.generators = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(firstiter=factory.opened, finalizer=factory.dropped)
        live.hooks = factory.hooks
        try:
            yield
        finally:
            factory.runs -= 1
            if not factory.runs:
                factory.hooks.uninstall()
                if sys.get_asyncgen_hooks().firstiter == factory.opened:
                    sys.set_asyncgen_hooks(*factory.generators)


@contextmanager
def branching_inside(loop: asyncio.AbstractEventLoop, main: object) -> Generator[None]:
    """Give the tasks branches that are created on a loop which plain code inside a run runs for a coroutine.

    The coroutine itself has none: the plain code waits for it, so its calls are numbered with those of that code.
    """
    with _factory_on(loop) as factory:
        before, factory.main = factory.main, main if factory.main is None else factory.main
        try:
            yield
        finally:
            factory.main = before


@contextmanager
def _factory_on(loop: asyncio.AbstractEventLoop) -> Generator[_Factory]:
    """Our task factory on a loop: it is there until the last who needs it has ended."""
    factory = _factories.get(loop)
    if factory is None:
        factory = _factories[loop] = _Factory(loop)
        loop.set_task_factory(factory)
    factory.users += 1
    try:
        yield factory
    finally:
        factory.users -= 1
        if not factory.users:
            _factories.pop(loop, None)
            if loop.get_task_factory() is factory:
                loop.set_task_factory(factory.before)
