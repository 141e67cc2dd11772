"""Taking up an unfinished run whose events are all recorded, against DBOS recovering such a workflow.

Both were killed with SIGKILL before they could return. Ours is timed as a whole, with the claim, the reading of the
journal and the last commit; of theirs only the part from the first recorded step to the last. Ours goes on twice: with
one call after the other as theirs, and with a hundred at once, whose results are handed over in the recorded order.
Then a run of a million events against one of ten thousand, and how much memory its process has at most.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import trials
from findings import AT_MOST, Finding, at_least, at_most, rate

ROUNDS = 9
EVENTS = 5000
STEPS = 1000
MANY, SOME = 1_000_000, 10_000
MANY_ROUNDS = 3


def measure() -> list[Finding]:
    with tempfile.TemporaryDirectory(prefix="bench-killed-") as folder:
        stores = {
            "single": _killed(folder, ("limpet_runs", "begin", "single"), EVENTS),
            "wide": _killed(folder, ("limpet_runs", "begin", "wide"), EVENTS),
            "plain": _killed(folder, ("peer_dbos", "begin", "plain"), STEPS),
            "async": _killed(folder, ("peer_dbos", "begin", "async"), STEPS),
        }
        answers = trials.take_turns(
            ROUNDS,
            {
                "single": ("limpet_runs", "go_on", "single", str(EVENTS)),
                "wide": ("limpet_runs", "go_on", "wide", str(EVENTS)),
                "plain": ("peer_dbos", "go_on", str(STEPS)),
                "async": ("peer_dbos", "go_on", str(STEPS)),
            },
            stores,
        )
        stores = {
            "many": _killed(folder, ("limpet_runs", "begin", "single"), MANY, "many"),
            "some": _killed(folder, ("limpet_runs", "begin", "single"), SOME, "some"),
        }
        long = trials.take_turns(
            MANY_ROUNDS,
            {
                "many": ("limpet_runs", "go_on", "single", str(MANY)),
                "some": ("limpet_runs", "go_on", "single", str(SOME)),
            },
            stores,
        )
    rates = {name: [answer["rate"] for answer in given] for name, given in answers.items()}
    peer = [max(pair) for pair in zip(rates["plain"], rates["async"], strict=True)]
    compared = [
        at_least(title, bar, rates[ours], peer, f"{rate(rates[ours])} to {rate(peer)}")
        for title, bar, ours in (("replay / DBOS", 80, "single"), ("replay 100 wide / DBOS", 12, "wide"))
    ]
    per_event = {name: [1 / answer["rate"] for answer in given] for name, given in long.items()}
    megabytes = [answer["megabytes"] for answer in long["many"]]
    return [
        *compared,
        at_most(
            "replay 1,000,000 / 10,000, an event",
            1.3,
            per_event["many"],
            per_event["some"],
            f"{median(per_event['many']) * 1e6:.1f} µs to {median(per_event['some']) * 1e6:.1f} µs",
        ),
        Finding(
            name="replay 1,000,000: memory",
            ratios=megabytes,
            direction=AT_MOST,
            bar=300,
            detail="of the whole process, at most",
            unit="MB",
        ),
    ]


def _killed(folder: str, contender: trials.Contender, events: int, name: str = "") -> Path:
    """A store in which a process was killed."""
    script, *arguments = contender
    path = Path(folder) / "-".join((*contender, name)) / "store.db"
    path.parent.mkdir()
    command = [sys.executable, str(trials.HERE / f"{script}.py"), *arguments, str(path), str(events)]
    done = subprocess.run(command, env=trials.environment(), capture_output=True, text=True)
    if done.returncode >= 0:
        raise trials.ContenderFailed(f"{' '.join(contender)} was not killed:\n{done.stderr[-4000:]}")
    trials.say(".")
    return path
