"""What a store knows of a run: the attempts whose outcome it has, by the names that the log gives them."""

from __future__ import annotations

from limpet import EventRecord, ExecutionStatus, Limpet
from limpet.codec import values

_ENDED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED, ExecutionStatus.CANCELLED, ExecutionStatus.RETRYING)
"""An attempt that is followed by another one has ended, and so has a call that the program itself cut off."""


def recorded_names(client: Limpet, state_id: str) -> frozenset[str]:
    """The attempts (``NAME#1``) and effects (``NAME``) that must not happen again. A call is named by its first
    argument."""
    if client.backend.find_state(state_id) is None:
        return frozenset()
    names = set[str]()
    for record in client.history(state_id):
        if isinstance(record, EventRecord) and record.status in _ENDED and record.input is not None:
            arguments = values.decode(record.input)
            if arguments and record.address.endswith(("tool_call", "llm_call")):
                names |= {arguments[0], f"{arguments[0]}#{record.attempt}"}
    return frozenset(names)
