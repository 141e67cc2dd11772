"""Hedged requests: of three models the first answer counts and feeds the next round; the losers are cancelled."""

from __future__ import annotations

import asyncio

from order.outside import Diary, work

from limpet import agent, llm

MODELS = ["small", "middle", "large"]


@llm
async def ask(question: str) -> str:
    await work(question)
    return question


@agent
async def program() -> list[str]:
    diary, answer = Diary("program"), "?"
    for turn in range(4):
        tasks = [asyncio.create_task(ask(f"turn {turn} to {model} about {answer[-12:]}")) for model in MODELS]
        done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for loser in losers:
            loser.cancel()
        # In the order of the list: several may be there at once where tasks are eager, and a set has no order.
        answers = [task.result() for task in tasks if task in done]
        diary.decide(f"{len(answers)} came first: {answers}")
        await asyncio.gather(*losers, return_exceptions=True)
        answer = answers[0].split(" about ")[0]
    return diary.decisions
