"""Stopping a run from outside of its code: checkers, times that run out, signals, and other processes."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from acceptance import interrupted_program
from acceptance.interrupted_program import FINISHED, WAITING
from acceptance.stopped_runs import (
    begin_anew,
    ended,
    executions,
    let_threads_go_on,
    open_all,
    pipeline,
    require_interrupted,
    states,
    statuses,
    stay,
    until,
    until_true,
    wait_at,
    wait_in_thread,
    work,
)

from limpet import (
    ExecutionInterrupted,
    ExecutionState,
    InterruptSignal,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    RetryConfig,
    StateStatus,
    UnknownState,
    UsageError,
    agent,
    tool,
)


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    begin_anew()
    yield
    let_threads_go_on()


async def waits(state: ExecutionState) -> list[str]:
    return [await work("before"), await wait_at("here"), await work("after")]


async def works(state: ExecutionState) -> list[str]:
    return [await work(str(number)) for number in range(5)]


async def stopped(client: Limpet, body: Any, **options: Any) -> ExecutionInterrupted:
    """Run until something stops it."""
    with pytest.raises(ExecutionInterrupted) as caught:
        await ended(asyncio.create_task(client.run(pipeline(body), None, state_id="s", **options)))
    return caught.value


# A checker.


async def says_so() -> bool:
    return True


async def gives_a_signal() -> InterruptSignal:
    return InterruptSignal("lunch", "Back at two.", "Ada")


STOPPING: dict[str, tuple[Callable[[], object], str, str]] = {
    "plain, True": (lambda: True, "checker", ""),
    "async, True": (says_so, "checker", ""),
    "plain, a signal": (lambda: InterruptSignal("lunch", "Back at two.", "Ada"), "lunch", "Ada"),
    "async, a signal": (gives_a_signal, "lunch", "Ada"),
}


@pytest.mark.parametrize("kind", STOPPING)
def test_a_checker_stops_a_run_that_waits(client: Limpet, kind: str) -> None:
    checker, reason, by = STOPPING[kind]
    is_time = False

    async def asked() -> object:
        said = checker() if is_time else None
        return await said if asyncio.iscoroutine(said) else said

    def asked_plainly() -> object:
        return checker() if is_time else False

    async def main() -> None:
        nonlocal is_time
        given = asked if "async" in kind else asked_plainly
        running = asyncio.create_task(stopped(client, waits, interrupt_checker=given))
        await until("here")
        is_time = True
        began = time.perf_counter()
        error = await running
        assert 0.75 > time.perf_counter() - began
        assert (reason, by) == (error.reason, error.triggered_by)

    asyncio.run(main())
    require_interrupted(client, reason=reason)
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")


@pytest.mark.parametrize("kind", STOPPING)
def test_a_checker_that_says_so_from_the_start_lets_nothing_begin(client: Limpet, kind: str) -> None:
    checker, reason, _ = STOPPING[kind]
    asyncio.run(stopped(client, works, interrupt_checker=checker))
    require_interrupted(client, reason=reason)
    assert {} == executions
    assert ["0", "1", "2", "3", "4"] == client.run_sync(pipeline(works), None, state_id="s")


@pytest.mark.parametrize("said", [None, False, 0, 1, "yes", [True]])
def test_a_checker_that_says_anything_else_stops_nothing(client: Limpet, said: object) -> None:
    async def asked() -> object:
        return said

    for number, checker in enumerate((lambda: said, asked)):
        found = client.run_sync(pipeline(works), None, state_id=f"s{number}", interrupt_checker=checker)
        assert ["0", "1", "2", "3", "4"] == found


def test_a_checker_is_asked_before_every_event(client: Limpet) -> None:
    def checker() -> bool:
        return executions["2"] == 1

    asyncio.run(stopped(client, works, interrupt_checker=checker))
    require_interrupted(client, reason="checker")
    assert {"0": 1, "1": 1, "2": 1} == executions
    assert ["0", "1", "2", "3", "4"] == client.run_sync(pipeline(works), None, state_id="s")


def test_a_checker_can_be_set_and_taken_away_by_the_run_itself(client: Limpet) -> None:
    async def body(state: ExecutionState) -> list[str]:
        state.set_interrupt_checker(lambda: True)
        state.set_interrupt_checker(None)
        first = await work("first")
        if executions["first"] == 1 and not executions["again"]:
            executions["again"] += 1
            state.set_interrupt_checker(lambda: InterruptSignal("enough"))
        return [first, await work("second")]

    assert "enough" == asyncio.run(stopped(client, body)).reason
    assert 0 == executions["second"]
    assert ["first", "second"] == client.run_sync(pipeline(body), None, state_id="s")


def test_a_checker_counts_for_a_run_that_is_resumed(client: Limpet) -> None:
    asyncio.run(stopped(client, waits, interrupt_checker=lambda: executions["here"] == 1))
    executions.clear()
    actor = pipeline(waits)
    with pytest.raises(ExecutionInterrupted):
        asyncio.run(client.resume("s", agent=actor, interrupt_checker=lambda: True))
    assert {} == executions
    open_all()
    assert ["before", "here", "after"] == asyncio.run(client.resume("s", agent=actor))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_checker_that_raises_is_reported_once_and_the_run_completes(
    client: Limpet, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def raises() -> bool:
        executions["asked"] += 1
        raise LookupError("no such file")

    async def raises_later() -> bool:
        return raises()

    with caplog.at_level(logging.DEBUG, "limpet.interrupts"):
        found = client.run_sync(
            pipeline(works), None, state_id="s", interrupt_checker=raises_later if is_async else raises
        )
    assert ["0", "1", "2", "3", "4"] == found
    assert executions["asked"] >= 5
    (report,) = [record for record in caplog.records if record.name == "limpet.interrupts"]
    assert (logging.ERROR, "limpet.interrupts") == (report.levelno, report.name)
    assert "interrupt checker of state s raised. The run goes on." in report.getMessage()
    assert "no such file" in caplog.text
    assert StateStatus.COMPLETED is client.show("s").header.status


def test_a_checker_that_has_raised_can_still_stop_the_run(client: Limpet) -> None:
    def checker() -> bool:
        executions["asked"] += 1
        if not executions["1"]:
            raise LookupError
        return True

    asyncio.run(stopped(client, works, interrupt_checker=checker))
    require_interrupted(client, reason="checker")
    assert (1, 1, 0) == (executions["0"], executions["1"], executions["2"])


def test_what_cannot_be_asked_is_refused_before_anything_runs(client: Limpet) -> None:
    with pytest.raises(UsageError, match="cannot be asked"):
        client.run_sync(pipeline(works), None, interrupt_checker=True)
    with pytest.raises(UsageError, match="cannot be asked"):
        ExecutionState().set_interrupt_checker("yes")  # pyright: ignore[reportArgumentType]
    assert [] == client.list_states()


def test_a_checker_that_asks_for_a_graceful_stop_is_obeyed_where_nothing_is_being_executed(client: Limpet) -> None:
    def checker() -> InterruptSignal | None:
        return InterruptSignal("lunch", is_graceful=True) if executions["2"] else None

    asyncio.run(stopped(client, works, interrupt_checker=checker))
    require_interrupted(client, reason="lunch")
    assert {"0": 1, "1": 1, "2": 1} == executions


def test_a_checker_that_asks_for_a_graceful_stop_lets_what_is_in_flight_finish(client: Limpet) -> None:
    is_asked = False

    def checker() -> InterruptSignal | None:
        nonlocal is_asked
        is_asked = bool(executions["flies"])
        return InterruptSignal("lunch", is_graceful=True) if is_asked else None

    @tool
    async def flies() -> str:
        executions["flies"] += 1
        while not is_asked:
            await asyncio.sleep(0)
        return "landed"

    async def body(state: ExecutionState) -> list[str]:
        return [await flies(), await work("after")]

    asyncio.run(stopped(client, body, interrupt_checker=checker))
    require_interrupted(client, reason="lunch")
    assert {"flies": 1} == executions
    assert ["landed", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert {"flies": 1, "after": 1} == executions


# A time that runs out.


def test_a_run_is_stopped_when_its_time_is_over_and_keeps_what_is_finished(client: Limpet) -> None:
    error = asyncio.run(stopped(client, waits, timeout_s=0.2))
    assert ("timeout", "The 0.2 s that it was given are over.") == (error.reason, error.message)
    require_interrupted(client, reason="timeout")
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s", timeout_s=1000)
    assert {"before": 1, "here": 2, "after": 1} == executions


def test_a_run_can_set_its_own_time_and_take_it_back(client: Limpet) -> None:
    async def body(state: ExecutionState) -> str:
        state.set_timeout(0.05)
        state.set_timeout(None)
        await asyncio.sleep(0.1)
        first = await work("first")
        if not executions["again"]:
            executions["again"] += 1
            state.set_timeout(0.05)
            await stay("here")
        return first

    asyncio.run(stopped(client, body))
    require_interrupted(client, reason="timeout")
    assert "first" == client.run_sync(pipeline(body), None, state_id="s")
    assert 1 == executions["first"]


def test_a_deadline_stops_a_run(client: Limpet) -> None:
    asyncio.run(stopped(client, waits, deadline=datetime.now(UTC) + timedelta(seconds=0.2)))
    require_interrupted(client, reason="timeout")
    executions.clear()
    asyncio.run(stopped(client, waits, deadline=datetime.now(UTC) - timedelta(seconds=1)))
    require_interrupted(client, reason="timeout")
    assert {} == executions


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "1"])
def test_a_time_that_is_none_is_refused(client: Limpet, seconds: Any) -> None:
    with pytest.raises(UsageError, match="seconds"):
        client.run_sync(pipeline(works), None, timeout_s=seconds)
    with pytest.raises(UsageError, match="seconds"):
        ExecutionState().set_timeout(seconds)
    assert [] == client.list_states()


def test_a_deadline_without_a_time_zone_is_refused(client: Limpet) -> None:
    with pytest.raises(UsageError, match="time zone"):
        client.run_sync(pipeline(works), None, deadline=datetime(2030, 1, 1))  # noqa: DTZ001 - that is what is refused


# Through the store.


@pytest.fixture(params=["memory://", "sqlite:///{}/runs.db", "file://{}/states"])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Limpet]:
    with Limpet(request.param.format(tmp_path)) as limpet:
        yield limpet


@pytest.fixture(params=["sqlite:///{}/runs.db", "file://{}/states"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param.format(tmp_path)


def test_a_run_is_stopped_by_its_id(stored: Limpet) -> None:
    async def main() -> None:
        running = asyncio.create_task(stopped(stored, waits))
        await until("here")
        assert stored.interrupt("s", "It is late.", by="Ada", reason="lunch")
        error = await running
        assert ("lunch", "It is late.", "Ada") == (error.reason, error.message, error.triggered_by)

    asyncio.run(main())
    require_interrupted(stored, reason="lunch")
    open_all()
    assert ["before", "here", "after"] == stored.run_sync(pipeline(waits), None, state_id="s")
    assert {"before": 1, "here": 2, "after": 1} == executions


def test_a_state_that_nobody_runs_cannot_be_interrupted_and_is_not_later_either(stored: Limpet) -> None:
    async def fails(state: ExecutionState) -> list[str]:
        if not executions["fails"]:
            executions["fails"] += 1
            raise LookupError
        # Long enough to be told of a wish, if there were one.
        await asyncio.sleep(0.5)
        return await works(state)

    with pytest.raises(LookupError):
        stored.run_sync(pipeline(fails), None, state_id="s")
    before = stored.show("s").header
    assert not stored.interrupt("s")
    assert before == stored.show("s").header
    assert ["0", "1", "2", "3", "4"] == stored.run_sync(pipeline(fails), None, state_id="s")
    assert not stored.interrupt("s")
    assert StateStatus.COMPLETED is stored.show("s").header.status


def test_an_unknown_state_cannot_be_interrupted(stored: Limpet) -> None:
    with pytest.raises(UnknownState, match="'nobody'"):
        stored.interrupt("nobody")


def test_only_the_run_that_is_meant_is_stopped(stored: Limpet) -> None:
    async def body(state: ExecutionState) -> str:
        return await wait_at(state.state_id)

    async def main() -> None:
        runs = {name: asyncio.create_task(stored.run(pipeline(body), None, state_id=name)) for name in ("a", "b", "c")}
        await until("a", "b", "c")
        assert stored.interrupt("b")
        with pytest.raises(ExecutionInterrupted):
            await ended(runs["b"])
        assert not runs["a"].done()
        assert not runs["c"].done()
        for name in ("a", "c"):
            assert stored.interrupt(name)
            with pytest.raises(ExecutionInterrupted):
                await ended(runs[name])

    asyncio.run(main())


# Graceful: what is in flight is finished, and nothing begins.


@tool
async def tick() -> None:
    executions["tick"] += 1


async def ticking() -> None:
    """Calls of the agent that begin all the time, until none begins any more."""
    while True:
        await tick()
        await asyncio.sleep(0.005)


async def until_nothing_begins() -> None:
    before = -1
    while before != executions["tick"]:
        before = executions["tick"]
        await asyncio.sleep(0.5)


@tool
async def lands_in_time(name: str) -> str:
    """Is in flight until nothing begins any more, and then comes to its end."""
    executions[name] += 1
    await stay_until_nothing_begins(name)
    return name


async def stay_until_nothing_begins(name: str) -> None:
    open_all(name)
    await stay(name)
    await until_nothing_begins()


async def finished(client: Limpet, body: Callable[[], Any], *places: str) -> ExecutionInterrupted:
    """Run until these places are reached, and stop it gracefully."""

    async def beside(state: ExecutionState) -> Any:
        ticks = asyncio.create_task(ticking())
        found = await body()
        ticks.cancel()
        return found

    running = asyncio.create_task(client.run(pipeline(beside), None, state_id="s"))
    await until(*places)
    assert client.interrupt("s", finish=True)
    with pytest.raises(ExecutionInterrupted) as caught:
        await ended(running)
    return caught.value


def addresses(client: Limpet, status: str) -> set[str]:
    return {address for address, each in statuses(client).items() if each == status and "tick" not in address}


def test_a_graceful_stop_lets_what_is_in_flight_finish_and_begins_nothing(client: Limpet) -> None:
    async def body() -> list[str]:
        return [await lands_in_time("first"), await work("second")]

    asyncio.run(finished(client, body, "first"))
    require_interrupted(client)
    assert {"pipeline::lands_in_time::tool_call"} == addresses(client, "completed")
    assert (1, 0) == (executions["first"], executions["second"])


def test_a_graceful_stop_waits_for_all_that_is_in_flight(client: Limpet) -> None:
    async def branch(name: str) -> list[str]:
        return [await lands_in_time(name), await work(f"behind {name}")]

    async def body() -> Any:
        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(branch(name))
        return await work("behind all")

    asyncio.run(finished(client, body, "a", "b", "c"))
    require_interrupted(client)
    assert 3 == len(addresses(client, "completed"))
    assert {"a": 1, "b": 1, "c": 1} == {name: executions[name] for name in executions if name != "tick"}


def test_a_graceful_stop_lets_a_tool_in_flight_call_other_tools(client: Limpet) -> None:
    @agent
    async def assistant(name: str) -> str:
        return await work(name)

    @tool
    async def calls_others() -> list[str]:
        await stay_until_nothing_begins("here")
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work("inner a")), group.create_task(assistant("inner b"))]
        return [task.result() for task in tasks] + [await work("inner c")]

    async def body() -> list[Any]:
        return [await calls_others(), await work("second")]

    asyncio.run(finished(client, body, "here"))
    require_interrupted(client)
    assert ["inner a", "inner b", "inner c"] == client.history("s").get_event_result(
        "pipeline::calls_others::tool_call"
    )
    assert 0 == executions["second"]


def test_a_graceful_stop_lets_a_plain_tool_finish(client: Limpet) -> None:
    async def body() -> list[str]:
        return [await wait_in_thread("here"), await work("second")]

    async def main() -> None:
        async def let_go() -> None:
            await until("here")
            await until_nothing_begins()
            let_threads_go_on()

        letting_go = asyncio.create_task(let_go())
        await finished(client, body, "here")
        await letting_go

    asyncio.run(main())
    require_interrupted(client)
    assert {"pipeline::wait_in_thread::tool_call"} == addresses(client, "completed")
    assert (1, 0) == (executions["here"], executions["second"])


def test_a_graceful_stop_does_not_wait_for_an_agent_that_waits(client: Limpet) -> None:
    async def body() -> None:
        await stay("here")

    asyncio.run(finished(client, body, "here"))
    require_interrupted(client)


@pytest.mark.parametrize("is_beside_another", [False, True])
def test_a_graceful_stop_does_not_wait_for_a_call_in_backoff(client: Limpet, is_beside_another: bool) -> None:
    @tool(retry_config=RetryConfig(max_attempts=3, initial_delay=3600, max_delay=3600))
    async def fails() -> None:
        executions["fails"] += 1
        open_all("here")
        await stay("here")
        raise ConnectionError

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(fails())
            if is_beside_another:
                group.create_task(lands_in_time("beside"))

    asyncio.run(finished(client, body, "here"))
    require_interrupted(client)
    record = client.history("s")["pipeline::fails::tool_call"]
    assert ("interrupted", 2) == (record.status, record.attempt)
    if is_beside_another:
        assert {"pipeline::lands_in_time::tool_call"} == addresses(client, "completed")


def test_a_call_that_fails_while_a_graceful_stop_waits_for_it_is_not_tried_again_yet(client: Limpet) -> None:
    @tool(retry_config=RetryConfig(max_attempts=3, initial_delay=3600, max_delay=3600))
    async def fails_late() -> str:
        executions["fails"] += 1
        await stay_until_nothing_begins("here")
        raise ConnectionError

    async def body() -> str:
        return await fails_late()

    asyncio.run(finished(client, body, "here"))
    require_interrupted(client)
    record = client.history("s")["pipeline::fails_late::tool_call"]
    assert ("interrupted", 2, 1) == (record.status, record.attempt, executions["fails"])


def test_a_failure_in_flight_of_a_graceful_stop_is_recorded_and_fails_the_run_when_it_goes_on(client: Limpet) -> None:
    @tool
    async def fails_late() -> str:
        executions["fails"] += 1
        await stay_until_nothing_begins("here")
        raise LookupError("late")

    async def body() -> str:
        try:
            return await fails_late()
        except LookupError:
            return await work("instead")

    asyncio.run(finished(client, body, "here"))
    require_interrupted(client)
    assert {"pipeline::fails_late::tool_call"} == addresses(client, "failed")
    assert (1, 0) == (executions["fails"], executions["instead"])


def test_a_plain_agent_is_stopped_gracefully(client: Limpet) -> None:
    @agent
    def plain() -> list[str]:
        return [lands_in_time.call("first"), work.call("second")]

    async def body() -> list[str]:
        return await plain()

    asyncio.run(finished(client, body, "first"))
    require_interrupted(client)
    assert {"pipeline::plain::lands_in_time::tool_call"} == addresses(client, "completed")
    assert (1, 0) == (executions["first"], executions["second"])


def test_a_graceful_stop_can_be_hastened(stored: Limpet) -> None:
    async def main() -> None:
        async def body(state: ExecutionState) -> Any:
            return await asyncio.gather(ticking(), wait_at("here"))

        running = asyncio.create_task(stored.run(pipeline(body), None, state_id="s"))
        await until("here")
        assert stored.interrupt("s", "when you are done", finish=True)
        await until_nothing_begins()
        assert not running.done()
        assert stored.interrupt("s", "now")
        with pytest.raises(ExecutionInterrupted, match="now"):
            await ended(running)

    asyncio.run(main())
    assert "now" == require_interrupted(stored)["message"]


def test_a_graceful_stop_can_be_hastened_by_the_state(client: Limpet) -> None:
    async def main() -> None:
        async def body(state: ExecutionState) -> Any:
            return await asyncio.gather(ticking(), wait_at("here"))

        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until("here")
        assert client.interrupt("s", finish=True)
        await until_nothing_begins()
        states["s"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await ended(running)

    asyncio.run(main())
    require_interrupted(client)


class SlowArtifacts(MemoryArtifactBackend):
    """Takes its time for what is put into it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = True

    def put(self, artifact_id: str, content: Any, pin: Any = None) -> bool:
        executions["putting"] += 1
        goes_on.wait(20)
        return super().put(artifact_id, content, pin)


