"""The program with effects that is killed at random moments: ``python killed_effects_program.py STORE LOGS``.

It is a server that has imported everything once. Of each order that it reads, a line of JSON, it forks a process that
runs the program and, if the order says so, is killed after a while. A process is forked before there is any thread or
event loop. The answer is a line of JSON: the result, the call whose outcome is unknown, or that it was killed.

Every execution is logged outside the store, with one write to a file that is only appended to: for what is declared
once, this is the effect. Every pause is random, so that no two processes have the same timing.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import select
import signal
import sys
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

from limpet import DidNotHappen, Happened, Limpet, RetryConfig, agent, current_event, tool
from limpet.errors import OutcomeUnknown

MOST_ATTEMPTS = 3
CHAINS = 3

logs = Path()
"""The folder of the logs, one for each state."""


def log_execution(name: str) -> None:
    log = os.open(logs / current_event().state_id, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, f"{name}\n".encode())
    os.close(log)


def logged(log: Path) -> Counter[str]:
    return Counter(log.read_text().splitlines()) if log.exists() else Counter()


def result_of(name: str) -> str:
    return f"receipt of {name}"


async def pause() -> None:
    await asyncio.sleep(random.random() * 0.003)


async def do(name: str) -> str:
    await pause()
    log_execution(name)
    await pause()
    return result_of(name)


def look_up(name: str) -> object:
    has_happened = logged(logs / current_event().state_id)[name]
    return Happened(result_of(name)) if has_happened else DidNotHappen()


@tool(once=True)
async def pay(name: str) -> str:
    return await do(name)


@tool(once=True)
def post(name: str) -> str:
    log_execution(name)
    return result_of(name)


@tool(once=True, probe=look_up)
async def book(name: str) -> str:
    return await do(name)


@tool(retry_config=RetryConfig(max_attempts=MOST_ATTEMPTS, initial_delay=0.001, jitter=False))
async def flaky(name: str, works_at: int) -> str:
    attempt = current_event().attempt
    log_execution(f"{name} at {attempt}")
    await pause()
    if attempt < works_at:
        raise ConnectionError(name)
    return f"{name} at {attempt}"


async def chain(name: str) -> list[str]:
    return [await pay(f"{name}.0"), await flaky(f"{name}.1", 2), await book(f"{name}.2")]


@agent
async def effects(name: str) -> list[Any]:
    found: list[Any] = [await pay("first"), await flaky("flaky", 3), await book("booked")]
    try:
        found.append(await flaky("given up", 99))
    except ConnectionError as error:
        found.append(f"gave up {error}")
    found += await asyncio.gather(*(chain(f"gathered-{number}") for number in range(CHAINS)))
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pay(f"grouped-{number}")) for number in range(CHAINS)]
    return [*found, *(task.result() for task in tasks), await post("letter"), name]


CHAINED = [f"gathered-{number}" for number in range(CHAINS)]
GROUPED = [f"grouped-{number}" for number in range(CHAINS)]
ONCE = ["first", "booked", "letter", *GROUPED, *(f"{name}.{number}" for name in CHAINED for number in (0, 2))]
"""The calls that are declared once."""


def expected(name: str) -> list[Any]:
    """What the run gives, worked out without running it."""
    one_by_one = [result_of("first"), "flaky at 3", result_of("booked"), "gave up given up"]
    chains = [[result_of(f"{each}.0"), f"{each}.1 at 2", result_of(f"{each}.2")] for each in CHAINED]
    return [*one_by_one, *chains, *map(result_of, GROUPED), result_of("letter"), name]


def answer_of(store: str, order: dict[str, Any]) -> dict[str, Any]:
    """What a process does: it passes on what it was told of a call, and runs the program."""
    random.seed(order["seed"])
    state_id = order["state_id"]
    try:
        with Limpet(store) as limpet:
            if order["word"] is not None:
                limpet.settle(state_id, order["at"], **order["word"], by="the test")
            return {"result": limpet.run_sync(effects, state_id, state_id=state_id)}
    except OutcomeUnknown as unknown:
        return {"unknown": unknown.address}
    except BaseException:
        return {"error": traceback.format_exc()}


def obeyed(store: str, order: dict[str, Any]) -> dict[str, Any]:
    """The answer to an order: that of the process, unless it was killed before it had ended."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, json.dumps(answer_of(store, order)).encode())
        os._exit(0)
    os.close(writing)
    if not select.select([reading], [], [], order["kill_after_s"])[0]:
        os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return {"killed_by": os.WTERMSIG(status)}
    return json.loads(answer)


if __name__ == "__main__":
    os.environ["LIMPET_CAPTURE"] = "off"
    logs = Path(sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(obeyed(sys.argv[1], json.loads(line))), flush=True)
