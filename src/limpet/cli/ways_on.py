"""How a state stands, and how a person goes on with it."""

from __future__ import annotations

from limpet.cli.options import command_on, command_to_resume
from limpet.cli.output import styled
from limpet.cli.standing import ROLLED_BACK, is_held, is_stopped, standing_of
from limpet.model import EventRecord, ExecutionStatus, InterruptReason, StateHeader, StateStatus
from limpet.model.notebooks import is_of_notebook

_RESUMED = (StateStatus.FAILED, StateStatus.INTERRUPTED, StateStatus.PAUSED, StateStatus.AWAITING)


def standing_and_way_on(header: StateHeader, store: str | None, rollback: EventRecord | None) -> str:
    """The word for how a state stands, and behind it who holds it, or what to type.

    ``rollback`` is the newest record of its rollback, if that was begun.
    """
    is_rolled_back = rollback is not None and rollback.status is ExecutionStatus.COMPLETED
    word = styled(ROLLED_BACK, fg="yellow") if is_rolled_back and not is_held(header) else standing_of(header)
    return word + _way_on(header, store, rollback)


def _way_on(header: StateHeader, store: str | None, rollback: EventRecord | None) -> str:
    state_id = header.state_id
    is_elsewhere = is_of_notebook(header.agent)
    command = f"await client.resume({state_id!r})" if is_elsewhere else command_to_resume(state_id, store)
    go_on = f"go on with `{command}`{' in its notebook' if is_elsewhere else ''}"
    if is_held(header):
        return f" by {header.holder}"
    if rollback is not None and rollback.status is ExecutionStatus.COMPLETED:
        return f"; run it anew with `{command_on('rerun', state_id, store)}`"
    if rollback is not None:
        return f" in the middle of its rollback; go on with `{command_on('roll-back', state_id, store)}`"
    if is_stopped(header):
        return f": no process holds it; {go_on}"
    if header.status is StateStatus.AWAITING and _awaits_a_word(header):
        return f"; say what became of a call with `{command_on('settle', state_id, store)}`"
    if header.status is StateStatus.AWAITING and header.metadata.waiting:
        return f"; see what it asks with `{command_on('questions', state_id, store)}`, and {go_on}"
    return f"; {go_on}" if header.status in _RESUMED and header.agent is not None else ""


def _awaits_a_word(header: StateHeader) -> bool:
    """Whether a state was stopped because nobody knows what became of a call."""
    return header.metadata.stopped.get("reason") == InterruptReason.UNKNOWN_OUTCOME
