"""The event loops that programs run on: asyncio's and uvloop, and asyncio's with tasks of other kinds.

Eager tasks are there in Python 3.12 and newer.
"""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from typing import Any


class Loop(StrEnum):
    PLAIN = "plain"
    EAGER = "eager"
    OWN_EAGER = "own-eager"
    """With eager tasks of a class of the user's own."""
    OWN = "own"
    """With a factory of a library, which makes tasks of its own class."""
    UVLOOP = "uvloop"


HERE = [Loop.PLAIN, Loop.UVLOOP, Loop.OWN] if sys.version_info < (3, 12) else list(Loop)
"""The loops that this Python has."""


class OwnTask(asyncio.Task[Any]):
    pass


def make_own(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> OwnTask:
    return OwnTask(coro, loop=loop, **options)


def new_loop(kind: Loop) -> asyncio.AbstractEventLoop:
    if kind is Loop.UVLOOP:
        import uvloop

        return uvloop.new_event_loop()
    loop = asyncio.new_event_loop()
    module: Any = asyncio  # Python 3.11, whose types are checked, has no eager tasks
    match kind:
        case Loop.EAGER:
            loop.set_task_factory(module.eager_task_factory)
        case Loop.OWN_EAGER:
            loop.set_task_factory(module.create_eager_task_factory(OwnTask))
        case Loop.OWN:
            loop.set_task_factory(make_own)
        case _:
            pass
    return loop
