"""What comes by a deadline counts, and what comes after it is late, whether a process waits, is busy, or none is up."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    AlreadyAnswered,
    Awaiting,
    BackendUnavailable,
    Limpet,
    MemoryStateBackend,
    StateBackend,
    agent,
    ask,
    tool,
    wait_for_message,
)
from limpet.model import Letter

HOUR = 3600.0
switch: dict[str, Any] = {}


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


@pytest.fixture
def clock() -> Iterator[Turned]:
    with turned_clock() as clock:
        yield clock


@agent
async def receive(deadline: timedelta) -> list[Any]:
    first = await wait_for_message("news", str, deadline=deadline, default="nothing came")
    return [first, await wait_for_message("news", str, deadline=timedelta(0), default="nothing left")]


@agent
async def ask_for_it(deadline: timedelta) -> Any:
    return await ask("How many?", int, deadline=deadline, default=7)


def leave(client: Limpet, run: Any, deadline: timedelta = timedelta(hours=1)) -> None:
    with pytest.raises(Awaiting):
        client.run_sync(run, deadline, state_id="d", patience_s=0)


def test_a_message_after_the_deadline_is_for_the_next_wait_where_no_process_was_up(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    leave(Limpet(reopen()), receive)
    clock.turn(HOUR + 1)
    Limpet(reopen()).send("d", "news", "late")
    assert ["nothing came", "late"] == Limpet(reopen()).run_sync(receive, timedelta(hours=1), state_id="d")


def test_a_message_before_the_deadline_counts_where_no_process_was_up(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    leave(Limpet(reopen()), receive)
    clock.turn(HOUR - 1)
    Limpet(reopen()).send("d", "news", "in time")
    clock.turn(HOUR)
    Limpet(reopen()).send("d", "news", "late")
    assert ["in time", "late"] == Limpet(reopen()).run_sync(receive, timedelta(hours=1), state_id="d")


def test_a_message_after_the_deadline_is_for_the_next_wait_where_a_process_waits() -> None:
    client, overdue = Limpet(MemoryStateBackend()), asyncio.Event()

    @agent
    async def receives() -> list[str]:
        first = await wait_for_message("news", str, deadline=timedelta(seconds=0.05), default="nothing came")
        overdue.set()
        return [first, await wait_for_message("news", str, deadline=timedelta(seconds=20))]

    async def main() -> list[str]:
        running = asyncio.create_task(client.run(receives, state_id="d"))
        await overdue.wait()
        client.send("d", "news", "late")
        return await running

    assert ["nothing came", "late"] == asyncio.run(main())


@pytest.mark.parametrize("is_late", [True, False])
def test_a_process_that_is_busy_when_the_time_comes_decides_by_when_the_message_came(
    is_late: bool, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    @tool
    async def block() -> None:
        # No other code runs until this returns: whoever waits looks when all has happened.
        clock.turn(HOUR * 2 if is_late else 0)
        Limpet(reopen()).send("d", "news", "a message")
        clock.turn(HOUR * 2)

    @agent
    async def busy() -> list[Any]:
        message = wait_for_message("news", str, deadline=timedelta(hours=1), default="nothing came")
        said, _ = await asyncio.gather(message, block())
        return [said, await wait_for_message("news", str, deadline=timedelta(0), default="nothing left")]

    expected = ["nothing came", "a message"] if is_late else ["a message", "nothing left"]
    assert expected == Limpet(reopen()).run_sync(busy, state_id="d")


def test_a_late_message_does_not_hide_one_that_came_in_time(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    leave(client, receive)
    clock.turn(2 * HOUR)
    client.send("d", "news", "late")
    clock.turn(-2 * HOUR)  # From a machine whose clock is right.
    client.send("d", "news", "in time")
    clock.turn(2 * HOUR)
    assert ["in time", "late"] == client.run_sync(receive, timedelta(hours=1), state_id="d")


def test_a_wait_whose_deadline_is_over_when_it_begins_takes_what_came_before_that(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())

    @agent
    async def late(deadline: datetime) -> str:
        return await wait_for_message("news", str, deadline=deadline, default="nothing came")

    @agent
    async def begins() -> list[str]:
        return [await wait_for_message("go", str), await late(switch["deadline"])]

    switch["deadline"] = datetime.fromtimestamp(clock.now() + HOUR, UTC)
    for name, at in (("before", HOUR / 2), ("after", HOUR * 2)):
        with pytest.raises(Awaiting):
            client.run_sync(begins, state_id=name)
        clock.turn(at)
        client.send(name, "news", "a message")
        clock.turn(-at)
    clock.turn(3 * HOUR)
    for name in ("before", "after"):
        client.send(name, "go", "go")
    assert ["go", "a message"] == client.run_sync(begins, state_id="before")
    assert ["go", "nothing came"] == client.run_sync(begins, state_id="after")


@pytest.mark.parametrize("said", [7, 8])
@pytest.mark.parametrize("is_up", [True, False])
def test_an_answer_after_the_deadline_is_refused_alike(
    is_up: bool, said: int, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    client = Limpet(reopen())
    leave(client, ask_for_it)
    clock.turn(HOUR + 1)
    if is_up:
        assert 7 == client.run_sync(ask_for_it, timedelta(hours=1), state_id="d")
    for speak in (lambda: client.answer("d", said), lambda: client.withdraw("d")):
        with pytest.raises(AlreadyAnswered, match="was to be answered by") as refused:
            speak()
        assert "ask_for_it::ask::question" == refused.value.address
    assert [] == client.questions()
    assert 7 == client.run_sync(ask_for_it, timedelta(hours=1), state_id="d")


def test_an_answer_before_the_deadline_counts_where_the_run_looks_at_it_later(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    leave(Limpet(reopen()), ask_for_it)
    clock.turn(HOUR - 1)
    Limpet(reopen()).answer("d", 5)
    clock.turn(2 * HOUR)
    assert 5 == Limpet(reopen()).run_sync(ask_for_it, timedelta(hours=1), state_id="d")


def test_an_answer_that_reached_the_inbox_late_is_not_taken(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    leave(client, ask_for_it)
    clock.turn(HOUR + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limpet.engine.answering._require_in_time", lambda *_: None)
        client.answer("d", 5)
    assert 7 == client.run_sync(ask_for_it, timedelta(hours=1), state_id="d")


def test_what_is_said_in_the_process_after_the_deadline_is_late(clock: Turned) -> None:
    def slow(_: object) -> int:
        clock.turn(2 * HOUR)
        return 5

    assert 7 == Limpet(MemoryStateBackend()).run_sync(ask_for_it, timedelta(hours=1), state_id="d", on_question=slow)


def test_a_copied_message_keeps_the_time_at_which_it_came(tmp_path: Path, clock: Turned) -> None:
    stores = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "other")]
    with Limpet(stores[0]) as client:
        leave(client, receive)
        client.send("d", "news", "in time")
        clock.turn(2 * HOUR)
        client.send("d", "news", "late")
        Limpet.copy(stores[0], stores[1])
    with Limpet(stores[1]) as client:
        assert ["in time", "late"] == client.run_sync(receive, timedelta(hours=1), state_id="d")


def test_a_letter_of_an_earlier_version_came_when_the_store_says(clock: Turned) -> None:
    client = Limpet(MemoryStateBackend())
    with pytest.MonkeyPatch.context() as patch:
        from limpet.codec.letters import to_body

        patch.setattr(
            "limpet.engine.answering.to_body",
            lambda text, *rest: to_body(msgspec.structs.replace(text, at=0.0), *rest),
        )
        leave(client, receive, timedelta(hours=1))
        client.send("d", "news", "in time")
    clock.turn(2 * HOUR)
    assert "in time" == client.run_sync(receive, timedelta(hours=1), state_id="d")[0]


PROGRAM = """
import sys
from datetime import timedelta

