"""A journal that is open for writing: what is known of it, and commits to its end. Decides nothing about leases.

It is used under the lock of its state only. A commit is written first and made durable then, apart, so that those of
several states can be made durable together; until it is settled it can be undone.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Standing, header_content
from limpet.backends.files.states.layout import Segment
from limpet.backends.files.states.segments import doubled_in, pack_segment, read_segment, unpack_segment
from limpet.backends.files.states.small_files import remove_file, write_all
from limpet.backends.files.states.standing import Found, note_standing
from limpet.backends.files.states.wishes import drop_wish
from limpet.backends.files.stored import sync_content
from limpet.backends.files.tree import FILE_MODE
from limpet.lines import to_line
from limpet.logs import logger

_APPEND = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
_BEGIN = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOTED_EVERY = 1 << 16
"""After so many bytes the standing is noted again, so that whoever looks has little to read."""

_log = logger("limpet")


class Rules(msgspec.Struct, frozen=True):
    """How journals are written in a store."""

    is_synced: bool
    compression: str | None
    segment_size: int


class _Before(msgspec.Struct, frozen=True):
    """A journal as it was before what is not settled."""

    standing: Standing
    segment: Segment
    handle: int
    size: int


def mark(lock: int, step: int) -> int:
    """Make the file of a lock longer, by which others see that something was begun or moved. It has no content."""
    size = os.fstat(lock).st_size + step
    os.ftruncate(lock, size)
    return size


class Journal:
    """One state's folder, open. The handles are given over to it."""

    def __init__(self, folder: int, lock: int, found: Found, rules: Rules) -> None:
        self.folder = folder
        self.lock = lock
        self.standing = found.standing
        self.segment = found.segment
        self.size = found.size
        self._rules = rules
        self._handle = -1
        self._marks = 0
        self._noted = -1
        self._before: _Before | None = None
        self._is_new_file = False

    @property
    def state_id(self) -> str:
        return self.standing.header.state_id

    def open_segment(self, found: Found) -> None:
        """Open the newest segment, and put its end in order."""
        self._clear_away()
        if found.segment.suffix:
            text = read_segment(self.folder, found.segment) or b""
            unpack_segment(self.folder, found.segment, text)
            self.segment = Segment(found.segment.first)
        self._handle = os.open(self.segment.name, _APPEND | os.O_CREAT, FILE_MODE, dir_fd=self.folder)
        if found.torn:
            _log.warning(
                "The journal of state %r ended with %d bytes of a commit that was never finished, as a crash leaves "
                "them. They were cut off%s.",
                self.state_id,
                found.torn,
                "" if self.standing.damage else "; nothing that was acknowledged is lost",
            )
            os.ftruncate(self._handle, self.size)
        if found.ends_badly:
            self._mend_end()
        self._marks = os.fstat(self.lock).st_size

    def begin(self) -> None:
        """Make the lock and the first segment of a state that is being made, in a folder that nobody else knows."""
        self.lock = os.open(layout.LOCK_FILE, _BEGIN, FILE_MODE, dir_fd=self.folder)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._handle = os.open(self.segment.name, _BEGIN | os.O_APPEND, FILE_MODE, dir_fd=self.folder)

    def is_as_left(self) -> bool:
        """Whether nobody else has written since. Costs the same however long the journal is."""
        if self._handle < 0:
            return False
        lock, segment = os.fstat(self.lock), os.fstat(self._handle)
        return (
            segment.st_size == self.size and lock.st_size == self._marks and segment.st_nlink > 0 and lock.st_nlink > 0
        )

    def is_torn_away(self) -> bool:
        """Whether a file of it was deleted or replaced by somebody who knows nothing of locks."""
        if self._handle < 0:
            return False
        lock, segment = os.fstat(self.lock), os.fstat(self._handle)
        return lock.st_size == self._marks and not (segment.st_nlink and lock.st_nlink)

    def stands_in(self, states: str) -> bool:
        """Whether what is written here is still what others find under its name."""
        try:
            found = os.stat(f"{states}/{self.state_id}/{self.segment.name}", follow_symlinks=False)
        except OSError:
            return False
        own = os.fstat(self._handle)
        return found.st_ino == own.st_ino and found.st_dev == own.st_dev

    def moved(self) -> None:
        """Let everybody know who has this journal open that it is elsewhere now. It cannot be used further."""
        mark(self.lock, layout.MOVE)
        self.forget()

    def write(self, contents: Iterable[Mapping[str, Any]], standing: Standing) -> None:
        """Write one commit at the end. The sum of the standing is that of its last line. Raises OSError."""
        lines = list(contents)
        if not lines:
            return
        if self._before is None:
            self._before = _Before(self.standing, self.segment, self._handle, self.size)
        if self._must_roll():
            self._roll()
        data: list[bytes] = []
        after = self.standing.sum
        if not self.size and self.standing.damage is None and "header" not in lines[0]:
            line, after = to_line(header_content(self.standing.header), self.state_id, after)
            data.append(line)
        for left, content in zip(range(len(lines) - 1, -1, -1), lines, strict=True):
            line, after = to_line(content, self.state_id, after, left)
            data.append(line)
        written = b"".join(data)
        write_all(self._handle, written)
        self.size += len(written)
        self.standing = msgspec.structs.replace(standing, sum=after)

    def sync(self) -> None:
        """Make what was written durable. Raises OSError."""
        if self._before is None or not self._rules.is_synced:
            return
        sync_content(self._handle)
        if self._is_new_file:
            os.fsync(self.folder)

    def undo(self) -> None:
        """Take back what was written since the journal was last settled. What cannot be is cut off by the next use."""
        before, self._before = self._before, None
        if before is None:
            return
        rolled = self.segment if self._handle != before.handle else None
        if rolled is not None:
            os.close(self._handle)
        self._handle, self.segment = before.handle, before.segment
        self.size, self.standing = before.size, before.standing
        self._is_new_file = False
        try:
            if rolled is not None:
                os.unlink(rolled.name, dir_fd=self.folder)
            os.ftruncate(self._handle, self.size)
        except OSError:
            self.forget()

    def settle(self, *, note: bool) -> None:
        """Accept what was written. What is derived from it follows, or is left to later if there is no room."""
        before, self._before = self._before, None
        if before is None:
            return
        self._is_new_file = False
        if self.standing.header is not before.standing.header:
            drop_wish(self.folder, before.standing.header, self.standing.header)
        if self._handle != before.handle:
            os.close(before.handle)
            self._pack(before.segment)
            note = True
        if note or self.size - self._noted >= _NOTED_EVERY:
            self.note()

    def note(self) -> None:
        if self.standing.damage is not None:
            return
        with suppress(OSError):
            note_standing(self.folder, self.standing, self.segment, self.size)
            self._noted = self.size

    def unlock(self) -> None:
        # Explicitly, and not by closing: a child process may have inherited the handle.
        with suppress(OSError):
            fcntl.flock(self.lock, fcntl.LOCK_UN)

    def forget(self) -> None:
        """Trust nothing that is known: the next use looks at the files."""
        self.size = -1

    def close(self) -> None:
        for handle in (self._handle, self.lock, self.folder):
            if handle >= 0:
                os.close(handle)
        self._handle = self.lock = self.folder = -1

    def __del__(self) -> None:
        # A store that its user has dropped without closing it must not keep its files open for good.
        self.close()

    def _must_roll(self) -> bool:
        """A header that is in doubt must not be repeated as if it were whole, and a new name needs a new number."""
        return (
            self.size > self._rules.segment_size
            and not self._is_new_file
            and self.standing.position >= self.segment.first
            and self.standing.damage is None
        )

    def _roll(self) -> None:
        self._marks = mark(self.lock, 1)
        segment = Segment(self.standing.position + 1)
        handle = os.open(segment.name, _APPEND | os.O_CREAT | os.O_TRUNC, FILE_MODE, dir_fd=self.folder)
        self._handle, self.segment, self.size = handle, segment, 0
        self._is_new_file = True

    def _pack(self, segment: Segment) -> None:
        if self._rules.compression is not None:
            with suppress(OSError):
                pack_segment(self.folder, segment.first, self._rules.compression)

    def _clear_away(self) -> None:
        for name in list(doubled_in(self.folder)):
            remove_file(self.folder, name)

    def _mend_end(self) -> None:
        handle = os.open(self.segment.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            os.pwrite(handle, b"\n", self.size - 1)
        finally:
            os.close(handle)
