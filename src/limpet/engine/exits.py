"""Exceptions that end more than a call: those that end the program, and those that close a coroutine.

``asyncio`` passes SIGINT on as a cancellation, and cancels all tasks of a loop that an exception ends. So what a
cancellation comes from is found out here.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from contextvars import Context
from typing import Any


def ends_program(error: BaseException) -> bool:
    """Tells whether an exception is meant to end the program: one of a person at the keyboard, or ``sys.exit()``."""
    return isinstance(error, KeyboardInterrupt | SystemExit)


def is_closing(error: BaseException) -> bool:
    """Tells whether the coroutine that catches this is being closed, rather than that code has raised GeneratorExit.

    A coroutine is closed from the inside, so the frames of what it awaits are not in the traceback.
    """
    traceback = error.__traceback__
    return isinstance(error, GeneratorExit) and (traceback is None or traceback.tb_next is None)


def is_raised_by_signal(error: BaseException) -> bool:
    """Tells whether the handler of a signal has raised an exception, in the middle of whatever code was running."""
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()} - {None}
    traceback = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code not in handlers:
        traceback = traceback.tb_next
    return traceback is not None


async def ending_of_loop() -> BaseException | None:
    """Returns the exception that is ending the event loop, or None. All tasks are cancelled while it is handled.

    Only a callback is outside of all coroutines, and of what these are handling themselves.
    """
    loop = asyncio.get_running_loop()
    found: asyncio.Future[BaseException | None] = loop.create_future()
    loop.call_soon(_find_ending, found, context=Context())
    try:
        return await found
    except asyncio.CancelledError:
        return None  # It is cancelled once more. Whoever asks is leaving already.


def _find_ending(found: asyncio.Future[BaseException | None]) -> None:
    error = sys.exc_info()[1]
    if not found.done():
        found.set_result(error if error is not None and ends_program(error) else None)


def is_interrupted_main_task() -> bool:
    """Tells whether ``asyncio.run`` has cancelled its main task because of SIGINT, to raise KeyboardInterrupt later."""
    handler: Any = signal.getsignal(signal.SIGINT)
    runner = getattr(getattr(handler, "func", None), "__self__", None)
    return isinstance(runner, asyncio.Runner) and getattr(runner, "_interrupt_count", 0) > 0
