"""Which letters there are in the whole store: their numbers, and an empty file for each, by which arrivals are found.

The notice of a letter stands before the letter does, and goes after it: one without its letter counts for nothing.
Whoever writes has the lock; reading takes none. ``layout.py`` has the names, and what always holds.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress

import msgspec

from limpet.backends.files.states import layout
from limpet.backends.files.states.layout import LetterFile, letter_file_of
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import FILE_MODE, open_folder, wait_for_lock

_COUNT = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTICE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Notice(msgspec.Struct, frozen=True, order=True):
    """A letter, and the state whose it is."""

    number: int
    digest: str
    state_id: str

    @property
    def name(self) -> str:
        return f"{self.number}.{self.digest}.{self.state_id}"

    @property
    def group(self) -> str:
        return str(self.number // layout.LETTERS_IN_GROUP)

    @property
    def file(self) -> LetterFile:
        return LetterFile(self.number, self.digest)


class Notices:
    """The folder of notices, whose lock is held. What is made durable is durable when a method returns."""

    def __init__(self, folder: int, count: int, *, is_synced: bool) -> None:
        self._folder = folder
        self._count = count
        self._is_synced = is_synced

    @classmethod
    @contextmanager
    def locked(cls, store: Store, root: int) -> Generator[Notices]:
        """The folder, which is made where it is missing, for oneself. Behind the locks of store and states."""
        with store.folder(root, layout.LETTERS) as folder:
            count = os.open(layout.COUNT_FILE, _COUNT, FILE_MODE, dir_fd=folder)
            try:
                wait_for_lock(count, store.lock_timeout_s, store.name)
                yield cls(folder, count, is_synced=store.is_synced)
            finally:
                os.close(count)

    def take_number(self, beyond: int) -> int:
        """A number that no letter ever had, nor one at or below the given one."""
        number = max(os.fstat(self._count).st_size, greatest_noted(self._folder), beyond) + 1
        os.ftruncate(self._count, number)
        if self._is_synced:
            os.fsync(self._count)
        return number

    def add(self, notice: Notice) -> None:
        group = open_folder(self._folder, notice.group, make=True)
        assert group is not None
        try:
            os.close(os.open(notice.name, _NOTICE, FILE_MODE, dir_fd=group))
            if self._is_synced:
                os.fsync(group)
                os.fsync(self._folder)
        finally:
            os.close(group)

    def remove(self, notice: Notice) -> None:
        """Remove a notice that need not be there, and its folder with the last of them."""
        # What a crash, or the file system, leaves of it counts for nothing without its letter.
        with suppress(OSError):
            os.unlink(f"{notice.group}/{notice.name}", dir_fd=self._folder)
        with suppress(OSError):
            os.rmdir(notice.group, dir_fd=self._folder)

    def all(self) -> Iterator[Notice]:
        return noted(self._folder, 0)


def noted(folder: int, after: int) -> Iterator[Notice]:
    """The notices behind a number, in order. Those of one folder are read at once."""
    for group in _groups(folder):
        if group < (after + 1) // layout.LETTERS_IN_GROUP:
            continue
        yield from sorted(notice for notice in _in_group(folder, group) if notice.number > after)


def greatest_noted(folder: int) -> int:
    """The greatest number of a notice that stands, or 0."""
    for group in reversed(_groups(folder)):
        greatest = max((notice.number for notice in _in_group(folder, group)), default=0)
        if greatest:
            return greatest
    return 0


def greatest_number(folder: int) -> int:
    """The greatest number that was taken: the letter that has it may not be there yet, all earlier ones are."""
    try:
        return os.stat(layout.COUNT_FILE, dir_fd=folder, follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0


def _groups(folder: int) -> list[int]:
    return sorted(int(name) for name in os.listdir(folder) if layout.KEY.fullmatch(name))


def _in_group(folder: int, group: int) -> list[Notice]:
    handle = open_folder(folder, str(group))
    if handle is None:
        return []
    try:
        return [notice for name in os.listdir(handle) if (notice := _notice_of(name)) is not None]
    finally:
        os.close(handle)


def _notice_of(name: str) -> Notice | None:
    """The notice that a file is; None for any other name."""
    number, _, rest = name.partition(".")
    digest, _, state_id = rest.partition(".")
    file = letter_file_of(f"{number}.{digest}.json")
    return None if file is None or not layout.is_state_id(state_id) else Notice(file.number, file.digest, state_id)
