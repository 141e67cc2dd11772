"""Whether a message costs more to receive when many others wait in the inbox, and to a run that has received many."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from statistics import median
from time import perf_counter

import trials
from findings import Finding, at_most

from limpet import Awaiting, Limpet, agent, wait_for_message

ROUNDS = 3
FEW, MANY = 1_000, 10_000
RECEIVED = 5_000
BAR = 1.3
STORES = ("memory", "sqlite", "file")


def measure() -> list[Finding]:
    findings: list[Finding] = []
    for kind in STORES:
        counts = (FEW, MANY) if kind != "file" else (FEW // 5, FEW)
        few, many = (
            trials.take_turns(ROUNDS, {"ours": ("inbox", "drain", kind, str(count))})["ours"] for count in counts
        )
        early_s, late_s = ([answer["receive_s"] for answer in answers] for answers in (few, many))
        detail = f"{median(late_s) * 1e6:.0f} µs of {counts[1]:,} to {median(early_s) * 1e6:.0f} µs of {counts[0]:,}"
        findings.append(at_most(f"inbox, {kind}: time to receive a message", BAR, late_s, early_s, detail))
    answers = trials.take_turns(ROUNDS, {"ours": ("inbox", "resume", str(FEW), str(RECEIVED))})["ours"]
    early_s, late_s = ([answer[name] for answer in answers] for name in ("few_s", "many_s"))
    detail = f"{median(late_s) * 1e6:.0f} µs to {median(early_s) * 1e6:.0f} µs for each of {RECEIVED:,} against {FEW:,}"
    return [*findings, at_most("inbox: resuming, for each message received before", BAR, late_s, early_s, detail)]


@agent
async def receive(count: int) -> int:
    await wait_for_message("go")
    return sum([await wait_for_message("number", int) for _ in range(count)])


@agent
async def receive_and_wait(count: int) -> int:
    received = sum([await wait_for_message("number", int) for _ in range(count)])
    return received + await wait_for_message("last", int)


def drain(kind: str, count: str) -> trials.Answer:
    """Receive a backlog: the seconds for each message."""
    folder = Path(tempfile.mkdtemp(prefix="bench-inbox-"))
    urls = {"memory": "memory://", "sqlite": f"sqlite:///{folder}/runs.db?synchronous=normal"}
    try:
        with Limpet(urls.get(kind, f"file://{folder}/states")) as client:
            with suppress(Awaiting):
                client.run_sync(receive, int(count), state_id="inbox")
            for number in range(int(count)):
                client.send("inbox", "number", number)
            client.send("inbox", "go", None)
            began = perf_counter()
            client.run_sync(receive, int(count), state_id="inbox")
            return {"receive_s": (perf_counter() - began) / int(count)}
    finally:
        shutil.rmtree(folder)


def resume(few: str, many: str) -> trials.Answer:
    """Resume a run that has received many messages: the seconds for each of them."""
    answer: trials.Answer = {}
    for name, count in (("few_s", int(few)), ("many_s", int(many))):
        with Limpet("memory://") as client:
            with suppress(Awaiting):
                client.run_sync(receive_and_wait, count, state_id="inbox")
            for number in range(count):
                client.send("inbox", "number", number)
            with suppress(Awaiting):
                client.run_sync(receive_and_wait, count, state_id="inbox")
            client.send("inbox", "last", 0)
            began = perf_counter()
            client.run_sync(receive_and_wait, count, state_id="inbox")
            answer[name] = (perf_counter() - began) / count
    return answer


if __name__ == "__main__":
    trials.answer({"drain": drain, "resume": resume})
