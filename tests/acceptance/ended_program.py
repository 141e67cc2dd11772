"""A program that is ended while its runs go on: ``python ended_program.py STORE HOW [open]``.

It says ``inside`` when the tools of the run ``s`` that wait have begun, and ``executed NAME`` for each tool. With
``open`` nothing waits. HOW: ``server`` cancels its background tasks at SIGTERM, as web servers do; ``exit`` raises
SystemExit at SIGTERM;
``main`` ends while a background task runs the state; ``direct`` awaits the run itself; ``serve`` is a supervisor that
SIGTERM ends, and whose tools end then.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from typing import Any

from limpet import Limpet, Served, agent, tool

is_open = "open" in sys.argv
is_served = "serve" in sys.argv
begun: set[str] = set()
inside, ending = asyncio.Event(), asyncio.Event()


def say(text: str) -> None:
    print(text, flush=True)


def begin(name: str) -> None:
    say(f"executed {name}")
    begun.add(name)


@tool
async def step(name: str) -> str:
    begin(name)
    return name


@tool
async def hold(name: str) -> str:
    begin(name)
    if name == "one" and not is_open:
        # Said on the loop: a handler that raises must not do so while a thread is being started.
        while not begun >= {"one", "two", "three"}:
            await asyncio.sleep(0.01)
        say("inside")
        inside.set()
    if not is_open:
        await (ending.wait() if is_served else asyncio.sleep(3600))
    return name


@tool
def hold_in_thread(name: str, seconds: float) -> str:
    begin(name)
    if not is_open:
        threading.Event().wait(seconds)
    return name


@agent
async def nested(name: str) -> str:
    return await hold(name)


@agent
async def pipeline() -> list[str]:
    first = await step("first")
    async with asyncio.TaskGroup() as group:
        held = [group.create_task(hold("one")), group.create_task(nested("two"))]
        held.append(group.create_task(hold_in_thread("three", 1.0)))
    return [first, *(task.result() for task in held), await step("last")]


async def server(client: Limpet) -> None:
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ending.set)
    background = asyncio.create_task(client.run(pipeline, state_id="s"))
    await ending.wait()
    background.cancel()
    await asyncio.gather(background, return_exceptions=True)
    say("ended")


async def leaving(client: Limpet) -> None:
    background = asyncio.create_task(client.run(pipeline, state_id="s"))
    await inside.wait()
    assert not background.done()


async def serving(client: Limpet) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ending.set)
    await client.serve(stop=ending, on_served=told)


def told(served: Served) -> None:
    say(f"{served.state_id}: {served.result or type(served.error).__name__}")


def exit_at_once(*_: Any) -> None:
    sys.exit(7)


if __name__ == "__main__":
    store, how = sys.argv[1:3]
    with Limpet(store) as client:
        match how:
            case "server":
                asyncio.run(server(client))
            case "main":
                asyncio.run(leaving(client))
            case "serve":
                asyncio.run(serving(client))
            case _:
                if how == "exit":
                    signal.signal(signal.SIGTERM, exit_at_once)
                say(str(client.run_sync(pipeline, state_id="s")))
