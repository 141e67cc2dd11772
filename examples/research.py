"""A research agent. Run it twice, or interrupt it and run it again: what is recorded is not done again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from limpet import agent, llm, tool


@dataclass
class Page:
    url: str
    text: str


@tool
async def fetch(url: str) -> Page:
    print(f"fetching {url}")
    await asyncio.sleep(0.1)
    return Page(url, f"What stands at {url}.")


@llm
async def summarise(page: Page) -> str:
    print(f"asking the model about {page.url}")
    await asyncio.sleep(0.1)
    return page.text.upper()


async def read(url: str) -> str:
    return await summarise(await fetch(url))


@agent
async def research(topic: str) -> list[str]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(read(f"https://example.org/{topic}/{number}")) for number in (1, 2, 3)]
    return [task.result() for task in tasks]


if __name__ == "__main__":
    for summary in asyncio.run(research.run("kelp", state_id="kelp-42", store="sqlite:///research.db")):
        print(summary)
