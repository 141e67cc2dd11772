"""Event loops that plain code inside a run runs in its thread: ``asyncio.run`` in a plain agent, for one.

While runs go on in this process, hooks stand before the methods that run a loop until a coroutine has ended. What is
run outside the scope of a run, or is the loop of the run itself, is handed on unchanged.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from limpet.engine.branches import branching_inside
from limpet.engine.method_hooks import MethodHook
from limpet.engine.scope import Scope, current_scope


def _around_runner(run: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run)
    def run_for_plain_code(self: asyncio.Runner, coro: Any, **options: Any) -> Any:
        scope = _scope_here()
        if scope is None:
            return run(self, coro, **options)
        with _inside(scope, self.get_loop(), coro):
            return run(self, coro, **options)

    return run_for_plain_code


def _around_loop(run_until_complete: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(run_until_complete)
    def run_for_plain_code(self: asyncio.AbstractEventLoop, future: Any) -> Any:
        scope = _scope_here()
        if scope is None or self.is_closed():
            return run_until_complete(self, future)
        with _inside(scope, self, future):
            return run_until_complete(self, future)

    return run_for_plain_code


def _scope_here() -> Scope | None:
    """The scope of plain code that is about to run a loop; None where it is not that of a run that goes on."""
    scope = current_scope.get()
    if scope is None or asyncio._get_running_loop() is not None or not scope.live.threads.is_under_way:
        return None
    return scope


@contextmanager
def _inside(scope: Scope, loop: asyncio.AbstractEventLoop, main: object) -> Generator[None]:
    if loop is scope.live.loop:
        yield
        return
    with branching_inside(loop, main):
        yield


_hooks: dict[type, MethodHook] = {
    asyncio.Runner: MethodHook(asyncio.Runner, "run", _around_runner),
    asyncio.BaseEventLoop: MethodHook(asyncio.BaseEventLoop, "run_until_complete", _around_loop),
}


def loop_hooks() -> list[MethodHook]:
    """Hooks before the methods that run a loop, of asyncio and of uvloop where that is imported."""
    uvloop = sys.modules.get("uvloop")
    if uvloop is not None and uvloop.Loop not in _hooks:
        _hooks[uvloop.Loop] = MethodHook(uvloop.Loop, "run_until_complete", _around_loop)
    return list(_hooks.values())
