"""All that programs touch outside of Limpet: the time that things take, and a log of what was executed and decided.

The log outlives a process that is killed, and no store knows of it. ``executed`` and ``effect`` are written by tools
before anything else happens in them; ``decided`` and ``perhaps`` by orchestration code, in the order of its decisions.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import threading
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from limpet import DidNotHappen, Happened, current_event

MOMENT_S = 0.002
"""The unit of time: what a tool takes is two of them at the most, unless the program says otherwise."""


class Kind(StrEnum):
    EXECUTED = "executed"
    """An attempt of a call began to do its work."""
    EFFECT = "effect"
    """Something happened that must happen once only, a payment for instance."""
    DECIDED = "decided"
    """Code went on because a call had given its outcome: recorded, as outcomes are recorded before they are given."""
    PERHAPS = "perhaps"
    """Code went on because a timer had fired, which is recorded together with the next outcome only."""


class Entry(NamedTuple):
    kind: Kind
    who: str
    """The call that was executed, by its tool and first argument, with its attempt; or the agent that decided."""
    what: str = ""
    """What was decided; of an effect, the name by which the result tells of it."""


class Log(Protocol):
    def write(self, entry: Entry) -> None: ...

    def effects(self) -> set[str]:
        """The effects that have happened so far, in all processes."""
        ...


class MemoryLog:
    """The log of programs that are stopped inside this process: takes nothing from one that is to be thought dead."""

    def __init__(self) -> None:
        self.processes: list[list[Entry]] = []
        self.is_open = False

    def begin(self) -> list[Entry]:
        """Begin the log of the next process."""
        self.is_open = True
        self.processes.append([])
        return self.processes[-1]

    def write(self, entry: Entry) -> None:
        if self.is_open:
            self.processes[-1].append(entry)

    def effects(self) -> set[str]:
        return {entry.who for entries in self.processes for entry in entries if entry.kind is Kind.EFFECT}


class FileLog:
    """The log of one real process: a file that is only appended to, in a folder with those of the processes before."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = os.open(folder / f"{number:04}.log", flags, 0o600)

    def write(self, entry: Entry) -> None:
        os.write(self._file, ("\t".join(entry) + "\n").encode())

    def effects(self) -> set[str]:
        return {entry.who for each in self._folder.glob("*.log") for entry in read(each) if entry.kind is Kind.EFFECT}


def read(path: Path) -> list[Entry]:
    """What a process has logged."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [Entry(Kind(kind), who, what) for kind, who, what in (line.split("\t") for line in lines)]


class _World:
    """What the programs of this process are in."""

    def __init__(self) -> None:
        self.log: Log = MemoryLog()
        self.timing = random.Random()


_world = _World()
_never = threading.Event()


def enter(log: Log, seed: int) -> None:
    """Let programs write to this log from here on, and take the times that follow from the seed."""
    _world.log = log
    _world.timing.seed(seed)


def called(address: str, first: str, attempt: int) -> str:
    """A call as the log names it: by what it is about, and not by its address, which a run may give to another one."""
    tool = address.split("::")[-2]
    return f"{re.sub('[#[].*', '', tool)}({first})#{attempt}"


async def work(first: str, moments: float = 2.0) -> None:
    """What a tool does with its first argument: it is executed, and takes its time."""
    event = current_event()
    _world.log.write(Entry(Kind.EXECUTED, called(event.address, first, event.attempt)))
    await take_time(moments)


async def make_effect(first: str, moments: float = 1.0) -> None:
    """What a tool does that is declared ``once``."""
    _world.log.write(Entry(Kind.EFFECT, called(current_event().address, first, 1), first))
    await take_time(moments)


async def probe_effect(first: str, *_: object) -> Happened | DidNotHappen:
    """The probe of tools that are declared ``once``, and give ``receipt for …``."""
    has_happened = called(current_event().address, first, 1) in _world.log.effects()
    return Happened(f"receipt for {first}") if has_happened else DidNotHappen()


async def take_time(moments: float) -> None:
    """Take no time, some turns of the loop, or up to so many moments: by a timer, or by a thread as real clients do."""
    timing = _world.timing
    match timing.randrange(8):
        case 0:
            pass
        case 1 | 2:
            for _ in range(timing.randrange(1, 5)):
                await asyncio.sleep(0)
        case 3:
            await asyncio.to_thread(_never.wait, timing.random() * moments * MOMENT_S)
        case _:
            await asyncio.sleep(timing.random() * moments * MOMENT_S)


class Diary:
    """The decisions of one agent, in the order in which it takes them; each is logged at once."""

    def __init__(self, who: str) -> None:
        self.who = who
        self.decisions: list[str] = []
        self._is_open = True

    def close(self) -> None:
        """Note nothing any more: what an agent has left behind decides nothing."""
        self._is_open = False

    def decide(self, what: str) -> None:
        """Note what an outcome made the agent do: the same is to be done again whenever the run goes on."""
        self._note(Kind.DECIDED, what)

    def decide_perhaps(self, what: str) -> None:
        """Note what a timer made the agent do: it holds once another outcome was given after it."""
        self._note(Kind.PERHAPS, what)

    def _note(self, kind: Kind, what: str) -> None:
        if not self._is_open:
            return
        self.decisions.append(what)
        _world.log.write(Entry(kind, self.who, what))
