"""Tasks that begin at once, each made by itself as Python 3.12 has it, and one that takes longer beside them."""

from __future__ import annotations

import asyncio
from typing import Any

from order.outside import Diary, work

from limpet import agent, tool


@tool
async def offer(shop: str) -> str:
    await work(shop)
    return shop


async def bargain(shop: str, diary: Diary) -> str:
    diary.decide(f"asked {shop}")
    diary.decide(f"got {await offer(shop)}")
    return await offer(f"{shop}, lower")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    at_once: dict[str, Any] = {"eager_start": True, "loop": asyncio.get_running_loop()}
    for number in range(3):
        tasks = [asyncio.Task(bargain(f"{shop} {number}", diary), **at_once) for shop in ("north", "south")]
        diary.decide(f"turn {number}")
        diary.decide(f"got {await offer(f'own {number}')}")
        diary.decide(f"got {await asyncio.gather(*tasks)}")
    return diary.decisions
