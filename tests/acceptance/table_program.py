"""The table of types in a run: ``python -m acceptance.table_program BACKEND FOLDER`` takes a stored one up.

It prints, as JSON, what was executed and how each value compares with one that was made anew in this process. The same
functions do the first runs, in the process of the tests.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from acceptance.forms import form, form_of_error, traceback_text
from acceptance.table_of_types import error_rows, rows

from limpet import (
    Encryption,
    ExecutionState,
    FileSystemArtifactBackend,
    Limpet,
    MemoryStateBackend,
    SQLiteStateBackend,
    Tool,
    agent,
    tool,
)

STATE_ID = "table"
ENCRYPTION = Encryption("00" * 32)
BACKENDS = ("memory", "full", "normal", "artifacts in SQLite", "artifacts in files", "encrypted")
WAYS = ("result", "history", "input", "storage", "argument")

TABLE = rows()
ASPECTS = [(row, aspect) for row, aspects in TABLE.items() for aspect in aspects]
FAILURES = [aspect for aspect, error in TABLE["exceptions"].items() if isinstance(error, Exception)]

Verdicts = dict[str, dict[str, str]]
"""By row and aspect: empty where a value came back as itself, else what came instead."""


class Outcome(msgspec.Struct):
    """What one taking up of the run gave."""

    executed: list[str]
    ways: dict[str, Verdicts]
    failures: dict[str, str]


class Unfinished(Exception):
    """Ends the run before its end, so that it can be taken up again."""


executed: list[str] = []
given: dict[str, list[Any]] = {"result": [], "argument": []}
caught: dict[str, Exception] = {}


@tool
async def give(row: str, aspect: str) -> Any:
    executed.append(f"give {row}: {aspect}")
    return TABLE[row][aspect]


@tool
async def fail(aspect: str) -> None:
    executed.append(f"fail {aspect}")
    raise error_rows()["exceptions"][aspect]  # Made anew, as raising it leaves a traceback on it.


@tool
async def end() -> None:
    """Tried again each time, as it is what the run fails of."""
    raise Unfinished


class Keep(Tool):
    """Puts its input into the storage, under the name that is its context."""

    async def handler(self, value: Any, name: str, state: ExecutionState) -> None:
        executed.append(f"keep {name}")
        state.storage.set(name, value)


keep = Keep(name="keep")


@agent
async def whole_table(table: dict[str, dict[str, Any]]) -> None:
    """Every value of the table as a result, as an input and in the storage; and then it stops before its end."""
    given["argument"] = [table.get(row, {}).get(aspect) for row, aspect in ASPECTS]
    given["result"] = [await give(row, aspect) for row, aspect in ASPECTS]
    for row, aspect in ASPECTS:
        await keep(TABLE[row][aspect], f"{row}: {aspect}")
    for aspect in FAILURES:
        try:
            await fail(aspect)
        except Exception as error:
            caught[aspect] = error
    await end()


def client(kind: str, folder: Path) -> Limpet:
    """The store of one backend, with what it does with large values: where they go, and which are large."""
    if kind == "memory":
        return Limpet(MemoryStateBackend())
    backend = SQLiteStateBackend(folder / "runs.db", synchronous="full" if kind == "full" else "normal")
    match kind:
        case "artifacts in SQLite":
            return Limpet(backend, artifact_threshold=0)
        case "artifacts in files":
            files = FileSystemArtifactBackend(folder / "artifacts", synchronous="normal")
            return Limpet(backend, artifact_backend=files, artifact_threshold=64)
        case "encrypted":
            return Limpet(backend, artifact_threshold=64, encryption=ENCRYPTION)
        case _:
            return Limpet(backend)


def begin(limpet: Limpet) -> Outcome:
    """Run the table for the first time, or take it up again with the same argument."""
    return _outcome(limpet, limpet.run(whole_table, rows(), state_id=STATE_ID))


def take_up(limpet: Limpet) -> Outcome:
    """Take the stored run up with the argument that is stored."""
    return _outcome(limpet, limpet.resume(STATE_ID, agent=whole_table))


def _outcome(limpet: Limpet, running: Any) -> Outcome:
    executed.clear()
    caught.clear()
    with suppress(Unfinished):
        asyncio.run(running)
    history = limpet.history(STATE_ID)
    gives = [address for address in history.addresses() if "::give" in address]
    keeps = [history[address] for address in history.addresses() if "::keep" in address]
    state = ExecutionState.load_from_state_id(
        STATE_ID, limpet.backend, limpet.artifacts, encryption=ENCRYPTION if limpet._stored.cipher else None
    )
    ways = {
        "result": given["result"],
        "argument": given["argument"],
        "history": [history.get_event_result(address) for address in gives],
        "input": [history._stored.decode(record.input)[0] for record in keeps if record.input is not None],
        "storage": [state.storage.get(f"{row}: {aspect}") for row, aspect in ASPECTS],
    }
    return Outcome(list(executed), {way: compared(values) for way, values in ways.items()}, compared_failures())


def compared(values: Iterable[Any]) -> Verdicts:
    """How values compare with those of a table that is made now."""
    anew = rows()
    verdicts: Verdicts = {row: {} for row in anew}
    for (row, aspect), value in zip(ASPECTS, values, strict=True):
        is_same = form(anew[row][aspect]) == form(value)
        verdicts[row][aspect] = "" if is_same else f"{type(value).__qualname__}: {value!r}"[:300]
    return verdicts


def compared_failures() -> dict[str, str]:
    """How the failures that the run caught compare; where they were raised is told by their text."""
    anew = rows()["exceptions"]
    verdicts: dict[str, str] = {}
    for aspect, error in caught.items():
        is_same = form_of_error(anew[aspect], with_traceback=False) == form_of_error(error, with_traceback=False)
        # One that is replayed was raised by the engine; where it had been raised first is recorded.
        told = getattr(error, "recorded_traceback", None) or traceback_text(error) or ""
        verdicts[aspect] = "" if is_same and "in fail" in told else f"{error!r} {told}"[:300]
    return verdicts


if __name__ == "__main__":
    with client(sys.argv[1], Path(sys.argv[2])) as opened:
        print(json.dumps(msgspec.to_builtins(take_up(opened))))
