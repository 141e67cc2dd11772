"""What the room of a store becomes when states are deleted, one after another. Pure.

Of a state that is deleted, what others share stays: as much as the one needs that shares the most of it. It goes with
the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from limpet.model import Room, SharedRoom


class RoomLeft:
    """The room that the states of a store take, and how it shrinks."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self._bytes: dict[str, int] = {}
        """By their keys, the states that stand."""
        self._sharers: dict[str, list[SharedRoom]] = {}
        """By the key of the state that wrote them: what others keep of its records."""
        for room in rooms:
            self._bytes[room.key] = room.bytes
            for shared in room.shared:
                self._sharers.setdefault(shared.key, []).append(shared)
        gone = (self._kept(key) for key in self._sharers if key not in self._bytes)
        self.total = sum(self._bytes.values()) + sum(gone)

    def delete(self, room: Room) -> int:
        """Delete a state, and give how many bytes that frees."""
        freed = self._bytes.pop(room.key) - self._kept(room.key)
        for shared in room.shared:
            before = self._kept(shared.key)
            self._sharers[shared.key].remove(shared)
            if shared.key not in self._bytes:
                freed += before - self._kept(shared.key)
        self.total -= freed
        return freed

    def _kept(self, key: str) -> int:
        """How much of a deleted state others keep."""
        sharers = self._sharers.get(key)
        return max(sharers, key=_last).bytes if sharers else 0


def _last(shared: SharedRoom) -> int:
    return shared.last
