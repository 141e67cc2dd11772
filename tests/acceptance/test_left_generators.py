"""An async generator that code leaves before its end is closed by a task, which has its place in the order."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from limpet import DriftWarning, Limpet, agent, tool

executed: Counter[str] = Counter()
log: list[str] = []
is_broken = True


class Broken(Exception):
    """A bug in the code behind all calls."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    global is_broken
    executed.clear()
    log.clear()
    is_broken = True
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        yield


@tool
async def read(page: str) -> str:
    executed[page] += 1
    return page


def run_and_resume(work: object, folder: Path) -> list[str]:
    """Runs an agent that fails at its end, and resumes it. Returns the addresses of what it has called."""
    global is_broken
    with Limpet(f"sqlite:///{folder}/runs.db") as client:
        with pytest.raises(Broken):
            client.run_sync(work, state_id="x")  # pyright: ignore[reportArgumentType]  # an agent without parameters
        is_broken = False
        log.append("resumed")
        client.run_sync(work, state_id="x")  # pyright: ignore[reportArgumentType]  # as above
        return client.history("x").addresses()


def test_what_a_generator_does_when_it_is_left_has_its_place_among_the_results(tmp_path: Path) -> None:
    async def pages() -> AsyncIterator[str]:
        try:
            for number in range(9):
                yield await read(f"page {number}")
        finally:
            log.append("left")
            log.append(await read("imprint"))

    @agent
    async def program() -> None:
        async for page in pages():
            if page == "page 1":
                break
        log.append(await read("first"))
        log.append(await read("second"))
        if is_broken:
            raise Broken

    addresses = run_and_resume(program, tmp_path)
    before, after = log[: log.index("resumed")], log[log.index("resumed") + 1 :]
    assert before == after
    assert ["first", "imprint", "left", "second"] == sorted(before)
    assert {"page 0": 1, "page 1": 1, "imprint": 1, "first": 1, "second": 1} == executed
    assert "program::task[pages.aclose]::read::tool_call" in addresses
