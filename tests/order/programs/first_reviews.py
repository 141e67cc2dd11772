"""``as_completed`` over tasks: the first two reviews that come decide what the others are asked."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, llm

FILES = ["engine", "codec", "client", "journal"]


@llm
async def review(question: str) -> str:
    await work(question)
    return f"review of {question}"


async def review_twice(file: str, seen: list[str], diary: Diary) -> str:
    await review(file)
    seen.append(file)
    diary.decide(f"{file} was the review number {len(seen)}")
    if len(seen) > 2:
        return await review(f"{file} again, in the light of {seen[0]} and {seen[1]}")
    return file


@agent
async def program() -> list[str]:
    diary, seen = Diary("program"), list[str]()
    tasks = [asyncio.create_task(review_twice(file, seen, diary)) for file in FILES]
    for coming in asyncio.as_completed(tasks):
        diary.decide(f"got {await coming}")
    return diary.decisions