goes_on = threading.Event()


def test_a_graceful_stop_that_comes_while_an_agent_is_about_to_begin_does_not_wait_for_it() -> None:
    @agent
    async def reads(text: str) -> None:
        await stay("reading")

    async def body(state: ExecutionState) -> None:
        await asyncio.gather(ticking(), reads("long " * 50_000))

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until_true(lambda: executions["putting"])
        assert client.interrupt("s", finish=True)
        await until_nothing_begins()
        goes_on.set()
        with pytest.raises(ExecutionInterrupted):
            await ended(running)

    goes_on.clear()
    client = Limpet(MemoryStateBackend(), artifact_backend=SlowArtifacts())
    try:
        asyncio.run(main())
    finally:
        goes_on.set()
    require_interrupted(client)


def test_a_graceful_stop_that_comes_while_the_checker_is_being_asked_does_not_wait_for_the_call(client: Limpet) -> None:
    is_asked, answers = False, asyncio.Event()

    async def checker() -> None:
        nonlocal is_asked
        if executions["first"] and not is_asked:
            is_asked = True
            await answers.wait()

    async def body(state: ExecutionState) -> list[str]:
        return [await work("first"), await work("second")]

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s", interrupt_checker=checker))
        await until_true(lambda: is_asked)
        signal = InterruptSignal("lunch", is_graceful=True)
        states["s"].set_interrupt_checker(lambda: signal)
        await asyncio.sleep(0.2)
        answers.set()
        with pytest.raises(ExecutionInterrupted, match="lunch"):
            await ended(running)

    asyncio.run(main())
    require_interrupted(client, reason="lunch")
    assert {"first": 1} == executions


