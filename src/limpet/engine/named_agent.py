"""The agent of a run, as its first record names it: that is sealed with the record, or bound to the chain.

The header names it as well, for listings. It can be changed without the journal, so it has to say the same.
"""

from __future__ import annotations

from typing import TypeGuard

import msgspec

from limpet.errors import AgentNotFound, StateCorrupted
from limpet.journal.address import parse
from limpet.model import DamagedRecord, DroppedRecord, EventRecord, ExecutionStatus, Record, StateHeader
from limpet.model.notebooks import is_of_notebook


class NamedAgent(msgspec.Struct, frozen=True):
    """The agent of a run."""

    name: str
    reference: str | None
    """Where it was declared, 'module:name' or 'file.py:name'; None where it cannot be imported."""


def named_agent(header: StateHeader, first: Record | DamagedRecord | None) -> NamedAgent | None:
    """The agent of a state, by its first record; None for a state of the explicit form, which has none.

    Raises StateCorrupted where the header names another one.
    """
    why = disagreement(header, first)
    if why is not None:
        raise StateCorrupted(header.state_id, 0, why)
    if not is_run(first):
        return None
    return NamedAgent(parse(first.address).name, reference_of(header, first))


def is_run(first: Record | DamagedRecord | None) -> TypeGuard[EventRecord]:
    """Whether a journal that begins with this record is that of a run."""
    # A run is claimed with the start of its agent; in the explicit form a start comes only before something inside.
    return isinstance(first, EventRecord) and first.status is ExecutionStatus.STARTED and first.input is not None


def reference_of(header: StateHeader, first: Record | DamagedRecord | None) -> str | None:
    """Where the agent of a state was declared. Only in what was begun before it was recorded, or where that is
    lost, the header counts."""
    if first is None or isinstance(first, DroppedRecord | DamagedRecord):
        return header.agent
    if not is_run(first):
        return None
    noted = None if first.details is None else first.details.agent
    return header.agent if noted is None else noted or None


def disagreement(header: StateHeader, first: Record | DamagedRecord | None) -> str | None:
    """What the first record of a state says against its header; None where they agree."""
    recorded = reference_of(header, first)
    if recorded == header.agent:
        return None
    return f"its header names the agent {header.agent!r}, and its first record {recorded!r}"


def parts_of(reference: str) -> tuple[str, str]:
    """The module or the file of a reference, and the name in it. Raises AgentNotFound."""
    if is_of_notebook(reference):
        raise AgentNotFound(reference, "it was declared in a notebook, and can be imported from nowhere; run its cells")
    place, _, qualified = reference.rpartition(":")
    if not (place.endswith(".py") or _is_name(place)) or not _is_name(qualified):
        raise AgentNotFound(reference, "it is not of the form module:agent")
    return place, qualified


def _is_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def shown(place: str) -> str:
    """A module or a file as an error tells it, on one line."""
    return place if place.isprintable() else repr(place)
