"""Looks at the files that hold content, and at their times. Writes no content.

What is no ordinary file, such as a link, counts as not there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from limpet.backends.artifact_rules import later
from limpet.backends.files import layout
from limpet.backends.files.tree import FILE_MODE

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_DELETED_FILE = "deleted"

# Some file systems keep whole seconds, or every other one.
_STEPS_S = (0.0, 1.0, 2.0)


class StoredFile(msgspec.Struct, frozen=True):
    """The file of an artifact."""

    name: str
    is_compressed: bool
    is_whole: bool
    """False if its header and its length show that it is damaged."""
    size: int
    """Of the content; of a damaged file its own length, since nothing better is known."""
    put_at: float


@contextmanager
def opened(folder: int, rest: str) -> Generator[tuple[int, StoredFile] | None]:
    """The file of an artifact, open where its content or its frame begins; None if there is none."""
    for name in (rest, rest + layout.COMPRESSED):
        handle = _open(folder, name)
        if handle is not None:
            try:
                yield handle, _stored_file(handle, name)
            finally:
                os.close(handle)
            return
    yield None


def look(folder: int, rest: str) -> StoredFile | None:
    with opened(folder, rest) as found:
        return None if found is None else found[1]


def rests_in(folder: int) -> list[str]:
    """The names, without their endings, of all files in a folder that may hold content, in order."""
    matches = map(layout.STORED.fullmatch, os.listdir(folder))
    return sorted({found[1] for found in matches if found is not None})


def put_later(file: int, now: float, before: float) -> None:
    """Make now the time of a file, or a later moment, so that it comes after ``before``."""
    for step_s in _STEPS_S:
        moment = layout.nanoseconds(max(later(now, before), before + step_s))
        os.utime(file, ns=(moment, moment))
        if _time_of(os.fstat(file)) > before:
            return
    raise OSError(errno.ENOTSUP, "The file system does not keep the times of files")


def sync_content(file: int) -> None:
    # The new time of a file alone is not worth waiting for; not every system can tell the two apart.
    getattr(os, "fdatasync", os.fsync)(file)


def deleted_put_at(root: int) -> float:
    """The greatest ``put_at`` of all that was deleted, or 0."""
    try:
        return _time_of(os.stat(_DELETED_FILE, dir_fd=root, follow_symlinks=False))
    except FileNotFoundError:
        return 0.0


def note_deleted(root: int, put_at: float) -> None:
    moment = layout.nanoseconds(max(put_at, deleted_put_at(root)))
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(_DELETED_FILE, flags, FILE_MODE, dir_fd=root)
    try:
        os.utime(handle, ns=(moment, moment))
    finally:
        os.close(handle)


def _open(folder: int, name: str) -> int | None:
    try:
        handle = os.open(name, _READ, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def _stored_file(handle: int, name: str) -> StoredFile:
    status = os.fstat(handle)
    is_compressed = name.endswith(layout.COMPRESSED)
    size: int | None = status.st_size
    if is_compressed:
        size = layout.size_of_compressed(os.read(handle, layout.HEADER_LENGTH), status.st_size)
    return StoredFile(name, is_compressed, size is not None, status.st_size if size is None else size, _time_of(status))


def _time_of(status: os.stat_result) -> float:
    return layout.seconds(status.st_mtime_ns)
