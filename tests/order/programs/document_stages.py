"""Producers and consumers in two stages with bounded queues: scanned, then read, then filed in the order of arrival."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, llm, tool

Sheets = asyncio.Queue[str | None]


@tool
async def scan(sheet: str) -> str:
    await work(sheet, 1)
    return sheet


@llm
async def read(sheet: str) -> str:
    await work(sheet)
    return f"text of {sheet}"


@tool
async def file(text: str) -> str:
    await work(text, 0.5)
    return text


async def scanner(name: str, scanned: Sheets) -> None:
    for number in range(3):
        await scanned.put(await scan(f"{name}-{number}"))


async def reader(name: str, scanned: Sheets, texts: Sheets, diary: Diary) -> None:
    while (sheet := await scanned.get()) is not None:
        text = await read(sheet)
        diary.decide(f"{name} got {text}")
        await texts.put(text)


async def filer(texts: Sheets, diary: Diary) -> None:
    number = 0
    while (text := await texts.get()) is not None:
        diary.decide(f"got {await file(f'number {number}: {text}')}")
        number += 1


@agent
async def program() -> list[str]:
    diary = Diary("program")
    scanned: Sheets = asyncio.Queue(1)
    texts: Sheets = asyncio.Queue(2)
    filing = asyncio.create_task(filer(texts, diary))
    readers = [asyncio.create_task(reader(name, scanned, texts, diary)) for name in ("Ada", "Ben")]
    await asyncio.gather(*(scanner(name, scanned) for name in ("left", "right")))
    for _ in readers:
        await scanned.put(None)
    await asyncio.gather(*readers)
    await texts.put(None)
    await filing
    return diary.decisions
