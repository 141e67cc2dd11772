"""What a run is asked to stop by, and how that is noted in the metadata of its state."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, cast

import msgspec


class InterruptReason(StrEnum):
    """Why a run was stopped. Whoever asks for it may use a word of their own as well."""

    REQUESTED = "requested"
    """Somebody asked for it: code in the process, or ``Limpet.interrupt`` in another one."""
    CHECKER = "checker"
    """The checker that was set said so."""
    TIMEOUT = "timeout"
    """The time that the run was given is over."""
    BUDGET = "budget"
    """The run has used up one of its limits."""
    SIGNAL = "signal"
    """The process was told to end."""
    CANCELLED = "cancelled"
    """The task that awaited the run was cancelled, or its program ended. Its state is handed back, except by Ctrl-C."""
    UNKNOWN_OUTCOME = "unknown_outcome"
    """What is declared ``once`` was cut off, and a person has to say what became of it."""
    WAITING = "waiting"
    """Nothing is left to do but to wait: for an answer, a time or a message."""
    DRIFT = "drift"
    """The code no longer fits what is recorded, and that was declared an error."""
    REFUSED = "refused"
    """The run may not be recorded any more, or its store has failed. So no state has it noted."""


ROLLED_BACK = "rolled_back"
"""What is noted as the reason of a state whose effects were undone: it does not go on from there."""


SHUT_DOWN = "shut_down"
"""The reason of a state that a supervisor was running when it ended: the next one goes on with it."""


class InterruptSignal(msgspec.Struct, frozen=True):
    """A wish to stop a run, as a checker may give it."""

    reason: str = InterruptReason.REQUESTED
    message: str = ""
    """For people."""
    triggered_by: str = ""
    """Who asked for it."""
    save_checkpoint: bool = True
    """Whether the point at which it stops is marked in the journal. The status says it in any case."""
    is_graceful: bool = False
    """True: what is being executed is finished first; False: it is cancelled, and executed again later."""

    def __str__(self) -> str:
        by = f" by {self.triggered_by}" if self.triggered_by else ""
        return f"{self.reason}{by}{f': {self.message}' if self.message else ''}"


def signal_of(said: object) -> InterruptSignal | None:
    """What a checker means by what it gives: a signal, True for a plain wish, anything else for none."""
    if isinstance(said, InterruptSignal):
        return said
    return InterruptSignal(InterruptReason.CHECKER, "The interrupt checker said so.") if said is True else None


def to_plain(signal: InterruptSignal, at: float) -> dict[str, Any]:
    """A signal as JSON has it, with the time at which it stopped a run."""
    found = {"reason": str(signal.reason), "message": signal.message, "triggered_by": signal.triggered_by, "at": at}
    return {name: value for name, value in found.items() if value}


def from_plain(data: object) -> InterruptSignal:
    """The signal that ``to_plain`` was given, as far as it can be read: it is shown, and nothing depends on it."""
    found = cast("dict[str, object]", data) if isinstance(data, dict) else {}
    reason, message, triggered_by = (str(found.get(name, "")) for name in ("reason", "message", "triggered_by"))
    return InterruptSignal(reason, message, triggered_by)
