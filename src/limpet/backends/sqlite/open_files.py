"""Notices that the files of a store are no longer those that its connections have open.

A file that was deleted or replaced can still be written by whoever has it open, and nobody will find that again. So the
files under the names of the store are compared with those that were found when it was opened: the database and its log,
which SQLite never replaces while anybody has the database open.

That is asked before a commit is acknowledged. Looking at two files takes a fifth of the time of a small commit that
does not wait for the disk, so a process that makes many commits has the kernel tell it of changes (inotify), and asks
only whether it was told of any. Where the kernel cannot do that, the files are looked at. Of appends that follow each
other faster than anything can have happened between them, not every one is confirmed by itself: one is at least every
half millisecond, and each that changes a header, as the last one of a run does.
"""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LOG = "-wal"

_WORTH_WATCHING = 100
"""After so many commits the kernel is asked to tell of changes."""

QUICK_S = 0.0001
"""An append that begins so soon behind the one before it is one in quick succession."""

CONFIRM_EVERY_S = 0.0005
"""How often appends in quick succession are confirmed."""

LOOK_EVERY_S = 0.01
"""A store that has written nothing for so long is looked at before it writes, too."""

_CHANGES = 0x4 | 0x400 | 0x800
"""IN_ATTRIB, which tells of a name less, IN_DELETE_SELF and IN_MOVE_SELF."""

Identity = tuple[int, int]


def identity_of(path: str) -> Identity | None:
    """What tells a file from all others, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


class OpenFiles:
    """The files of a store, which connections have open."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._log = path + LOG
        self.database = identity_of(path)
        self.log = identity_of(self._log)
        self._asked = 0
        self._watch: _Watch | None = None

    def has_changed(self) -> str | None:
        """What has become of the files; None while they are what they were. For one thread at a time."""
        watch = self._watch
        if watch is not None:
            if not watch.poll(0):
                return None
            watch.drain()
            return self.look()
        self._asked += 1
        if self._asked == _WORTH_WATCHING:
            self._watch = _watching(self._path, self._log)
        return self.look()

    def look(self) -> str | None:
        """As ``has_changed``, by looking at the files. For any thread."""
        for what, path, known in (("the file", self._path, self.database), ("its log", self._log, self.log)):
            found = identity_of(path)
            if found is None:
                return f"{what} {path} was deleted or moved away"
            if found != known:
                return f"another file was put in the place of {what} {path}"
        return None

    def close(self) -> None:
        """Closing twice is harmless."""
        self._asked = 0
        if self._watch is not None:
            self._watch.close()
            self._watch = None


class _Watch:
    """A handle by which the kernel tells of changes."""

    def __init__(self, handle: int) -> None:
        self._handle = -1
        # The cheapest of the ways to ask. Raises OSError where there are too many handles.
        self._waiting = select.epoll()
        self._waiting.register(handle, select.EPOLLIN)
        self._handle = handle
        self.poll: Callable[[float], object] = self._waiting.poll

    def drain(self) -> None:
        """Take what was told, which is only a reason to look."""
        with suppress(BlockingIOError):
            while os.read(self._handle, 4096):
                pass

    def close(self) -> None:
        if self._handle >= 0:
            self._waiting.close()
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        # A store that its user has dropped without closing it must not keep its files open for good.
        self.close()


def _watching(*paths: str) -> _Watch | None:
    """A watch over these files; None where there is no such thing, or no more of them are to be had."""
    if sys.platform != "linux":
        return None
    # Loaded here and not above: it takes as long as opening a store, and only those that write much need it.
    import ctypes

    libc: Any = ctypes.CDLL(None, use_errno=True)
    handle: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    if handle < 0:
        return None
    try:
        watch = _Watch(handle)
    except OSError:
        os.close(handle)
        return None
    for path in paths:
        if libc.inotify_add_watch(handle, os.fsencode(path), _CHANGES) < 0:
            watch.close()
            return None
    return watch
