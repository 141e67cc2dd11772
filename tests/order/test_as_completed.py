"""``as_completed`` over coroutines makes its tasks in the order of a set, which is another one in every process."""

from __future__ import annotations

import asyncio

import pytest
from order.loops import HERE, Loop, new_loop

from limpet import Limpet, agent

SHOPS = [f"shop {number}" for number in range(20)]


@pytest.mark.parametrize("kind", HERE)
def test_as_completed_begins_what_it_was_given_in_the_order_of_the_list(kind: Loop) -> None:
    begun: list[str] = []

    async def offer(shop: str) -> str:
        begun.append(shop)
        return shop

    @agent
    async def offers() -> list[str]:
        return [await each for each in asyncio.as_completed([offer(shop) for shop in SHOPS])]

    with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner, Limpet("memory://") as client:
        assert SHOPS == runner.run(client.run(offers))
    assert SHOPS == begun


@pytest.mark.parametrize("kind", HERE)
def test_other_callbacks_that_are_due_stay_where_they_are(kind: Loop) -> None:
    noted: list[str] = []

    async def offer(shop: str) -> str:
        noted.append(shop)
        return shop

    @agent
    async def offers() -> None:
        asyncio.get_running_loop().call_soon(noted.append, "before")
        for each in asyncio.as_completed([offer(shop) for shop in SHOPS]):
            await each

    with asyncio.Runner(loop_factory=lambda: new_loop(kind)) as runner, Limpet("memory://") as client:
        runner.run(client.run(offers))
    assert ["before", *SHOPS] == noted
