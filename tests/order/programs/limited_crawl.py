"""A gather that a semaphore limits: who gets in while there is budget reads the whole page, the others its title."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, tool


@tool
async def open_page(page: str) -> str:
    await work(page)
    return page


@tool
async def read(what: str) -> str:
    await work(what)
    return what


class Crawl:
    def __init__(self) -> None:
        self.diary = Diary("program")
        self.doors = asyncio.Semaphore(2)
        self.budget = 3

    async def visit(self, page: str) -> None:
        await open_page(page)
        async with self.doors:
            self.budget -= 1
            what = "whole" if self.budget >= 0 else "title"
            self.diary.decide(f"{page} gets in for the {what}")
            self.diary.decide(f"got {await read(f'{what} of {page}')}")


@agent
async def program() -> list[str]:
    crawl = Crawl()
    await asyncio.gather(*(crawl.visit(f"page-{number}") for number in range(5)))
    return crawl.diary.decisions
