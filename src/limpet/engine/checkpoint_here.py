"""``save_checkpoint``: a program says that what it has done is to be saved here."""

from __future__ import annotations

from limpet.engine.scope import current_scope
from limpet.engine.state import ExecutionState
from limpet.engine.stopping import Stopped
from limpet.model import StateMetadata


def save_checkpoint(metadata: StateMetadata | None = None) -> int | None:
    """Save all that the run has recorded, mark this point of its journal, and give its position.

    It is durable when this returns. Nothing happens, and None is given, outside a run, and where nothing was recorded
    since the run was taken up: what is replayed is saved already.
    """
    scope = current_scope.get()
    if scope is None or scope.live.reads_only or scope.live.history.position == scope.live.loaded:
        return None
    if scope.live.has_cut_off and scope.is_given_up:
        raise Stopped  # A handler that was given up, although it goes on, writes nothing any more.
    facade = scope.live.facade
    assert isinstance(facade, ExecutionState)
    return facade.save_checkpoint(metadata=metadata)
