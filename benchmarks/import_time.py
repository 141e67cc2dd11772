"""What ``import limpet`` costs, against ``import dbos`` and ``import asyncio``; in fresh processes, with caches."""

from __future__ import annotations

from statistics import median

import trials
from findings import Finding, at_most

ROUNDS = 7


def measure() -> list[Finding]:
    modules = ("limpet", "dbos", "asyncio")
    contenders: dict[str, trials.Contender] = {name: ("import_alone", name) for name in modules}
    trials.take_turns(1, contenders)  # Fills the caches.
    answers = trials.take_turns(ROUNDS, contenders)
    ours, peer, least = ([answer["seconds"] for answer in answers[name]] for name in modules)
    shown = f"{median(ours) * 1e3:.0f} ms to"
    return [
        at_most("import / import dbos", 0.5, ours, peer, f"{shown} {median(peer) * 1e3:.0f} ms"),
        at_most("import / import asyncio", 3, ours, least, f"{shown} {median(least) * 1e3:.0f} ms"),
    ]
