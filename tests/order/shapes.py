"""Which programs there are, and the loops that each of them runs on: the table that every test here goes through."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from order.loops import HERE, Loop

from limpet.engine.actors import Actor

CONTROL = "sequential_letters"

_ON_ALL = (Loop.PLAIN, Loop.EAGER, Loop.UVLOOP)
_ON_ASYNCIO = (Loop.PLAIN, Loop.EAGER)
_NOT_EAGER = (Loop.PLAIN, Loop.UVLOOP)

PROGRAMS: dict[str, Sequence[Loop]] = {
    CONTROL: _ON_ALL,
    "first_offers": _ON_ALL,
    "first_pages": (*_ON_ALL, Loop.OWN),
    "first_reviews": _ON_ASYNCIO,
    "hedged_models": (*_ON_ALL, Loop.OWN_EAGER),
    "ticket_pool": _ON_ALL,
    "payment_pool": _ON_ALL,
    "limited_crawl": _ON_ASYNCIO,
    "document_stages": _ON_ASYNCIO,
    "stock_and_approval": _ON_ASYNCIO,
    "race_results": (Loop.PLAIN,),
    "failing_checks": _ON_ALL,
    "slow_quotes": _ON_ALL,
    "patient_client": _NOT_EAGER,
    "alarms": _NOT_EAGER,
    "two_desks": (*_ON_ALL, Loop.OWN_EAGER),
    "shaky_lines": (Loop.PLAIN, Loop.OWN_EAGER),
    "merged_feeds": _ON_ALL,
    "failing_mirrors": (Loop.PLAIN,),
    "quick_search": _NOT_EAGER,
    # That anyio works with eager tasks is not promised.
    "anyio_rescue": _NOT_EAGER,
    "anyio_retreat": _NOT_EAGER,
    "anyio_streams": _NOT_EAGER,
}
if sys.version_info >= (3, 12):
    PROGRAMS["prompt_offers"] = _ON_ALL
if sys.version_info >= (3, 13):
    PROGRAMS["latest_pages"] = (Loop.PLAIN,)


class Shape(NamedTuple):
    """A program on a loop."""

    program: str
    loop: Loop

    @property
    def is_plain(self) -> bool:
        return self.loop is Loop.PLAIN

    def __str__(self) -> str:
        return self.program if self.loop is Loop.PLAIN else f"{self.program}-{self.loop}"


SHAPES = [Shape(name, loop) for name, loops in PROGRAMS.items() for loop in loops if loop in HERE]


def agent_of(program: str) -> Actor[[], list[str]]:
    module: Any = importlib.import_module(f"order.programs.{program}")
    return module.program
