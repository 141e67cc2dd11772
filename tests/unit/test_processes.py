"""What a forked child finds: free locks, nothing half changed, and everybody told."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from limpet import processes
from limpet.processes import new_lock, new_reentrant_lock, pause_for_forks, tell_of_forks


def said_in_child(say: Callable[[], str]) -> str:
    """What is said in a forked child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, say().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


@contextmanager
def held_elsewhere(lock: threading.Lock) -> Iterator[None]:
    """Another thread holds the lock meanwhile."""
    is_held, is_over = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            is_held.set()
            is_over.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait(30)
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.parametrize("make", [new_lock, new_reentrant_lock])
def test_a_lock_that_another_thread_held_is_free_in_the_child(make: Callable[[], threading.Lock]) -> None:
    lock = make()
    with held_elsewhere(lock):
        assert "True" == said_in_child(lambda: str(lock.acquire(timeout=5)))
        assert not lock.acquire(blocking=False)


def test_a_fork_waits_until_nothing_is_half_changed() -> None:
    lock, changed = new_lock(is_awaited=True), [0, 0]
    is_over = threading.Event()

    def change() -> None:
        while not is_over.is_set():
            with lock:
                changed[0] += 1
                changed[1] += 1

    thread = threading.Thread(target=change)
    thread.start()
    said = [said_in_child(lambda: str(changed[0] - changed[1])) for _ in range(20)]
    is_over.set()
    thread.join()
    assert ["0"] * 20 == said
    with lock:
        assert changed[0] == changed[1]


def test_a_fork_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATIENCE_S", 0.01)
    lock = new_lock(is_awaited=True)
    with held_elsewhere(lock):
        assert "True" == said_in_child(lambda: str(lock.acquire(timeout=5)))
    assert lock.acquire(timeout=5)


class Told:
    def __init__(self, words: list[str], name: str) -> None:
        self.words, self.name = words, name

    def before_fork(self) -> None:
        self.words.append(f"{self.name} before")

    def after_fork_in_parent(self) -> None:
        self.words.append(f"{self.name} in parent")

    def after_fork(self) -> None:
        self.words.append(f"{self.name} in child")
        if self.name == "first":
            raise ValueError("a subscriber that fails")


def test_all_are_told_in_the_order_in_which_they_were_made_also_behind_one_that_raises() -> None:
    words: list[str] = []
    first, second, third = (Told(words, name) for name in ("first", "second", "third"))
    pause_for_forks(first)
    tell_of_forks(second)
    pause_for_forks(third)
    said = said_in_child(lambda: ", ".join(words))
    assert "first before, third before, first in child, second in child, third in child" == said
    assert ["first before", "third before", "first in parent", "third in parent"] == words


def test_what_nobody_uses_any_more_is_not_told() -> None:
    words: list[str] = []
    tell_of_forks(Told(words, "gone"))
    assert "" == said_in_child(lambda: ", ".join(words))


def test_things_are_known_as_long_as_they_are_used() -> None:
    class Thing:
        def after_fork(self) -> None: ...

    known: processes._Known[Thing] = processes._Known()
    kept = [Thing() for _ in range(150)]
    for thing in kept:
        known.add(thing)
        for _ in range(10):
            known.add(Thing())
    assert kept == known.used()
    assert len(known._references) < 600
