"""What the parts of an event cost, held against each other: the append, the encoding, and what company saves."""

from __future__ import annotations

from statistics import median
from time import perf_counter

import trials
from findings import Finding, at_most

from limpet import Append, Claim, EventRecord, ExecutionStatus, SQLiteStateBackend, StateHeader, StateStatus
from limpet.codec import frames, values
from limpet.engine.lease import new_holder
from limpet.model.header import utc

ROUNDS = 5
ROWS = 5000
LENGTH = 250


def measure() -> list[Finding]:
    answers = trials.take_turns(
        ROUNDS,
        {
            "append": ("parts", "append"),
            "insert": ("bare_sqlite", "with_apsw", "normal", str(ROWS), str(LENGTH)),
            "encode": ("parts", "encode"),
            "one normal": ("limpet_runs", "one", "normal", "2000"),
            "100 normal": ("limpet_runs", "together", "normal", "100", "20"),
            "one full": ("limpet_runs", "one", "full", "500"),
            "100 full": ("limpet_runs", "together", "full", "100", "20"),
        },
    )
    costs = {name: [1e6 / answer["rate"] for answer in given] for name, given in answers.items()}

    def finding(title: str, bar: float, ours: str, theirs: str) -> Finding:
        detail = f"{median(costs[ours]):.1f} µs to {median(costs[theirs]):.1f} µs"
        return at_most(title, bar, costs[ours], costs[theirs], detail)

    return [
        finding("append normal / bare insert", 2, "append", "insert"),
        finding("encoding / bare insert", 0.15, "encode", "insert"),
        finding("100 runs normal / one", 0.6, "100 normal", "one normal"),
        finding("100 runs full / one", 0.15, "100 full", "one full"),
    ]


def append() -> trials.Answer:
    """The backend alone, without a run: one record per commit, inline."""
    backend = SQLiteStateBackend("runs.db", synchronous="normal")
    now = utc(0.0)
    header = StateHeader(state_id="bare", status=StateStatus.RUNNING, created_at=now, updated_at=now)
    (grant,) = backend.acquire([Claim(header=header, holder=new_holder(), ttl_s=600.0)])
    assert grant is not None
    assert grant.lease is not None
    body = bytes(LENGTH)
    began = perf_counter()
    for seq in range(1, ROWS + 1):
        backend.append((Append(grant.lease, seq, (body,)),))
    return {"rate": ROWS / (perf_counter() - began)}


def encode() -> trials.Answer:
    """All encoding of one event: its input, its result, and the record around them."""
    text = "a sentence of the kind that a tool is asked and gives back, twice as long "
    link = owner = frames.first_link("bare")
    began = perf_counter()
    for seq in range(1, ROWS + 1):
        given = values.encode_arguments([seq, text])
        result = values.encode(text, "result")
        record = EventRecord(
            seq, "many::step::tool_call", ExecutionStatus.COMPLETED, 0.0, 0, 1, 0.0, None, b"", given, result
        )
        _, link = frames.to_frame(record, link, owner)
    return {"rate": ROWS / (perf_counter() - began)}


if __name__ == "__main__":
    trials.answer({"append": append, "encode": encode})
