"""Looks at single states from outside: without any lock, or with a lock that is had at once or not at all."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

import msgspec

from limpet.backends.files.states import layout
from limpet.backends.files.states.header_lines import Standing, state_header
from limpet.backends.files.states.layout import is_state_id
from limpet.backends.files.states.small_files import opened
from limpet.backends.files.states.standing import OtherState, lease_until, look, unknown_header
from limpet.backends.files.states.store import Store
from limpet.backends.files.tree import open_folder
from limpet.errors import BackendUnavailable
from limpet.model import StateHeader

_TRIES = 100
_LOCK = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC

_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EIO})
"""What keeps one state from being read, and must not keep others from it."""


class Seen(msgspec.Struct, frozen=True):
    """A state as it was a moment ago."""

    standing: Standing
    until: float

    def header_at(self, now: float) -> StateHeader:
        return state_header(self.standing, self.until > now)


@contextmanager
def state_folder(store: Store, state_id: str) -> Generator[int | None]:
    """A handle of the folder of a state; None if there is none, or the text is no id."""
    handle = None
    if is_state_id(state_id):
        with store.tree.opened() as root:
            states = None if root is None else open_folder(root, layout.STATES)
            if states is not None:
                try:
                    handle = open_folder(states, state_id)
                finally:
                    os.close(states)
    try:
        yield handle
    finally:
        if handle is not None:
            os.close(handle)


def see(store: Store, state_id: str) -> Seen | None:
    """Look at one state without any lock; None if there is none. One that cannot be read is seen as damaged."""
    for _ in range(_TRIES):
        try:
            with state_folder(store, state_id) as folder:
                return None if folder is None else _seen(folder, state_id)
        except FileNotFoundError:
            # Moved, or packed, meanwhile.
            continue
        except OSError as error:
            if error.errno not in _CLOSED:
                raise
            return _unreadable(store, state_id, error)
    raise BackendUnavailable(store.name, f"the files of state {state_id!r} change all the time")


@contextmanager
def seen_for_sure(store: Store, state_id: str) -> Generator[Seen | None]:
    """Look at one state while nobody can write it; None if that cannot be had just now, or there is none."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(state_folder(store, state_id))
            lock = None if folder is None else opened(folder, layout.LOCK_FILE, _LOCK)
            if folder is None or lock is None:
                seen = None
            else:
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                seen = _seen(folder, state_id)
        except OSError:
            # Somebody has it locked, it was moved, or it cannot be read.
            seen = None
        yield seen


def _unreadable(store: Store, state_id: str, error: OSError) -> Seen:
    with store.tree.opened() as root:
        made_at_s = os.stat(f"{layout.STATES}/{state_id}", dir_fd=root, follow_symlinks=False).st_mtime
    damage = f"its files cannot be read ({error.strerror})"
    return Seen(Standing(header=unknown_header(state_id, made_at_s), position=0, sum=0, damage=damage), 0.0)


def _seen(folder: int, state_id: str) -> Seen | None:
    try:
        found = look(folder, state_id)
    except OtherState:
        return None
    return None if found is None else Seen(found.standing, lease_until(folder, found.standing.header))
