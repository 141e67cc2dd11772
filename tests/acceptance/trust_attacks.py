"""States that somebody has forged to have code executed, and the canary that tells whether it was.

All checksums of these states are right: they are made by running an agent that names other code as its own.
"""

from __future__ import annotations

import enum
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from limpet import AwaitingAnswer, Limpet, StateBackend, ask, tool
from limpet.engine.actors import FunctionActor
from limpet.model import EventType

CANARY = """
import pathlib
pathlib.Path({canary!r}).touch()
from limpet import agent

@agent
async def evil(topic):
    return topic
"""


class Forged(FunctionActor[..., Any]):
    """An agent that says it was declared elsewhere."""

    said: str | None = None

    @property
    def reference(self) -> str | None:
        return self.said


def forget(result: str) -> None:
    """Undoes what ``touched`` did."""


@tool(undo=forget)
async def touched(topic: str) -> str:
    return topic


async def _failing(topic: str) -> str:
    await touched(topic)
    raise LookupError(topic)


async def _asking(topic: str) -> Any:
    return await ask(f"Which colour has {topic}?", Colour)


async def _done(topic: str) -> str:
    return await touched(topic)


Colour = enum.Enum("Colour", {"RED": "red"}, module="evil_types")
"""A class whose module nobody has imported who reads the state."""


def forge(store: str | StateBackend, state_id: str, reference: str | None, function: Any = _failing) -> None:
    """A state of a run that has failed, and names this reference."""
    actor = Forged(function, EventType.AGENT_CALL, name="evil")
    actor.said = reference
    with Limpet(store) as client, suppress(LookupError, AwaitingAnswer):
        client.run_sync(actor, "kelp", state_id=state_id)


def forge_done(store: str | StateBackend, state_id: str, reference: str | None) -> None:
    """A state of a run that has completed."""
    forge(store, state_id, reference, _done)


def forge_asking(store: str | StateBackend, state_id: str, reference: str | None, *, answered: bool = False) -> None:
    """A state that asks for an instance of a class, and has an answer or has none."""
    module = ModuleType("evil_types")
    vars(module)["Colour"] = Colour
    sys.modules["evil_types"] = module
    try:
        forge(store, state_id, reference, _asking)
        if answered:
            with Limpet(store) as client:
                client.answer(state_id, Colour["RED"])
    finally:
        del sys.modules["evil_types"]


def plant(folder: Path, canary: Path, name: str = "evil_flow.py") -> Path:
    """A file that leaves a mark when it is imported."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    file.write_text(CANARY.format(canary=str(canary)))
    return file
