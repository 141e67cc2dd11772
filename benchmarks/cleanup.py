"""Cleaning up 10,000 states of an SQLite store while another process keeps writing to it.

The store is made once; in each round one process deletes all its states but ten, and another one commits one record
after the other. What counts is how long that one's slowest commit took, and how much more memory 10,000 states need
than 1,000. The same commits are timed without a cleanup beside them, since a disk has slow moments of its own.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

import trials
from findings import AT_MOST, Finding, at_most

from limpet import Limpet, Retention, SQLiteStateBackend, StateMetadata, StateStatus
from limpet.backends.contract import Append, Claim
from limpet.model import Holder, StateHeader

ROUNDS = 3
FEW, MANY = 1_000, 10_000
LEFT = 10
AT_ONCE = 200
RECORDS = 10
MOST_MS = 100
MOST_MEMORY = 1.5

BEGINNING = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
HOLDER = Holder("elsewhere", "boot", "space", 100, "1000", "run")


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-cleanup-", ignore_cleanup_errors=True) as folder:
        stores: dict[str, Path] = {}
        for count in (FEW, MANY):
            path = Path(folder) / str(count) / "runs.db"
            path.parent.mkdir()
            trials.ask(("cleanup", "fill", str(path), str(count)))
            trials.say(".")
            stores[str(count)] = path
        answers = trials.take_turns(ROUNDS, dict.fromkeys(stores, ("cleanup", "clean_up")), stores)
    few, many = answers[str(FEW)], answers[str(MANY)]
    waits = [answer["longest_wait_s"] * 1e3 for answer in many]
    alone = [answer["longest_alone_s"] * 1e3 for answer in many]
    commits = median(answer["commits"] for answer in many)
    seconds = median(answer["seconds"] for answer in many)
    took = f"{MANY:,} states in {seconds:.1f} s beside {commits:,.0f} commits"
    memory = [[answer["peak_mb"] for answer in each] for each in (many, few)]
    return [
        Finding(
            name="cleanup: longest commit beside it",
            ratios=waits,
            direction=AT_MOST,
            bar=MOST_MS,
            detail=f"{took}; the longest without a cleanup {median(alone):.1f} ms",
            unit="ms",
        ),
        at_most(
            "cleanup: peak memory",
            MOST_MEMORY,
            memory[0],
            memory[1],
            f"{median(memory[0]):.0f} MB for {MANY:,} states, {median(memory[1]):.0f} MB for {FEW:,}",
        ),
    ]


def fill(path: str, count: str) -> trials.Answer:
    """Make a store with so many completed states."""
    number = int(count)
    with SQLiteStateBackend(path, "normal") as backend:
        for first in range(0, number, AT_ONCE):
            claims = [_claim(each) for each in range(first, min(first + AT_ONCE, number))]
            assert all(grant is not None and grant.is_new for grant in backend.acquire(claims))
    return {"states": number}


def _claim(number: int) -> Claim:
    at = BEGINNING + timedelta(seconds=number)
    metadata = StateMetadata(tags=["nightly"], pipeline_name="p", custom_data={"note": "x" * 500})
    header = StateHeader(
        state_id=f"state-{number}", status=StateStatus.COMPLETED, created_at=at, updated_at=at, metadata=metadata
    )
    return Claim(header=header, bodies=(bytes(300),) * RECORDS, holder=HOLDER, ttl_s=0.0)


def clean_up(path: str) -> trials.Answer:
    """Delete all states but a few while another process writes."""
    program = [sys.executable, __file__, "write", path]
    writer = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    longest_alone = float(writer.stdout.readline())
    with Limpet(f"sqlite:///{path}") as client:
        began = perf_counter()
        report = client.cleanup(Retention(max_per_pipeline=LEFT))
        seconds = perf_counter() - began
        assert {"within the limits": LEFT, "being run": 1} == report.kept
    said, _ = writer.communicate("stop\n")
    longest, commits = map(float, said.split())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "seconds": seconds,
        "longest_wait_s": longest,
        "longest_alone_s": longest_alone,
        "commits": commits,
        "peak_mb": peak,
    }


def write(path: str) -> None:
    """Commit one record after the other: some alone, then until somebody says stop. Says how long the slowest took."""
    import threading

    now = datetime.now(UTC)
    header = StateHeader(state_id="busy", status=StateStatus.RUNNING, created_at=now, updated_at=now)
    stopped = threading.Event()
    with SQLiteStateBackend(path, "full") as backend:
        (grant,) = backend.acquire([Claim(header=header, holder=HOLDER, ttl_s=3600.0)])
        assert grant is not None
        assert grant.lease is not None
        lease, times = grant.lease, list[float]()

        def commit() -> None:
            began = perf_counter()
            assert [None] == backend.append([Append(lease, len(times) + 1, (bytes(300),))])
            times.append(perf_counter() - began)

        for _ in range(500):
            commit()
        print(max(times), flush=True)
        alone = len(times)
        threading.Thread(target=lambda: (sys.stdin.readline(), stopped.set()), daemon=True).start()
        while not stopped.is_set():
            commit()
            stopped.wait(0.001)
        print(max(times[alone:]), len(times) - alone, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2])
    else:
        trials.answer({"fill": fill, "clean_up": clean_up})
