"""The program with artifacts that is stopped everywhere: large results and inputs, a file, the same content twice.

Every execution is counted by name in ``executions``, outside any store.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from pathlib import Path
from typing import Any

from limpet import ArtifactFile, agent, tool

executions: Counter[str] = Counter()

SIZES = {"small": 1_000, "medium": 40_000, "large": 300_000}


def content(what: str) -> bytes:
    return random.Random(what.rpartition(".")[0]).randbytes(SIZES[what.rpartition(".")[2]])


@tool
async def fetch(name: str, what: str) -> bytes:
    executions[name] += 1
    await asyncio.sleep(0)
    return content(what)


@tool
async def measure(name: str, data: bytes) -> int:
    executions[name] += 1
    return len(data)


@tool(is_artifact=True)
def forced(name: str) -> dict[str, Any]:
    executions[name] += 1
    return {"name": name, "parts": [1, (2, 3)]}


@tool
async def film(name: str, folder: str) -> ArtifactFile:
    executions[name] += 1
    path = Path(folder) / "film.bin"
    path.write_bytes(content("film.medium"))
    return ArtifactFile(path)


@agent
async def inner(name: str, data: bytes) -> bytes:
    executions[name] += 1
    return data[: await measure(f"{name}.measure", data) // 2]


@agent
async def with_artifacts(data: bytes, folder: str) -> dict[str, Any]:
    executions["with_artifacts"] += 1
    wanted = enumerate(("a.medium", "b.medium", "a.medium"))
    pages = await asyncio.gather(*(fetch(f"page-{number}", what) for number, what in wanted))
    halves = [await inner(f"inner-{number}", page) for number, page in enumerate(pages)]
    large = await fetch("large", "c.large")
    return {
        "lengths": [await measure(f"measure-{number}", half) for number, half in enumerate(halves)],
        "forced": await forced("forced"),
        "large": await measure("measure-large", large),
        "again": await fetch("again", "c.large"),
        "small": await fetch("small", "d.small"),
        "film": (await film("film", folder)).read_bytes(),
        "input": len(data),
    }
