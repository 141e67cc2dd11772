"""User code failed."""

from __future__ import annotations

from holdfast.errors.root import HoldfastError


class EventFailed(HoldfastError):
    """User code failed at an address; the original, where there is one, is ``__cause__``."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)
        self.address = address
        self.why = why

    def __str__(self) -> str:
        return f"The event at {self.address!r} failed: {self.why}. Mend the cause and run again; it goes on from there."


class ConditionFailed(EventFailed):
    """A precondition or postcondition of an actor did not hold."""

    def __str__(self) -> str:
        return (
            f"The event at {self.address!r} was stopped: {self.why}. Mend its input or the condition and run again; it "
            "goes on from there."
        )
