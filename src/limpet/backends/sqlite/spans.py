"""Where the records of a journal are: of a fork, partly under the keys of the states that wrote them.

``schema.sql`` says what always holds of spans. Takes no lock and begins no transaction; whoever writes has done both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from limpet.backends.contract import bases_of_fork
from limpet.backends.sqlite.driver import Bindings, Cursor
from limpet.backends.sqlite.queries import QUERIES
from limpet.backends.sqlite.rows import Standing
from limpet.model import Base

_WITHOUT_END = 2**63 - 1
"""The end of a fork's own span: the greatest number that SQLite has."""


class Shared(msgspec.Struct, frozen=True):
    """What a new state begins with: as its header says, and the keys under which it is."""

    bases: tuple[Base, ...] = ()
    sources: tuple[int, ...] = ()

    @property
    def last(self) -> int:
        return self.bases[-1].last if self.bases else 0


def shared_up_to(cursor: Cursor, parent: Standing, last: int) -> Shared:
    """What a fork of a state shares up to a number, which has to be there."""
    bases = bases_of_fork(parent.header, last)
    return Shared(bases, _sources(cursor, parent.key)[: len(bases)])


def insert_spans(cursor: Cursor, key: int, shared: Shared) -> None:
    """Note where the records of a new state are, unless they are all its own."""
    if not shared.bases:
        return
    first = 1
    rows: list[tuple[int, int, int, int]] = []
    for base, source in zip(shared.bases, shared.sources, strict=True):
        rows.append((key, first, base.last, source))
        first = base.last + 1
    rows.append((key, first, _WITHOUT_END, key))
    cursor.executemany(QUERIES["insert_span"], rows)


def read_journal(
    fetch: Callable[[str, Bindings], list[tuple[Any, ...]]], state_id: str, after: int, limit: int
) -> list[tuple[int, bytes]]:
    """The records behind a position. A limit of -1 is none.

    Each of the two statements is an answer of one moment, and each is silent on what the other one answers: whatever is
    deleted or created between them, no journal comes back in part. A state that is no fork is read by the first alone.
    """
    wanted = {"state_id": state_id, "after": after, "limit": limit}
    rows = fetch("read_unforked", wanted) or fetch("read_fork", wanted)
    return cast("list[tuple[int, bytes]]", rows)


def delete_journal(cursor: Cursor, key: int) -> None:
    """Delete the records of a state whose header is gone, and those of other deleted states that only it shared."""
    sources = _sources(cursor, key)
    cursor.execute(QUERIES["delete_spans"], (key,))
    cursor.executemany(QUERIES["delete_unshared"], [{"key": source} for source in sources])


def _sources(cursor: Cursor, key: int) -> tuple[int, ...]:
    """The keys under which the records of a state are, in the order of their numbers; its own is the last."""
    found = cursor.execute(QUERIES["find_sources"], (key,)).fetchall()
    return tuple(source for (source,) in found) or (key,)
