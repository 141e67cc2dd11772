"""The inboxes of states: letters that anybody may add, and that the holder of the state discards.

``schema.sql`` says what always holds of letters. Takes no lock and begins no transaction; whoever writes has done both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from limpet.backends.sqlite.driver import Bindings, Cursor
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import LeaseLost
from limpet.model import Lease, Letter, is_letter_name

_Fetch = Callable[[str, Bindings], list[tuple[Any, ...]]]


def deliver(cursor: Cursor, state_id: str, name: str, body: bytes, now: float) -> Letter | None:
    """Put a letter into the inbox of a state, or find the one of that name; None if there is no such state."""
    keys = cursor.execute(QUERIES["find_key"], (state_id,)).fetchall()
    if not keys:
        return None
    ((key,),) = keys
    for number, at, standing in cursor.execute(QUERIES["find_letter"], (key, name)).fetchall():
        return Letter(number, state_id, name, standing, at)
    body = bytes(body)
    ((number,),) = cursor.execute(QUERIES["insert_letter"], (key, now, name, body)).fetchall()
    return Letter(number, state_id, name, body, now)


def letters_of(fetch: _Fetch, state_id: str, after: int) -> list[Letter]:
    rows = fetch("list_letters", (state_id, after))
    return [Letter(number, state_id, name, body, at) for number, name, body, at in rows]


def arrivals(fetch: _Fetch, after: int, limit: int) -> list[tuple[int, str]]:
    return cast("list[tuple[int, str]]", fetch("list_arrivals", (after, max(limit, 0))))


def discard_letters(cursor: Cursor, lease: Lease, names: Sequence[str]) -> None:
    """Forget letters of a state. Raises LeaseLost if the lease is not its newest."""
    if cursor.execute(QUERIES["find_fence"], (lease.key,)).get != lease.fence:
        raise LeaseLost(lease.state_id, lease.fence)
    cursor.executemany(QUERIES["delete_letter"], [(lease.key, name) for name in names if is_letter_name(name)])
