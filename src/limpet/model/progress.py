"""How far a run is, and how that is known."""

from __future__ import annotations

from enum import StrEnum

import msgspec

TOTAL_EVENTS = "total_events"
"""Where the settings of a state have the number of events that its agent is declared with."""


class ProgressSource(StrEnum):
    """How it is known how far a run is."""

    SAID = "said"
    """The program has said so: ``progress(done, total)``."""
    DECLARED = "declared"
    """By the number of events that its agent is declared with (``total_events``)."""
    EARLIER_RUN = "earlier_run"
    """By the number of events of an earlier run of the same pipeline."""
    ENDED = "ended"
    """It has completed."""
    UNKNOWN = "unknown"


class Progress(msgspec.Struct, frozen=True):
    """How far a run is."""

    done: float
    """What is done; in events where nothing else was said."""
    total: float | None
    """Of how much; None where that is not known."""
    source: ProgressSource
    earlier_state_id: str | None = None
    """The earlier run that it is compared with."""

    @property
    def fraction(self) -> float | None:
        """How much of the whole is done, from 0 to 1; None where that is not known."""
        return None if not self.total else min(1.0, self.done / self.total)

    def __str__(self) -> str:
        fraction = self.fraction
        if fraction is None:
            return f"{self.done:g} events done; of how many is unknown"
        how = _HOW[self.source]
        earlier = f" ({self.earlier_state_id})" if self.earlier_state_id else ""
        return f"{fraction:.0%}, {self.done:g} of {self.total:g}{how}{earlier}"


_HOW = {
    ProgressSource.SAID: "",
    ProgressSource.DECLARED: " events that were declared",
    ProgressSource.EARLIER_RUN: " events, as in an earlier run",
    ProgressSource.ENDED: " events",
}
