"""Order-dependent programs that are data: an agent that evaluates a tree, and goes on by what ends first.

    ["step", n]  ["paid", n]  ["shaky", n]        a call; one that is declared ``once``; one that fails at first
    ["broken", n]                                 a call that fails, and is caught
    ["count", n]                                  a counter in the storage of the state
    ["seq", parts]  ["nest", part]  ["fail", part]   one after the other; in an agent; in one that fails, and is caught
    ["gather", parts]  ["group", parts]           side by side, and their results in the order of the code
    ["finished", parts]  ["completed", parts]     ``as_completed`` over tasks, over coroutines
    ["race", parts]                               ``wait(FIRST_COMPLETED)``, and the losers are cancelled
    ["queue", parts]  ["limited", parts]          workers on a bounded queue; a semaphore
    ["callbacks", parts]  ["event", parts]        callbacks in the order of completion; an event that the first one sets
    ["breaking", parts]                           a TaskGroup that a failing call ends
    ["timeout", part]  ["patient", part]          ``asyncio.timeout``, ``wait_for``, with a paid fallback
    ["leave", parts]                              ``wait`` with a timeout, and nothing is cancelled

What ended first is the input of a call of its own each time, so a run that takes another way drifts. Code between calls
waits for some turns of the loop, by a number that follows from its place: only tools depend on the world outside.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from order.outside import MOMENT_S, Diary, make_effect, probe_effect, work

from limpet import Agent, RetryConfig, agent, current_event, tool

Part = list[Any]

SETTLED_KINDS = ["seq", "gather", "group"]
ORDERED_KINDS = ["finished", "completed", "race", "queue", "limited", "callbacks", "event", "breaking", "leave"]
WRAPPING_KINDS = ["nest", "fail", "timeout", "patient"]
CALLING_KINDS = ["step", "step", "paid", "shaky", "broken"]

HAS_STORAGE = True
"""Whether programs use the storage of their state."""

PATIENCE_S = 0.25 * MOMENT_S
_LONGEST = 0.4
"""How many moments a call takes at the most."""


def can_be_rehearsed(part: Part, *, may_be_cut: bool = False) -> bool:
    """Whether a rehearsal goes the same way: where an agent was when it was cancelled is not recorded."""
    match part:
        case ["nest" | "fail", inner]:
            return not may_be_cut and can_be_rehearsed(inner)
        case ["timeout" | "patient", inner]:
            return can_be_rehearsed(inner, may_be_cut=True)
        case [str(kind), [*parts]] if kind in (*SETTLED_KINDS, *ORDERED_KINDS):
            is_cut = may_be_cut or kind in ("race", "breaking")
            return all(can_be_rehearsed(each, may_be_cut=is_cut) for each in parts)
        case _:
            return True


class NoDiary(Diary):
    """Of what is left behind nobody says how far it comes."""

    def _note(self, kind: object, what: str) -> None:
        pass


class _Run:
    """The state of the run that is under way in this process."""

    state: Any = None


@tool
async def step(where: str, number: int) -> int:
    await work(where, _LONGEST)
    return number * 2


@tool(once=True, probe=probe_effect)
async def paid(where: str, number: int) -> str:
    await make_effect(where, _LONGEST)
    return f"receipt for {where}"


@tool(retry_config=RetryConfig(max_attempts=2, initial_delay=0, jitter=False))
async def shaky(where: str, number: int) -> int:
    await work(where, _LONGEST)
    if current_event().attempt == 1:
        raise ConnectionError(where)
    return number


@tool
async def broken(where: str, number: int) -> int:
    await work(where, _LONGEST)
    raise LookupError(f"{number} is broken")


@agent
async def nest(where: str, part: Part) -> list[str]:
    diary = Diary(where)
    await evaluate(part, where, diary)
    return diary.decisions


@agent
async def fail(where: str, part: Part) -> None:
    diary = Diary(where)
    await evaluate(part, f"{where}!", diary)
    raise ValueError(str(diary.decisions))


async def _program(part: Part, context: object, state: Any) -> list[str]:
    _Run.state = state
    diary = Diary("program")
    diary.decide_perhaps(f"result {await evaluate(part, 'top', diary)}")
    diary.close()
    return list(diary.decisions)


program = Agent(name="program", handler=_program)


async def evaluate(part: Part, where: str, diary: Diary) -> Any:
    for _ in range(len(where) % 3):
        await asyncio.sleep(0)
    match part:
        case ["step" | "paid" | "shaky" as kind, number]:
            return await call({"step": step, "paid": paid, "shaky": shaky}[kind], where, number, diary)
        case ["broken", number]:
            return await caught(broken, where, number, diary)
        case ["count", number]:
            return count(number, diary)
        case ["nest", inner]:
            return await call(nest, f"{where}/", inner, diary)
        case ["fail", inner]:
            return await caught(fail, f"{where}!", inner, diary)
        case ["timeout" | "patient" as kind, inner]:
            return await hastily(kind, inner, where, diary)
        case ["seq", parts]:
            return [await evaluate(each, f"{where}.{place}", diary) for place, each in enumerate(parts)]
        case [kind, parts]:
            return await Side(parts, where, diary).by_side(kind)
        case _:
            raise AssertionError(part)


async def call(actor: Any, where: str, given: Any, diary: Diary) -> Any:
    result = await actor(where, given)
    diary.decide(f"{where} gave {result}")
    return result


async def caught(actor: Any, where: str, given: Any, diary: Diary) -> Any:
    try:
        return await actor(where, given)
    except (LookupError, ValueError) as error:
        diary.decide(f"{where} failed: {error}")
        return await call(step, f"{where}f", len(diary.decisions), diary)


def count(number: int, diary: Diary) -> int:
    """Each agent has a counter of its own: they run side by side, and nothing says which of them is first."""
    storage, key = _Run.state.storage, f"count of {diary.who}"
    value = storage.get(key, 0) + number
    storage.set(key, value)
    diary.decide_perhaps(f"counted {value}")
    return value


async def hastily(kind: str, part: Part, where: str, diary: Diary) -> Any:
    inside = evaluate(part, f"{where}t", diary)
    try:
        if kind == "patient":
            return await asyncio.wait_for(inside, PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S):
            return await inside
    except TimeoutError:
        diary.decide_perhaps(f"{where} took too long")
        return await call(paid, f"{where}~", 0, diary)


class Side:
    """Parts that are evaluated side by side, and what is made of the order in which they end."""

    def __init__(self, parts: list[Part], where: str, diary: Diary) -> None:
        self.parts, self.where, self.diary = parts, where, diary
        self.ended: list[int] = []

    async def by_side(self, kind: str) -> Any:
        return await getattr(self, f"_{kind}")()

    async def _one(self, place: int, diary: Diary | None = None) -> int:
        await evaluate(self.parts[place], f"{self.where}|{place}", diary or self.diary)
        return place

    def _tasks(self, diary: Diary | None = None) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self._one(place, diary)) for place in range(len(self.parts))]

    async def _react(self, place: int) -> int:
        """Note that a part has ended, in a call whose address says how many have, and whose input says which."""
        self.ended.append(place)
        return await call(step, f"{self.where}>{len(self.ended)}", place, self.diary)

    async def _gather(self) -> list[int]:
        return await asyncio.gather(*(self._one(place) for place in range(len(self.parts))))

    async def _group(self) -> list[int]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._one(place)) for place in range(len(self.parts))]
        return [task.result() for task in tasks]

    async def _finished(self) -> list[int]:
        return [await self._react(await coming) for coming in asyncio.as_completed(self._tasks())]

    async def _completed(self) -> list[int]:
        coroutines = [self._one(place) for place in range(len(self.parts))]
        return [await self._react(await coming) for coming in asyncio.as_completed(coroutines)]

    async def _race(self) -> int:
        tasks = self._tasks()
        done, losers = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        first = [place for place, task in enumerate(tasks) if task in done]
        self.diary.decide_perhaps(f"{self.where}: {first} came first")
        for loser in losers:
            loser.cancel()
        await asyncio.gather(*losers, return_exceptions=True)
        return await self._react(first[0])

    async def _queue(self) -> list[int]:
        queue: asyncio.Queue[int | None] = asyncio.Queue(1)

        async def worker() -> None:
            while (place := await queue.get()) is not None:
                await self._react(await self._one(place))

        workers = [asyncio.create_task(worker()) for _ in range(2)]
        for place in [*range(len(self.parts)), None, None]:
            await queue.put(place)
        await asyncio.gather(*workers)
        return self.ended

    async def _limited(self) -> list[int]:
        door = asyncio.Semaphore(1)

        async def enter(place: int) -> None:
            await call(step, f"{self.where}s{place}", place, self.diary)
            async with door:
                await self._react(place)
                await self._one(place)

        await asyncio.gather(*(enter(place) for place in range(len(self.parts))))
        return self.ended

    async def _callbacks(self) -> int:
        ended: list[int] = []
        tasks = self._tasks()
        for place, task in enumerate(tasks):
            task.add_done_callback(lambda _, place=place: ended.append(place))
        await asyncio.gather(*tasks)
        await asyncio.sleep(0)
        self.diary.decide_perhaps(f"{self.where}: they ended as {ended}")
        return await self._react(ended[0])

    async def _event(self) -> list[int]:
        has_ended = asyncio.Event()

        async def end(place: int) -> None:
            self.ended.append(await self._one(place))
            has_ended.set()

        tasks = [asyncio.create_task(end(place)) for place in range(len(self.parts))]
        await has_ended.wait()
        await self._react(self.ended[0])
        await asyncio.gather(*tasks)
        return self.ended

    async def _breaking(self) -> int:
        try:
            async with asyncio.TaskGroup() as group:
                for place in range(len(self.parts)):
                    group.create_task(self._one(place))
                group.create_task(call(broken, f"{self.where}b", 0, self.diary))
        except* LookupError:
            self.diary.decide(f"{self.where} broke")
        if sys.version_info < (3, 13):
            # A group that a task ends while it waits for all of them takes back a cancellation too few.
            task = asyncio.current_task()
            assert task is not None
            while task.cancelling():
                task.uncancel()
        return await self._react(len(self.diary.decisions))

    async def _leave(self) -> int:
        tasks = self._tasks(NoDiary(self.diary.who))
        done, _ = await asyncio.wait(tasks, timeout=PATIENCE_S)
        there = [place for place, task in enumerate(tasks) if task in done]
        self.diary.decide_perhaps(f"{self.where}: {there} were there in time")
        return await self._react(len(there))
