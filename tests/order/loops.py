"""The event loops that programs run on: asyncio's, uvloop, and asyncio's with eager tasks (Python 3.12 and newer)."""

from __future__ import annotations

import asyncio
import sys
from enum import StrEnum
from typing import Any


class Loop(StrEnum):
    PLAIN = "plain"
    EAGER = "eager"
    UVLOOP = "uvloop"


HERE = [Loop.PLAIN, Loop.UVLOOP] if sys.version_info < (3, 12) else list(Loop)
"""The loops that this Python has."""


def new_loop(kind: Loop) -> asyncio.AbstractEventLoop:
    if kind is Loop.UVLOOP:
        import uvloop

        return uvloop.new_event_loop()
    loop = asyncio.new_event_loop()
    if kind is Loop.EAGER:
        eager: Any = getattr(asyncio, "eager_task_factory")  # noqa: B009 - Python 3.11, whose types are checked, has none
        loop.set_task_factory(eager)
    return loop
