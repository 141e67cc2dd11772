"""A program on disks that are too small for it: ``python full_disk_program.py KIND FOLDER``, in a mount namespace.

For every size of the disk from one page on, it mounts one on the folder and runs a pipeline until there is no room,
looks at what is there on the full disk, makes room and runs the same line again. What it saw of each size it prints as
a line of JSON; others judge that. The last line is that of the smallest disk on which nothing was missing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from crash.stores import Open, opener

from limpet import EventRecord, ExecutionStatus, Limpet, StateBackend, StateMetadata, agent, tool
from limpet.codec import values
from limpet.errors import LimpetError, UnknownState

PAGE = 4096
ENOUGH = 4 << 20
MOST_PAGES = 400

LARGE = random.Random("kelp").randbytes(40_000)
"""So long that it becomes an artifact, and is not made shorter by packing."""

TIMES = 700
"""So often a step gives its name: that fills most of a page, and so nearly every write needs a new one."""

EXPECTED = [6, ["b.1" * TIMES, "b.2" * TIMES], "LookupError('c')", len(LARGE), ["d.1" * TIMES, "d.2" * TIMES]]

executions: Counter[str] = Counter()
acknowledged: set[str] = set()
"""The calls whose result, or whose own failure, was given to the program."""
refused: set[str] = set()
"""The calls of which it was told that the store has failed."""


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name * TIMES


@tool
async def fetch(name: str) -> bytes:
    executions[name] += 1
    return LARGE


@tool
async def fragile(name: str) -> str:
    executions[name] += 1
    raise LookupError(name)


async def told(call: Any, name: str) -> Any:
    """Await a call, and note what the program is told of it."""
    try:
        result = await call
    except (LimpetError, asyncio.CancelledError):
        # A run whose store has failed is stopped: its code is cancelled, and whoever awaits it is told why.
        refused.add(name)
        raise
    except LookupError:
        acknowledged.add(name)
        raise
    acknowledged.add(name)
    return result


@agent
async def inner() -> list[str]:
    return [await told(step("b.1"), "b.1"), await told(step("b.2"), "b.2")]


@agent
async def pipeline() -> list[Any]:
    first = [await told(step(f"a.{number}"), f"a.{number}") for number in range(6)]
    nested = await inner()
    try:
        caught = await told(fragile("c"), "c")
    except LookupError as error:
        caught = repr(error)
    large = await told(fetch("large"), "large")
    both = await asyncio.gather(told(step("d.1"), "d.1"), told(step("d.2"), "d.2"))
    return [len(first), nested, caught, len(large), both]


class Disk:
    """A small disk of its own, in memory."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        _command("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder))

    def fill(self) -> None:
        """Take what room is left, to the last byte."""
        with (self.folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(PAGE))

    def make_room(self) -> None:
        _command("mount", "-o", f"remount,size={ENOUGH}", str(self.folder))

    def remove(self) -> None:
        """Only a disk on which no file is open any more can be removed."""
        _command("umount", str(self.folder))


def _command(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed: {done.stderr.strip()}")


def tried(backend: StateBackend) -> tuple[str, Any]:
    """Run the pipeline: ``ended`` and its result, or the name of the error."""
    try:
        metadata = StateMetadata(tags=["x"], pipeline_name="small")
        return "ended", Limpet(backend).run_sync(pipeline, state_id="small", metadata=metadata)
    except Exception as error:
        return _named(error), None


def recorded(client: Limpet) -> list[str]:
    """The calls of the tools whose outcome stands in the journal."""
    try:
        history = client.history("small")
    except UnknownState:
        return []
    return sorted(
        values.decode(record.input)[0]
        for record in history
        if isinstance(record, EventRecord)
        and record.status in (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
        and record.address.endswith("tool_call")
        and record.input is not None
    )


def seen(open_store: Open) -> dict[str, Any]:
    """What somebody sees who opens the store now; the name of an error in place of what cannot be seen."""
    try:
        backend = open_store()
    except Exception as error:
        return dict.fromkeys(("recorded", "unsound", "listed"), _named(error))
    with backend:
        return {
            "recorded": _answer(lambda: recorded(Limpet(backend))),
            "unsound": _answer(lambda: unsound(Limpet(backend))),
            "listed": _answer(lambda: [each.state_id for each in backend.list_states()]),
        }


def unsound(client: Limpet) -> list[str]:
    try:
        verification = client.verify("small")
    except UnknownState:
        return []
    return [] if verification.is_sound else [str(verification)]


def _answer(ask: Callable[[], list[str]]) -> list[str] | str:
    try:
        return ask()
    except Exception as error:
        return _named(error)


def _named(error: BaseException) -> str:
    return type(error).__name__ if isinstance(error, LimpetError) else f"{type(error).__name__}: {error}"


def left_behind(folder: Path) -> list[str]:
    """Whatever was being written and is not in its place."""
    found = [path for path in folder.rglob("*") if path.parent.name == "tmp" or path.name.endswith(".new")]
    return sorted(str(path.relative_to(folder)) for path in found)


def run_on(disk: Disk, kind: str, *, stays_open: bool) -> dict[str, Any]:
    """What comes of a run on a small disk, and then, when there is room, of the same line.

    The second run is one in the same store, which ``stays_open``, or in one that is opened anew.
    """
    open_store = opener(kind, disk.folder / "store")
    backend = None
    try:
        backend = open_store()
        outcome, _ = tried(backend)
    except Exception as error:
        outcome = _named(error)
    if backend is not None and not stays_open:
        backend.close()
        backend = None
    facts = {"outcome": outcome, "acknowledged": sorted(acknowledged), "refused": sorted(refused)}
    facts["as_left"] = seen(open_store)
    disk.fill()
    facts["when_full"] = seen(open_store)
    disk.make_room()
    facts["with_room"] = seen(open_store)
    with backend or open_store() as again:
        facts |= _run_again(again)
    return {**facts, "left_behind": left_behind(disk.folder)}


def _run_again(backend: StateBackend) -> dict[str, Any]:
    before = executions.copy()
    outcome, result = tried(backend)
    diagnosis = Limpet(backend).doctor()
    return {
        "second_outcome": outcome,
        "result_is_right": result == EXPECTED,
        "executed_again": sorted(executions - before),
        "flaws": [*map(str, diagnosis.unsound), *diagnosis.flaws, *diagnosis.harmless],
    }


def every_size(kind: str, folder: Path) -> Iterator[dict[str, Any]]:
    for pages in range(1, MOST_PAGES):
        anew = on_new_disk(kind, folder, pages, stays_open=False)
        yield anew
        # Many disks are too small to begin with, and much the same: half of them are enough.
        if anew["acknowledged"] or pages % 2:
            yield on_new_disk(kind, folder, pages, stays_open=True)
        if anew["outcome"] == "ended":
            return


def on_new_disk(kind: str, folder: Path, pages: int, *, stays_open: bool) -> dict[str, Any]:
    for notes in (executions, acknowledged, refused):
        notes.clear()
    disk = Disk(folder, pages * PAGE)
    facts = run_on(disk, kind, stays_open=stays_open)
    disk.remove()
    return {"pages": pages, "stays_open": stays_open, **facts}


if __name__ == "__main__":
    os.environ["LIMPET_CAPTURE"] = "off"
    for facts in every_size(sys.argv[1], Path(sys.argv[2])):
        print(json.dumps(facts), flush=True)
