"""How many plain functions of a store run at once, and which of them wait for that.

A bound on the threads of a process would let nested calls wait for each other: all threads could be held by functions
that wait for one more. So there are so many places at each level of nesting: a plain function takes one of the level
below that of the plain function it was called by, whatever code lies between the two and however that waits. Those of
the innermost level wait for nobody, so there is always one that comes to its end.

Whoever waits for something other than a plain function, such as the answer of a person, gives its place back after a
moment: what it waits for may need one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import deque
from contextvars import ContextVar
from typing import TypeVar

from limpet import processes
from limpet.model.defaults import THREADS

R = TypeVar("R")

MOMENT_S = 1.0
"""How long a plain function keeps its place while it waits for a call that no plain function is at work for."""


class Place:
    """The right of one plain function to a thread."""

    __slots__ = ("called", "is_held", "level", "parent", "places")

    def __init__(self, places: Places) -> None:
        self.places = places
        self.parent = current_place.get()
        """That of the plain function that called this one, directly or not."""
        self.level = 0 if self.parent is None else self.parent.level + 1
        self.called = 0
        """How many of the plain functions that were called by this one have a place, or wait for one."""
        self.is_held = False

    def give_back(self) -> None:
        """Give the place to whoever waits for one, once."""
        self.places.take_back(self)

    def result_of(self, future: concurrent.futures.Future[R]) -> R:
        """What a call gives that the function of this place waits for, in its thread."""
        while self.is_held:
            try:
                return future.result(MOMENT_S)
            except TimeoutError:
                if future.done():
                    break  # The call itself may have failed of this.
                if not self.called:
                    self.give_back()
        return future.result()


class _Waiting:
    """Somebody who waits for a place, on an event loop."""

    __slots__ = ("future", "is_gone", "place")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_gone = False

    def wake(self) -> bool:
        """Say that there is a place. False if the loop of whoever waits has been closed."""
        try:
            self.future.get_loop().call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        return True

    def _wake(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Places:
    """The places of one store."""

    def __init__(self, size: int = THREADS) -> None:
        self.size = size
        """How many there are at each level of nesting."""
        self._held: dict[int, int] = {}
        self._waiting: dict[int, deque[_Waiting]] = {}
        self._lock = processes.new_lock()
        processes.tell_of_forks(self)

    def after_fork(self) -> None:
        """The threads of the parent go on there."""
        self._held.clear()
        self._waiting.clear()

    def take(self) -> Place | None:
        """A place for a function that is called here; None where it has to wait for one."""
        place = Place(self)
        with self._lock:
            if self._held.get(place.level, 0) >= self.size:
                return None
            self._give(place)
            if place.parent is not None:
                place.parent.called += 1
        return place

    async def wait(self) -> Place:
        """Wait for a place for a function that is called here. Whoever has waited the longest comes first."""
        place = Place(self)
        waiting = _Waiting(place)
        with self._lock:
            if place.parent is not None:
                place.parent.called += 1
            self._waiting.setdefault(place.level, deque()).append(waiting)
            self._fill(place.level)
        try:
            await waiting.future
        except BaseException:
            with self._lock:
                waiting.is_gone = True
                if not place.is_held and place.parent is not None:
                    place.parent.called -= 1
            place.give_back()
            raise
        return place

    def take_back(self, place: Place) -> None:
        """Take a place back from whoever holds it."""
        with self._lock:
            if not place.is_held:
                return
            place.is_held = False
            if place.parent is not None:
                place.parent.called -= 1
            left = self._held.get(place.level, 1) - 1
            if left:
                self._held[place.level] = left
            else:
                self._held.pop(place.level, None)
            self._fill(place.level)

    def _give(self, place: Place) -> None:
        place.is_held = True
        self._held[place.level] = self._held.get(place.level, 0) + 1

    def _fill(self, level: int) -> None:
        """Give the places that are free to those who wait."""
        waiting = self._waiting.get(level)
        while waiting and self._held.get(level, 0) < self.size:
            first = waiting.popleft()
            if not first.is_gone and first.wake():
                self._give(first.place)
        if not waiting:
            self._waiting.pop(level, None)


current_place: ContextVar[Place | None] = ContextVar("limpet_place", default=None)
"""The place of the plain function that code runs in, on whatever thread it does so by now."""

outside_runs = Places()
"""Of plain functions that are called outside a run."""
