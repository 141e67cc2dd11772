"""Opens files that may come from anybody: ordinary ones only, behind no link but the one that the caller names."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from limpet.engine.portable.limits import TooLarge, Unreadable
from limpet.model.amounts import size_text

# A pipe would never end, and opening one would wait for somebody to write to it.
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextmanager
def opened_file(path: Path) -> Generator[BinaryIO]:
    """A file that the caller names; a link is followed. Raises Unreadable or OSError."""
    with _ordinary(os.open(path, _READ), path.name) as file:
        yield file


@contextmanager
def opened_in(root: Path, name: str) -> Generator[BinaryIO]:
    """A file in a folder, by its name or by one more folder and its name. No link is followed in there."""
    *folders, last = name.split("/")
    folder = os.open(root, _FOLDER & ~os.O_NOFOLLOW)
    try:
        for each in folders:
            inner = os.open(each, _FOLDER, dir_fd=folder)
            os.close(folder)
            folder = inner
        handle = os.open(last, _READ | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    with _ordinary(handle, name) as file:
        yield file


@contextmanager
def _ordinary(handle: int, name: str) -> Generator[BinaryIO]:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise Unreadable(f"{name} is no file")
    with os.fdopen(handle, "rb") as file:
        yield file


def read_text(file: BinaryIO, name: str, most: int) -> bytes:
    """All of a file. Raises TooLarge where there is more than that."""
    text = file.read(most + 1)
    if len(text) > most:
        raise TooLarge(f"{name} is longer than {size_text(most)}")
    return text
