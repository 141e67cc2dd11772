"""Reads and writes small files in a folder that is open, each of one line that carries its checksum.

What must not be lost is replaced in one step. What is derived is written in place, since a file system may wait for the
disk when a file is replaced; whoever reads it in that moment sees that it does not fit its checksum, and looks again.

Links are not followed: what is no ordinary file counts as not there.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from limpet.backends.files.states.layout import NEW
from limpet.backends.files.tree import FILE_MODE
from limpet.lines import Line, LineDamaged, from_line, to_line

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_PLACE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1 << 20
_LOOKS = 3


def opened(folder: int, name: str, flags: int = _READ) -> int | None:
    """A handle of an ordinary file; None if there is none of that name."""
    try:
        handle = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR):
            return None
        raise
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def read_file(folder: int, name: str, offset: int = 0) -> bytes | None:
    """What stands in a file from an offset on; None if there is no such file, or it is shorter."""
    handle = opened(folder, name)
    if handle is None:
        return None
    try:
        if offset and os.lseek(handle, 0, os.SEEK_END) < offset:
            return None
        os.lseek(handle, offset, os.SEEK_SET)
        pieces: list[bytes] = []
        while piece := os.read(handle, _CHUNK):
            pieces.append(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    finally:
        os.close(handle)


def write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def replace_file(folder: int, name: str, data: bytes, *, is_synced: bool) -> None:
    """Put a file in the place of whatever has that name. Only who has the lock of the folder's owner may."""
    handle = os.open(name + NEW, _WRITE, FILE_MODE, dir_fd=folder)
    try:
        try:
            write_all(handle, data)
            if is_synced:
                os.fsync(handle)
        finally:
            os.close(handle)
        os.rename(name + NEW, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        remove_file(folder, name + NEW)
        raise
    if is_synced:
        os.fsync(folder)


def remove_file(folder: int, name: str) -> None:
    """Remove a file that need not be there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def read_line(folder: int, name: str, owner: str) -> Line | None:
    """What a file of one line says; None if there is no such file. Raises LineDamaged."""
    for look in range(_LOOKS):
        data = read_file(folder, name)
        if data is None:
            return None
        try:
            # Behind the first line there may be the end of a longer one, for a moment.
            return from_line(data[: data.find(b"\n") + 1], owner)
        except LineDamaged:
            if look == _LOOKS - 1:
                raise
    raise AssertionError


def read_whole_line(folder: int, name: str, owner: str) -> Line | None:
    """What a file of one line says; None if it is missing or damaged."""
    try:
        return read_line(folder, name, owner)
    except LineDamaged:
        return None


def write_line(folder: int, name: str, content: Mapping[str, Any], owner: str, after: int = 0) -> None:
    """Write a line in place: for what is derived, and may be damaged by a crash."""
    data, _ = to_line(content, owner, after)
    handle = os.open(name, _IN_PLACE, FILE_MODE, dir_fd=folder)
    try:
        write_all(handle, data)
        os.ftruncate(handle, len(data))
    finally:
        os.close(handle)


def replace_line(folder: int, name: str, content: Mapping[str, Any], owner: str, *, is_synced: bool) -> None:
    """Put a line in the place of another one in one step."""
    data, _ = to_line(content, owner, 0)
    replace_file(folder, name, data, is_synced=is_synced)
