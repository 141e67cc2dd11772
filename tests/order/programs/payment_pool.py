"""The same pool, as the documentation advises: keyed calls, of which the payment is declared ``once``."""

from __future__ import annotations

import asyncio

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def load(order: str) -> str:
    await work(order)
    return order


@tool(once=True, probe=probe_effect)
async def pay(order: str) -> str:
    await make_effect(order)
    return f"receipt for {order}"


async def worker(orders: asyncio.Queue[str], diary: Diary) -> None:
    while not orders.empty():
        order = orders.get_nowait()
        await load.options(key=order)(order)
        diary.decide(f"loaded {order}")
        diary.decide(f"got {await pay.options(key=order)(order)}")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    orders: asyncio.Queue[str] = asyncio.Queue()
    for number in range(6):
        orders.put_nowait(f"order-{number}")
    await asyncio.gather(*(worker(orders, diary) for _ in range(3)))
    return diary.decisions
