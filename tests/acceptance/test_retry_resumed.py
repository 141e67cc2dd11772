"""Retries outlive the process: what is left of the attempts, of the waits and of the configuration is gone on with."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    BackoffStrategy,
    EventBus,
    EventNotice,
    EventRecord,
    EventType,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    StateBackend,
    StateMetadata,
    StateStatus,
    Tool,
    ValueNotReadable,
    agent,
    current_event,
    tool,
)
from limpet.testing import CrashingBackend, SimulatedCrash

executions: Counter[str] = Counter()
seen: list[int] = []
"""The numbers of the attempts of ``fetch`` that were executed."""
switch: dict[str, Any] = {}

FETCH = "research::fetch::tool_call"
SLOWLY = RetryConfig(3, BackoffStrategy.CONSTANT, initial_delay=10.0, jitter=False)
QUICKLY = RetryConfig(3, BackoffStrategy.CONSTANT, initial_delay=0.01, jitter=False)


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    seen.clear()
    switch.clear()


@pytest.fixture
def clock() -> Iterator[Turned]:
    with turned_clock() as turned:
        yield turned


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    """Opens the same store again and again, as new processes would."""
    return opener(request.param, tmp_path / "store")


class Overloaded(Exception):
    """An error of the user's own, declared where it is found again."""


class Gone(Exception):
    """Another one."""


@tool(retry_config=QUICKLY)
async def fetch(url: str) -> str:
    executions["fetch"] += 1
    seen.append(current_event().attempt)
    if seen[-1] < switch.get("succeeds", 100):
        raise ConnectionError(f"attempt {seen[-1]}")
    return url.upper()


@agent
async def research(url: str) -> str:
    executions["research"] += 1
    return await fetch.options(retry_config=switch.get("config", fetch.retry_config))(url)


def crashed(backend: StateBackend, stop_at: int, when: Literal["before", "after"] = "after", **options: Any) -> None:
    """Run until the process dies at a write: the claim is the first, each attempt that failed is another one."""
    crashing = CrashingBackend(backend, stop_at=stop_at, when=when)
    with pytest.raises(SimulatedCrash):
        Limpet(crashing, **options).run_sync(research, "kelp", state_id="r")
    gc.collect()


def records(client: Limpet, address: str = FETCH, state_id: str = "r") -> list[EventRecord]:
    return [record for record in client.history(state_id).get_event_list() if record.address == address]


def statuses(client: Limpet, address: str = FETCH, state_id: str = "r") -> list[tuple[str, int]]:
    return [(record.status.value, record.attempt) for record in records(client, address, state_id)]


THREE_ATTEMPTS = [
    *[("started", 1), ("failed", 1), ("retrying", 1)],
    *[("started", 2), ("failed", 2), ("retrying", 2)],
    *[("started", 3), ("failed", 3)],
]


# A crash while waiting.


@pytest.mark.parametrize("dies_behind", [1, 2])
def test_a_crash_in_a_backoff_leaves_three_attempts_at_three(
    reopen: Callable[[], StateBackend], dies_behind: int
) -> None:
    crashed(reopen(), stop_at=1 + dies_behind)
    assert dies_behind == executions["fetch"]
    client = Limpet(reopen())
    assert ExecutionStatus.RETRYING is client.history("r")[FETCH].status
    with pytest.raises(ConnectionError, match="attempt 3"):
        client.run_sync(research, "kelp", state_id="r")
    assert [1, 2, 3] == seen
    assert THREE_ATTEMPTS == statuses(client)


def test_a_crash_in_every_backoff_leaves_three_attempts_at_three(reopen: Callable[[], StateBackend]) -> None:
    crashed(reopen(), stop_at=2)
    # From the second process on, the first two writes find out that the holder is dead and take over from it.
    crashed(reopen(), stop_at=3)
    client = Limpet(reopen())
    with pytest.raises(ConnectionError, match="attempt 3"):
        client.run_sync(research, "kelp", state_id="r")
    assert [1, 2, 3] == seen
    assert THREE_ATTEMPTS == statuses(client)


