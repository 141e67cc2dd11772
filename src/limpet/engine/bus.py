"""Telling observers what happens, in such a way that they cannot hurt a run.

A plain subscriber is called on a thread that belongs to the bus, an async one in a task on the loop it subscribed on,
each in the order of what happened. One that raises is reported to the log. Nobody waits for a slow one: a call gives
subscribers a moment to take notice before it returns, so that a quick one has always seen what its caller goes on
from, and the moments that are given in vain get shorter each time until they add up to next to nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import queue
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import cast

from limpet import processes
from limpet.logs import logger
from limpet.model import EventNotice

Handler = Callable[[EventNotice], object] | Callable[[EventNotice], Awaitable[object]]

log = logger("limpet.bus")

PATIENCE_S = 0.02
"""The longest moment a call ever gives its subscribers."""
IDLE_S = 1.0
"""How long the thread of a bus waits for more before it ends."""


class EventBus:
    """Publishes the notices of a state to its subscribers. Safe to use from any thread."""

    def __init__(self) -> None:
        self._called: dict[str, Callable[[EventNotice], object]] = {}
        self._tasks: dict[str, tuple[asyncio.AbstractEventLoop, asyncio.Queue[EventNotice], asyncio.Task[None]]] = {}
        self.is_heard = False
        """Whether anybody listens; nothing is made or sent where nobody does."""
        self._notices: queue.SimpleQueue[EventNotice | threading.Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._has_thread = False
        self.patience_s = PATIENCE_S
        """The moment that the next call gives its subscribers."""
        self.idle_s = IDLE_S
        self._numbered = 0

    def after_fork(self) -> None:
        """In a forked child plain subscribers go on; async ones are on a loop of the parent."""
        self._lock = threading.Lock()
        self._notices = queue.SimpleQueue()
        self._has_thread = False
        self._tasks = {}
        self._note_subscribers()

    def _note_subscribers(self) -> None:
        self.is_heard = bool(self._called or self._tasks)

    def subscribe(self, handler: Handler, name: str | None = None) -> str:
        """Call ``handler`` with each notice from now on; gives the name to unsubscribe by. A name taken is replaced.

        An async handler must be subscribed from inside a running loop, on which it then runs.
        """
        number = self._next_number()
        name = name or f"{getattr(handler, '__name__', type(handler).__name__)}-{number}"
        self.unsubscribe(name)
        if inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__):
            notices: asyncio.Queue[EventNotice] = asyncio.Queue()
            task = asyncio.create_task(
                _feed(cast("Callable[[EventNotice], Awaitable[object]]", handler), notices, name)
            )
            self._tasks[name] = (asyncio.get_running_loop(), notices, task)
        else:
            self._called[name] = handler
        self._note_subscribers()
        return name

    def unsubscribe(self, subscriber: str | Handler) -> None:
        """Stop calling a subscriber, given by its name or as the handler itself. Unknown ones are no error."""
        for name, handler in list(self._called.items()):
            if subscriber in (name, handler):
                self._called.pop(name, None)
        if isinstance(subscriber, str) and subscriber in self._tasks:
            loop, _, task = self._tasks.pop(subscriber)
            if not loop.is_closed():
                loop.call_soon_threadsafe(task.cancel)
        self._note_subscribers()

    async def stream(self) -> AsyncIterator[EventNotice]:
        """The notices from now on, as they come, until the loop over them is left."""
        notices: asyncio.Queue[EventNotice] = asyncio.Queue()
        name = f"stream-{self._next_number()}"
        task = asyncio.create_task(asyncio.sleep(0))
        self._tasks[name] = (asyncio.get_running_loop(), notices, task)
        self._note_subscribers()
        try:
            while True:
                yield await notices.get()
        finally:
            self._tasks.pop(name, None)
            self._note_subscribers()

    def _next_number(self) -> int:
        with self._lock:
            self._numbered += 1
            if self._numbered == 1:  # Before the first subscriber there is nothing that a fork could break.
                processes.tell_of_forks(self)
            return self._numbered

    def publish(self, notice: EventNotice) -> None:
        """Hand a notice over to the subscribers. Returns at once and never raises."""
        if self._called:
            with self._lock:
                self._notices.put(notice)
                if not self._has_thread:
                    self._has_thread = True
                    threading.Thread(target=self._run, name="limpet-bus", daemon=True).start()
        for loop, notices, _ in list(self._tasks.values()):
            if not loop.is_closed():
                loop.call_soon_threadsafe(notices.put_nowait, notice)

    def give_a_moment(self) -> None:
        """Let quick subscribers take notice before a call returns."""
        if self._called and self.patience_s > 0.0001 and not self.flush(self.patience_s):
            self.patience_s /= 2

    def flush(self, timeout_s: float = 5.0) -> bool:
        """Wait until plain subscribers have seen all that was published so far; False if they have not by then."""
        if not self._has_thread:
            return True
        seen = threading.Event()
        self._notices.put(seen)
        return seen.wait(timeout_s)

    def _run(self) -> None:
        while True:
            try:
                notice = self._notices.get(timeout=self.idle_s)
            except queue.Empty:
                with self._lock:
                    if self._notices.empty():
                        self._has_thread = False
                        return
                continue
            if isinstance(notice, threading.Event):
                notice.set()
                continue
            for name, handler in list(self._called.items()):
                try:
                    handler(notice)
                except Exception:
                    log.exception("The subscriber %s raised on %s at %s.", name, notice.status, notice.address)


async def _feed(
    handler: Callable[[EventNotice], Awaitable[object]], notices: asyncio.Queue[EventNotice], name: str
) -> None:
    while True:
        notice = await notices.get()
        try:
            await handler(notice)
        except Exception:
            log.exception("The subscriber %s raised on %s at %s.", name, notice.status, notice.address)
