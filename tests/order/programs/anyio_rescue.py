"""Task groups and cancel scopes of anyio: the first who finds ends the search; who is late is replaced by paid help."""

from __future__ import annotations

import anyio
from order.outside import MOMENT_S, Diary, make_effect, probe_effect, work

from limpet import agent, tool


@tool
async def search(place: str) -> str:
    await work(place)
    return place


@tool(once=True, probe=probe_effect)
async def hire(name: str) -> str:
    await make_effect(name)
    return f"receipt for {name}"


class Rescue:
    def __init__(self) -> None:
        self.diary = Diary("program")

    async def look(self, place: str, whole: anyio.abc.TaskGroup) -> None:
        for side in ("north", "south"):
            self.diary.decide(f"got {await search(f'{side} of {place}')}")
        self.diary.decide(f"{place} is searched first")
        whole.cancel_scope.cancel()


@agent
async def program() -> list[str]:
    rescue = Rescue()
    for day in ("Monday", "Tuesday"):
        async with anyio.create_task_group() as group:
            for place in ("bay", "cliff", "dunes"):
                group.start_soon(rescue.look, f"{place} on {day}", group)
        with anyio.move_on_after(MOMENT_S) as patience:
            rescue.diary.decide(f"got {await search(f'harbour on {day}')}")
        if patience.cancelled_caught:
            rescue.diary.decide_perhaps(f"the harbour takes too long on {day}")
            rescue.diary.decide(f"got {await hire(f'divers on {day}')}")
    return rescue.diary.decisions
