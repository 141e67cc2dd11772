"""The two sides of a race: one process writes, replaces and deletes states with artifacts, the other collects.

`writer STORE SECONDS` and `collector STORE`; each prints what it did as JSON when it ends. The collector ends when its
standard input does.
"""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from datetime import timedelta

from limpet import ExecutionState, Limpet, agent, tool

POOL = 12
"""So few contents that the same artifacts are put, named, forgotten and put again all the time."""


def content(number: int) -> bytes:
    # Some are kept inside the database, some in files beside it.
    return random.Random(number).randbytes(40_000 if number % 2 else 300_000)


@tool
async def make(number: int) -> bytes:
    return content(number)


@agent
async def makes(numbers: list[int]) -> list[int]:
    return [len(await make(number)) for number in numbers]


def write(store: str, seconds: float) -> dict[str, int]:
    """Make states, read them back, and delete most of them. Nothing that a state names may ever be missing."""
    chance = random.Random()
    done = {"states": 0, "deleted": 0, "reads": 0}
    kept: list[str] = []
    until = time.monotonic() + seconds
    with Limpet(store) as client:
        while time.monotonic() < until:
            state_id = f"state-{done['states']}"
            numbers = [chance.randrange(POOL) for _ in range(3)]
            client.run_sync(makes, numbers, state_id=state_id)
            state = ExecutionState(state_backend=client.backend, state_id=f"{state_id}-stored")
            state.storage.set_artifact("a", content(chance.randrange(POOL)))
            kept += [state_id, f"{state_id}-stored"]
            done["states"] += 2
            done["reads"] += check(client, state_id)
            assert state.storage.get_artifact("a") is not None
            while len(kept) > 6:
                client.delete(kept.pop(chance.randrange(len(kept))))
                done["deleted"] += 1
    return done


def check(client: Limpet, state_id: str) -> int:
    history = client.history(state_id)
    results = [history.get_event_result(address) for address in history.addresses() if "make" in address]
    assert all(result is not None for result in results)
    return len(results)


def collect(store: str) -> dict[str, int]:
    done = {"collections": 0, "deleted": 0}
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with Limpet(store) as client:
        while not ended.is_set():
            done["deleted"] += len(client.collect(grace=timedelta(0)).deleted)
            done["collections"] += 1
    return done


if __name__ == "__main__":
    _, side, store_url, *rest = sys.argv
    print(json.dumps(write(store_url, float(rest[0])) if side == "writer" else collect(store_url)), flush=True)
