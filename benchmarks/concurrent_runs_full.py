"""A hundred runs at once that wait for the disk together, against DBOS with twenty workflows at once."""

from __future__ import annotations

import trials
from findings import Finding, at_least, rate

ROUNDS = 7


def measure() -> list[Finding]:
    answers = trials.take_turns(
        ROUNDS,
        {"ours": ("limpet_runs", "together", "full", "100", "20"), "peer": ("peer_dbos", "together", "20", "20")},
    )
    ours, peer = ([answer["rate"] for answer in answers[name]] for name in ("ours", "peer"))
    return [at_least("concurrent runs full / DBOS", 60, ours, peer, f"{rate(ours)} to {rate(peer)}")]
