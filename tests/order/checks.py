"""PURE: what is wrong with a run, seen from what its processes have logged, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

import msgspec
from order.outside import Entry, Kind

TOP = "program"
"""The agent that is run: its decisions are the result of the run."""


class Ending(StrEnum):
    STOPPED = "stopped"
    """It was killed, or stopped at a write."""
    FINISHED = "finished"
    REHEARSED = "rehearsed"
    """It ran the agents' code on recorded outcomes only."""
    FAILED = "failed"


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """What one process has done with the run."""

    entries: Sequence[Entry]
    recorded: frozenset[str]
    """The attempts whose outcome the store had when the process began."""
    ending: Ending
    result: Sequence[str] | None = None
    error: str = ""
    """Why it failed; of a rehearsal, where it diverged."""
    warnings: Sequence[str] = ()
    """The warnings of drift that it gave."""

    def decisions(self, who: str = TOP) -> list[str]:
        """All decisions of an agent; of a run that was complete already, those that its recorded result has."""
        taken = [entry.what for entry in self.entries if entry.who == who and entry.kind in _DECISIONS]
        return list(self.result) if not taken and who == TOP and self.result is not None else taken

    def executions(self) -> list[str]:
        return [entry.who for entry in self.entries if entry.kind in _EXECUTIONS]

    def firm_decisions(self, who: str) -> list[str]:
        """The decisions that every later process has to take as well: all up to the last one that an outcome caused."""
        own = [entry for entry in self.entries if entry.who == who and entry.kind in _DECISIONS]
        while own and own[-1].kind is Kind.PERHAPS:
            own.pop()
        return [entry.what for entry in own]


_DECISIONS = (Kind.DECIDED, Kind.PERHAPS)
_EXECUTIONS = (Kind.EXECUTED, Kind.EFFECT)


def faults(processes: Sequence[Process], *, may_drop_effects: bool = False) -> list[str]:
    """All that is wrong with a run; nothing if it went on as it had begun.

    A program that cancels what has an effect may know nothing of it.
    """
    executions = (executed_again, executed_too_often, repeated_effects)
    checks = [failed, *executions, changed_ways, results, drift, *([] if may_drop_effects else [dropped_effects])]
    return [fault for check in checks for fault in check(processes)]


def failed(processes: Sequence[Process]) -> Iterator[str]:
    for number, process in enumerate(processes):
        if process.error:
            yield f"process {number} {process.ending}: {process.error}"


def executed_again(processes: Sequence[Process]) -> Iterator[str]:
    """A call whose outcome was recorded is never executed again."""
    for number, process in enumerate(processes):
        for name in process.executions():
            if name in process.recorded:
                yield f"{name} was recorded, and process {number} executed it again"


def executed_too_often(processes: Sequence[Process]) -> Iterator[str]:
    """What is not recorded may be executed again, once in each process; a rehearsal executes nothing."""
    for number, process in enumerate(processes):
        for name, times in Counter(process.executions()).items():
            if process.ending is Ending.REHEARSED:
                yield f"{name} was executed by the rehearsal"
            elif times > 1:
                yield f"{name} was executed {times} times by process {number}"


def repeated_effects(processes: Sequence[Process]) -> Iterator[str]:
    for name, times in _effects(processes).items():
        if times > 1:
            yield f"{name} is declared once, and happened {times} times"


def dropped_effects(processes: Sequence[Process]) -> Iterator[str]:
    """What was paid for is part of the result."""
    for number, process in enumerate(processes):
        if process.result is not None:
            told = "\n".join(process.result)
            for entry in _entries(processes[: number + 1]):
                if entry.kind is Kind.EFFECT and entry.what not in told:
                    yield f"{entry.who} happened, and the result knows nothing of it"


def changed_ways(processes: Sequence[Process]) -> Iterator[str]:
    """What was decided because of recorded outcomes is decided again, in the same order.

    Nested agents may be stopped or cancelled earlier than before; the one that is run comes to its end.
    """
    for who in dict.fromkeys(entry.who for entry in _entries(processes) if entry.kind in _DECISIONS):
        firm: list[str] = []
        for number, process in enumerate(processes):
            taken = process.decisions(who)
            for place, (before, now) in enumerate(zip(firm, taken, strict=False)):
                if before != now:
                    yield f"{who} had decided {before!r} at {place}, and decided {now!r} in process {number}"
                    break
            else:
                if who == TOP and process.result is not None and len(taken) < len(firm):
                    yield f"{who} had decided {firm[len(taken) :]} after that, and process {number} ended without it"
                firm = max(firm, process.firm_decisions(who), key=len)


def results(processes: Sequence[Process]) -> Iterator[str]:
    """A result has all decisions, those of earlier processes too; and a rehearsal comes to the same."""
    finished = [process for process in processes if process.result is not None]
    for process in finished:
        if list(process.result or ()) != process.decisions():
            yield f"the result is {process.result}, and the decisions were {process.decisions()}"
    for process in processes:
        if process.ending is Ending.REHEARSED and finished and process.decisions() != list(finished[-1].result or ()):
            yield f"a rehearsal decided {process.decisions()}, and the result is {finished[-1].result}"


def drift(processes: Sequence[Process]) -> Iterator[str]:
    for number, process in enumerate(processes):
        for warning in process.warnings:
            yield f"process {number} warned: {warning}"


def _entries(processes: Iterable[Process]) -> Iterator[Entry]:
    for process in processes:
        yield from process.entries


def _effects(processes: Iterable[Process]) -> Counter[str]:
    return Counter(entry.who for entry in _entries(processes) if entry.kind is Kind.EFFECT)
