"""How a state stands, in one word: its status, except that a run whose process is gone is not running."""

from __future__ import annotations

from limpet.cli.output import styled
from limpet.engine.lease import is_dead
from limpet.model import StateHeader, StateStatus

STOPPED = "stopped"
DAMAGED = "damaged"
ROLLED_BACK = "rolled back"

_COLOURS = {
    StateStatus.RUNNING: "blue",
    StateStatus.PAUSED: "yellow",
    StateStatus.AWAITING: "yellow",
    StateStatus.COMPLETED: "green",
    StateStatus.FAILED: "red",
    StateStatus.INTERRUPTED: "yellow",
}


def is_held(header: StateHeader) -> bool:
    """Whether a process that lives, as far as can be known from here, has the state."""
    return header.holder is not None and not is_dead(header.holder)


def is_stopped(header: StateHeader) -> bool:
    """Whether the state says that it is running, and nobody runs it."""
    return header.status is StateStatus.RUNNING and not is_held(header)


def standing_of(header: StateHeader) -> str:
    """The word for people, in its colour."""
    if header.damage is not None:
        return styled(DAMAGED, fg="red")
    if is_stopped(header):
        return styled(STOPPED, fg="yellow")
    return styled(str(header.status), fg=_COLOURS[header.status])
