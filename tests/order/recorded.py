"""What a store knows of a run: the attempts whose outcome it has, by the names that the log gives them."""

from __future__ import annotations

from order.outside import called

from limpet import EventRecord, ExecutionStatus, Limpet
from limpet.codec import values

_ENDED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED, ExecutionStatus.RETRYING)
"""An attempt that is followed by another one has ended, and so has a call that the program itself cut off."""


def recorded_names(client: Limpet, state_id: str) -> frozenset[str]:
    """The attempts that must not be made again."""
    if client.backend.find_state(state_id) is None:
        return frozenset()
    names = set[str]()
    for record in client.history(state_id):
        if not isinstance(record, EventRecord) or record.status not in _ENDED or record.input is None:
            continue
        if record.address.endswith(("tool_call", "llm_call")):
            names.add(called(record.address, values.decode(record.input)[0], record.attempt))
    return frozenset(names)
