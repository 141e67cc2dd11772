"""One place at which two values differ, as it is told to people. The texts are short, and none shows a secret."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from limpet.escapes import one_line


class DifferenceKind(StrEnum):
    """What happened at a place between the one value and the other."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"


class Difference(msgspec.Struct, frozen=True):
    """A place inside two values, and the text of what stands there in each.

    ``str()`` of it is a line for people: ``result.pages[2].title: 'kelp' -> 'wrack'``, ``result['b']: added 2``.
    """

    place: str
    """How a person gets there: ``result.pages[2].title``, ``result['a'][3]``, ``result (line 3)``."""
    before: str = ""
    """What stood there; empty where nothing did."""
    after: str = ""
    """What stands there now; empty where nothing does."""
    kind: DifferenceKind = DifferenceKind.CHANGED

    def __str__(self) -> str:
        match self.kind:
            case DifferenceKind.CHANGED:
                return one_line(f"{self.place}: {self.before} -> {self.after}")
            case DifferenceKind.ADDED:
                return one_line(f"{self.place}: added {self.after}")
            case DifferenceKind.REMOVED:
                return one_line(f"{self.place}: removed {self.before}")
