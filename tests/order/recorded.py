"""What a store knows of a run: the attempts that have ended for good, by the names that the log gives them."""

from __future__ import annotations

import re

from order.outside import called

from limpet import EventRecord, ExecutionStatus, Limpet
from limpet.codec import values

_ENDED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.RETRYING)
"""An attempt that is followed by another one has ended."""


def recorded_names(client: Limpet, state_id: str) -> frozenset[str]:
    """The attempts that must not be made again."""
    if client.backend.find_state(state_id) is None:
        return frozenset()
    names, cut_off = set[str](), dict[str, set[str]]()
    for record in client.history(state_id):
        if not isinstance(record, EventRecord):
            continue
        around = enclosing(record.address)
        # A call that was cut off may be made again until its program has gone on: until the next record beside it.
        names |= cut_off.pop(around, set())
        if record.address.endswith(("tool_call", "llm_call")) and record.input is not None:
            name = called(record.address, values.decode(record.input)[0], record.attempt)
            if record.status in _ENDED:
                names.add(name)
            elif record.status is ExecutionStatus.CANCELLED:
                cut_off.setdefault(around, set()).add(name)
    return frozenset(names)


def enclosing(address: str) -> str:
    """The actor that a call is made in, whatever task makes it."""
    *inside, _, _ = address.split("::")
    while inside and re.match(r"task\[", inside[-1]):
        inside.pop()
    return "::".join(inside)
