"""The changes of the storage on one timeline, by key: what a value was at any position of the journal."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from limpet.model import StorageRecord

Entry = tuple[bool, str]
"""Whether it is one of ``set_artifact``, and its key."""

_seq = attrgetter("seq")


class StorageChanges:
    """Every change of each entry, in order. Adding is the only change there is."""

    __slots__ = ("_newest", "_of", "newest")

    def __init__(self) -> None:
        self._of: dict[Entry, list[StorageRecord]] = {}
        self._newest = [0, 0]
        self.newest = 0
        """The number of the newest change of any entry; 0 if there is none."""

    def add(self, record: StorageRecord) -> None:
        self._of.setdefault((record.is_artifact, record.key), []).append(record)
        self._newest[record.is_artifact] = self.newest = record.seq

    def newest_of(self, is_artifact: bool, key: str) -> int:
        """The number of the newest change of an entry, or (with an empty key) of any of its kind; 0: there is none."""
        if not key:
            return self._newest[is_artifact]
        changes = self._of.get((is_artifact, key))
        return changes[-1].seq if changes else 0

    def value_at(self, is_artifact: bool, key: str, position: int) -> bytes | None:
        """The value of an entry when the record of that number was the newest; None where it was not set."""
        changes = self._of.get((is_artifact, key), ())
        place = bisect_right(changes, position, key=_seq)
        return changes[place - 1].value if place else None

    def keys_at(self, is_artifact: bool, position: int) -> list[str]:
        """The keys that were set when the record of that number was the newest, in the order in which they were set."""
        set_at: dict[str, int] = {}
        for (kind, key), changes in self._of.items():
            place = bisect_right(changes, position, key=_seq) if kind is is_artifact else 0
            if place and changes[place - 1].value is not None:
                while place > 1 and changes[place - 2].value is not None:
                    place -= 1
                set_at[key] = changes[place - 1].seq
        return sorted(set_at, key=set_at.__getitem__)
