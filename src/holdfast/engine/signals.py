"""SIGINT and SIGTERM for programs that ask for it: the first one ends the run gracefully, the second one at once.

Before that, and behind the second one, the signals do what they did before the run.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.errors import UsageError
from holdfast.model import InterruptReason, InterruptSignal

if TYPE_CHECKING:
    from holdfast.engine.live import LiveState

HANDLED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def handling_signals(live: LiveState) -> Generator[None]:
    """While this lasts, a signal stops the run. Raises UsageError outside of the main thread."""
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "Signals reach the main thread of a program only, and this run is in another one.",
            "Run it in the main thread, or stop it with `Holdfast.interrupt`.",
        )
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in HANDLED}
    told = 0

    def stop(number: signal.Signals) -> None:
        nonlocal told
        told += 1
        is_first = told == 1
        message = "What was being executed was finished first." if is_first else "It was told twice."
        live.stopper.request(
            InterruptSignal(InterruptReason.SIGNAL, message, triggered_by=number.name, is_graceful=is_first)
        )
        if not is_first:
            _restore(loop, before)

    for number in HANDLED:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        if told < 2:
            _restore(loop, before)


def _restore(loop: asyncio.AbstractEventLoop, before: Mapping[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        loop.remove_signal_handler(number)
        if handler is not None:
            signal.signal(number, handler)
