"""What running on from an address would do, told before it is done."""

from __future__ import annotations

import msgspec

from limpet.model.readable_time import readable_time
from limpet.model.words import EventType, WaitType


class PlannedCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of one actor, as they are recorded."""

    actor: str
    event_type: EventType | WaitType
    calls: int
    duration_s: float
    """How long they took, all together."""
    once: bool = False
    """Whether the actor is declared ``once``: executing it again may do twice what should be done once."""

    @property
    def costs_money(self) -> bool:
        """Whether these are calls of a model."""
        return self.event_type is EventType.LLM_CALL

    def __str__(self) -> str:
        notes = [note for note, holds in (("costs money", self.costs_money), ("declared once", self.once)) if holds]
        told = [counted(self.calls), readable_time(self.duration_s), *notes]
        return f"{self.actor} ({self.event_type}): {', '.join(told)}"


class RerunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What is reused and what is executed again where a state is run on from an address.

    What runs again is told by what is recorded: with other results the code may go another way from there.
    """

    state_id: str
    address: str
    replaces: bool
    """Whether the result at the address is replaced, so that only what started after it runs again."""
    reused: tuple[PlannedCalls, ...]
    again: tuple[PlannedCalls, ...]
    entered_again: tuple[str, ...]
    """The addresses of the calls that enclose what runs again, from the outside: their code runs, on reused results."""

    @property
    def calls_again(self) -> int:
        return sum(each.calls for each in self.again)

    @property
    def model_calls_again(self) -> int:
        """How many calls that cost money are executed again."""
        return sum(each.calls for each in self.again if each.costs_money)

    @property
    def once_again(self) -> tuple[PlannedCalls, ...]:
        """The calls that are declared ``once`` and would be executed again."""
        return tuple(each for each in self.again if each.once)

    @property
    def duration_again_s(self) -> float:
        """How long the tools and models that run again took when they were recorded."""
        return _own_time(self.again)

    @property
    def duration_reused_s(self) -> float:
        """How long the tools and models took whose results are reused."""
        return _own_time(self.reused)

    def __str__(self) -> str:
        what = "behind" if self.replaces else "from"
        lines = [f"Running {self.state_id} on {what} {self.address}"]
        for title, calls, took in (
            ("reused", self.reused, self.duration_reused_s),
            ("executed again", self.again, self.duration_again_s),
        ):
            count = counted(sum(each.calls for each in calls))
            lines.append(f"{title}: {count}, {readable_time(took)} of tools and models")
            lines += [f"  {each}" for each in calls]
        return "\n".join(lines)


def counted(calls: int) -> str:
    return "1 call" if calls == 1 else f"{calls} calls"


def _own_time(calls: tuple[PlannedCalls, ...]) -> float:
    # The time of an agent contains that of what it calls.
    return sum(each.duration_s for each in calls if each.event_type is not EventType.AGENT_CALL)
