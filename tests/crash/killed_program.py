"""The program that is killed with SIGKILL at random moments: ``python killed_program.py STORE LOG``.

Every execution is logged outside the store, with one write to a file that is only appended to, before anything else
happens in it. Every pause is random, so that no two attempts have the same timing. It says ``ready`` when the run is
about to begin, and prints the result as JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys

from limpet import FileSystemStateBackend, Limpet, agent, tool

CHAINS = 4
LINKS = 5


def opened(store: str) -> Limpet:
    """The store of a URL; of ``packed://…`` a folder whose journals begin a new segment every few records."""
    if not store.startswith("packed://"):
        return Limpet(store)
    path = store.removeprefix("packed://")
    return Limpet(FileSystemStateBackend(path, "normal", compression="zstd", segment_size=2000))


def log_execution(name: str) -> None:
    log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(log, f"{name}\n".encode())
    os.close(log)


async def pause() -> None:
    await asyncio.sleep(random.random() * 0.004)


@tool
async def link(name: str, number: int) -> str:
    log_execution(f"{name}.{number}")
    await pause()
    return f"{name}.{number}"


@agent
async def nested(name: str) -> list[str]:
    return [await link(name, number) for number in range(2)]


async def chain(name: str) -> list[str]:
    found: list[str] = []
    for number in range(LINKS):
        await pause()
        found.append(await link(name, number))
    return found


@agent
async def killed(count: int) -> list[list[str]]:
    looped = [await link("loop", number) for number in range(count)]
    gathered = await asyncio.gather(*(chain(f"gathered-{number}") for number in range(CHAINS)))
    async with asyncio.TaskGroup() as group:
        grouped = [group.create_task(chain(f"grouped-{number}")) for number in range(CHAINS)]
    tasks = [asyncio.create_task(chain(f"created-{number}")) for number in range(CHAINS)]
    inner = await nested("nested")
    return [looped, *gathered, *(task.result() for task in grouped), *[await task for task in tasks], inner]


def expected(count: int) -> list[list[str]]:
    """What the run gives, worked out without running it."""
    kinds = ("gathered", "grouped", "created")
    names = [f"{kind}-{number}" for kind in kinds for number in range(CHAINS)]
    chains = [[f"{name}.{number}" for number in range(LINKS)] for name in names]
    return [[f"loop.{number}" for number in range(count)], *chains, ["nested.0", "nested.1"]]


if __name__ == "__main__":
    with opened(sys.argv[1]) as limpet:
        print("ready", flush=True)
        print(json.dumps(limpet.run_sync(killed, 5, state_id="killed")), flush=True)
