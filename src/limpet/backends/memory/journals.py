"""The journal of a state in memory: the records it has written, behind those that it shares with other states.

What is shared is a reference to the very list that another state appends to, up to a number; no record is copied. The
list of a deleted state is cut to what others share of it, and so to nothing with the last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec


class Written:
    """What one state has written, numbered from behind ``before`` on, and up to which numbers others begin with it."""

    __slots__ = ("before", "bodies", "is_abandoned", "key", "shared")

    def __init__(self, key: int, before: int, bodies: Iterable[bytes]) -> None:
        self.key = key
        self.before = before
        self.bodies = [bytes(body) for body in bodies]
        self.shared: list[int] = []
        self.is_abandoned = False

    def cut(self) -> None:
        """Forget what nobody can read any more."""
        if self.is_abandoned:
            del self.bodies[max(self.shared, default=self.before) - self.before :]


class Span(msgspec.Struct, frozen=True):
    """What another state has written, up to a number."""

    written: Written
    last: int

    @property
    def size(self) -> int:
        """How many bytes have to stay of it."""
        return sum(map(len, self.written.bodies[: self.last - self.written.before]))


class Journal:
    """The records of one state from 1 on."""

    __slots__ = ("own", "shared")

    def __init__(self, key: int, shared: tuple[Span, ...], bodies: Iterable[bytes]) -> None:
        self.shared = shared
        self.own = Written(key, shared[-1].last if shared else 0, bodies)
        for span in shared:
            span.written.shared.append(span.last)

    @property
    def position(self) -> int:
        return self.own.before + len(self.own.bodies)

    def sources(self) -> Iterator[Written]:
        """Who has written the records, in the order of ``bases_of_fork``."""
        yield from (span.written for span in self.shared)
        yield self.own

    def extend(self, bodies: Iterable[bytes]) -> None:
        self.own.bodies.extend(map(bytes, bodies))

    def owns(self, first: int, count: int) -> bool:
        """Whether the state itself has written so many records from that number on."""
        return self.own.before < first and first + count - 1 <= self.position

    def is_shared_by_others(self, first: int, known: Iterable[Journal]) -> bool:
        """Whether another journal than these shares some of the own records from a number on."""
        sharing = list(self.own.shared)
        for journal in known:
            for span in journal.shared:
                if span.written is self.own:
                    sharing.remove(span.last)
        return any(last >= first for last in sharing)

    def rewrite(self, first: int, bodies: Iterable[bytes]) -> None:
        """Put other bytes in the place of its own records."""
        own = self.own
        for place, body in enumerate(bodies, first - own.before - 1):
            own.bodies[place] = bytes(body)

    def between(self, after: int, last: int) -> Iterator[tuple[int, bytes]]:
        """The records behind one number and up to another, with their numbers."""
        for span in (*self.shared, Span(self.own, self.position)):
            before = span.written.before
            start, stop = max(after, before), min(last, span.last)
            if start < stop:
                yield from enumerate(span.written.bodies[start - before : stop - before], start + 1)

    def delete(self) -> None:
        """Give up what is shared, and leave what is written to those who share it."""
        for span in self.shared:
            span.written.shared.remove(span.last)
            span.written.cut()
        self.own.is_abandoned = True
        self.own.cut()
