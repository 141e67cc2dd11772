"""States in a folder of readable files: against a bare loop that appends the same bytes, and against SQLite.

The bare loops open one file, write a line for each record and, in ``full``, wait for the disk each time. What a run
costs on files and on SQLite is measured in the same settings, and so is taking up a run whose events are all recorded.
The last lines say how many bytes a store takes for each byte of data that it was given.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import limpet_runs
import trials
from findings import AT_MOST, Finding, at_least, rate
from limpet_runs import Synchronous, many

from limpet import (
    Append,
    Claim,
    FileSystemStateBackend,
    Limpet,
    SQLiteStateBackend,
    StateBackend,
    StateHeader,
    StateStatus,
    agent,
    tool,
)
from limpet.engine.lease import new_holder
from limpet.model.header import utc

ROUNDS = 5
RECORDS = {"full": 1000, "normal": 5000}
RUN_EVENTS = {"full": 500, "normal": 3000}
REPLAYED = 10_000
LARGE_EVENTS = 2500
LARGE = 4096
WORDS = ["limpet", "grips", "the", "rock", "and", "takes", "nothing", "from", "it", "what", "is", "held", "stays"]

_WARM = 50
_BARE = os.O_WRONLY | os.O_CREAT | os.O_APPEND


def measure() -> list[Finding]:
    return [*_appends(), *_runs(), *_replays(), *_sizes()]


def _appends() -> list[Finding]:
    findings: list[Finding] = []
    for synchronous, bar in (("full", 0.5), ("normal", 0.01)):
        length = trials.ask(("file_store", "append", synchronous, "200"))["length"]
        records = str(RECORDS[synchronous])
        ours, bare = _rates(
            ("file_store", "append", synchronous, records),
            ("file_store", "bare", synchronous, records, str(round(length))),
        )
        title = f"files: append {synchronous} / bare"
        detail = f"{rate(ours)} to {rate(bare)}, lines of {length:.0f} bytes"
        findings.append(at_least(title, bar, ours, bare, detail))
    return findings


def _runs() -> list[Finding]:
    findings: list[Finding] = []
    for synchronous, bar in (("full", 0.5), ("normal", 0.4)):
        files, sqlite = _of_both("one", synchronous, str(RUN_EVENTS[synchronous]))
        title = f"files: one run {synchronous} / SQLite"
        findings.append(at_least(title, bar, files, sqlite, f"{rate(files)} to {rate(sqlite)}"))
    return findings


def _replays() -> list[Finding]:
    files, sqlite = _of_both("replay", str(REPLAYED))
    detail = f"{rate(files)} to {rate(sqlite)}, {REPLAYED:,} events"
    return [at_least("files: replay / SQLite", 0.12, files, sqlite, detail)]


def _sizes() -> list[Finding]:
    findings: list[Finding] = []
    for content in CONTENTS:
        taken = {kind: trials.ask(("file_store", "size", kind, content))["ratio"] for kind in KINDS}
        trials.say(".")
        detail = f"{LARGE_EVENTS:,} results of 4 kB; " + ", ".join(f"{kind} {taken[kind]:.2f}" for kind in taken)
        for kind in ("files", "sqlite"):
            title = f"{kind}: bytes on disk / {content}"
            findings.append(Finding(name=title, ratios=[taken[kind]], direction=AT_MOST, bar=1.5, detail=detail))
    return findings


def _of_both(function: str, *arguments: str) -> tuple[list[float], list[float]]:
    return _rates(("file_store", function, "files", *arguments), ("file_store", function, "sqlite", *arguments))


def _rates(ours: trials.Contender, theirs: trials.Contender) -> tuple[list[float], list[float]]:
    answers = trials.take_turns(ROUNDS, {"ours": ours, "theirs": theirs})
    return [each["rate"] for each in answers["ours"]], [each["rate"] for each in answers["theirs"]]


KINDS: dict[str, Callable[[Synchronous], StateBackend]] = {
    "files": lambda synchronous: FileSystemStateBackend("store", synchronous),
    "zstd": lambda synchronous: FileSystemStateBackend("store", synchronous, compression="zstd"),
    "gzip": lambda synchronous: FileSystemStateBackend("store", synchronous, compression="gzip"),
    "sqlite": lambda synchronous: SQLiteStateBackend("runs.db", synchronous),
}


def _open(kind: str, synchronous: str) -> StateBackend:
    return KINDS[kind](cast(Synchronous, synchronous))


def append(synchronous: str, records: str) -> trials.Answer:
    """The backend alone: one record of a run for each commit. The rate, and the mean length of a line."""
    bodies = _bodies(int(records) + _WARM)
    backend = _open("files", synchronous)
    now = utc(0.0)
    header = StateHeader(state_id="timed", status=StateStatus.RUNNING, created_at=now, updated_at=now)
    (grant,) = backend.acquire([Claim(header=header, holder=new_holder(), ttl_s=600.0)])
    assert grant is not None
    assert grant.lease is not None
    for seq, body in enumerate(bodies[:_WARM], 1):
        backend.append([Append(grant.lease, seq, (body,))])
    began = perf_counter()
    for seq, body in enumerate(bodies[_WARM:], _WARM + 1):
        backend.append([Append(grant.lease, seq, (body,))])
    seconds = perf_counter() - began
    assert bodies == [body for _, body in backend.read("timed")]
    return {"rate": int(records) / seconds, "length": _taken(Path("store/states/timed")) / len(bodies)}


def _bodies(count: int) -> list[bytes]:
    """The records of a run of the same id."""
    client = Limpet("memory://")
    client.run_sync(many, count, state_id="timed")
    return [body for _, body in client.backend.read("timed", limit=count)]


def bare(synchronous: str, records: str, length: str) -> trials.Answer:
    """The floor: lines that are appended to one open file."""
    handle = os.open("bare.jsonl", _BARE, 0o600)
    line = os.urandom(int(length))
    sync = os.fdatasync if synchronous == "full" else _nothing
    for _ in range(_WARM):
        os.write(handle, line)
        sync(handle)
    began = perf_counter()
    for _ in range(int(records)):
        os.write(handle, line)
        sync(handle)
    return {"rate": int(records) / (perf_counter() - began)}


def _nothing(handle: int) -> None:
    pass


def one(kind: str, synchronous: str, events: str) -> trials.Answer:
    """One run of so many events."""
    client = Limpet(_open(kind, synchronous))
    client.run_sync(many, _WARM, state_id="warm")
    return {"rate": int(events) / _timed_run(client, int(events), "timed")}


def replay(kind: str, events: str) -> trials.Answer:
    """Take up a run that was killed when all its events were recorded: the rate over the whole of ``client.run``."""
    begun = subprocess.run([sys.executable, __file__, "begin", kind, events], capture_output=True, text=True)
    assert begun.returncode == -signal.SIGKILL, begun.stderr
    client = Limpet(_open(kind, "normal"))
    client.run_sync(many, _WARM, state_id="warm")
    before = limpet_runs.executed
    seconds = _timed_run(client, int(events), "killed")
    assert limpet_runs.executed == before, "replaying executed something"
    return {"rate": int(events) / seconds}


def begin(kind: str, events: str) -> None:
    """A run that is killed when all its events are recorded and it has yet to return."""
    limpet_runs.at_event[int(events)] = lambda: os.kill(os.getpid(), signal.SIGKILL)
    Limpet(_open(kind, "normal")).run_sync(many, int(events), state_id="killed")


def _timed_run(client: Limpet, events: int, state_id: str) -> float:
    async def run() -> float:
        began = perf_counter()
        await client.run(many, events, state_id=state_id)
        return perf_counter() - began

    return asyncio.run(run())


def _text(number: int) -> str:
    """Words in random order: harder to pack than what people write."""
    return " ".join(random.Random(number).choices(WORDS, k=LARGE))[:LARGE]


def _noise(number: int) -> bytes:
    return random.Random(number).randbytes(LARGE)


CONTENTS: dict[str, Callable[[int], Any]] = {"text": _text, "bytes": _noise}


@tool
async def given(content: str, number: int) -> Any:
    return CONTENTS[content](number)


@agent
async def large_results(content: str) -> int:
    for number in range(LARGE_EVENTS):
        await given(content, number)
    return LARGE_EVENTS


def size(kind: str, content: str) -> trials.Answer:
    """The bytes of all files of a closed store, for each byte of the results in it."""
    with _open(kind, "normal") as backend:
        Limpet(backend).run_sync(large_results, content, state_id="large")
    return {"ratio": _taken(Path()) / (LARGE_EVENTS * LARGE)}


def _taken(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    functions = (append, bare, one, replay, begin, size)
    trials.answer({function.__name__: function for function in functions})
