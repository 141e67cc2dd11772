"""One run of 2,000 events on a synced disk that is saved every 10 steps, against one with every step saved."""

from __future__ import annotations

import trials
from findings import Finding, at_least, rate

ROUNDS = 5
EVENTS = 2000
STEPS = 10


def measure() -> list[Finding]:
    answers = trials.take_turns(
        ROUNDS,
        {
            "held back": ("limpet_runs", "one_by_policy", str(STEPS), str(EVENTS)),
            "every step": ("limpet_runs", "one", "full", str(EVENTS)),
        },
    )
    held, every = ([answer["rate"] for answer in answers[name]] for name in ("held back", "every step"))
    return [at_least(f"saved every {STEPS} steps / every step", 2, held, every, f"{rate(held)} to {rate(every)}")]
