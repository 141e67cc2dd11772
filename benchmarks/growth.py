"""Whether an event costs more time or room when there have been many before it."""

from __future__ import annotations

from statistics import median

import trials
from findings import Finding, at_most

ROUNDS = 5


def measure() -> list[Finding]:
    answers = trials.take_turns(ROUNDS, {"ours": ("limpet_runs", "growth", "1000", "10000", "90000", "100000")})["ours"]
    early_s, late_s, early_bytes, late_bytes = (
        [answer[name] for answer in answers] for name in ("early_s", "late_s", "early_bytes", "late_bytes")
    )
    parts = "events 90,001 to 100,000 against 1,001 to 10,000"
    seconds = f"{median(late_s) * 1e6:.1f} µs to {median(early_s) * 1e6:.1f} µs, {parts}"
    size = f"{median(late_bytes):.0f} B to {median(early_bytes):.0f} B, {parts}"
    return [
        at_most("growth: time of an event", 1.2, late_s, early_s, seconds),
        at_most("growth: bytes of an event", 1.05, late_bytes, early_bytes, size),
    ]
