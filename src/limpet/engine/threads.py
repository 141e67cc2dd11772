"""Plain functions on worker threads, and the way back from such a thread into the run.

A child that is forked on such a thread has nowhere to come back to, and is ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import os
import sys
import traceback
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar

from limpet import processes
from limpet.engine.places import Place, current_place, outside_runs
from limpet.engine.scope import Scope, current_scope
from limpet.engine.stopping import Stopped, tasks_inside
from limpet.engine.workers import Workers
from limpet.errors import UsageError
from limpet.logs import logger

R = TypeVar("R")

log = logger("limpet.interrupts")

_workers = Workers("limpet-plain")
_given_up: set[concurrent.futures.Future[Any]] = set()


@processes.in_forked_child
def _after_fork() -> None:
    _given_up.clear()


async def run_plain(
    function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], place: Place | None = None
) -> R:
    """Run a plain function on a worker thread, with the context (and so the scope) of the caller."""
    place = place or outside_runs.take() or await outside_runs.wait()
    context = contextvars.copy_context()
    context.run(current_place.set, place)
    future: concurrent.futures.Future[R] = concurrent.futures.Future()

    def work() -> Callable[[], object]:
        if not future.set_running_or_notify_cancel():
            return place.give_back
        try:
            result = _result_of(context, function, args, kwargs)
        except BaseException as error:
            return partial(_finish, place, partial(future.set_exception, error))
        return partial(_finish, place, partial(future.set_result, result))

    try:
        _workers.do(work)
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        if not future.done():
            _give_up(future, function)
        raise
    finally:
        # One that goes on although nobody waits for it must not take the place of others for ever.
        place.give_back()


def _finish(place: Place, tell: Callable[[], None]) -> None:
    place.give_back()
    tell()


def _result_of(
    context: contextvars.Context, function: Callable[..., R], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> R:
    """What the function gives, which may fork and come out of itself in the child as well."""
    process = os.getpid()
    try:
        result = context.run(function, *args, **kwargs)
    except BaseException as error:
        if os.getpid() != process:
            _end_child(function, error)
        if isinstance(error, StopIteration | GeneratorExit):
            # A future cannot carry one: whoever awaits it would wait for ever, or be closed.
            raise RuntimeError(f"{function.__qualname__} raised {type(error).__name__}") from error
        raise
    if os.getpid() != process:
        _end_child(function, None)
    return result


def _give_up(future: concurrent.futures.Future[Any], function: Callable[..., Any]) -> None:
    """Wait no longer for a function that goes on in its thread. One that waits for a call there ends with that call."""
    scope = current_scope.get()
    if scope is not None:
        if tasks_inside(scope.live, scope.event):
            return
        scope.event.cut_off()
    _given_up.add(future)
    future.add_done_callback(_given_up.discard)
    name = getattr(function, "__qualname__", repr(function))
    log.warning("%s was given up, and goes on in its thread: what it gives is not recorded.", name)


def _end_child(function: Callable[..., Any], error: BaseException | None) -> NoReturn:
    """End a child that was forked inside a plain function and comes out of it: the loop that waits for what it gives is
    another process's, and this thread would wait for more work for ever."""
    status = 1
    if isinstance(error, SystemExit):
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
    elif error is not None:
        traceback.print_exception(error)
    else:
        log.error(
            "A child process that was forked inside %s came out of it, where only the parent can go on. It was ended; "
            "end it with `os._exit` when its work is done.",
            getattr(function, "__qualname__", repr(function)),
        )
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
    os._exit(status)


def is_any_at_work() -> bool:
    """Whether a plain function still runs, for which the end of the process would wait."""
    return _workers.is_any_at_work


def is_anything_given_up() -> bool:
    """Whether a plain function that nobody waits for any more still runs: the process would wait for it at its end."""
    return bool(_given_up)


def loop_of(scope: Scope) -> asyncio.AbstractEventLoop | None:
    """The loop of the run that plain code makes a call in. Raises Stopped in a run that is stopped, also where a
    function was given up and goes on in its thread."""
    if scope.live.stopper.is_cancelling:
        raise Stopped
    return scope.live.loop


def wait_for(coro: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop | None) -> R:
    """Run a coroutine from plain code and wait for it: on the loop of the run, or on one of its own (None)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coro.close()
        raise UsageError(
            "`.call()` was used in async code, where waiting would stop the event loop.", "Await the call instead."
        )
    return asyncio.run(coro) if loop is None else wait_on(coro, loop)


def wait_on(coro: Coroutine[Any, Any, R], loop: asyncio.AbstractEventLoop) -> R:
    """Run a coroutine on the loop of the run, and wait for it in another thread."""
    # The scope has been taken already: the task that carries the call must not become a branch of it.
    scope = current_scope.get()
    context = contextvars.copy_context()
    context.run(current_scope.set, None)
    future = context.run(asyncio.run_coroutine_threadsafe, _known(coro, scope), loop)
    place = current_place.get()
    try:
        return future.result() if place is None else place.result_of(future)
    except concurrent.futures.CancelledError:
        # An Exception, unlike that of asyncio: plain code must not take it for a failure of the call.
        raise Stopped from None


async def _known(coro: Coroutine[Any, Any, R], scope: Scope | None) -> R:
    """Await a call that plain code makes, known to its run as long as that lasts: a run that is stopped cancels it."""
    task = asyncio.current_task()
    if scope is None or task is None:
        return await coro
    tasks = scope.live.stopper.tasks
    tasks[task] = scope
    try:
        return await coro
    finally:
        tasks.pop(task, None)
