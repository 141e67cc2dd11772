"""``as_completed`` over coroutines of plain functions that call tools: the second offer that comes is ordered."""

from __future__ import annotations

import asyncio

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool

SUPPLIERS = ["ash", "beech", "cedar", "elm"]


@tool
async def ask(supplier: str) -> str:
    await work(supplier)
    return f"offer of {supplier}"


@tool
async def check(supplier: str) -> str:
    await work(supplier)
    return f"{supplier} is sound"


@tool(once=True, probe=probe_effect)
async def order(name: str) -> str:
    await make_effect(name)
    return f"receipt for {name}"


async def offer_of(supplier: str) -> str:
    offer = await ask(supplier)
    return f"{offer}, {await check(supplier)}"


@agent
async def program() -> list[str]:
    diary = Diary("program")
    for number, coming in enumerate(asyncio.as_completed([offer_of(supplier) for supplier in SUPPLIERS])):
        offer = await coming
        diary.decide(f"got {offer}")
        if number == 1:
            diary.decide(f"got {await order(f'order from {offer.split()[2][:-1]}')}")
    return diary.decisions
