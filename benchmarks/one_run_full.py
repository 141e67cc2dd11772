"""One run of 1,000 events that each wait for the disk: against DBOS, and against a bare loop of ``sqlite3``."""

from __future__ import annotations

import trials
from findings import Finding, at_least, rate

ROUNDS = 5
EVENTS = 1000


def measure() -> list[Finding]:
    length = trials.ask(("limpet_runs", "one", "full", "100"))["body"]
    answers = trials.take_turns(
        ROUNDS,
        {
            "ours": ("limpet_runs", "one", "full", str(EVENTS)),
            "bare": ("bare_sqlite", "stdlib", "full", str(EVENTS), str(length)),
            "plain": ("peer_dbos", "one", "plain", str(EVENTS)),
            "async": ("peer_dbos", "one", "async", str(EVENTS)),
        },
    )
    rates = {name: [answer["rate"] for answer in given] for name, given in answers.items()}
    peer = [max(pair) for pair in zip(rates["plain"], rates["async"], strict=True)]
    ours = f"{rate(rates['ours'])}"
    return [
        at_least("one run full / DBOS", 7, rates["ours"], peer, f"{ours} to {rate(peer)}"),
        at_least("one run full / bare", 0.65, rates["ours"], rates["bare"], f"{ours} to {rate(rates['bare'])}"),
    ]
