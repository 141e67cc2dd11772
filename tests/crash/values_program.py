"""The program whose effects depend on recorded values: in agents, plain and async, in branches, and in tools.

As a program it is killed at random moments: ``values_program.py STORE LOG`` prints its result as JSON. Every effect is
told to ``effect`` with the value that it was made with, outside any store.
"""

from __future__ import annotations

import asyncio
import json
import os
import random as timing
import sys
from collections.abc import Callable

from limpet import Limpet, agent, now, random, tool, uuid4

STATE = "values"

Effect = Callable[[str, str], object]

effect: Effect
"""Told of an effect in the world: its name, and the value that it was made with."""


async def pause() -> None:
    await asyncio.sleep(timing.random() * 0.002)


@tool
async def charge(name: str, key: str) -> str:
    effect(name, key)
    await pause()
    return key


@tool
async def charge_with_own_key(name: str) -> str:
    await pause()
    key = str(uuid4())
    effect(name, key)
    return key


@tool
def charge_plainly(name: str) -> str:
    key = str(uuid4())
    effect(name, key)
    return key


@agent
def plain(name: str) -> list[str]:
    key = now().isoformat()
    return [charge.call(f"{name}.a", key), charge_plainly.call(f"{name}.b"), charge.call(f"{name}.c", str(uuid4()))]


async def branch(name: str) -> list[str]:
    await pause()
    first = await charge(f"{name}.a", f"{random().random()}")
    await pause()
    return [first, await charge_with_own_key(f"{name}.b"), await charge(f"{name}.c", str(uuid4()))]


@agent
async def paying(threads: int) -> list[list[str]]:
    """``threads``: how many of its agents are plain ones. Their threads outlive a death that is only simulated."""
    first = await charge("first", str(uuid4()))
    branches = await asyncio.gather(
        *(branch(f"branch-{number}") for number in range(3)), *(plain(f"plain-{number}") for number in range(threads))
    )
    return [[first], *branches, [await charge("last", now().isoformat())]]


def logging_to(log: str) -> Effect:
    def note(name: str, value: str) -> None:
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{name} {value}\n".encode())
        os.close(descriptor)

    return note


def main() -> None:
    global effect
    store, log = sys.argv[1:]
    effect = logging_to(log)
    with Limpet(store) as client:
        print("ready", flush=True)
        print(json.dumps(client.run_sync(paying, 2, state_id=STATE)))


if __name__ == "__main__":
    main()
