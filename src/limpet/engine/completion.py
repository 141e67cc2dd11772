"""``asyncio.as_completed`` makes its tasks in the order of a set, which is another one in every process.

Where it was given a list, its tasks are named, numbered and begun in the order of that. What it goes through otherwise
is refused. What ``asyncio.wait_for`` makes a task of is awaited by it, as newer Pythons do without one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

from limpet.engine.scope import Scope
from limpet.errors import UsageError
from limpet.journal.address import label

if TYPE_CHECKING:
    from limpet.engine.order import Order

_FRAMES = 7
"""So many frames at most stand between a task factory and ``as_completed``."""

_FUNCTION = asyncio.as_completed.__code__
_iterator: Any = getattr(asyncio.tasks, "_AsCompletedIterator", None)
_ITERATOR: CodeType | None = None if _iterator is None else _iterator.__init__.__code__
"""The same from Python 3.13 on."""

WAIT_FOR = asyncio.wait_for.__code__

_BETWEEN = frozenset(
    id(cast("Any", function).__code__)
    for function in (
        asyncio.BaseEventLoop.create_task,
        asyncio.create_task,
        asyncio.ensure_future,
        getattr(asyncio.tasks, "_ensure_future", asyncio.ensure_future),
        asyncio.gather,
        asyncio.TaskGroup.create_task,
    )
)
"""The code that often stands between a task factory and whoever makes the task, and is none of what is looked for."""

_AWAITS = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ours: dict[str, bool] = {}
"""By the name of a file: whether the code in it is asyncio's, or that of this package."""


class Listed:
    """The coroutines that one call of ``as_completed`` was given in a list."""

    def __init__(self, coroutines: list[Any], scope: Scope, is_call: Callable[[Any], bool]) -> None:
        self.places = {coro: place for place, coro in enumerate(coroutines)}
        self.branches = {coro: scope.branch(label("task", name_of(coro))) for coro in coroutines if not is_call(coro)}
        self._first_number = 0
        self._tasks: dict[Any, int] = {}
        """The tasks that are made so far, with their places in the list."""

    def number(self, coro: Any, order: Order) -> int:
        """The number of a task among those of its event."""
        if not self._tasks:
            self._first_number = order.tasks + 1
            order.tasks += len(self.places)
        return self._first_number + self.places[coro]

    def begin_in_order(self, task: Any, coro: Any, order: Order) -> None:
        """Let the tasks begin in the order of the list, once the last of them is made."""
        self._tasks[task] = self.places[coro]
        if len(self._tasks) == len(self.places):
            before = [*order.ready]
            order.ready.clear()
            order.ready.extend(ready for ready in before if _task_of(ready) not in self._tasks)
            begun = [ready for ready in before if _task_of(ready) in self._tasks]
            order.ready.extend(sorted(begun, key=lambda ready: self._tasks[_task_of(ready)]))


def _task_of(ready: Any) -> Any:
    task = getattr(ready.callback, "__self__", None)
    # Other things need not have a hash.
    return cast("Any", task) if isinstance(task, asyncio.Future) else None


def who_makes(frame: FrameType | None) -> tuple[FrameType | None, FrameType | None]:
    """Who makes a task, seen from its factory: the call of ``as_completed`` or ``wait_for``, if one does, and the code
    of the user."""
    user: FrameType | None = None
    waiting: FrameType | None = None
    is_direct = True
    while frame is not None and id(frame.f_code) in _BETWEEN:
        frame = frame.f_back
    for _ in range(_FRAMES):
        if frame is None:
            break
        code = frame.f_code
        if code is _FUNCTION or code is _ITERATOR:
            return frame, user
        is_ours = _ours.get(code.co_filename)
        if is_ours is None:
            name = frame.f_globals.get("__name__", "").partition(".")[0]
            is_ours = _ours[code.co_filename] = name in ("asyncio", "limpet")
        if not is_ours and user is None:
            user = frame
        if code.co_flags & _AWAITS:
            if user is not None:
                break  # What has called this is none of those who make the task.
            if is_direct and code is WAIT_FOR:
                waiting = frame
            is_direct = False
        frame = frame.f_back
    return waiting, user


class Lists:
    """The lists that are being made tasks of, by their coroutines."""

    def __init__(self, is_call: Callable[[Any], bool]) -> None:
        self._is_call = is_call
        self._lists: WeakKeyDictionary[Any, Listed] = WeakKeyDictionary()

    def find(self, maker: FrameType, coro: Any, scope: Scope) -> Listed:
        """The list that a coroutine stands in, of which this call of ``as_completed`` makes a task.

        Raises UsageError where it was given something else.
        """
        values = maker.f_locals
        known = self._lists.pop(coro, None)
        if known is not None:
            return known
        given: object = values.get("fs", values.get("aws"))
        if not isinstance(given, list | tuple):
            raise UsageError(
                f"`asyncio.as_completed` was given a {type(given).__name__} of coroutines, {name_of(coro)} for one, "
                "and goes through them in an order that is another one in every process.",
                "Give it a list, or tasks: `[asyncio.create_task(…) for …]`.",
            )
        items = cast("Sequence[object]", given)
        coroutines = list(dict.fromkeys(each for each in items if asyncio.iscoroutine(each)))
        listed = Listed(coroutines, scope, self._is_call)
        self._lists.update((each, listed) for each in coroutines if each is not coro)
        return listed


def coroutine_of_user(coro: Any) -> Any:
    """The coroutine that a task is made for. Most versions of anyio wrap it in one of their own, each in another."""
    frame = getattr(coro, "cr_frame", None)
    if frame is None or frame.f_globals.get("__name__", "").partition(".")[0] != "anyio":
        return coro
    given = list(frame.f_locals.values())
    held = (getattr(each, "_coro", None) for each in given)
    return next((each for each in (*given, *held) if asyncio.iscoroutine(each)), coro)


def name_of(coro: Any) -> str:
    """What a coroutine is called, for the name of its branch."""
    name = getattr(coro, "__qualname__", None) or type(coro).__name__
    return name.rpartition("<locals>.")[2]
