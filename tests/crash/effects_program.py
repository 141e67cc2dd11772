"""The program with effects that must not be repeated, and with effects that are undone.

What has really happened stands in ``done`` and ``undone``, outside any store: whoever is asked what became of a call
that was cut off looks there. Every call has one name, and gives one result, which is known beforehand.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from limpet import DidNotHappen, Happened, agent, tool
from limpet.errors import EventFailed

done: Counter[str] = Counter()
undone: list[str] = []


def result_of(name: str) -> str:
    return f"receipt of {name}"


async def do(name: str) -> str:
    # The process may end before the effect and after it, wherever something is awaited.
    await asyncio.sleep(0)
    done[name] += 1
    await asyncio.sleep(0)
    return result_of(name)


def look_up(name: str) -> object:
    """A probe that knows."""
    return Happened(result_of(name)) if done[name] else DidNotHappen()


async def shrug(name: str) -> object:
    """A probe that does not."""
    return None


@tool(once=True)
async def pay(name: str) -> str:
    return await do(name)


@tool(once=True)
def post(name: str) -> str:
    done[name] += 1
    return result_of(name)


@tool(once=True)
async def refused(name: str) -> str:
    done[name] += 1
    raise PermissionError(name)


@tool(once=True, probe=look_up)
async def book(name: str) -> str:
    return await do(name)


@tool(once=True, probe=shrug)
async def order(name: str) -> str:
    return await do(name)


def release(name: str) -> None:
    """Undoes what may be undone twice."""
    undone.append(name)


@tool(once=True)
async def refund(name: str, result: str) -> str:
    """Undoes what must be undone once only; it needs the result of what it undoes."""
    undone.append(name)
    await asyncio.sleep(0)
    return f"refunded {result}"


@tool(undo=release)
async def reserve(name: str) -> str:
    return await do(name)


@tool(once=True, undo=refund)
async def charge(name: str) -> str:
    return await do(name)


@tool(once=True, undo=refund, probe=look_up)
async def lend(name: str) -> str:
    return await do(name)


async def chain(name: str) -> list[str]:
    return [await reserve(f"{name}.0"), await pay(f"{name}.1")]


@agent
async def inner(name: str) -> list[str]:
    return [await order(f"{name}.order"), await reserve(f"{name}.room")]


@agent
async def effects(is_to_fail: bool) -> list[object]:
    found: list[object] = [await pay("first"), await reserve("room"), await book("flight")]
    try:
        found.append(await refused("refused"))
    except (PermissionError, EventFailed):
        found.append("refused")
    found += await asyncio.gather(pay("g1"), charge("g2"), chain("g3"), book("g4"), inner("g5"))
    found += [await post("letter"), await charge("deposit"), await lend("book")]
    if is_to_fail:
        raise RuntimeError("and all in vain")
    return found


ONCE = frozenset(("first", "flight", "refused", "g1", "g2", "g3.1", "g4", "g5.order", "letter", "deposit", "book"))
"""The calls that are declared once."""

UNDONE_ONCE = ("book", "deposit", "g2")
"""What is undone, and must not be undone twice."""