from acceptance.turned_clock import turned_clock
from limpet import Limpet, agent, wait_for_message


@agent
async def receives(seconds: float) -> None:
    print(await wait_for_message("news", str, deadline=timedelta(seconds=seconds), default="nothing came"), flush=True)
    print(await wait_for_message("news", str, deadline=timedelta(seconds=20)), flush=True)


if __name__ == "__main__":
    url, seconds, ahead_s = sys.argv[1:]
    with turned_clock() as clock, Limpet(url) as client:
        clock.turn(float(ahead_s))
        client.run_sync(receives, float(seconds), state_id="d", patience_s=1e9)
"""


@pytest.fixture
def begin(tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    program = tmp_path / "waits.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}

    def begin(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, str(program), *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)

    return begin


def test_a_late_message_is_late_for_a_process_that_waits(
    begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with begin(url, 0.05, 0) as waiting, Limpet(url) as client:
        assert waiting.stdout is not None
        assert "nothing came\n" == waiting.stdout.readline()
        client.send("d", "news", "a message")
        assert "a message\n" == waiting.stdout.readline()
    assert 0 == waiting.returncode


@pytest.mark.parametrize("is_late", [True, False])
def test_a_message_to_a_process_that_was_killed_counts_by_when_it_came(
    is_late: bool, begin: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/states"
    with Limpet(url) as client, turned_clock() as clock:
        with begin(url, HOUR, 0) as killed:
            until(lambda: any(header.metadata.waiting for header in client.list_states()))
            killed.send_signal(signal.SIGKILL)
        clock.turn(HOUR * 2 if is_late else HOUR / 2)
        client.send("d", "news", "a message")
        clock.turn(HOUR * 2)
        client.send("d", "news", "another one")
        with begin(url, HOUR, 5 * HOUR) as resumed:
            said, _ = resumed.communicate()
    expected = ["nothing came", "a message"] if is_late else ["a message", "another one"]
    assert (0, expected) == (resumed.returncode, said.splitlines())


def until(holds: Callable[[], bool]) -> None:
    async def main() -> None:
        while not holds():
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), 30))


class Mute(MemoryStateBackend):
    """A store whose inboxes do not answer for a while."""

    failures = 0

    def letters(self, state_id: str, after: int = 0) -> list[Letter]:
        if self.failures:
            self.failures -= 1
            raise BackendUnavailable(self.name, "it does not answer")
        return super().letters(state_id, after)


def test_nothing_is_taken_for_late_while_the_store_does_not_answer(clock: Turned) -> None:
    backend = Mute()
    client = Limpet(backend)
    leave(client, receive)
    client.send("d", "news", "in time")
    clock.turn(2 * HOUR)
    backend.failures = 2
    expected = ["in time", "nothing left"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("limpet.engine.waits.ASK_AGAIN_S", 0.01)
        assert expected == client.run_sync(receive, timedelta(hours=1), state_id="d", on_save_error="continue")
    assert 0 == backend.failures
