"""Files that are being written, in a folder where nobody looks for content; and what dead processes left of theirs.

Whoever writes one holds a lock on it, which the system drops when the process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from contextlib import suppress
from typing import Self

from limpet.backends.files.faults import translating
from limpet.backends.files.tree import FILE_MODE

_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class TemporaryFile:
    """A file that is seen only when it is moved to its place, and is removed if it is not. Takes over the handle."""

    def __init__(self, folder: int, artifacts: str) -> None:
        self._folder = folder
        self._artifacts = artifacts
        self._name = ""
        self.handle = -1
        self.length = 0
        try:
            while not self._made():
                pass
        except BaseException:
            os.close(folder)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Removed while it is still locked, so that nobody else clears it away at the same moment.
        if self._name:
            with suppress(OSError):
                os.unlink(self._name, dir_fd=self._folder)
        os.close(self.handle)
        os.close(self._folder)

    def write(self, piece: bytes) -> None:
        with translating(self._artifacts):
            view = memoryview(piece)
            while view:
                written = os.write(self.handle, view)
                self.length += written
                view = view[written:]

    def write_header(self, header: bytes) -> None:
        """Over the first bytes, which were written to be overwritten."""
        with translating(self._artifacts):
            os.pwrite(self.handle, header, 0)

    def sync(self) -> None:
        with translating(self._artifacts):
            os.fsync(self.handle)

    def move(self, folder: int, name: str) -> None:
        """Give it its place; what has that name is replaced in the same step."""
        os.rename(self._name, name, src_dir_fd=self._folder, dst_dir_fd=folder)
        self._name = ""

    def _made(self) -> bool:
        """Make and lock a file; False if somebody cleared it away before it was locked."""
        name = secrets.token_hex(16)
        file = os.open(name, _NEW, FILE_MODE, dir_fd=self._folder)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            is_there = os.fstat(file).st_nlink > 0
        except BaseException:
            os.close(file)
            raise
        if is_there:
            self._name, self.handle = name, file
        else:
            os.close(file)
        return is_there


def clear_leftovers(folder: int) -> None:
    """Remove the files that nobody is writing. What is no file of ours stays."""
    for name in os.listdir(folder):
        # Its writer may move it to its place meanwhile, or another process clear it away too.
        with suppress(OSError):
            _clear(folder, name)


def _clear(folder: int, name: str) -> None:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # While the lock is held, so that its writer, who may just have made it, sees that it is gone.
        os.unlink(name, dir_fd=folder)
    finally:
        os.close(file)
