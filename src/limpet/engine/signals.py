"""SIGINT and SIGTERM for programs that ask for it: the first one ends the run gracefully, the second one at once.

All runs on one loop that asked for it are told. Behind the second one, and behind the last run, the signals do what
they did before. In a forked child they do that at once.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from limpet import processes
from limpet.errors import UsageError
from limpet.model import InterruptReason, InterruptSignal

if TYPE_CHECKING:
    from limpet.engine.live import LiveState

HANDLED = (signal.SIGINT, signal.SIGTERM)


class _Handling:
    """The signals of a loop, while runs go on there that asked for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # A program that was started to ignore a signal, as by nohup, goes on to ignore it.
        found = {number: signal.getsignal(number) for number in HANDLED}
        self._before = {number: handler for number, handler in found.items() if handler is not signal.SIG_IGN}
        self._told = 0
        self.states: list[LiveState] = []
        for number in self._before:
            loop.add_signal_handler(number, self._stop, number)

    def _stop(self, number: signal.Signals) -> None:
        self._told += 1
        is_first = self._told == 1
        message = "What was being executed was finished first." if is_first else "It was told twice."
        wish = InterruptSignal(InterruptReason.SIGNAL, message, triggered_by=number.name, is_graceful=is_first)
        for live in self.states:
            live.stopper.request(wish)
            if is_first and live.on_first_signal is not None:
                live.on_first_signal()
        if not is_first:
            self.restore()

    def restore(self) -> None:
        """Let the signals do what they did before."""
        for number, handler in self._before.items():
            self._loop.remove_signal_handler(number)
            if handler is not None:
                signal.signal(number, handler)
        self._before = {}

    def after_fork(self) -> None:
        """A signal that a child gets is not for the runs of its parent, nor to be told to the loop of that."""
        for number, handler in self._before.items():
            if handler is not None:
                signal.signal(number, handler)
        self._before = {}
        self.states = []


_handling: WeakKeyDictionary[asyncio.AbstractEventLoop, _Handling] = WeakKeyDictionary()


@processes.in_forked_child
def _after_fork() -> None:
    if _handling:
        signal.set_wakeup_fd(-1)
    for handling in list(_handling.values()):
        handling.after_fork()


@contextmanager
def handling_signals(live: LiveState) -> Generator[None]:
    """While this lasts, a signal stops the run, with all others on its loop that asked for it.

    Raises UsageError outside of the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "Signals reach the main thread of a program only, and this run is in another one.",
            "Run it in the main thread, or stop it with `Limpet.interrupt`.",
        )
    loop = asyncio.get_running_loop()
    handling = _handling.get(loop) or _Handling(loop)
    _handling[loop] = handling
    handling.states.append(live)
    try:
        yield
    finally:
        if live in handling.states:
            handling.states.remove(live)
        if not handling.states:
            handling.restore()
            _handling.pop(loop, None)
