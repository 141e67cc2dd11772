"""What a run waits for outside of itself: a person who answers, a time that comes, a message."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec


class Ended(StrEnum):
    """How a wait came to its end."""

    ANSWERED = "answered"
    """Somebody has answered."""
    WITHDRAWN = "withdrawn"
    """Somebody has taken the question back."""
    ARRIVED = "arrived"
    """The message has come."""
    DUE = "due"
    """The time has come; of a question or a message: nothing had come by then."""


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a run asks, as whoever answers it sees it."""

    state_id: str
    address: str
    prompt: str
    type_name: str
    """What is expected: ``bool``, ``list[int]``, ``shop:Review``."""
    schema: dict[str, Any] = {}
    """The same as a JSON schema, for forms and programs; empty where there is none."""
    choices: tuple[Any, ...] | None = None
    """The only values that are accepted."""
    has_default: bool = False
    default: Any = None
    """What counts where nobody has answered by the deadline."""
    deadline: datetime | None = None
    context: Any = None
    """What the one who answers should know. An instance of a class that is not imported is a stand-in for it, which
    shows the name and the fields."""
    to: str = ""
    """Whom it is for."""
    asked_at: datetime
    seq: int
    """The record that asks it. An answer is bound to that: what is asked anew has to be answered anew."""
    refused: str = ""
    """Why the last answer was none, if there was one: the run could not take it. The question was asked anew then."""
    problem: str = ""
    """What is wrong with the record of the question, where it cannot be read as it was asked. Where not even its
    address is known, that and the prompt are empty."""

    def __str__(self) -> str:
        return self.prompt or f"A question of state {self.state_id!r} that cannot be read: {self.problem}"


class Waiting(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a state waits for, as its metadata notes it: enough to find the records, and to know when to look."""

    records: tuple[int, ...] = ()
    """The numbers of the records that wait."""
    due_at: float = 0.0
    """The earliest time at which one of them waits no longer; 0 where there is none."""
    timeline: int = 0
    """The record that began the timeline they are of, as the header has it. On another one they mean nothing."""
