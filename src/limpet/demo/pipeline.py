"""A small research pipeline with a scripted model: no network, and the same result every time.

Every call of the model is written on a bill, a plain file outside the store, as a provider would count it. The
environment variable LIMPET_DEMO_FOLDER says where; without it no bill is kept.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

from limpet.declare import agent, llm, tool

FOLDER_VARIABLE = "LIMPET_DEMO_FOLDER"

MODEL_TAKES_S = 0.2
FETCH_TAKES_S = 0.3

_PAGES = {
    "anatomy": "Kelp has no roots. A limpet grips the rock, and takes nothing from it but the grip.",
    "growth": "Giant kelp grows up to half a metre a day, towards the light, and reaches forty metres.",
    "storms": "A winter storm tears out whole plants. Where the limpet stays, the forest comes back.",
}


@dataclass(frozen=True)
class Page:
    """A page of the scripted web."""

    title: str
    text: str


@dataclass(frozen=True)
class Note:
    """What a page says, checked."""

    title: str
    summary: str
    is_supported: bool


@dataclass(frozen=True)
class Report:
    """What the pipeline gives."""

    topic: str
    headline: str
    notes: list[Note]


@tool
async def fetch(title: str) -> Page:
    """Get a page."""
    await asyncio.sleep(FETCH_TAKES_S)
    return Page(title, _PAGES[title])


@llm
async def plan(topic: str) -> list[str]:
    """Choose the pages to read."""
    await _ask_model(f"plan {topic}")
    return list(_PAGES)


@llm
async def summarise(page: Page) -> str:
    """Say in one sentence what a page says."""
    await _ask_model(f"summarise {page.title}")
    return page.text.split(". ")[0].rstrip(".") + "."


@llm
async def check(summary: str, page: Page) -> bool:
    """Whether a page supports what was said of it."""
    await _ask_model(f"check {page.title}")
    return summary.rstrip(".") in page.text


@llm
async def headline(notes: list[Note]) -> str:
    """One line above all notes."""
    await _ask_model("headline")
    return f"What is held stays: {len(notes)} notes on kelp"


@agent
async def digest(page: Page) -> Note:
    """Read one page: summarise it, then check the summary."""
    summary = await summarise(page)
    await _stand_still_if_asked()
    return Note(page.title, summary, await check(summary, page))


@agent
async def research(topic: str) -> Report:
    """Read what there is on a topic and report."""
    titles = await plan(topic)
    pages = await asyncio.gather(*(fetch(title) for title in titles))
    notes = [await digest(page) for page in pages]
    return Report(topic, await headline(notes), notes)


async def _ask_model(prompt: str) -> None:
    await asyncio.sleep(MODEL_TAKES_S)
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is not None:
        with bill_in(Path(folder)).open("a") as bill:
            bill.write(f"{prompt}\n")


async def _stand_still_if_asked() -> None:
    """Wait to be killed where the driver asks for it: between two calls, so that the bills can be compared exactly."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None or not stop_in(Path(folder)).exists():
        return
    calls = len(bill_in(Path(folder)).read_text().splitlines())
    if calls >= int(stop_in(Path(folder)).read_text()):
        standing_in(Path(folder)).touch()
        await asyncio.Event().wait()


def bill_in(folder: Path) -> Path:
    """Where the model's calls are counted, a line for each."""
    return folder / "bill.txt"


def stop_in(folder: Path) -> Path:
    """Where the driver asks the pipeline to stand still after so many calls of the model."""
    return folder / "stop-after.txt"


def standing_in(folder: Path) -> Path:
    """What the pipeline makes when it stands still."""
    return folder / "standing"
