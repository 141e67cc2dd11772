"""The folder of a store as a whole: its id, its keys, which state was last, and what crashes have left in ``tmp``."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import said
from limpet.backends.files.states.layout import STORE
from limpet.backends.files.states.small_files import opened, read_line, replace_line, write_line
from limpet.backends.files.temporary import clear_leftovers
from limpet.backends.files.tree import Tree, TreeFormat, open_folder
from limpet.errors import StoreDamaged
from limpet.lines import LineDamaged, from_line, to_line

# Artifacts may be put before the first state is created.
_FORMAT = TreeFormat(layout.FORMAT, layout.FORMAT_LINE, layout.VERSION, frozenset({layout.ARTIFACTS}))

_KEYS_RESERVED = 1000
"""So many keys are made durable at once. Those of them that are left when the machine is started anew are skipped."""


class Store:
    """The folder. What needs its lock says so."""

    def __init__(self, path: str | os.PathLike[str], is_synced: bool, lock_timeout_s: float) -> None:
        self.tree = Tree(path, is_synced, lock_timeout_s, _FORMAT)
        self.is_synced = is_synced
        self.name = self.tree.name
        self.lock_timeout_s = lock_timeout_s
        self.boot = _boot()
        self._next_key_line = b""
        """What this process wrote last into the lock."""

    @contextmanager
    def changing(self) -> Generator[tuple[int, int]]:
        """Handles of the folder, which is made where it is missing, and of its lock, which is held."""
        with self.tree.made() as root, self.tree.locked(root) as lock:
            yield root, lock

    @contextmanager
    def folder(self, root: int, name: str) -> Generator[int]:
        """A handle of a folder in the store, which is made where it is missing."""
        with self.tree.made_folder(root, name) as folder:
            yield folder

    def store_id(self) -> str:
        """The id of the store, which is made where it has none yet. Raises StoreDamaged."""
        with self.tree.opened() as root:
            found = None if root is None else self._said(root)
        if found is None:
            with self.changing() as (root, _):
                found = self._said(root) or self._begun(root)
        return found[0]

    def begin(self, root: int) -> None:
        """Make the id of the store where it has none yet. Needs the lock of the store. Raises StoreDamaged."""
        if self._said(root) is None:
            self._begun(root)

    def take_key(self, root: int, lock: int) -> int:
        """A key that was never used. Needs the lock of the store."""
        store_id, bound = self._said(root) or self._begun(root)
        key = max(self._next_key(lock), 1)
        if not key < bound:
            # Whether it was lost with the machine or used up, what lies behind the bound was never used.
            key = bound
            self.write(root, store_id, bound + _KEYS_RESERVED)
        self._note_next_key(lock, key + 1)
        return key

    def note_last(self, root: int, state_id: str, status: str) -> None:
        """For people, so nothing depends on it."""
        with suppress(OSError):
            write_line(root, layout.LAST_FILE, {"state_id": state_id, "status": status}, STORE)

    def has_leftovers(self, root: int) -> bool:
        """Whether something may have been left undone or behind."""
        if layout.REWRITING_FILE in os.listdir(root):
            return True
        handle = open_folder(root, layout.TEMPORARY)
        if handle is None:
            return False
        try:
            return bool(os.listdir(handle))
        finally:
            os.close(handle)

    def leftovers(self, root: int) -> list[str]:
        """What dead processes left in ``tmp``. Needs the lock of the store."""
        handle = open_folder(root, layout.TEMPORARY)
        if handle is None:
            return []
        try:
            return sorted(name for name in os.listdir(handle) if not _is_being_written(handle, name))
        finally:
            os.close(handle)

    def clear_leftovers(self, root: int) -> list[str]:
        """Remove what dead processes left in ``tmp``, and say what that was. Needs the lock of the store."""
        handle = open_folder(root, layout.TEMPORARY)
        if handle is None:
            return []
        try:
            names = os.listdir(handle)
            clear_leftovers(handle)
            for name in os.listdir(handle):
                # Folders are made and removed under the lock of the store only.
                with suppress(OSError):
                    shutil.rmtree(name, dir_fd=handle)
            return sorted(set(names) - set(os.listdir(handle)))
        finally:
            os.close(handle)

    def discard(self, parent: int, name: str, temporary: int) -> None:
        """Make a folder vanish in one step, and then remove it. Needs the lock of the store."""
        aside = secrets.token_hex(16)
        os.rename(name, aside, src_dir_fd=parent, dst_dir_fd=temporary)
        if self.is_synced:
            os.fsync(parent)
        # What is left of it is cleared away by whoever opens the store next.
        with suppress(OSError):
            shutil.rmtree(aside, dir_fd=temporary)

    def _said(self, root: int) -> tuple[str, int] | None:
        """The id and the bound of the keys; None where nothing has been written yet."""
        damaged: LineDamaged | None = None
        for name in (layout.STORE_FILE, layout.STORE_COPY):
            try:
                line = read_line(root, name, STORE)
                if line is not None:
                    return said(line.content, "store_id", str), said(line.content, "keys_below", int)
            except LineDamaged as error:
                damaged = damaged or error
        if damaged is not None:
            why = f"{layout.STORE_FILE} cannot be read ({damaged}), and neither can its copy"
            raise StoreDamaged(self.name, why) from damaged
        return None

    def write(self, root: int, store_id: str, keys_below: int) -> None:
        """Say the id and the bound of the keys, twice: one of the two may be damaged without loss.

        The copy first, so that it never lags behind what is believed where it can be read.
        """
        content: dict[str, Any] = {"store_id": store_id, "keys_below": keys_below}
        for name in (layout.STORE_COPY, layout.STORE_FILE):
            replace_line(root, name, content, STORE, is_synced=True)

    def _begun(self, root: int) -> tuple[str, int]:
        store_id = secrets.token_hex(16)
        # Where there are states although nobody can say which keys are used, those of now are far behind them all.
        states = open_folder(root, layout.STATES)
        bound = 1
        if states is not None:
            bound = int(time.time()) if os.listdir(states) else 1
            os.close(states)
        self.write(root, store_id, bound)
        return store_id, bound

    def _next_key(self, lock: int) -> int:
        """What the lock says, if that can be believed; otherwise a number that no bound lies above."""
        data = os.pread(lock, 1000, 0)
        try:
            content = from_line(data, STORE).content
            is_of_this_start = bool(self.boot) and content.get("boot") == self.boot
            if is_of_this_start or data == self._next_key_line:
                return said(content, "next_key", int)
        except LineDamaged:
            pass
        return 1 << 62

    def _note_next_key(self, lock: int, key: int) -> None:
        self._next_key_line, _ = to_line({"next_key": key, "boot": self.boot}, STORE, 0)
        os.pwrite(lock, self._next_key_line, 0)
        os.ftruncate(lock, len(self._next_key_line))


def _is_being_written(folder: int, name: str) -> bool:
    """Whether somebody has a file locked. Folders are made under the lock of the store only."""
    handle = opened(folder, name)
    if handle is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _boot() -> str:
    """What changes with every start of the machine; empty where it cannot be known."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""
