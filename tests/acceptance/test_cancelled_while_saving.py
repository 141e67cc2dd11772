"""Whoever awaits a run cancels it while its records are being written: that is not taken for the doing of its code."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from limpet import Limpet, MemoryStateBackend, agent, tool
from limpet.backends.contract import Append
from limpet.errors import BackendError

executed: Counter[str] = Counter()


class Watched(MemoryStateBackend):
    """A store during whose commits something happens beside the run."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: Callable[[], object] | None = None

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        answers = super().append(appends)
        if executed and self.beside is not None:
            beside, self.beside = self.beside, None
            beside()
        return answers


@tool
async def book(what: str) -> str:
    executed[what] += 1
    return f"{what} is booked"


@agent
async def travel(place: str) -> str:
    return await book(f"train to {place}")


async def stay(place: str) -> list[str]:
    return [await book(f"{what} in {place}") for what in ("hotel", "table")]


@agent
async def trip() -> list[object]:
    return [*await asyncio.gather(travel("Brest"), stay("Brest"), travel("Roscoff"))]


@agent
async def first_trip() -> list[object]:
    tasks = [asyncio.create_task(travel(place)) for place in ("Brest", "Roscoff")]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return await asyncio.gather(*tasks)


async def run_and_cancel(client: Limpet, backend: Watched, work: Any) -> None:
    """Run until the first calls are being written, and cancel the run then."""
    running = asyncio.create_task(client.run(work, state_id="x"))
    backend.beside = running.cancel
    with pytest.raises(asyncio.CancelledError):
        await running


@pytest.fixture(autouse=True)
def fresh() -> None:
    executed.clear()


def test_a_run_that_was_cancelled_while_it_was_saved_goes_on_without_drift() -> None:
    backend = Watched()
    client = Limpet(backend, on_drift="error")
    asyncio.run(run_and_cancel(client, backend, trip))
    assert "cancelled" not in {client.history("x")[address].status for address in client.history("x").addresses()}
    result = client.run_sync(trip, state_id="x")
    hotel, table = "hotel in Brest is booked", "table in Brest is booked"
    assert ["train to Brest is booked", [hotel, table], "train to Roscoff is booked"] == result
    assert {1} == set(executed.values())


def test_nobody_is_told_that_code_is_wrong_whose_run_was_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "asyncio")
    backend = Watched()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        asyncio.run(run_and_cancel(Limpet(backend), backend, first_trip))
    assert [] == [record.getMessage() for record in caplog.records]
