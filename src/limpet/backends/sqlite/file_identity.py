"""What tells a file from all others, asked for in a way that does not make the next write to it dearer.

Since Linux 6.13 whoever asks for the times of a file makes the next write to it note a new time, and with that the next
``fdatasync`` a third slower. ``os.stat`` asks for everything. So on Linux only the number of the file is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

Identity = tuple[int, int]
"""The device of a file and its number there."""

_HERE = -100
"""AT_FDCWD: a relative path begins in the current folder."""
_NUMBER = 0x100
"""STATX_INO."""
_SIZE, _INODE, _DEVICE = 256, 32, 136
"""Of the struct that ``statx`` fills: its size, and where the number and the two parts of the device stand in it."""


def identity_of(path: str) -> Identity | None:
    """The identity of the file with this path; None if there is none."""
    asked = _asked_for_number()
    found = None if asked is None else asked(path)
    return _identity_by_stat(path) if found is None else found


def _identity_by_stat(path: str) -> Identity | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _by_statx() -> Callable[[str], Identity | None] | None:
    """The same by ``statx``, which gives None for whatever goes wrong; None where the system has no such thing."""
    import ctypes
    from struct import Struct

    try:
        statx: Any = ctypes.CDLL(None).statx
    except (OSError, AttributeError, TypeError):
        return None
    statx.argtypes = ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_uint, ctypes.c_void_p
    new_buffer, make_device = ctypes.c_char * _SIZE, os.makedev
    encode = lru_cache(maxsize=64)(os.fsencode)  # Asked for the same few files again and again.
    read_inode, read_device = Struct("=Q").unpack_from, Struct("=II").unpack_from

    def identity(path: str) -> Identity | None:
        buffer = new_buffer()
        if statx(_HERE, encode(path), 0, _NUMBER, buffer):
            return None
        return make_device(*read_device(buffer, _DEVICE)), read_inode(buffer, _INODE)[0]

    return identity


@cache
def _asked_for_number() -> Callable[[str], Identity | None] | None:
    """``statx``, where it is there and says the same as ``os.stat``."""
    asked = _by_statx() if hasattr(os, "makedev") else None
    return asked if asked is not None and asked(os.__file__) == _identity_by_stat(os.__file__) else None
