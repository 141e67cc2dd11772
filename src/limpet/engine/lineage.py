"""The family of a state: what it was forked from, and what was forked from it."""

from __future__ import annotations

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.contract import StateBackend
from limpet.engine.reading import JournalReader
from limpet.journal.timeline import TimelineIndex
from limpet.model import Lineage, StateHeader, Timeline, TimelineRecord

_ALL = 1 << 62


def lineage_of(backend: StateBackend, stored: StoredValues, header: StateHeader) -> Lineage:
    """The tree that a state stands in, from its farthest known ancestor down."""
    seen = {header.state_id}
    top: StateHeader | None = header
    top_id = header.state_id
    # A parent may be named by hand, so nothing keeps two states from naming each other.
    while top is not None and (parent := top.metadata.parent_state_id) is not None and parent not in seen:
        seen.add(parent)
        top_id, top = parent, backend.find_state(parent)
    return _branch(backend, stored, top_id, top, set())


def _branch(
    backend: StateBackend, stored: StoredValues, state_id: str, header: StateHeader | None, seen: set[str]
) -> Lineage:
    seen.add(state_id)
    found = backend.list_states(parent_state_id=state_id, limit=_ALL)
    children = [child for child in reversed(found) if child.state_id not in seen]
    return Lineage(
        state_id=state_id,
        status=None if header is None else header.status,
        parent_state_id=None if header is None else header.metadata.parent_state_id,
        timelines=() if header is None else tuple(_timelines(backend, stored, header)),
        children=tuple(_branch(backend, stored, child.state_id, child, seen) for child in children),
    )


def _timelines(backend: StateBackend, stored: StoredValues, header: StateHeader) -> list[Timeline]:
    index = TimelineIndex()
    index.position = header.position
    # Most states have been on one timeline all their life, and need not be read for that.
    if header.timeline:
        for record in JournalReader(backend, stored, header).stream():
            if type(record) is TimelineRecord:
                index.add(record)
    return index.listed()
