"""What a state has done that can be undone, and the rollback that undoes it. Reads; prints nothing."""

from __future__ import annotations

import msgspec

from limpet.cli.calls import run_of
from limpet.client import Limpet
from limpet.engine.history_set import HistorySet
from limpet.engine.reading import JournalReader
from limpet.engine.values_of import values_of
from limpet.errors import StateCorrupted
from limpet.journal.address import SEPARATOR, label
from limpet.journal.history import History
from limpet.journal.rollback import rollback_address, to_undo
from limpet.model import EventRecord, ExecutionStatus, StateHeader


class Effect(msgspec.Struct, frozen=True):
    """A result that something undoes."""

    address: str
    undo: str
    """The name of what undoes it."""
    is_undone: bool


def history_of(client: Limpet, header: StateHeader) -> History:
    """The journal of a state on its current timeline, as the rules of effects read it. Raises StateCorrupted."""
    if header.damage is not None:
        raise StateCorrupted(header.state_id, 0, header.damage)
    history, _ = JournalReader(client.backend, values_of(client.backend), header).history()
    return history


def effects_of(header: StateHeader, history: History) -> list[Effect]:
    """What a rollback undoes, in its order. What a fork shares with its parent is not the fork's to undo."""
    shared = max((base.last for base in header.bases), default=0)
    first = history.first_event()
    inside = "" if first is None else rollback_address(first.address).rpartition(SEPARATOR)[0]
    undone = {
        address.rpartition(SEPARATOR)[0]
        for address, record in history.latest.items()
        if record.status is ExecutionStatus.COMPLETED and address.startswith(f"{inside}{SEPARATOR}")
    }
    return [_effect(record, inside, undone) for record in to_undo(history) if record.seq > shared]


def _effect(record: EventRecord, inside: str, undone: set[str]) -> Effect:
    assert record.details is not None, "only what names its undo can be undone"
    name = record.details.undo
    path = f"{inside}{SEPARATOR}{label(name, record.address.rpartition(SEPARATOR)[0])}"
    return Effect(record.address, name, path in undone)


def rollback_of(history: HistorySet) -> EventRecord | None:
    """The newest record of the rollback of a run; None where there is none."""
    run = run_of(history)
    if run is None or rollback_address(run.address) not in history:
        return None
    return history[rollback_address(run.address)]
