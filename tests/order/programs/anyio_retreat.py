"""Cancel scopes of anyio: an agent cancels one around itself, and tasks are cancelled again while they clean up."""

from __future__ import annotations

import anyio
from order.outside import MOMENT_S, Diary, work

from limpet import agent, tool


@tool
async def scout(place: str) -> str:
    await work(place)
    return place


@tool
async def dig(place: str) -> str:
    await work(place, 8)
    return place


class Camp:
    def __init__(self) -> None:
        self.diary = Diary("program")

    async def watch(self, who: str) -> None:
        for hour in range(4):
            self.diary.decide(f"got {await scout(f'hour {hour} of {who}')}")

    async def dig_in(self, place: str) -> None:
        try:
            self.diary.decide(f"got {await dig(place)}")
        finally:
            try:
                self.diary.decide(f"got {await scout(f'the way back from {place}')}")
            finally:
                # This is cut short wherever the scope has been cancelled.
                await anyio.sleep(MOMENT_S)

    async def stay(self, day: str) -> None:
        async with anyio.create_task_group() as group:
            for place in ("ridge", "valley"):
                group.start_soon(self.dig_in, f"{place} on {day}")
            self.diary.decide(f"got {await scout(f'weather on {day}')}")
            group.cancel_scope.cancel()
            self.diary.decide(f"got {await dig(f'camp on {day}')}")


@agent
async def program() -> list[str]:
    camp = Camp()
    async with anyio.create_task_group() as group:
        for who in ("Ada", "Bo"):
            group.start_soon(camp.watch, who)
        for day in ("Monday", "Tuesday"):
            await camp.stay(day)
            camp.diary.decide(f"got {await scout(f'evening of {day}, after {len(camp.diary.decisions)}')}")
    return camp.diary.decisions
