"""A warning of drift names the line of the user's that has drifted, also where asyncio stands in between."""

from __future__ import annotations

import asyncio
import warnings
from pathlib import Path
from typing import Any

import pytest

from limpet import DriftWarning, Limpet, agent, tool

pages = ["a", "b"]


@tool
async def fetch(page: str) -> str:
    return page


@agent
async def one_by_one() -> None:
    for page in pages:
        await fetch.options(key=page)(page)  # drifts
    if len(pages) == 2:
        raise RuntimeError("broken")


@agent
async def in_a_gather() -> None:
    await asyncio.gather(*(fetch.options(key=page)(page) for page in pages))  # drifts
    if len(pages) == 2:
        raise RuntimeError("broken")


@agent
async def in_a_task() -> None:
    for page in pages:
        await asyncio.create_task(fetch.options(key=page)(page))  # drifts
    if len(pages) == 2:
        raise RuntimeError("broken")


@pytest.mark.parametrize("work", [one_by_one, in_a_gather, in_a_task], ids=lambda work: work.name)
def test_the_warning_about_a_call_names_its_line(work: Any) -> None:
    client = Limpet("memory://")
    pages[:] = ["a", "b"]
    with pytest.raises(RuntimeError):
        client.run_sync(work, state_id="x")
    pages[:] = ["b"]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        client.run_sync(work, state_id="x")
    told = [each for each in caught if issubclass(each.category, DriftWarning) and "fetch[b]" in str(each.message)]
    lines = Path(__file__).read_text().splitlines()
    assert [__file__] == [each.filename for each in told]
    assert ["drifts"] == [lines[each.lineno - 1].partition("# ")[2] for each in told]
