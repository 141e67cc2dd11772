"""A run waits for something outside of itself, or what it waited for did not come as it should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from limpet.errors.events import EventFailed
from limpet.errors.root import LimpetError
from limpet.errors.usage import UsageError


class Awaiting(LimpetError):
    """A run has nothing left to do but to wait for something outside of itself. Its state is kept, and its process may
    end. Raised to whoever awaits the run, never inside it."""

    def __init__(self, state_id: str, what: str) -> None:
        super().__init__(state_id, what)
        self.state_id = state_id
        self.what = what

    def __str__(self) -> str:
        return (
            f"State {self.state_id!r} waits for {self.what}. When that has come, run it again, or `limpet resume "
            f"{self.state_id}`: it goes on from there."
        )


class AwaitingAnswer(Awaiting):
    """A run waits for a person. ``questions`` are those that are open."""

    def __init__(self, state_id: str, questions: Sequence[Any]) -> None:
        LimpetError.__init__(self, state_id, questions)
        self.state_id = state_id
        self.what = _named(questions)
        self.questions = tuple(questions)

    def __str__(self) -> str:
        asked = "; ".join(f"{str(question.prompt)!r} at {question.address}" for question in self.questions)
        return (
            f"State {self.state_id!r} waits for {self.what}: {asked}. Answer with `answer({self.state_id!r}, …)` or "
            f"`limpet answer {self.state_id} …`, and run it again: it goes on from there."
        )


def _named(questions: Sequence[Any]) -> str:
    return "an answer" if len(questions) == 1 else f"{len(questions)} answers"


class DeadlinePassed(EventFailed):
    """Nothing came by the deadline of a question or of a message, and there is no default."""

    def __str__(self) -> str:
        return (
            f"The wait at {self.address!r} is over: {self.why}. Give it a `default`, catch this, or run again: it is "
            "asked anew."
        )


class QuestionWithdrawn(EventFailed):
    """Somebody has taken a question back."""

    def __str__(self) -> str:
        return f"The question at {self.address!r} was withdrawn: {self.why}. Catch this, or run again to ask it anew."


class WrongAnswer(UsageError):
    """An answer is not of the type that was asked for, or none of the choices. The question stays open."""

    def __init__(self, address: str, state_id: str, why: str, wanted: str) -> None:
        LimpetError.__init__(self, address, state_id, why, wanted)
        self.address = address
        self.state_id = state_id
        self.why = why
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"What was said to {self.address!r} in state {self.state_id!r} is no answer to that: {self.why}. The "
            f"question is still open; it takes {self.wanted}."
        )


class AlreadyAnswered(UsageError):
    """A question was answered before, and otherwise; or it is not open any more."""

    def __init__(self, address: str, state_id: str, why: str) -> None:
        LimpetError.__init__(self, address, state_id, why)
        self.address = address
        self.state_id = state_id
        self.why = why

    def __str__(self) -> str:
        return (
            f"The question at {self.address!r} in state {self.state_id!r} {self.why}. Run on from there with `rerun`: "
            "it is asked anew."
        )
