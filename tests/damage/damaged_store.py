"""A store that is damaged again and again, each time from the same sound bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

from damage.checking import Sound, checked, require_others_untouched
from damage.small_program import fill

from limpet import StateBackend

BITS = (0, 3, 7)
STATES = ("done", "stopped")
_OTHERS_LOOKED_AT = 20
"""So seldom it is looked whether another state was touched."""


class DamagedStore(ABC):
    """The store at ``path``, which begins as that at ``sound``."""

    def __init__(self, sound: Path, path: Path, open_backend: Callable[[Path], StateBackend]) -> None:
        self._open = open_backend
        self._sound = sound
        self._met = 0
        self.path = path
        self._backend: StateBackend | None = None
        with open_backend(sound) as backend:
            fill(backend)
            self.sound = {state_id: Sound(backend, state_id) for state_id in STATES}
        self.reset()

    @abstractmethod
    def restore(self) -> None:
        """Make the files sound again, which nobody has open."""

    def reset(self) -> None:
        """Make the store sound again."""
        self.close()
        self.restore()

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def met(self, state_id: str, *, resumes: bool = False, recovers: bool = True) -> str:
        """How a change is met. What is done to the store for that is undone.

        Who only looks does it in a store that stays open, for the sake of time; who writes opens it anew.
        """
        self._met += 1
        is_written = recovers or resumes
        if is_written:
            self.close()
        backend = self._backend = self._backend or self._open(self.path)
        outcome = checked(backend, self.sound[state_id], resumes=resumes, recovers=recovers)
        if not self._met % _OTHERS_LOOKED_AT:
            (other,) = set(STATES) - {state_id}
            require_others_untouched(backend, self.sound[other])
        if is_written:
            self.reset()
        return outcome


def flipped(data: bytes, place: int, bit: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
