"""A supervisor cleans up its store by the configured schedule, one at a time, and the store remembers it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

import pytest
from acceptance import scheduled_program
from acceptance.turned_clock import turned_clock
from click.testing import CliRunner, Result
from crash.stores import opener

from limpet import (
    Awaiting,
    BackendUnavailable,
    CleanupRun,
    Limpet,
    MemoryStateBackend,
    Retention,
    Served,
    StateBackend,
    agent,
    ask,
    load_config,
    tool,
)
from limpet.cli.main import commands
from limpet.client.scheduled_cleanup import ScheduledCleanup

DAY = 86_400.0
DAILY = {"max_per_pipeline": 2, "schedule": "daily"}


@tool
async def step(number: int) -> int:
    return number


@agent
async def steps(count: int) -> int:
    return sum([await step(number) for number in range(count)])


@agent
async def approves() -> bool:
    return await ask("Sure?", bool)


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


def filled(client: Limpet, count: int = 5, first: int = 0) -> None:
    for number in range(first, first + count):
        client.run_sync(steps, 2, state_id=f"s{number}")


def begin_asking(client: Limpet) -> None:
    with pytest.raises(Awaiting):
        client.run_sync(approves, state_id="asks", patience_s=0)


def ids(client: Limpet) -> list[str]:
    return sorted(header.state_id for header in client.list_states(limit=1000))


@asynccontextmanager
async def serving(client: Limpet, runs: list[CleanupRun], **options: Any) -> AsyncGenerator[None]:
    stop = asyncio.Event()
    task = asyncio.create_task(client.serve(stop=stop, on_cleanup=runs.append, **options))
    try:
        yield
    finally:
        stop.set()
        await task


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not is_so():
            await asyncio.sleep(0.01)


def test_a_supervisor_cleans_up_when_it_is_due(reopen: Callable[[], StateBackend]) -> None:
    client, runs = Limpet(reopen(), config=load_config(retention=DAILY)), list[CleanupRun]()
    filled(client)

    async def main() -> None:
        with turned_clock() as clock:
            async with serving(client, runs):
                await until(lambda: len(runs) == 1)
                assert ["s3", "s4"] == ids(client)
                await asyncio.to_thread(filled, client, 2, 5)
                clock.turn(DAY)
                await until(lambda: len(runs) == 2)

    asyncio.run(main())
    assert ["s5", "s6"] == ids(client)
    assert [3, 2] == [run.removed for run in runs]
    assert all(run.freed > 0 and run.error is None and run.schedule == "daily" for run in runs)
    assert runs[-1] == Limpet(reopen()).last_cleanup()
    assert str(os.getpid()) in runs[0].by


def test_states_are_served_while_a_cleanup_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    client, served = Limpet(MemoryStateBackend(), config=load_config(retention=DAILY)), list[Served]()
    filled(client)
    begin_asking(client)
    answered = asyncio.Event()
    clean = client._clean

    def waits(*arguments: Any, **options: Any) -> Any:
        asyncio.run_coroutine_threadsafe(answered.wait(), loop[0]).result(60)
        return clean(*arguments, **options)

    monkeypatch.setattr(client, "_clean", waits)
    loop: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loop.append(asyncio.get_running_loop())
        runs: list[CleanupRun] = []
        async with serving(client, runs, on_served=served.append):
            client.answer("asks", True)
            await until(lambda: [True] == [each.result for each in served])
            assert [] == runs
            answered.set()
            await until(lambda: len(runs) == 1)

    asyncio.run(main())


@pytest.mark.parametrize("hindrance", ["clean", "on_cleanup", "note"])
def test_whatever_fails_the_supervisor_goes_on(
    hindrance: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, served = Limpet(MemoryStateBackend(), config=load_config(retention=DAILY)), list[Served]()
    begin_asking(client)

    def fails(*_: Any, **__: Any) -> Any:
        raise BackendUnavailable("memory://", "the tide is out")

    if hindrance != "on_cleanup":
        monkeypatch.setattr(*{"clean": (client, "_clean", fails), "note": (client.backend, "note", fails)}[hindrance])

    async def main() -> None:
        stop = asyncio.Event()
        told = fails if hindrance == "on_cleanup" else None
        task = asyncio.create_task(client.serve(stop=stop, on_served=served.append, on_cleanup=told))
        await until(lambda: "the tide is out" in caplog.text)
        client.answer("asks", True)
        await until(lambda: bool(served))
        stop.set()
        await task

    asyncio.run(main())
    assert [True] == [each.result for each in served]
    if hindrance == "clean":
        last = client.last_cleanup()
        assert last is not None
        assert "the tide is out" in str(last.error)


def test_who_cleans_up_by_hand_is_noted_and_puts_off_only_what_is_the_same(
    reopen: Callable[[], StateBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, runs = Limpet(reopen(), config=load_config(retention=DAILY)), list[CleanupRun]()
    look, looks = ScheduledCleanup.look, list[CleanupRun | None]()

    def seen(scheduled: ScheduledCleanup) -> CleanupRun | None:
        looks.append(look(scheduled))
        return looks[-1]

    monkeypatch.setattr(ScheduledCleanup, "look", seen)
    assert client.last_cleanup() is None
    filled(client, 3)
    client.cleanup(dry_run=True)
    client.cleanup(confirm=lambda _: False)
    assert client.last_cleanup() is None
    client.cleanup(Retention(max_age=timedelta(days=1)))
    last = client.last_cleanup()
    assert last is not None
    assert (0, None, None) == (last.removed, last.schedule, last.error)

    async def main() -> None:
        looks.clear()
        async with serving(client, runs):
            await until(lambda: bool(looks))

    asyncio.run(main())
    assert [1] == [run.removed for run in runs]
    filled(client, 2, 3)
    assert 2 == len(client.cleanup().removed)
    last = client.last_cleanup()
    assert last is not None
    assert (2, None) == (last.removed, last.schedule)
    asyncio.run(main())
    assert ([None], 1) == (looks[:1], len(runs))


def test_a_cleanup_by_hand_that_fails_is_noted_too(monkeypatch: pytest.MonkeyPatch) -> None:
    client = Limpet(MemoryStateBackend())
    filled(client, 2)

    def gone(*_: Any) -> Any:
        raise BackendUnavailable("memory://", "the tide is out")

    monkeypatch.setattr(client.backend, "delete_states", gone)
    with pytest.raises(BackendUnavailable):
        client.cleanup(Retention(max_per_pipeline=0))
    last = client.last_cleanup()
    assert last is not None
    assert "the tide is out" in str(last.error)


class _WithoutNotes(MemoryStateBackend):
    note = StateBackend.note
    swap_note = StateBackend.swap_note


def test_a_store_without_notes_is_cleaned_up_by_hand() -> None:
    client = Limpet(_WithoutNotes())
    filled(client)
    assert 5 == len(client.cleanup(Retention(max_per_pipeline=0)).removed)
    assert client.last_cleanup() is None


def test_a_copy_does_not_bring_the_note_along(tmp_path: Path) -> None:
    client = Limpet(f"sqlite:///{tmp_path}/runs.db")
    filled(client, 2)
    client.cleanup(Retention(max_per_pipeline=1))
    assert client.last_cleanup() is not None
    client.backup(f"file://{tmp_path}/backup")
    with Limpet(f"file://{tmp_path}/backup") as backup:
        assert backup.last_cleanup() is None


class Program:
    """A supervisor in a process of its own."""

    def __init__(self, store: str, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, scheduled_program.__file__, store, *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "LIMPET_RETENTION__SCHEDULE": "daily", "LIMPET_RETENTION__MAX_PER_PIPELINE": "2"},
        )
        assert "ready\n" == self.stdout.readline()

    @property
    def stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db?synchronous=normal", "file://{}/store?synchronous=normal"])
def test_of_several_processes_one_cleans_up_also_after_one_has_died(url: str, tmp_path: Path) -> None:
    store = url.format(tmp_path)
    with Limpet(store) as client:
        filled(client, 20)
        dying = Program(store, "--dies")
        dying.go()
        assert -signal.SIGKILL == dying.process.wait(60)
        dying.process.communicate()
        left = client.last_cleanup()
        assert left is not None
        assert (None, 20) == (left.finished_at, len(ids(client)))

        others = [Program(store) for _ in range(2)]
        for each in others:
            each.go()
        asyncio.run(until(lambda: (run := client.last_cleanup()) is not None and run.finished_at is not None))
        said = "".join(each.process.communicate("end\n", timeout=60)[0] for each in others)
        assert "18 None\n" == said, "one of them has cleaned up, once"
        assert 2 == len(ids(client))


def limpet(*arguments: str) -> Result:
    return CliRunner().invoke(commands, arguments)


def test_the_command_line_says_when_a_store_was_last_cleaned_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Limpet("sqlite:///runs.db") as client:
        filled(client)
    on = ("--store", "sqlite:///runs.db")
    result = limpet("cleanup", "--last", *on)
    assert (0, "", "Nothing is noted: this store was never cleaned up.\n") == (
        result.exit_code,
        result.stdout,
        result.stderr,
    )
    assert json.loads(limpet("cleanup", "--last", "--json", *on).stdout) is None
    assert 0 == limpet("cleanup", "--max-per-pipeline", "2", "--yes", *on).exit_code
    said = limpet("cleanup", "--last", *on).stdout
    assert " UTC, asked for, by process " in said
    assert ": deleted 3 states, " in said
    told = json.loads(limpet("cleanup", "--last", "--json", *on).stdout)
    assert (3, None, None) == (told["removed"], told["error"], told["schedule"])
    assert {"began_at", "finished_at", "by", "schedule", "removed", "freed", "error"} == set(told)


@pytest.mark.parametrize(
    ("change", "said"),
    [({"error": "OSError: gone."}, "it failed: OSError: gone."), ({"finished_at": None}, "it has not ended.")],
)
def test_the_command_line_says_what_did_not_come_to_its_end(
    change: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Limpet("sqlite:///runs.db") as client:
        client.cleanup(Retention(max_per_pipeline=0))
        text = client.backend.note("cleanup")
        assert text is not None
        noted = json.loads(text)
        noted["last"] |= change
        client.backend.swap_note("cleanup", text, json.dumps(noted))
    assert limpet("cleanup", "--last", "--store", "sqlite:///runs.db").stdout.endswith(f": {said}\n")


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_serve_says_when_it_has_cleaned_up(options: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "limpet.toml").write_text('[retention]\nmax_per_pipeline = 2\nschedule = "on_start"\n')
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as client:
        filled(client)
        serve = subprocess.Popen(
            [str(Path(sys.executable).with_name("limpet")), "serve", "--store", "sqlite:///runs.db", *options],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        asyncio.run(until(lambda: (run := client.last_cleanup()) is not None and run.finished_at is not None))
        serve.send_signal(signal.SIGTERM)
        out, told = serve.communicate(timeout=60)
        assert (0, ["s3", "s4"]) == (serve.returncode, ids(client))
    if options:
        said = json.loads(out)["cleanup"]
        assert (3, "on_start", None) == (said["removed"], said["schedule"], said["error"])
    else:
        assert "cleanup: deleted 3 states, " in told
