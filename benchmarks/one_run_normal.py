"""One run of 5,000 events that do not wait for the disk: against a bare loop of ``sqlite3``."""

from __future__ import annotations

import trials
from findings import Finding, at_least, rate

ROUNDS = 7
EVENTS = 5000


def measure() -> list[Finding]:
    length = trials.ask(("limpet_runs", "one", "normal", "100"))["body"]
    answers = trials.take_turns(
        ROUNDS,
        {
            "ours": ("limpet_runs", "one", "normal", str(EVENTS)),
            "bare": ("bare_sqlite", "stdlib", "normal", str(EVENTS), str(length)),
        },
    )
    ours, bare = ([answer["rate"] for answer in answers[name]] for name in ("ours", "bare"))
    return [at_least("one run normal / bare", 0.35, ours, bare, f"{rate(ours)} to {rate(bare)}")]
