"""A call whose ``await`` was forgotten is told with the name that the user knows, wherever it ends up."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from limpet import (
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    Tool,
    UsageError,
    ValueNotStorable,
    agent,
    ask,
    llm,
    sleep,
    tool,
    wait_for_message,
)


@tool
async def fetch(url: str) -> dict[str, str]:
    return {"url": url}


@tool(name="charge")
def charge_card(amount: int) -> int:
    return amount


@llm
async def store(page: Any, *more: Any, **named: Any) -> str:
    return "stored"


@tool
def store_plainly(page: Any) -> str:
    return "stored"


class Shop:
    @tool
    async def price(self, number: int) -> int:
        return number


read = Tool(name="read", handler=lambda input, context, state: input)

FORGOTTEN: dict[str, Callable[[], Any]] = {
    "fetch": lambda: fetch("u"),
    "charge_card": lambda: charge_card(3),
    "store": lambda: store.options(key="k")("u"),
    "Shop.price": lambda: Shop().price(3),
    "read": lambda: read(3),
    "ask": lambda: ask("Publish?", bool),
    "sleep": lambda: sleep(timedelta(days=1)),
    "message": lambda: wait_for_message("topic"),
}


def in_run(body: Callable[[], Awaitable[Any]]) -> Any:
    @agent(name="runs")
    async def runs() -> Any:
        return await body()

    return Limpet("memory://").run_sync(runs)


@pytest.mark.parametrize("name", FORGOTTEN)
def test_python_names_the_call_that_is_never_awaited(name: str) -> None:
    async def forgets() -> int:
        FORGOTTEN[name]()
        return 1

    with pytest.warns(RuntimeWarning, match=f"coroutine '{name}' was never awaited"):
        assert 1 == in_run(forgets)


@pytest.mark.parametrize("name", ["fetch", "charge_card", "Shop.price", "read"])
def test_python_names_it_outside_of_a_run_as_well(name: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"coroutine '{name}' was never awaited"):
        FORGOTTEN[name]()


def test_python_names_an_event_of_the_explicit_form_that_is_never_awaited() -> None:
    state = ExecutionState(state_backend=MemoryStateBackend())
    with pytest.warns(RuntimeWarning, match="coroutine 'read' was never awaited"):
        ExecutionEvent(actor=read)(3, None, state)  # pyright: ignore[reportUnusedCoroutine]


def test_a_call_that_is_replayed_and_never_awaited_is_named_too() -> None:
    broken = [True]

    @agent
    async def runs() -> int:
        call = fetch("u")
        if not broken:
            return 1  # The code goes another way by now.
        await call
        broken.clear()
        raise RuntimeError("a bug")

    client = Limpet("memory://")
    with pytest.raises(RuntimeError):
        client.run_sync(runs, state_id="x")
    with pytest.warns() as told:
        client.run_sync(runs, state_id="x")
    assert "coroutine 'fetch' was never awaited" in [str(each.message) for each in told]


GIVEN: dict[str, Callable[[Any], Any]] = {
    "as an argument": lambda call: store(call),
    "by name": lambda call: store(1, page_two=call),
    "behind others": lambda call: store(1, 2, call),
    "inside of a list": lambda call: store([1, call]),
    "deep inside": lambda call: store({"pages": [{"first": (call,)}]}),
    "to a plain tool": lambda call: store_plainly(call),
    "to the explicit form": lambda call: read(call),
    "beside what cannot be stored": lambda call: store(object(), call),
    "beside much": lambda call: store("x" * 2_000_000, call),
}


@pytest.mark.parametrize("how", GIVEN)
@pytest.mark.parametrize("name", ["fetch", "charge_card", "store", "Shop.price", "ask"])
def test_a_call_that_is_given_to_another_one_is_refused(name: str, how: str) -> None:
    async def gives() -> Any:
        return await GIVEN[how](FORGOTTEN[name]())

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UsageError, match=rf"is given a call of '{name}' that is not awaited.* `await {name}\(…\)`"):
            in_run(gives)
        gc.collect()


def test_nothing_is_recorded_of_a_call_that_is_refused_so_the_mended_program_goes_on() -> None:
    forgets = [True]

    @agent
    async def runs() -> str:
        page = fetch("u")
        return await store(page if forgets else await page)

    client = Limpet("memory://")
    with pytest.raises(UsageError, match="not awaited"):
        client.run_sync(runs, state_id="x")
    forgets.clear()
    assert "stored" == client.run_sync(runs, state_id="x")


def test_coroutines_and_tasks_of_the_user_go_into_calls_as_before() -> None:
    async def own() -> int:
        return 3

    @tool
    async def waits(*given: Any) -> list[Any]:
        return [await each for each in given]

    async def gives() -> Any:
        return await waits(own(), asyncio.create_task(own()), asyncio.ensure_future(fetch("u")))

    assert [3, 3, {"url": "u"}] == in_run(gives)


async def own_coroutine() -> int:
    return 3


UNFINISHED: dict[str, tuple[Callable[[], Any], str]] = {
    "a call": (lambda: fetch("u"), "coroutine 'fetch' was not awaited. Write `await` before the call"),
    "a coroutine": (own_coroutine, "coroutine 'own_coroutine' was not awaited. Write `await` before the call"),
    "a task": (lambda: asyncio.create_task(own_coroutine()), "task was not awaited. Await the task"),
    "an actor": (lambda: fetch, "actor 'fetch' was not called. Call it, and await the call"),
}


@pytest.mark.parametrize("form", UNFINISHED)
@pytest.mark.parametrize("is_nested", [True, False])
def test_what_is_no_result_yet_is_refused_as_one_with_what_to_do(form: str, is_nested: bool) -> None:
    make, says = UNFINISHED[form]

    async def gives() -> Any:
        return {"pages": [make()]} if is_nested else make()

    with pytest.raises(ValueNotStorable, match=says):
        in_run(gives)


@pytest.mark.parametrize("form", UNFINISHED)
def test_what_is_no_result_yet_is_refused_by_the_storage(form: str) -> None:
    make, says = UNFINISHED[form]

    async def stores(input: Any, context: Any, state: ExecutionState) -> None:
        state.storage.set("page", make())

    @agent
    async def runs() -> None:
        await Tool(name="stores", handler=stores)(1)

    with pytest.raises(ValueNotStorable, match=says):
        Limpet("memory://").run_sync(runs)


def test_a_plain_tool_may_give_a_call_which_is_awaited_for_it() -> None:
    @tool
    def forwards(url: str) -> Any:
        return fetch(url)

    async def gives() -> Any:
        return await forwards("u")

    assert {"url": "u"} == in_run(gives)
