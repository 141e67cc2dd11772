"""A run that does items and swallows every exception: ``python paused_program.py STORE TTL FILE SHAPE WHERE [first]``.

It notes each item that it begins in the file, with the number of the process. The first process to run it says
``paused`` when it is where it is to be paused, and goes on when a line comes in. At its end it prints the result, or
the type and text of the error.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from limpet import Limpet, LimpetError, agent, tool

ITEMS = 20
WORKERS = 3
FIRST = 3
"""From this item on the first process waits for a line."""

store, ttl_s, file, shape, where = sys.argv[1:6]
is_first = sys.argv[6:] == ["first"]
going_on: asyncio.Future[str] | None = None


def wait_for_a_line() -> str:
    print("paused", flush=True)
    return sys.stdin.readline()


async def pause(item: int, place: str) -> None:
    """Wait for a line, all who wait for the same one."""
    global going_on
    if not is_first or item < FIRST or place != where:
        return
    if going_on is None:
        going_on = asyncio.get_running_loop().run_in_executor(None, wait_for_a_line)
    await asyncio.shield(going_on)


def pause_plainly(item: int, place: str) -> None:
    if is_first and item == FIRST and place == where:
        wait_for_a_line()


def note(item: int) -> None:
    with Path(file).open("a") as notes:
        notes.write(f"{os.getpid()} {item}\n")


@tool
async def charge(item: int) -> int:
    note(item)
    await pause(item, "inside")
    return item


@tool
def charge_plainly(item: int) -> int:
    note(item)
    pause_plainly(item, "inside")
    return item


@agent
async def loop() -> int:
    done = 0
    for item in range(ITEMS):
        await pause(item, "between")
        try:
            done += await charge(item) >= 0
        except Exception:
            continue
    return done


async def _work(items: range) -> int:
    done = 0
    for item in items:
        await pause(item, "between")
        try:
            done += await charge(item) >= 0
        except Exception:
            continue
    return done


@agent
async def pool() -> int:
    workers = (_work(range(number, ITEMS, WORKERS)) for number in range(WORKERS))
    done = await asyncio.gather(*workers, return_exceptions=True)
    return sum(each for each in done if isinstance(each, int))


@agent
def plain() -> int:
    done = 0
    for item in range(ITEMS):
        pause_plainly(item, "between")
        try:
            done += charge_plainly.call(item) >= 0
        except Exception:
            continue
    return done


@tool
async def wait_for_ever() -> None:
    if is_first:
        print("paused", flush=True)
        await asyncio.Event().wait()


@agent
async def idle() -> int:
    with suppress(Exception):
        await wait_for_ever()
    return ITEMS


if __name__ == "__main__":
    with Limpet(store, lease_ttl_s=float(ttl_s)) as limpet:
        try:
            program = {"loop": loop, "pool": pool, "plain": plain, "idle": idle}[shape]
            mode = os.environ.get("ON_SAVE_ERROR", "fail")
            print(limpet.run_sync(program, state_id="s", wait_s=60, on_save_error=mode), flush=True)
        except LimpetError as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            sys.exit(4)
