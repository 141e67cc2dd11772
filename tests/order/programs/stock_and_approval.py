"""An ``Event`` that the first approval sets, and a ``Condition`` that customers wait on until there is stock."""

from __future__ import annotations

import asyncio

from order.outside import Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def approve(who: str) -> str:
    await work(who)
    return who


@tool
async def deliver(goods: str) -> int:
    await work(goods)
    return 1


@tool(once=True, probe=probe_effect)
async def ship(parcel: str) -> str:
    await make_effect(parcel)
    return f"receipt for {parcel}"


class Shop:
    def __init__(self) -> None:
        self.diary = Diary("program")
        self.is_approved = asyncio.Event()
        self.approved_by: list[str] = []
        self.delivered = asyncio.Condition()
        self.stock = 0

    async def ask(self, who: str) -> None:
        self.approved_by.append(await approve(who))
        self.diary.decide(f"{who} approves")
        self.is_approved.set()

    async def take_in(self, goods: str) -> None:
        count = await deliver(goods)
        async with self.delivered:
            self.stock += count
            self.diary.decide(f"{goods} came")
            self.delivered.notify()

    async def sell(self, customer: str) -> None:
        await self.is_approved.wait()
        async with self.delivered:
            await self.delivered.wait_for(lambda: self.stock > 0)
            self.stock -= 1
        self.diary.decide(f"{customer} is served, by {self.approved_by[0]}")
        self.diary.decide(f"got {await ship(f'parcel to {customer}')}")


@agent
async def program() -> list[str]:
    shop = Shop()
    async with asyncio.TaskGroup() as group:
        for customer in ("Ada", "Ben", "Cleo"):
            group.create_task(shop.sell(customer))
        for goods in ("bolts", "nuts", "screws"):
            group.create_task(shop.take_in(goods))
        for who in ("sales", "law"):
            group.create_task(shop.ask(who))
    return shop.diary.decisions
