"""Opens the folders of a tree: makes them, recognises them, locks the tree. Knows no artifact and no state.

Everything inside is reached from the handle of a folder that was opened without following links, so a link that
somebody lays into the tree leads nowhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress

import msgspec

from limpet.backends.files import layout
from limpet.errors import BackendUnavailable, NotAStore, UnsupportedVersion

FILE_MODE = 0o600
_FOLDER_MODE = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_FORMAT_FILE = "format"
_LOCK_FILE = "lock"

_AT_ONCE = fcntl.LOCK_EX | fcntl.LOCK_NB
_SHORTEST_PAUSE_S = 0.0002
_LONGEST_PAUSE_S = 0.01


class TreeFormat(msgspec.Struct, frozen=True):
    """By what a tree is recognised: the line in its file ``format``, and what may lie there before that is written."""

    line: bytes
    pattern: re.Pattern[bytes]
    version: int
    beside: frozenset[str] = frozenset()


ARTIFACTS = TreeFormat(layout.FORMAT, layout.FORMAT_LINE, layout.VERSION)


class Tree:
    """A folder of ours. It need not exist: it is made when something is first put into it."""

    def __init__(
        self, path: str | os.PathLike[str], is_synced: bool, lock_timeout_s: float, form: TreeFormat = ARTIFACTS
    ) -> None:
        self._format = form
        self.path = os.path.realpath(path)
        self.name = f"file://{self.path}"
        self.is_synced = is_synced
        self._lock_timeout_s = lock_timeout_s
        self._is_recognised = False
        self._is_made = False
        # Folders that stand durably in the tree, whoever made them.
        self._durable: set[str] = set()

    @contextmanager
    def opened(self) -> Generator[int | None]:
        """A handle of the tree; None where there is none yet. Raises NotAStore, UnsupportedVersion."""
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            # Also if it has been there: it is then made anew when something is put.
            self._is_recognised = self._is_made = False
            self._durable.clear()
            yield None
            return
        except NotADirectoryError:
            if os.path.exists(self.path):
                raise NotAStore(self.name, "it is not a folder") from None
            raise
        try:
            yield handle if self._recognise(handle) else None
        finally:
            os.close(handle)

    @contextmanager
    def made(self) -> Generator[int]:
        """A handle of the tree, which is made where it is missing."""
        with self.opened() as handle:
            if handle is not None and self._is_made:
                yield handle
                return
        self._make()
        with self.opened() as handle:
            assert handle is not None
            yield handle

    @contextmanager
    def folder(self, root: int, name: str, *, make: bool = False) -> Generator[int | None]:
        """A handle of a folder in the tree; None if it is not there, or something else is, and is not to be made."""
        handle = self._open_folder(root, name, make)
        try:
            yield handle
        finally:
            if handle is not None:
                os.close(handle)

    @contextmanager
    def made_folder(self, root: int, name: str) -> Generator[int]:
        """A handle of a folder in the tree, which is made where it is missing."""
        with self.folder(root, name, make=True) as handle:
            assert handle is not None
            yield handle

    @contextmanager
    def locked(self, root: int) -> Generator[int]:
        """The tree for oneself, for a few system calls, and a handle of the file that is locked.

        Raises BackendUnavailable if it is not to be had in time.

        The file is opened each time: a lock belongs to what was opened, and so keeps out other threads as well, and is
        not shared with a child process.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(_LOCK_FILE, flags, FILE_MODE, dir_fd=root)
        try:
            wait_for_lock(handle, self._lock_timeout_s, self.name)
            yield handle
        finally:
            os.close(handle)

    def _open_folder(self, root: int, name: str, make: bool) -> int | None:
        handle = open_folder(root, name, make=make)
        if make and self.is_synced and name not in self._durable:
            # Also where another process has just made it: that one may not have come to this yet.
            os.fsync(root)
            self._durable.add(name)
        return handle

    def _recognise(self, handle: int) -> bool:
        """Whether the folder is ours; False if it is empty or just being made. Raises NotAStore, UnsupportedVersion."""
        if self._is_recognised:
            return True
        # In this order: anything else is made only after the format stands there whole.
        others = set(os.listdir(handle)) - {_FORMAT_FILE} - self._format.beside
        line = _format_line(handle)
        found = self._format.pattern.fullmatch(line)
        if found is None and (others or not self._format.line.startswith(line)):
            raise NotAStore(self.name, "the folder holds something else")
        if found is not None and int(found[1]) > self._format.version:
            raise UnsupportedVersion(f"The folder {self.name}", int(found[1]), self._format.version)
        self._is_recognised = found is not None
        return self._is_recognised

    def _make(self) -> None:
        _make_folder(self.path)
        _sync_folder(os.path.dirname(self.path))
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if not self._recognise(handle):
                self._write_format(handle)
        finally:
            os.close(handle)
        self._is_made = True

    def _write_format(self, handle: int) -> None:
        """In place: whoever makes the tree at the same time writes the same bytes. Made once, so always synced."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(_FORMAT_FILE, flags, FILE_MODE, dir_fd=handle)
        try:
            if os.pwrite(file, self._format.line, 0) != len(self._format.line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
        finally:
            os.close(file)
        os.fsync(handle)


def wait_for_lock(handle: int, timeout_s: float, name: str) -> None:
    """Lock an open file. Raises BackendUnavailable if that is not to be had in time."""
    deadline = 0.0
    pause_s = _SHORTEST_PAUSE_S
    while True:
        try:
            fcntl.flock(handle, _AT_ONCE)
            return
        except BlockingIOError:
            deadline = deadline or time.monotonic() + timeout_s
        if time.monotonic() >= deadline:
            raise BackendUnavailable(name, "another process has kept it locked for too long")
        time.sleep(pause_s)
        pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)


def open_folder(parent: int, name: str, *, make: bool = False) -> int | None:
    """A handle of a folder in a folder; None if it is not there, or something else is, and is not to be made."""
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except FileNotFoundError:
        if not make:
            return None
    except OSError as error:
        if make or error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        return None
    with suppress(FileExistsError):
        os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
    return os.open(name, _FOLDER, dir_fd=parent)


def _format_line(handle: int) -> bytes:
    try:
        file = os.open(_FORMAT_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=handle)
    except FileNotFoundError:
        return b""
    try:
        return os.read(file, 100)
    finally:
        os.close(file)


def _make_folder(path: str) -> None:
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    _make_folder(parent)
    with suppress(FileExistsError):  # Made meanwhile by another process; a file of that name shows itself when opened.
        os.mkdir(path, _FOLDER_MODE)
    _sync_folder(parent)


def _sync_folder(path: str) -> None:
    # A folder that may be written need not be readable, and then it cannot be synced.
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
