"""The actors and types of the kept stores.

Their names and fields stand in the stored bytes, and old versions of Limpet have run them: nothing here may be
renamed, moved, or given another meaning. What newer versions can do is added beside it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID

from pydantic import BaseModel

from limpet import ExecutionState, Tool, agent, llm, tool

executed: Counter[str] = Counter()
"""How often each call was executed in this process."""

weather: set[str] = set()
"""What the calls run into: "storm" fails the third lift, "collapse" kills the process there."""


class Depth(Enum):
    SHALLOW = "shallow"
    DEEP = "deep"


@dataclass(frozen=True)
class Place:
    name: str
    depth: Depth
    at: tuple[float, float]


class Reading(NamedTuple):
    place: Place
    degrees: Decimal


class Sample(BaseModel):
    label: str
    taken: datetime
    weights: list[Decimal]
    content: bytes


class TooDark(Exception):
    """A failure that is caught."""

    def __init__(self, metres: int) -> None:
        super().__init__(metres)
        self.metres = metres


class Storm(Exception):
    """A failure that fails the run."""


@tool(version="2")
async def measure(place: Place) -> Reading:
    executed[f"measure {place.name}"] += 1
    return Reading(place, Decimal("11.50"))


@tool
def take(name: str) -> Sample:
    executed[f"take {name}"] += 1
    taken = datetime(2026, 5, 18, 6, 30, tzinfo=UTC)
    return Sample(label=name, taken=taken, weights=[Decimal("1.10")], content=b"\x00kelp\xff")


@tool
async def look(metres: int) -> str:
    executed[f"look {metres}"] += 1
    if metres > 10:
        raise TooDark(metres)
    return "clear"


@llm
async def describe(readings: list[Reading]) -> str:
    executed["describe"] += 1
    return ", ".join(f"{each.place.name}: {each.degrees}" for each in readings)


@agent
async def dive(name: str, metres: int) -> dict[str, Any]:
    executed[f"dive {name}"] += 1
    reading = await measure(Place(name, Depth.DEEP if metres > 10 else Depth.SHALLOW, (54.18, 7.88)))
    try:
        sight = await look(metres)
    except TooDark as dark:
        sight = f"dark below {dark.metres}"
    return {"reading": reading, "sight": sight, "sample": await take(name)}


@agent
async def survey(names: list[str]) -> dict[str, Any]:
    """Nested agents beside each other, a failure that is caught, and values of the kinds that version 0.1.0 stores."""
    executed["survey"] += 1
    dives = await asyncio.gather(*(dive(name, 5 + 10 * number) for number, name in enumerate(names)))
    text = await describe([each["reading"] for each in dives])
    return {
        "dives": dives,
        "text": text,
        "kinds": (1, -2.5, None, True, "Tang – 海藻", {3: "three", ("a", 1): "pair"}, frozenset({7}), 2**70, 1 + 2j),
        "times": [date(2026, 5, 18), timedelta(hours=6, microseconds=1), datetime(2026, 5, 18, 6, 30)],  # noqa: DTZ001
        "others": [Fraction(1, 3), UUID(int=7), PurePosixPath("reef/kelp"), bytearray(b"kelp"), Depth.DEEP],
    }


@tool
async def lift(number: int) -> int:
    executed[f"lift {number}"] += 1
    if number == 3 and "collapse" in weather:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 3 and "storm" in weather:
        raise Storm("the crane cannot be used")
    return 10 * number


@agent
async def stow(number: int) -> int:
    executed[f"stow {number}"] += 1
    return 1 + await lift(number)


@agent
async def haul(count: int) -> list[int]:
    executed["haul"] += 1
    first = await asyncio.gather(lift(0), lift(1))
    return [*first, *[await stow(number) for number in range(2, count)]]


@tool
async def scan(times: int) -> str:
    executed[f"scan {times}"] += 1
    return "kelp and tide, " * times


@agent
async def archive() -> int:
    """Values that are large: one that goes into the store's own artifacts, and one for the folder beside it."""
    executed["archive"] += 1
    pages = [await scan(times) for times in (4_000, 40_000)]
    return sum(map(len, pages))


class CountInput(BaseModel):
    value: int


class AddOne(Tool):
    """An actor of the explicit form."""

    def __init__(self) -> None:
        async def handler(given: CountInput, context: Any, state: ExecutionState) -> CountInput:
            executed[f"add one to {given.value}"] += 1
            return CountInput(value=given.value + 1)

        super().__init__(name="add_one", input_model=CountInput, output_model=CountInput, handler=handler)
