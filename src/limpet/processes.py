"""What a process that was forked must make anew: locks, threads, connections, and who it is.

A child of ``os.fork`` has a copy of the memory of its parent, and only one of its threads: whatever the others held or
were in the middle of stays so for ever. So everything that lives in a process and cannot be carried over is known here,
weakly, and told of a fork: before it, in the parent after it, and in the child. Imports nothing of ours.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakSet, ref

# Before our own functions are registered: what is registered later is called earlier, so the lock of the logs is taken
# only after whoever holds a lock of ours and logs something has let go of it.
from limpet.logs import logger

T = TypeVar("T")

log = logger("limpet.processes")

PATIENCE_S = 10.0
"""How long a fork waits, at most, for what is being written in the other threads of the parent."""


class Forkable(Protocol):
    """Something that has to be made anew in a forked child."""

    def after_fork(self) -> None:
        """Make it usable in the child, where only the current thread goes on."""
        ...


class Pausable(Forkable, Protocol):
    """Something that must not be in the middle of a change while the process is forked."""

    def before_fork(self) -> None:
        """Come to rest, in the parent, and stay so."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...


class _Known(Generic[T]):
    """Things that are told of forks as long as anybody uses them, in the order in which they were made.

    A run adds some of its own, so this is made to cost it next to nothing: references are dropped by the hundred.
    """

    def __init__(self) -> None:
        self._references: list[ref[T]] = []
        self._most = 100
        self._dropping = threading.Lock()

    def add(self, thing: T) -> None:
        self._references.append(ref(thing))
        if len(self._references) > self._most and self._dropping.acquire(blocking=False):
            try:
                count = len(self._references)
                used = [each for each in self._references[:count] if each() is not None]
                self._references[:count] = used  # Others may have been added behind them meanwhile.
                self._most = 100 + 2 * len(used)
            finally:
                self._dropping.release()

    def used(self) -> list[T]:
        return [thing for each in list(self._references) if (thing := each()) is not None]

    def after_fork(self) -> None:
        self._dropping = threading.Lock()


_forkable: _Known[Forkable] = _Known()
_pausable: _Known[Pausable] = _Known()
_functions: list[Callable[[], None]] = []
_locks: WeakSet[Any] = WeakSet()
_awaited: WeakSet[Any] = WeakSet()
"""Those of them that a fork takes for itself first."""
_taken: list[Any] = []
_paused: list[Pausable] = []
"""The locks that a fork which is under way has taken, and what it has brought to rest."""
_forking = threading.Lock()
"""Held while a process is forked, and while something is opened that must not be half open then."""


def in_forked_child(function: Callable[[], None]) -> Callable[[], None]:
    """Call a function of a module in every forked child, before the objects are told."""
    _functions.append(function)
    return function


def tell_of_forks(thing: Forkable) -> None:
    """Tell this in every forked child, as long as anybody uses it."""
    _forkable.add(thing)


def pause_for_forks(thing: Pausable) -> None:
    """Tell this before every fork as well, and after it in the parent."""
    _forkable.add(thing)
    _pausable.add(thing)


def new_lock(*, is_awaited: bool = False) -> threading.Lock:
    """A lock that is free in a forked child, whoever held it in the parent.

    With ``is_awaited`` a fork waits for it first, so that the child finds nothing half changed.
    """
    return _known(threading.Lock(), is_awaited)


def new_reentrant_lock(*, is_awaited: bool = False) -> Any:
    """As ``new_lock``, for a ``threading.RLock``."""
    return _known(threading.RLock(), is_awaited)


def _known(lock: Any, is_awaited: bool) -> Any:
    _locks.add(lock)
    if is_awaited:
        _awaited.add(lock)
    return lock


def keep_for_good(*things: object) -> None:
    """Never finalise these, not even at the end of the process: an SQLite connection of the parent, for one."""
    # Loaded here and not above: hardly any process needs it, and it takes longer than the rest of this module.
    import ctypes

    for thing in things:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def hold_off_forks() -> bool:
    """Let no fork begin until ``let_fork`` is called; False if one is under way. Never waits."""
    return _forking.acquire(blocking=False)


def let_fork() -> None:
    """Undo ``hold_off_forks``."""
    _forking.release()


def wait_for_fork() -> None:
    """Wait until no fork is under way. Whoever calls must hold no lock that is taken for a fork."""
    with _forking:
        return


def _before() -> None:
    _forking.acquire()
    _taken[:] = [lock for lock in list(_awaited) if lock.acquire(timeout=PATIENCE_S)]
    _paused[:] = _pausable.used()
    for thing in _paused:
        _tell(thing.before_fork)


def _after_in_parent() -> None:
    for thing in _paused:
        _tell(thing.after_fork_in_parent)
    for lock in _taken:
        lock.release()
    _paused.clear()
    _taken.clear()
    _forking.release()


def _after_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    _forkable.after_fork()
    _pausable.after_fork()
    _paused.clear()
    _taken.clear()
    for lock in list(_locks):
        lock._at_fork_reinit()  # As the standard library does it with its own.
    for function in _functions:
        _tell(function)
    for thing in _forkable.used():
        _tell(thing.after_fork)


def _tell(tell: Callable[[], None]) -> None:
    try:
        tell()
    except Exception:
        # There is nobody to raise it to, and the others have to be told all the same.
        log.exception("Something could not be told of a fork.")


# Some systems have no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
