"""How much room states take in the file: the lengths of what stands in its rows. Only reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from limpet.backends.sqlite.driver import Bindings
from limpet.model import Room, SharedRoom


def measured(fetch: Callable[[str, Bindings], list[tuple[Any, ...]]], state_ids: Sequence[str]) -> list[Room | None]:
    """The room of each state, None where there is none of that id."""
    wanted = (msgspec.json.encode(state_ids).decode(),)
    shared: dict[str, list[SharedRoom]] = {}
    for state_id, source, last, size in fetch("measure_shared", wanted):
        shared.setdefault(state_id, []).append(SharedRoom(str(source), last, size or 0))
    rooms = {
        state_id: Room(str(key), size, tuple(shared.get(state_id, ())))
        for state_id, key, size in fetch("measure_states", wanted)
    }
    return [rooms.get(state_id) for state_id in state_ids]