# Other processes.


@contextmanager
def inside(store: str, name: str, *how: str, times: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A process that is in the middle of its run."""
    command = [sys.executable, interrupted_program.__file__, store, name, *how]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for _ in range(times):
                while "inside\n" != (line := process.stdout.readline()):
                    assert line, process.stderr.read() if process.stderr else ""
            yield process
        finally:
            process.kill()


def said_by(process: subprocess.Popen[str]) -> list[str]:
    """What a process says until its end."""
    said, _ = process.communicate(timeout=60)
    return said.splitlines()


def go_on(store: str, name: str) -> list[str]:
    """What a process says that goes on with the run."""
    command = [sys.executable, interrupted_program.__file__, store, name, "open"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_a_run_is_stopped_from_another_process(store: str) -> None:
    with inside(store, "waiting") as process, Limpet(store) as client:
        assert client.interrupt("s", "It is late.", by="Ada")
        (said,) = said_by(process)
        assert said.startswith("ExecutionInterrupted: State 's' was interrupted by Ada (requested). It is late.")
        require_interrupted(client)
        assert not client.interrupt("s")
    assert ["executed second", "executed third", "['first', 'second', 'third']"] == go_on(store, "waiting")


def test_a_thousand_waits_are_stopped_within_a_second_and_what_was_finished_is_not_executed_again(store: str) -> None:
    with inside(store, "crowd") as process, Limpet(store) as client:
        asked = time.perf_counter()
        assert client.interrupt("s")
        (said,) = said_by(process)
        took_s = time.perf_counter() - asked
        assert said.startswith("ExecutionInterrupted")
        # One second is promised. A busy machine is given five.
        assert 5 > took_s
        require_interrupted(client)
        found = list(statuses(client).values())
        assert (FINISHED, WAITING + 1) == (found.count("completed"), found.count("interrupted"))
    assert [str(FINISHED + WAITING)] == go_on(store, "crowd")


def test_a_run_is_stopped_gracefully_from_another_process(store: str) -> None:
    with inside(store, "finishing") as process, Limpet(store) as client:
        assert client.interrupt("s", finish=True)
        (said,) = said_by(process)
        assert said.startswith("ExecutionInterrupted")
        require_interrupted(client)
        assert "completed" == statuses(client)["finishing::end_when_nothing_begins::tool_call"]
    assert ["executed second", "['first', 'second']"] == go_on(store, "finishing")


def test_a_process_that_was_killed_runs_nothing_that_could_be_interrupted(store: str) -> None:
    with inside(store, "waiting") as process, Limpet(store) as client:
        process.kill()
        process.wait()
        assert not client.interrupt("s")
        assert StateStatus.RUNNING is client.show("s").header.status
    assert "['first', 'second', 'third']" == go_on(store, "waiting")[-1]


def test_a_process_stops_the_run_of_this_one(store: str) -> None:
    code = "import sys, limpet; print(limpet.Limpet(sys.argv[1]).interrupt('s', by='the other one'))"

    async def main(client: Limpet) -> None:
        running = asyncio.create_task(stopped(client, waits))
        await until("here")
        command = [sys.executable, "-c", code, store]
        other = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        said, _ = await other.communicate()
        assert b"True\n" == said
        assert "the other one" == (await running).triggered_by

    with Limpet(store) as client:
        asyncio.run(main(client))
        require_interrupted(client)


# Signals.


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_lets_the_event_in_flight_finish(tmp_path: Path, number: signal.Signals) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "finishing", "signals") as process, Limpet(store) as client:
        process.send_signal(number)
        (said,) = said_by(process)
        assert said.startswith(f"ExecutionInterrupted: State 's' was interrupted by {number.name} (signal).")
        assert 4 == process.returncode
        assert number.name == require_interrupted(client, reason="signal")["triggered_by"]
        assert "completed" == statuses(client)["finishing::end_when_nothing_begins::tool_call"]
    assert ["executed second", "['first', 'second']"] == go_on(store, "finishing")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_stops_at_once(tmp_path: Path, number: signal.Signals) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "waiting", "signals") as process, Limpet(store) as client:
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(number)
        (said,) = said_by(process)
        assert said.startswith("ExecutionInterrupted")
        require_interrupted(client, reason="signal")
        assert "interrupted" == statuses(client)["waiting::hold::tool_call"]
    assert ["executed second", "executed third", "['first', 'second', 'third']"] == go_on(store, "waiting")


def test_the_signals_of_a_terminal_and_of_a_supervisor_add_up(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "waiting", "signals") as process, Limpet(store) as client:
        process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert said_by(process)[0].startswith("ExecutionInterrupted")
        require_interrupted(client, reason="signal")


def test_a_signal_stops_every_run_of_a_program_that_asked_for_it(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "both", "signals", times=2) as process, Limpet(store) as client:
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        assert ["['ExecutionInterrupted', 'ExecutionInterrupted']"] == said_by(process)
        require_interrupted(client, "one", reason="signal")
        require_interrupted(client, "two", reason="signal")


def test_without_asking_for_it_a_keyboard_interrupt_stays_one_and_the_run_is_left_as_interrupted(
    tmp_path: Path,
) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "waiting") as process, Limpet(store) as client:
        process.send_signal(signal.SIGINT)
        assert ["KeyboardInterrupt"] == said_by(process)
        require_interrupted(client, reason="cancelled")
    assert ["executed second", "executed third", "['first', 'second', 'third']"] == go_on(store, "waiting")


def test_without_asking_for_it_a_process_that_is_told_to_end_ends(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with inside(store, "waiting") as process:
        process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.wait(60)
    assert "['first', 'second', 'third']" == go_on(store, "waiting")[-1]


def test_signals_do_what_they_did_before_when_a_run_has_ended(client: Limpet) -> None:
    told: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, lambda number, _: told.append(number)) for number in numbers}
    mine = {number: signal.getsignal(number) for number in numbers}
    try:
        open_all()
        client.run_sync(pipeline(waits), None, handle_signals=True)
        assert mine == {number: signal.getsignal(number) for number in numbers}
        os.kill(os.getpid(), signal.SIGTERM)
        assert [signal.SIGTERM] == told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_signals_cannot_be_handled_outside_of_the_main_thread(client: Limpet) -> None:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            client.run_sync(pipeline(works), None, state_id="s", handle_signals=True)
        except UsageError as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(raised[0])
    assert {} == executions
    assert ["0", "1", "2", "3", "4"] == client.run_sync(pipeline(works), None, state_id="s")
