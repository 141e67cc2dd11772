"""What a message costs does not depend on how many others there are: counted, not timed."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.stores import opener

from limpet import (
    Awaiting,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    StateBackend,
    StateStatus,
    agent,
    tool,
    wait_for_message,
)
from limpet.model import Letter

FEW = 10
MANY = int(os.environ.get("LIMPET_MESSAGES", "50"))
"""How many messages are the backlog; 10,000 is what the library is for."""


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


class Counted:
    """Counts what is read of the inbox, opened, and looked through."""

    def __init__(self, patch: pytest.MonkeyPatch, backend: StateBackend) -> None:
        self.counts: Counter[str] = Counter()
        letters = backend.letters

        def counted(state_id: str, after: int = 0) -> list[Letter]:
            found = letters(state_id, after)
            self.counts["reads"] += 1
            self.counts["letters read"] += len(found)
            return found

        patch.setattr(backend, "letters", counted)
        for name in (
            "limpet.engine.untaken.from_body",
            "limpet.engine.waits.taken_letters",
            "limpet.engine.waits._set",
            "limpet.engine.waiting.open_waits",
            "limpet.engine.untaken.is_in_time",
        ):
            self._count(patch, name)

    def _count(self, patch: pytest.MonkeyPatch, name: str) -> None:
        module, _, function = name.rpartition(".")
        original: Any = getattr(__import__(module, fromlist=[function]), function)

        def counted(*args: Any) -> Any:
            self.counts[function] += 1
            return original(*args)

        patch.setattr(name, counted)


@agent
async def drain(count: int) -> int:
    await wait_for_message("go")
    return sum([await wait_for_message("number", int) for _ in range(count)])


def cost_of_draining(backend: StateBackend, count: int) -> Counter[str]:
    client, state_id = Limpet(backend), f"drain-{count}"
    with pytest.raises(Awaiting):
        client.run_sync(drain, count, state_id=state_id)
    for number in range(count):
        client.send(state_id, "number", number)
    client.send(state_id, "go", None)
    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch, backend)
        assert count * (count - 1) // 2 == client.run_sync(drain, count, state_id=state_id)
        return counted.counts


def test_receiving_a_backlog_reads_and_opens_each_message_once(reopen: Callable[[], StateBackend]) -> None:
    few, many = (cost_of_draining(reopen(), count) for count in (FEW, MANY))
    assert (FEW + 1, MANY + 1) == (few.pop("letters read"), many.pop("letters read"))
    assert (FEW + 1, MANY + 1) == (few.pop("from_body"), many.pop("from_body"))
    assert (FEW + 1, MANY + 1) == (few.pop("is_in_time"), many.pop("is_in_time"))
    assert few == many, "all else is done as often, however many messages there are"
    assert many["reads"] <= 3


def test_messages_that_arrive_one_by_one_are_read_one_by_one(reopen: Callable[[], StateBackend]) -> None:
    backend = reopen()
    client = Limpet(backend)

    @tool
    async def more(number: int) -> None:
        client.send("s", "number", number)

    @agent
    async def trickle(count: int) -> int:
        received = 0
        for number in range(count):
            await more(number)
            received += await wait_for_message("number", int)
        return received

    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch, backend).counts
        assert MANY * (MANY - 1) // 2 == client.run_sync(trickle, MANY, state_id="s")
    assert MANY == counted["letters read"]
    # Each is asked for by the wait, and by the notice that it was sent, unless one comes before the other has looked.
    assert counted["reads"] <= 2 * MANY + 1


def test_a_run_that_has_received_much_asks_for_it_once_when_it_is_resumed(reopen: Callable[[], StateBackend]) -> None:
    def cost_of_resuming(count: int) -> Counter[str]:
        backend = reopen()
        client, state_id = Limpet(backend), f"resumed-{count}"

        @agent
        async def receive(count: int) -> str:
            for _ in range(count):
                await wait_for_message("number", int)
            return await wait_for_message("last", str)

        with pytest.raises(Awaiting):
            client.run_sync(receive, count, state_id=state_id)
        for number in range(count):
            client.send(state_id, "number", number)
        with pytest.raises(Awaiting):
            client.run_sync(receive, count, state_id=state_id)
        client.send(state_id, "last", "the end")
        with pytest.MonkeyPatch.context() as patch:
            counted = Counted(patch, backend).counts
            assert "the end" == client.run_sync(receive, count, state_id=state_id)
        return counted

    few, many = cost_of_resuming(FEW), cost_of_resuming(MANY)
    assert (FEW + 1, MANY + 1) == (few.pop("letters read"), many.pop("letters read"))
    assert few == many
    assert (1, 1) == (many["from_body"], many["taken_letters"]), "what was received is neither opened nor looked for"


def test_a_message_wakes_only_who_waits_for_its_topic(reopen: Callable[[], StateBackend]) -> None:
    backend = reopen()
    client = Limpet(backend)

    async def main(count: int, counted: Counter[str]) -> int:
        begun = asyncio.Event()

        @tool
        async def feed() -> None:
            await begun.wait()
            for number in range(count):
                client.send("topics", f"topic {number}", number)
                await asyncio.sleep(0)

        @agent
        async def topics() -> int:
            feeding = asyncio.ensure_future(feed())
            waits = [asyncio.ensure_future(wait_for_message(f"topic {number}", int)) for number in range(count)]
            while client.show("topics").header.metadata.waiting.get("records") is None:
                await asyncio.sleep(0)
            counted.clear()
            begun.set()
            received = sum(await asyncio.gather(*waits))
            await feeding
            return received

        return await client.run(topics, state_id="topics")

    with pytest.MonkeyPatch.context() as patch:
        counted = Counted(patch, backend).counts
        assert MANY * (MANY - 1) // 2 == asyncio.run(main(MANY, counted))
    assert MANY == counted["letters read"]
    assert MANY == counted["_set"], "each is woken by its own message, once"
    assert 0 == counted["open_waits"], "the header is not made anew for each of them"


def test_what_another_object_has_received_is_not_given_again(reopen: Callable[[], StateBackend]) -> None:
    client = Limpet(reopen())

    @agent
    async def receive(_: object) -> str:
        return await wait_for_message("news", str)

    async def received(state: ExecutionState) -> str:
        result = await ExecutionEvent(actor=receive)(None, None, state)
        return result.result

    one = ExecutionState(state_id="s", state_backend=client.backend)
    one.save_checkpoint(status=StateStatus.PAUSED)
    for news in ("first", "second", "third"):
        client.send("s", "news", news)
    assert "first" == asyncio.run(received(one))
    one.save_checkpoint(status=StateStatus.PAUSED)
    other = ExecutionState.load_from_state_id(state_id="s", state_backend=client.backend)
    asyncio.run(received(other))
    assert "second" == asyncio.run(received(other))
    other.save_checkpoint(status=StateStatus.PAUSED)
    assert ["second", "third"] == [asyncio.run(received(one)), asyncio.run(received(one))]
