"""What the program knows of who holds leases: whether one certainly writes no more, and whom to tell of a deletion.

Backends know nothing of processes and runs. Whoever does says it here, once for the process.
"""

from __future__ import annotations

from collections.abc import Callable

from limpet.model import Holder

_known: list[tuple[Callable[[Holder], bool], Callable[[str, Holder], object]]] = []


def know_holders(is_dead: Callable[[Holder], bool], tell_deleted: Callable[[str, Holder], object]) -> None:
    """Let backends ask whether a holder writes no more, and tell whose state was deleted."""
    _known.append((is_dead, tell_deleted))


def writes_no_more(holder: Holder) -> bool:
    """Whether that holder is dead, or an object of this process in which nothing goes on. False where it is unknown."""
    return any(is_dead(holder) for is_dead, _ in _known)


def tell_deleted(state_id: str, holder: Holder | None) -> None:
    """The state that was held by that holder is deleted. Where that is an object of this process, it learns so."""
    if holder is None:
        return
    for _, tell in _known:
        tell(state_id, holder)
