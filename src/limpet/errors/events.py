"""User code failed, or was stopped."""

from __future__ import annotations

from limpet.errors.root import LimpetError


class EventFailed(LimpetError):
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


class EventTimedOut(EventFailed, TimeoutError):
    """An attempt took longer than it was given, and was cancelled."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(address, why)

    def __str__(self) -> str:
        return (
            f"The event at {self.address!r} was stopped: {self.why}. Give it more time with `timeout_s` or "
            "`total_timeout_s`, or run again; it goes on from there."
        )


class ExecutionInterrupted(LimpetError):
    """A run was stopped, and can be taken up where it stands. Raised to whoever awaits the run, never inside it."""

    def __init__(self, state_id: str, reason: str, message: str = "", triggered_by: str = "") -> None:
        super().__init__(state_id, reason, message, triggered_by)
        self.state_id = state_id
        self.reason = reason
        self.message = message
        self.triggered_by = triggered_by

    def __str__(self) -> str:
        by = f" by {self.triggered_by}" if self.triggered_by else ""
        why = f" {self.message}" if self.message else ""
        return (
            f"State {self.state_id!r} was interrupted{by} ({self.reason}).{why} Run it again, or `limpet resume "
            f"{self.state_id}`: it goes on where it stands."
        )


class BudgetExceeded(ExecutionInterrupted):
    """A run was stopped because it has used up its budget."""

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} was interrupted by its budget. {self.message} Run it again with a larger budget: "
            "it goes on where it stands."
        )
