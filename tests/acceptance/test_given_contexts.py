"""Tasks that a run creates with ``context=`` keep the changes of that context, and have branches of their own."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from contextvars import ContextVar, copy_context
from typing import Any

import anyio
import pytest

from limpet import Limpet, agent, tool

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}
place: ContextVar[str] = ContextVar("place")


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@tool
async def step(name: str) -> str:
    executions[name] += 1
    await asyncio.sleep(0)
    return name


async def moves(where: str) -> str:
    found = await step(where)
    place.set(where)
    await asyncio.sleep(0)
    return found


def run_twice(run: Any) -> Any:
    """Run to a failure at the end, and again from the record, which gives the same and executes nothing."""
    client = Limpet("memory://", on_drift="error")
    with pytest.raises(LookupError):
        client.run_sync(run, state_id="s")
    before = dict(executions)
    switch["mended"] = True
    result = client.run_sync(run, state_id="s")
    assert before == executions
    return result


def fail_once() -> None:
    if "mended" not in switch:
        raise LookupError


@pytest.mark.parametrize("how", ["create_task", "task group", "loop"])
def test_what_a_task_changes_is_seen_in_the_context_that_it_was_given(how: str) -> None:
    @agent
    async def works() -> list[Any]:
        context = copy_context()
        match how:
            case "create_task":
                found = await asyncio.create_task(moves("Brest"), context=context)
            case "task group":
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(moves("Brest"), context=context)
                found = task.result()
            case _:
                found = await asyncio.get_running_loop().create_task(moves("Brest"), context=context)
        fail_once()
        return [found, context.get(place), place.get("unset")]

    assert ["Brest", "Brest", "unset"] == run_twice(works)


def test_tasks_that_share_a_context_see_each_others_changes_and_have_branches_of_their_own() -> None:
    @agent
    async def works() -> list[Any]:
        context, seen = copy_context(), list[str]()

        async def writes() -> None:
            for name in ("one", "two"):
                await step(f"writes {name}")
                place.set(name)
                await turn.wait()
                turn.clear()

        async def reads() -> None:
            for _ in range(2):
                while place.get("unset") in ("unset", *seen):
                    await asyncio.sleep(0)
                seen.append(place.get())
                await step(f"reads {place.get()}")
                turn.set()

        turn = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(writes(), context=context)
            group.create_task(reads(), context=context)
        fail_once()
        return [*seen, context.get(place)]

    assert ["one", "two", "two"] == run_twice(works)
    assert {1} == set(executions.values())


def test_calls_that_share_a_context_leave_it_in_the_run() -> None:
    @agent
    async def works() -> str | None:
        context = copy_context()
        async with asyncio.TaskGroup() as group:
            for name in ("one", "two", "three"):
                group.create_task(step(name), context=context)
        await asyncio.create_task(moves("Brest"), context=context)
        fail_once()
        return context.get(place)

    assert "Brest" == run_twice(works)
    assert {1} == set(executions.values())


def test_a_variable_that_is_reset_is_reset_in_the_given_context() -> None:
    @agent
    async def works() -> list[Any]:
        context, seen = copy_context(), list[Any]()

        async def visits() -> None:
            token = place.set("Brest")
            await asyncio.sleep(0)
            seen.append(context.get(place))
            place.reset(token)
            await step("back")

        await asyncio.create_task(visits(), context=context)
        fail_once()
        return [*seen, place in context]

    assert ["Brest", False] == run_twice(works)


def test_what_the_context_is_given_meanwhile_is_seen_by_the_task() -> None:
    @agent
    async def works() -> str:
        context, go = copy_context(), asyncio.Event()

        async def looks() -> str:
            await step("begun")
            go.set()
            while place.get("unset") == "unset":
                await asyncio.sleep(0)
            return place.get()

        task = asyncio.create_task(looks(), context=context)
        await go.wait()
        context.run(place.set, "Roscoff")
        found = await task
        fail_once()
        return found

    assert "Roscoff" == run_twice(works)


def test_a_context_that_is_entered_can_be_given() -> None:
    @agent
    async def works() -> str | None:
        context = copy_context()
        task = context.run(lambda: asyncio.create_task(moves("Brest"), context=context))
        await task
        fail_once()
        return context.get(place)

    assert "Brest" == run_twice(works)


def test_a_task_in_a_given_context_is_cancelled_and_fails_as_any_other() -> None:
    @agent
    async def works() -> list[Any]:
        context = copy_context()

        async def waits() -> None:
            try:
                place.set("waiting")
                await asyncio.Event().wait()
            finally:
                place.set("cancelled")

        async def fails() -> None:
            place.set("failed")
            raise KeyError("no")

        task = asyncio.create_task(waits(), context=context)
        await step("beside")
        task.cancel()
        found: list[Any] = [type(each) for each in await asyncio.gather(task, return_exceptions=True)]
        found.append(context.get(place))
        with pytest.raises(KeyError):
            await asyncio.create_task(fails(), context=context)
        fail_once()
        return [found[0].__name__, found[1], context.get(place)]

    assert ["CancelledError", "cancelled", "failed"] == run_twice(works)


def test_anyio_works_inside_of_a_task_in_a_given_context() -> None:
    @agent
    async def works() -> str | None:
        context = copy_context()

        async def inside() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(step, "one")
                group.start_soon(step, "two")
            with anyio.move_on_after(0):
                await anyio.sleep_forever()
            place.set("left")

        await asyncio.create_task(inside(), context=context)
        fail_once()
        return context.get(place)

    assert "left" == run_twice(works)


def test_tasks_keep_the_changes_also_where_they_are_eager_as_newer_pythons_can_make_them() -> None:
    @agent
    async def works() -> list[Any]:
        context = copy_context()

        async def moves_at_once() -> None:
            place.set("Brest")

        await asyncio.create_task(moves_at_once(), context=context)
        first = context.get(place)
        await asyncio.create_task(moves("Roscoff"), context=context)
        fail_once()
        return [first, context.get(place)]

    @agent
    async def eagerly() -> list[Any]:
        return await works()

    async def main(client: Limpet) -> Any:
        asyncio.get_running_loop().set_task_factory(getattr(asyncio, "eager_task_factory", None))
        return await client.run(eagerly)

    switch["mended"] = True
    assert ["Brest", "Roscoff"] == asyncio.run(main(Limpet("memory://")))


def test_an_empty_context_is_kept() -> None:
    context = contextvars.Context()

    @agent
    async def works() -> None:
        async def sets() -> None:
            place.set("Brest")

        await asyncio.create_task(sets(), context=context)

    Limpet("memory://").run_sync(works)
    assert "Brest" == context[place]