def test_a_crash_before_an_attempt_is_recorded_makes_that_attempt_again(reopen: Callable[[], StateBackend]) -> None:
    crashed(reopen(), stop_at=3, when="before")
    client = Limpet(reopen())
    with pytest.raises(ConnectionError, match="attempt 3"):
        client.run_sync(research, "kelp", state_id="r")
    assert [1, 2, 2, 3] == seen
    assert THREE_ATTEMPTS == statuses(client)


def test_a_crash_in_a_backoff_leaves_what_is_left_of_the_wait(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    switch.update(config=SLOWLY, succeeds=2)
    crashed(reopen(), stop_at=2)
    assert [] == clock.waits
    clock.turn(4.0)
    assert "KELP" == Limpet(reopen()).run_sync(research, "kelp", state_id="r")
    assert [pytest.approx(6.0, abs=3.5)] == clock.waits
    assert [1, 2] == seen


def test_a_wait_that_was_over_before_the_run_was_taken_up_is_not_made(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    switch.update(config=SLOWLY, succeeds=2)
    crashed(reopen(), stop_at=2)
    clock.turn(3600.0)
    assert "KELP" == Limpet(reopen()).run_sync(research, "kelp", state_id="r")
    assert [] == clock.waits


def cancelled_while_waiting(client: Limpet) -> None:
    async def main() -> None:
        bus, is_waiting = EventBus(), asyncio.Event()

        async def notice(event: EventNotice) -> None:
            if event.status is ExecutionStatus.RETRYING:
                is_waiting.set()

        bus.subscribe(notice)
        run = asyncio.create_task(client.run(research, "kelp", state_id="r", event_bus=bus))
        await is_waiting.wait()
        run.cancel()
        await run

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())


def test_a_run_that_is_cancelled_in_a_backoff_goes_on_with_it(reopen: Callable[[], StateBackend]) -> None:
    switch.update(config=RetryConfig(3, initial_delay=0.2, jitter=False), succeeds=2)
    client = Limpet(reopen())
    cancelled_while_waiting(client)
    header = client.show("r").header
    assert (StateStatus.RUNNING, "cancelled") == (header.status, header.metadata.stopped["reason"])
    due_at = next(record.details.due_at for record in records(client) if record.details is not None)
    client = Limpet(reopen())
    assert "KELP" == client.run_sync(research, "kelp", state_id="r")
    assert [1, 2] == seen
    assert records(client)[-1].at >= due_at


def test_a_run_that_is_stopped_again_and_again_while_it_waits_makes_no_attempt_too_many(
    reopen: Callable[[], StateBackend],
) -> None:
    switch.update(config=RetryConfig(3, BackoffStrategy.CONSTANT, initial_delay=0.1, jitter=False), succeeds=3)
    found = None
    stops = 0
    for _ in range(100):
        try:
            found = asyncio.run(Limpet(reopen()).run(research, "kelp", state_id="r", timeout_s=0.03))
            break
        except ExecutionInterrupted:
            stops += 1
    assert "KELP" == found
    assert stops >= 2
    assert [1, 2, 3] == seen
    counts = Limpet(reopen()).history("r").retry_statistics()
    assert (2, 4) == (counts.retries, counts.attempts), "three of the call, and one of the run"


def test_a_stop_in_a_backoff_shows_no_start_of_an_attempt_that_was_not_made(reopen: Callable[[], StateBackend]) -> None:
    switch.update(config=RetryConfig(3, initial_delay=0.2, jitter=False), succeeds=2)
    cancelled_while_waiting(Limpet(reopen()))
    client = Limpet(reopen())
    assert [("started", 1), ("failed", 1), ("retrying", 1)] == statuses(client)[:3]
    assert [1] == [attempt for status, attempt in statuses(client) if status == "started"]
    assert "KELP" == client.run_sync(research, "kelp", state_id="r")
    assert [1, 2] == seen == [attempt for status, attempt in statuses(client) if status == "started"]


def test_a_run_that_is_taken_up_in_a_backoff_tells_observers_which_attempt_it_makes(clock: Turned) -> None:
    backend = MemoryStateBackend()
    switch.update(config=SLOWLY, succeeds=2)
    crashed(backend, stop_at=2)
    bus, told = EventBus(), list[EventNotice]()
    bus.subscribe(told.append)
    Limpet(backend).run_sync(research, "kelp", state_id="r", event_bus=bus)
    assert bus.flush()
    assert [("started", 2, True), ("completed", 2, True)] == [
        (notice.status.value, notice.attempt, notice.is_retry) for notice in told if notice.address == FETCH
    ]


PROGRAM = """
import os, signal, sys
from limpet import EventBus, ExecutionStatus, Limpet, RetryConfig, agent, current_event, tool

@tool(retry_config=RetryConfig(3, initial_delay=0.05, jitter=False))
async def fetch(url: str) -> str:
    with open("attempts", "a") as file:
        file.write(f"{current_event().attempt}\\n")
    raise ConnectionError("down")

@agent
async def research(url: str) -> str:
    return await fetch(url)

def dies(notice):
    if notice.status is ExecutionStatus.RETRYING:
        os.kill(os.getpid(), signal.SIGKILL)

bus = EventBus()
if "kill" in sys.argv:
    bus.subscribe(dies)
Limpet(sys.argv[1]).run_sync(research, "kelp", state_id="r", event_bus=bus)
"""


@pytest.mark.parametrize("store", ["sqlite:///runs.db", "file://states"])
def test_processes_that_are_killed_in_their_backoffs_make_three_attempts_together(store: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", store]
    for _ in range(2):
        killed = subprocess.run([*command, "kill"], cwd=tmp_path, env=os.environ, check=False, capture_output=True)
        assert -signal.SIGKILL == killed.returncode
    ended = subprocess.run(command, cwd=tmp_path, env=os.environ, check=False, capture_output=True, text=True)
    assert "ConnectionError: down" in ended.stderr
    assert ["1", "2", "3"] == (tmp_path / "attempts").read_text().split()


# A crash anywhere.


@tool(retry_config=RetryConfig(3, initial_delay=0.001))
async def shaky(name: str, good_at: int) -> str:
    executions[f"{name} {current_event().attempt}"] += 1
    if current_event().attempt < good_at:
        raise ConnectionError(name)
    return name


@tool(retry_config=RetryConfig(enabled=False))
async def fragile(name: str) -> str:
    switch[name] = switch.get(name, 0) + 1
    executions[f"{name} {switch['careful']}"] += 1
    if switch["careful"] < 3:
        raise LookupError(name)
    return name


@agent(retry_config=RetryConfig(3, initial_delay=0.001, retry_on_exceptions=(LookupError,)))
async def careful() -> list[str]:
    switch["careful"] = current_event().attempt
    return [await shaky("inner", 2), await fragile("fragile")]


@agent
async def everything() -> list[Any]:
    first = await shaky("first", 3)
    gathered = await asyncio.gather(shaky("left", 2), shaky("right", 3))
    try:
        caught = await shaky("caught", 100)
    except ConnectionError as error:
        caught = str(error)
    return [first, *gathered, caught, *await careful()]


EVERYTHING = ["first", "left", "right", "caught", "inner", "fragile"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_with_retries_that_is_stopped_at_any_write_ends_as_the_undisturbed_one(
    when: Literal["before", "after"], tmp_path: Path
) -> None:
    """On every store: tests/crash/test_every_attempt.py."""
    for stop_at in itertools.count(1):
        executions.clear()
        open_store = opener("memory", tmp_path / f"store-{stop_at}")
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        try:
            found = Limpet(crashing).run_sync(everything, state_id="swept")
        except BaseException:
            assert crashing.is_stopped
            gc.collect()
            found = Limpet(open_store()).run_sync(everything, state_id="swept")
        assert EVERYTHING == found
        assert max(executions.values()) <= 2, "what was in flight runs at most once more"
        assert {"caught 1", "caught 2", "caught 3"} == {name for name in executions if name.startswith("caught")}
        assert {"fragile 1", "fragile 2", "fragile 3"} == {name for name in executions if name.startswith("fragile")}
        counts = Limpet(open_store()).history("swept").retry_statistics()
        assert 2 + 1 + 2 + 2 + 2 + 1 == counts.retries
        if not crashing.is_stopped:
            assert {1} == set(executions.values())
            return


@tool(retry_config=RetryConfig(enabled=False))
async def step(name: str) -> str:
    executions[name] += 1
    if name == "breaks":
        raise LookupError(name)
    return name


def crashed_inside_the_second_attempt(outer: Any, backend: StateBackend) -> None:
    # The claim, a step, what breaks, that the agent is retried, and what its second attempt records.
    crashing = CrashingBackend(backend, stop_at=5, when="after")
    with pytest.raises(SimulatedCrash):
        Limpet(crashing).run_sync(outer, state_id="r")
    gc.collect()
    assert [1, 2] == seen


def test_a_retried_agent_keeps_its_count_of_attempts_over_a_crash_inside_the_second(
    reopen: Callable[[], StateBackend],
) -> None:
    @agent(retry_config=RetryConfig(3, initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def careful() -> None:
        seen.append(current_event().attempt)
        await step("first")
        await step("breaks")

    @agent
    async def outer() -> None:
        await careful()

    crashed_inside_the_second_attempt(outer, reopen())
    with pytest.raises(LookupError):
        Limpet(reopen()).run_sync(outer, state_id="r")
    assert [1, 2, 2, 3] == seen
    assert {"first": 1, "breaks": 3} == executions


@pytest.mark.parametrize("on_drift", ["warn", "error"])
def test_an_agent_may_go_another_way_in_its_next_attempt_also_after_a_crash(on_drift: str) -> None:
    @agent(retry_config=RetryConfig(3, initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def careful() -> str:
        attempt = current_event().attempt
        seen.append(attempt)
        await step.options(key=f"of attempt {attempt}")(f"step {attempt}")
        return await step("breaks" if attempt < 3 else "mended")

    @agent
    async def outer() -> str:
        return await careful()

    backend = MemoryStateBackend()
    crashed_inside_the_second_attempt(outer, backend)
    assert "mended" == Limpet(backend, on_drift=on_drift).run_sync(outer, state_id="r")
    assert [1, 2, 2, 3] == seen
    assert {"step 1": 1, "step 2": 1, "step 3": 1, "breaks": 2, "mended": 1} == executions


# A failure for good.


def test_an_event_that_failed_for_good_is_tried_again_with_a_fresh_count(reopen: Callable[[], StateBackend]) -> None:
    for _ in range(2):
        with pytest.raises(ConnectionError, match="attempt 3"):
            Limpet(reopen()).run_sync(research, "kelp", state_id="r")
    switch["succeeds"] = 2
    client = Limpet(reopen())
    assert "KELP" == client.run_sync(research, "kelp", state_id="r")
    assert [1, 2, 3, 1, 2, 3, 1, 2] == seen
    assert [
        *THREE_ATTEMPTS,
        *THREE_ATTEMPTS,
        *[("started", 1), ("failed", 1), ("retrying", 1), ("started", 2), ("completed", 2)],
    ] == statuses(client)


def test_an_event_that_failed_for_good_and_was_caught_is_not_tried_again(reopen: Callable[[], StateBackend]) -> None:
    @agent
    async def catches() -> str:
        try:
            return await fetch("kelp")
        except ConnectionError as error:
            if switch.get("break"):
                raise
            return str(error)

    @agent
    async def outer() -> str:
        found = await catches()
        if switch.pop("break later", None):
            raise RuntimeError
        return found

    switch["break later"] = True
    with pytest.raises(RuntimeError):
        Limpet(reopen()).run_sync(outer, state_id="caught")
    assert "attempt 3" == Limpet(reopen()).run_sync(outer, state_id="caught")
    assert [1, 2, 3] == seen


# Running on from a call that was being retried.


async def fetch_in(state: ExecutionState) -> Any:
    async def handler(url: str, context: Any, state: ExecutionState) -> str:
        seen.append(current_event().attempt)
        if seen[-1] < switch.get("succeeds", 100):
            raise ConnectionError(f"attempt {seen[-1]}")
        return url.upper()

    return (await ExecutionEvent(Tool(name="fetch", handler=handler))("kelp", None, state)).result


def test_resuming_from_an_address_that_was_being_retried_goes_on(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    backend = reopen()
    # The claim, and the first attempt.
    crashing = CrashingBackend(backend, stop_at=2, when="after")
    state = ExecutionState(state_backend=crashing, state_id="r", default_retry_config=SLOWLY)
    with pytest.raises(SimulatedCrash):
        asyncio.run(fetch_in(state))
    gc.collect()
    assert ExecutionStatus.RETRYING is Limpet(backend).history("r")["fetch::tool_call"].status
    switch["succeeds"] = 2
    restored = ExecutionState.load_from_state_id("r", reopen(), resume_from_address="fetch::tool_call")
    assert "KELP" == asyncio.run(fetch_in(restored))
    assert ExecutionStatus.COMPLETED is restored.history["fetch::tool_call"].status
    assert 2 == seen[-1]


@pytest.mark.parametrize("verb", ["rerun", "fork"])
def test_running_on_from_a_call_that_was_being_retried_goes_on(
    verb: str, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    switch["config"] = SLOWLY
    crashed(reopen(), stop_at=2)
    switch["succeeds"] = 2
    client = Limpet(reopen())
    if verb == "rerun":
        assert "KELP" == asyncio.run(client.rerun("r", at="fetch"))
    else:
        assert "KELP" == asyncio.run(client.resume(client.fork("r", at="fetch")))


# The configuration.

SETTINGS = RetryConfig(
    7,
    BackoffStrategy.FIBONACCI,
    initial_delay=0.001,
    max_delay=0.002,
    backoff_multiplier=3.5,
    jitter=False,
    retry_on_exceptions=(Overloaded, LookupError, TimeoutError),
    exclude_exceptions=(Gone, KeyError),
    retry_timeout=12.5,
)
BY_TYPE = {
    EventType.TOOL_CALL: RetryConfig(2, retry_on_exceptions=(Overloaded,), initial_delay=0),
    EventType.AGENT_CALL: RetryConfig(enabled=False),
}


def configured(backend: StateBackend) -> ExecutionState:
    return ExecutionState(
        state_backend=backend, state_id="c", default_retry_config=SETTINGS, retry_config_by_actor_type=BY_TYPE
    )


def load(backend: StateBackend) -> ExecutionState:
    return ExecutionState.load_from_state_id("c", backend)


def test_a_restored_configuration_is_a_retry_config_and_no_dict(reopen: Callable[[], StateBackend]) -> None:
    configured(reopen()).save_checkpoint(StateStatus.PAUSED)
    restored = load(reopen())
    assert isinstance(restored.default_retry_config, RetryConfig)
    assert SETTINGS == restored.default_retry_config
    assert BY_TYPE == restored.retry_config_by_actor_type


def test_exception_filters_survive_a_checkpoint_and_count_afterwards(reopen: Callable[[], StateBackend]) -> None:
    async def main(state: ExecutionState, error: type[Exception]) -> None:
        async def handler(data: int, context: Any, state: ExecutionState) -> None:
            executions[error.__name__] += 1
            raise error("again")

        with pytest.raises(error):
            await ExecutionEvent(Tool(name="raises", handler=handler), tag=error.__name__)(1, None, state)

    state = configured(reopen())
    state.save_checkpoint(StateStatus.PAUSED, StateMetadata(tags=["other metadata"]))
    for _ in range(2):
        state = load(reopen())
        state.save_checkpoint(StateStatus.PAUSED)
    restored = load(reopen())
    assert (Overloaded, LookupError, TimeoutError) == (restored.default_retry_config or SETTINGS).retry_on_exceptions
    assert ["other metadata"] == restored.metadata.tags
    asyncio.run(main(restored, Overloaded))
    asyncio.run(main(restored, TimeoutError))
    assert Counter(Overloaded=2, TimeoutError=1) == executions


def test_a_configuration_goes_with_snapshots_and_forks() -> None:
    backend = MemoryStateBackend()
    state = configured(backend)
    state.storage.set("a", 1)
    position = state.save_checkpoint(StateStatus.PAUSED)
    client = Limpet(backend)
    fork = client.fork("c", checkpoint=position)
    there = MemoryStateBackend()
    ExecutionState.from_snapshot(state.to_snapshot(), state_backend=there).save_checkpoint(StateStatus.PAUSED)
    for copied in (ExecutionState.load_from_state_id(fork, backend), load(there)):
        assert (SETTINGS, BY_TYPE) == (copied.default_retry_config, copied.retry_config_by_actor_type)


def test_a_state_without_a_configuration_has_none_when_it_is_restored(reopen: Callable[[], StateBackend]) -> None:
    ExecutionState(state_backend=reopen(), state_id="c").save_checkpoint(StateStatus.PAUSED)
    restored = load(reopen())
    assert (None, {}) == (restored.default_retry_config, restored.retry_config_by_actor_type)


def test_an_exception_type_that_is_not_imported_is_named_and_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = MemoryStateBackend()
    configured(backend).save_checkpoint(StateStatus.PAUSED)
    before = backend.find_state("c")
    monkeypatch.delattr(sys.modules[__name__], "Overloaded")
    with pytest.raises(ValueNotReadable, match="Overloaded"):
        load(backend)
    assert before == backend.find_state("c")
    assert StateStatus.PAUSED is Limpet(backend).show("c").header.status


def test_a_configuration_of_limpet_is_kept_for_a_resume_without_it(reopen: Callable[[], StateBackend]) -> None:
    by_type = {EventType.TOOL_CALL: RetryConfig(5, initial_delay=0)}

    @agent
    async def calls() -> str:
        executions["calls"] += 1
        return await counted()

    @tool
    async def counted() -> str:
        executions["counted"] += 1
        raise ConnectionError("down")

    with pytest.raises(ConnectionError):
        Limpet(reopen(), retry_config_by_actor_type=by_type).run_sync(calls, state_id="kept")
    assert 5 == executions["counted"]
    with pytest.raises(ConnectionError):
        Limpet(reopen()).run_sync(calls, state_id="kept")
    assert 10 == executions["counted"]
    with pytest.raises(ConnectionError):
        asyncio.run(Limpet(reopen()).resume("kept", agent=calls))
    assert 15 == executions["counted"]


def test_a_new_configuration_takes_the_place_of_the_kept_one(reopen: Callable[[], StateBackend]) -> None:
    @tool
    async def counted() -> str:
        executions["counted"] += 1
        raise ConnectionError("down")

    @agent(retry_config=RetryConfig(enabled=False))
    async def calls() -> str:
        return await counted()

    counts: list[int] = []
    for config in (RetryConfig(5, initial_delay=0), RetryConfig(2, initial_delay=0), None, RetryConfig(enabled=False)):
        executions.clear()
        with pytest.raises(ConnectionError):
            Limpet(reopen(), default_retry_config=config).run_sync(calls, state_id="kept")
        counts.append(executions["counted"])
    assert [5, 2, 2, 1] == counts


def test_a_kept_configuration_counts_for_a_backoff_that_is_taken_up_without_it(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    @tool
    async def counted() -> str:
        executions["counted"] += 1
        raise ConnectionError("down")

    @agent(retry_config=RetryConfig(enabled=False))
    async def calls() -> str:
        return await counted()

    config = RetryConfig(4, BackoffStrategy.LINEAR, initial_delay=5.0, jitter=False)
    crashing = CrashingBackend(reopen(), stop_at=2, when="after")
    with pytest.raises(SimulatedCrash):
        Limpet(crashing, default_retry_config=config).run_sync(calls, state_id="kept")
    gc.collect()
    with pytest.raises(ConnectionError):
        Limpet(reopen()).run_sync(calls, state_id="kept")
    assert 4 == executions["counted"]
    assert [pytest.approx(5.0, abs=3.5), 10.0, 15.0] == clock.waits


# A wait that the code cuts off before the next attempt.


def test_attempts_go_on_where_a_wait_for_them_was_cut_off_again(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    switch.update(limit_s=0.01, succeeds=3)
    slowly = RetryConfig(4, BackoffStrategy.CONSTANT, initial_delay=10.0, jitter=False, retry_timeout=60.0)

    @agent
    async def impatient(url: str) -> str:
        async with asyncio.timeout(switch["limit_s"]):
            return await fetch.options(retry_config=slowly)(url)

    for wait in (1, 2):
        clock.endless = wait
        with pytest.raises(TimeoutError):
            Limpet(reopen()).run_sync(impatient, "kelp", state_id="r")
    switch["limit_s"] = None
    client = Limpet(reopen())
    assert "KELP" == client.run_sync(impatient, "kelp", state_id="r")
    assert [1, 2, 3] == seen
    spent = [record.details.spent_s for record in records(client, "impatient::fetch::tool_call") if record.details]
    assert max(spent) < 60.0
