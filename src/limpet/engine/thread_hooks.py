"""Hooks in the standard library that tell what code inside a run hands over to threads, and which loops it runs there.

They are there only while a run goes on in this process. Outside the scope of a run they hand everything on unchanged;
inside, what is submitted is marked as work of that run, and nothing else about it changes. Whatever others put before
the same methods meanwhile is left there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context
from functools import wraps
from typing import Any

from limpet.engine.method_hooks import MethodHook
from limpet.engine.plain_loops import loop_hooks
from limpet.engine.user_threads import UserThreads, begin_work, outside

OWN_THREADS = "limpet-"
"""What the names of our own threads begin with. They serve all runs, and take each one's context along."""


def _around_submit(submit: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(submit)
    def submit_for_run(self: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        work = begin_work(is_piece=True)
        if work is None:
            return submit(self, fn, *args, **kwargs)
        try:
            with outside():
                future: Future[Any] = submit(self, work.run, fn, *args, **kwargs)
        except BaseException:
            work.threads.end(work)
            raise
        # One that is cancelled before it begins ends as well.
        future.add_done_callback(lambda _: work.threads.end(work))
        return future

    return submit_for_run


def _around_start(start: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(start)
    def start_for_run(self: threading.Thread) -> Any:
        work = None if self.name.startswith(OWN_THREADS) else begin_work(is_piece=_runs_a_context(self))
        if work is None:
            return start(self)
        run = self.run

        def run_for_run() -> None:
            self.run = run  # It must not keep what it has done.
            work.run(run)

        self.run = run_for_run
        try:
            with outside():
                return start(self)
        except BaseException:
            self.run = run
            work.threads.end(work)
            raise

    return start_for_run


def _runs_a_context(thread: threading.Thread) -> bool:
    """Whether a thread does one thing in a context that it was given, rather than whatever comes."""
    target = getattr(thread, "_target", None)
    return isinstance(getattr(target, "__self__", None), Context)


_HOOKS = [
    MethodHook(ThreadPoolExecutor, "submit", _around_submit),
    MethodHook(threading.Thread, "start", _around_start),
]
_lock = threading.Lock()
_runs = 0
_set: list[MethodHook] = []


class ThreadHooks:
    """While this lasts, the run goes on, and what it hands over to threads, or runs in loops of theirs, is known."""

    __slots__ = ("_threads",)

    def __init__(self, threads: UserThreads) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        global _runs
        with _lock:
            self._threads.users += 1
            _runs += 1
            if _runs == 1:
                _set.extend((*_HOOKS, *loop_hooks()))
                for hook in _set:
                    hook.set()

    def __exit__(self, *_: object) -> None:
        global _runs
        with _lock:
            self._threads.users -= 1
            _runs -= 1
            if not _runs:
                while _set:
                    _set.pop().unset()
