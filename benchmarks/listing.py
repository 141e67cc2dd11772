"""Listing the newest 100 of 100,000 states, against 100 of 1,000: whether a listing costs more where there are many.

The stores are made once, by claims alone; each round lists in a fresh process. What is asked for is the newest of all,
those of a status, of a pipeline, and with a tag that many states have or that few have.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import trials
from findings import Finding, at_most

from limpet import FileSystemStateBackend, SQLiteStateBackend, StateBackend, StateMetadata, StateStatus
from limpet.backends.contract import Claim
from limpet.model import Holder, StateHeader

ROUNDS = 5
FEW, MANY = 1_000, 100_000
LISTED = 100
BAR = 3
TIMES = 15
AT_ONCE = 200

BEGINNING = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
HOLDER = Holder("here", "boot", "space", 100, "1000", "run")
STATUSES = (StateStatus.RUNNING, StateStatus.COMPLETED, StateStatus.FAILED, StateStatus.INTERRUPTED)
QUERIES: dict[str, dict[str, Any]] = {
    "newest": {},
    "status": {"status": StateStatus.FAILED},
    "pipeline": {"pipeline_name": "pipeline-1"},
    "tag": {"tags": ["tag-1"]},
    "rare tag": {"tags": ["rare"]},
}
KINDS: dict[str, Callable[[str], StateBackend]] = {
    "sqlite": lambda folder: SQLiteStateBackend(f"{folder}/runs.db", "normal"),
    "files": lambda folder: FileSystemStateBackend(f"{folder}/store", "normal"),
}


def measure() -> list[Finding]:
    findings: list[Finding] = []
    for kind in KINDS:
        with tempfile.TemporaryDirectory(prefix="bench-listing-", ignore_cleanup_errors=True) as folder:
            findings += _compared(kind, Path(folder))
    return findings


def _compared(kind: str, folder: Path) -> list[Finding]:
    contenders: dict[str, trials.Contender] = {}
    for count in (FEW, MANY):
        path = folder / str(count)
        path.mkdir()
        trials.ask(("listing", "fill", kind, str(path), str(count)))
        trials.say(".")
        contenders[str(count)] = ("listing", "list_states", kind, str(path))
    answers = trials.take_turns(ROUNDS, contenders)
    few, many = answers[str(FEW)], answers[str(MANY)]
    newest = [_ratio(few, many, "newest", number) for number in range(ROUNDS)]
    filters = [name for name in QUERIES if name != "newest"]
    worst = [max(_ratio(few, many, name, number) for name in filters) for number in range(ROUNDS)]
    ones = [1.0] * ROUNDS
    shown = partial(_shown, few, many)
    return [
        at_most(f"listing {kind}: newest 100", BAR, newest, ones, f"{shown('newest')}, {MANY:,} states to {FEW:,}"),
        at_most(f"listing {kind}: the slowest filter", BAR, worst, ones, "; ".join(map(shown, filters))),
    ]


def _ratio(few: list[trials.Answer], many: list[trials.Answer], query: str, number: int) -> float:
    return many[number][query] / few[number][query]


def _shown(few: list[trials.Answer], many: list[trials.Answer], query: str) -> str:
    small, large = (median(answer[query] for answer in answers) * 1e3 for answers in (few, many))
    return f"{query} {large:.2f} ms to {small:.2f} ms"


def fill(kind: str, folder: str, count: str) -> trials.Answer:
    """Make a store with so many states."""
    began = perf_counter()
    number = int(count)
    with KINDS[kind](folder) as backend:
        for first in range(0, number, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, number))
            grants = backend.acquire([_claim(each, number // LISTED) for each in numbers])
            assert all(grant is not None and grant.is_new for grant in grants)
    return {"seconds": perf_counter() - began}


def _claim(number: int, every: int) -> Claim:
    tags = [f"tag-{number % 5}"] if number % every else [f"tag-{number % 5}", "rare"]
    header = StateHeader(
        state_id=f"state-{number}",
        status=STATUSES[number % len(STATUSES)],
        created_at=BEGINNING + timedelta(seconds=number),
        updated_at=BEGINNING + timedelta(seconds=number),
        metadata=StateMetadata(tags=tags, pipeline_name=f"pipeline-{number % 5}"),
    )
    return Claim(header=header, bodies=(b"a record",), holder=HOLDER, ttl_s=60.0)


def list_states(kind: str, folder: str) -> trials.Answer:
    """The seconds that each listing takes, once the store is open and was listed before."""
    answer: trials.Answer = {}
    with KINDS[kind](folder) as backend:
        for name, query in QUERIES.items():
            times: list[float] = []
            for _ in range(TIMES):
                began = perf_counter()
                listed = backend.list_states(**query, limit=LISTED)
                times.append(perf_counter() - began)
                assert len(listed) == LISTED, f"{name} gives {len(listed)}"
            # When nothing else happens on the machine.
            answer[name] = min(times)
    return answer


if __name__ == "__main__":
    trials.answer({"fill": fill, "list_states": list_states})
