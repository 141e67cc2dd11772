"""Memory object streams of anyio: two who send, three who receive, and a report in the order of arrival."""

from __future__ import annotations

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from order.outside import Diary, work

from limpet import agent, tool


@tool
async def catch(fish: str) -> str:
    await work(fish, 1)
    return fish


@tool
async def clean(fish: str) -> str:
    await work(fish)
    return fish


async def boat(name: str, market: MemoryObjectSendStream[str]) -> None:
    async with market:
        for number in range(3):
            await market.send(await catch(f"{name}-{number}"))


async def stall(name: str, market: MemoryObjectReceiveStream[str], diary: Diary) -> None:
    async with market:
        async for fish in market:
            diary.decide(f"{name} cleans {fish}")
            diary.decide(f"{name} has {await clean(fish)}")


@agent
async def program() -> list[str]:
    diary = Diary("program")
    sending, receiving = anyio.create_memory_object_stream[str](1)
    async with anyio.create_task_group() as group, sending, receiving:
        for name in ("cod", "ling"):
            group.start_soon(boat, name, sending.clone())
        for name in ("Ada", "Ben", "Cleo"):
            group.start_soon(stall, name, receiving.clone(), diary)
        sending.close()
        receiving.close()
    return diary.decisions
