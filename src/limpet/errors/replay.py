"""The journal and the code disagree."""

from __future__ import annotations

from limpet.errors.root import LimpetError


class ReplayError(LimpetError):
    """The journal and the code disagree."""


class NotRecorded(ReplayError):
    """A rehearsal executes nothing, and reached a call that has no recorded outcome."""

    def __init__(self, address: str, state_id: str) -> None:
        super().__init__(address, state_id)
        self.address = address
        self.state_id = state_id

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} has no recorded outcome at {self.address!r}, and a rehearsal executes nothing. "
            "Run it in ReplayMode.NORMAL to execute the call, or compare the addresses with `limpet show`."
        )


class Drift(ReplayError):
    """The code no longer fits what is recorded, and that was declared an error. Nothing was given or executed."""

    def __init__(self, address: str, state_id: str, what: str) -> None:
        super().__init__(address, state_id, what)
        self.address = address
        self.state_id = state_id
        self.what = what

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} has drifted at {self.address!r}: {self.what}. Bring the code back, run on from "
            "there on a new timeline with `rerun`, or allow it with `on_drift='warn'`."
        )


class OutcomeUnknown(ReplayError):
    """A call that is declared ``once`` was begun and gave no result. It was not executed again: the state awaits that a
    person says what became of it."""

    def __init__(self, address: str, state_id: str) -> None:
        super().__init__(address, state_id)
        self.address = address
        self.state_id = state_id

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} was stopped inside {self.address!r}, which is declared once: it may or may not "
            "have done its work, and was not executed again. Find out, and say so with "
            f"`settle({self.state_id!r}, …)`, or `limpet settle {self.state_id}`: `happened=` and its result, "
            "`again=True` if it did not happen, or `failed=` and why."
        )


class ValueNotReadable(ReplayError):
    """A recorded value cannot be built again in this program: its bytes or its type are not what they were."""

    def __init__(self, type_name: str, why: str) -> None:
        super().__init__(type_name, why)
        self.type_name = type_name
        self.why = why

    def __str__(self) -> str:
        return (
            f"A recorded value of type {self.type_name} cannot be read: {self.why}. Import the module that declares "
            "the type under that name, or say with `register_type` (aliases, version, upgrade) what became of it."
        )


class SecretNeeded(ReplayError):
    """A secret is never stored, and a replay has reached code that uses it."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"The secret {self.name} is needed, and secrets are not stored. Give it again: run the same line with the "
            "same state id instead of `resume`, or let the code that needs the secret read it where it is kept."
        )


class AttributeNotKept(ReplayError, AttributeError):
    """Something of a recorded exception is used that could not be recorded with it."""

    def __init__(self, name: str, of: str, why: str) -> None:
        super().__init__(name, of, why)
        self.name = name
        self.of = of
        self.why = why

    def __str__(self) -> str:
        return (
            f"{self.name!r} of {self.of} was not recorded with the exception: {self.why}. Take what the program needs "
            "of it into an attribute of plain data, or into the message, before the exception is raised."
        )


class DriftWarning(UserWarning):
    """The code no longer fits what is recorded: an input or a version changed, or a call came, went or moved."""


class LateCallWarning(UserWarning):
    """A call ended after the actor that made it, so its outcome was not recorded."""


class NotResumableWarning(UserWarning):
    """A run was begun that no other process can resume: it is of a method whose object cannot be stored."""
