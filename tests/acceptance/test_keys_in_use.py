"""A key is in use while its call goes on, and no longer: a call that will never begin leaves it to others."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from limpet import Limpet, UsageError, agent, tool


@tool
async def charge(invoice: str) -> str:
    await asyncio.sleep(0)
    return f"{invoice} is charged"


async def charge_in_branch(invoice: str) -> str:
    return await charge.options(key=invoice)(invoice)


def given(work: Any) -> Any:
    result = Limpet("memory://").run_sync(work, state_id="x")
    gc.collect()  # A coroutine that nobody has awaited is told of here, and a warning is an error.
    return result


def test_a_call_whose_task_was_cancelled_before_it_began_leaves_its_key_to_another_branch() -> None:
    @agent
    async def program() -> str:
        dropped = asyncio.create_task(charge.options(key="may")("may"))
        dropped.cancel()
        await asyncio.wait([dropped])
        return await asyncio.create_task(charge_in_branch("may"))

    assert "may is charged" == given(program)


def test_a_call_that_was_closed_before_it_began_leaves_its_key_to_another_branch() -> None:
    @agent
    async def program() -> str:
        charge.options(key="may")("may").close()
        return await asyncio.create_task(charge_in_branch("may"))

    assert "may is charged" == given(program)


def test_a_call_that_has_not_begun_yet_keeps_its_key_from_other_branches() -> None:
    @agent
    async def program() -> list[Any]:
        made = charge.options(key="may")("may")
        other = await asyncio.gather(charge_in_branch("may"), return_exceptions=True)
        return [type(other[0]).__name__, await made]

    assert [UsageError.__name__, "may is charged"] == given(program)


@pytest.mark.parametrize("times", [1, 2])
def test_a_key_is_free_again_when_its_call_has_ended(times: int) -> None:
    @agent
    async def program() -> list[str]:
        return [await asyncio.create_task(charge_in_branch("may")) for _ in range(times)]

    assert times * ["may is charged"] == given(program)


@pytest.mark.parametrize("ended", [0, 1])
def test_a_key_is_in_use_until_every_call_of_its_branch_has_ended(ended: int) -> None:
    @agent
    async def program() -> list[Any]:
        released = [asyncio.Event(), asyncio.Event()]

        @tool
        async def wait(number: int) -> int:
            await released[number].wait()
            return number

        same = wait.options(key="same")
        going = [asyncio.create_task(same(number)) for number in range(2)]

        async def in_branch() -> int:
            return await same(0)

        released[ended].set()
        done = await going[ended]
        refused = await asyncio.gather(in_branch(), return_exceptions=True)
        released[0].set()
        released[1].set()
        await asyncio.wait(going)
        return [done, type(refused[0]).__name__, await asyncio.create_task(in_branch())]

    assert [ended, UsageError.__name__, 0] == given(program)


def test_a_key_that_is_no_text_is_refused_where_it_is_given() -> None:
    with pytest.raises(UsageError, match=r"7 was given to 'charge' as a key, which is text"):
        charge.options(key=7)  # pyright: ignore[reportArgumentType]  # as people who use no type checker write it
