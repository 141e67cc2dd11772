"""Comparing two long states, against merely reading both; and whether its memory grows with their length."""

from __future__ import annotations

import resource
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

import trials
from findings import Finding, at_most

from limpet import Limpet, SQLiteStateBackend, agent, tool
from limpet.engine.reading import JournalReader
from limpet.engine.values_of import values_of
from limpet.model.defaults import ARTIFACT_THRESHOLD

ROUNDS = 5
LONG = 100_000
SHORT = 10_000
CHANGED = LONG // 100
FEW = 100
MORE = 3
"""So many events one side has more than the other, at its end."""

SENTENCE = "A limpet grips the rock and takes nothing from it."

changed_every = 0
events_more = 0


@tool
async def fetch(number: int) -> dict[str, object]:
    is_changed = changed_every > 0 and number % changed_every == 0
    return {"page": number, "text": SENTENCE, "score": 0.25 if is_changed else 0.5}


@agent
async def read_all(pages: int) -> int:
    for number in range(pages + events_more):
        await fetch(number)
    return pages


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-diff-") as folder:
        path = str(Path(folder) / "store.db")
        trials.ask(("diffs", "make", path))
        trials.say(".")
        times = trials.take_turns(ROUNDS, {name: ("diffs", name, path) for name in ("diff", "stream", "histories")})
        peaks = trials.take_turns(
            ROUNDS, {name: ("diffs", "peak", path, str(name)) for name in (str(LONG), str(SHORT))}
        )
    diff, stream, histories = ([answer["seconds"] for answer in given] for given in times.values())
    long, short = ([answer["peak_mb"] for answer in given] for given in peaks.values())
    grown = [f"{median([answer['grown_mb'] for answer in given]):.1f} MB" for given in peaks.values()]
    shown = f"{median(diff):.2f} s to {median(stream):.2f} s"
    counts = f"two of {LONG:,} events, {CHANGED:,} changed; their histories take {median(histories):.2f} s"
    memory = f"{median(long):.1f} MB to {median(short):.1f} MB, of which the diff {' and '.join(grown)}; {FEW} changed"
    return [
        at_most("diff / reading both as a stream", 3, diff, stream, f"{shown}, {counts}"),
        at_most("memory of a diff, 100,000 / 10,000 events", 1.2, long, short, memory),
    ]


def make(path: str) -> trials.Answer:
    """A store with a long and a short state, and others that differ from them in some results and at their end."""
    global changed_every, events_more
    with SQLiteStateBackend(path, synchronous="normal") as backend:
        client = Limpet(backend)
        for state_id, pages, changed, more in (
            ("a", LONG, 0, 0),
            ("b", LONG, CHANGED, MORE),
            (f"first-{LONG}", LONG, 0, 0),
            (f"second-{LONG}", LONG, FEW, MORE),
            (f"first-{SHORT}", SHORT, 0, 0),
            (f"second-{SHORT}", SHORT, FEW, MORE),
        ):
            changed_every, events_more = pages // changed if changed else 0, more
            client.run_sync(read_all, pages, state_id=state_id)
    return {}


def diff(path: str) -> trials.Answer:
    """All that differs."""
    client = _warm(path)
    began = perf_counter()
    found = client.diff("a", "b")
    seconds = perf_counter() - began
    assert (len(found.changed_events), len(found.new_events), len(found.removed_events)) == (CHANGED, MORE, 0)
    return {"seconds": seconds}


def stream(path: str) -> trials.Answer:
    """The floor: every record of both read, verified and decoded once, and none of them kept."""
    client = _warm(path)
    stored = values_of(client.backend, None, None, ARTIFACT_THRESHOLD)
    began = perf_counter()
    for state_id in ("a", "b"):
        header = client.backend.find_state(state_id)
        assert header is not None
        for _ in JournalReader(client.backend, stored, header).stream():
            pass
    return {"seconds": perf_counter() - began}


def histories(path: str) -> trials.Answer:
    """Both read whole, as whoever compares them by hand would."""
    client = _warm(path)
    began = perf_counter()
    kept = [client.history(state_id) for state_id in ("a", "b")]
    seconds = perf_counter() - began
    assert len(kept) == 2
    return {"seconds": seconds}


def peak(path: str, events: str) -> trials.Answer:
    """The most memory that a process ever had which compared two states of so many events."""
    client = Limpet(SQLiteStateBackend(path))
    before = _peak_mb()
    found = client.diff(f"first-{events}", f"second-{events}")
    assert (len(found.changed_events), len(found.new_events)) == (FEW, MORE)
    return {"peak_mb": _peak_mb(), "grown_mb": _peak_mb() - before}


def _warm(path: str) -> Limpet:
    client = Limpet(SQLiteStateBackend(path))
    client.diff(f"first-{SHORT}", f"second-{SHORT}")
    return client


def _peak_mb() -> float:
    status = Path("/proc/self/status")
    if status.exists():
        # Linux counts for a new program also what the one had that started it, but not here.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20) if sys.platform == "darwin" else peak / 1024


if __name__ == "__main__":
    functions = (make, diff, stream, histories, peak)
    trials.answer({function.__name__: function for function in functions})
