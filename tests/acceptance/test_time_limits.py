"""Attempts, events and runs that have only so much time: what is cut off, what is kept, and who is told."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash.stores import opener

from limpet import (
    LLM,
    Agent,
    BackoffStrategy,
    EventFailed,
    EventTimedOut,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    RetryConfig,
    StateBackend,
    StateStatus,
    Tool,
    UsageError,
    agent,
    current_event,
    llm,
    tool,
)
from limpet.testing import CrashingBackend, SimulatedCrash

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}

asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")

OFF = RetryConfig(enabled=False)
AT_ONCE = RetryConfig(3, initial_delay=0)
A_MOMENT_S = 0.03
LONG_ENOUGH_S = 0.3
"""In this time a few calls are made, also where the machine is busy."""
LOG = "limpet.interrupts"


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@pytest.fixture
def clock() -> Iterator[Turned]:
    with turned_clock() as turned:
        yield turned


@pytest.fixture(params=["memory", "normal", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    """Opens the same store again and again, as new processes would."""
    return opener(request.param, tmp_path / "store")


@pytest.fixture
def client(reopen: Callable[[], StateBackend]) -> Limpet:
    return Limpet(reopen())


async def for_ever() -> None:
    await asyncio.Event().wait()


@tool(timeout_s=A_MOMENT_S, retry_config=OFF)
async def hangs(name: str = "hangs") -> str:
    executions[name] += 1
    if switch.get("hang", True):
        await for_ever()
    return name


@tool
async def step(name: str) -> str:
    executions[name] += 1
    return name


@agent
async def pipeline() -> list[str]:
    executions["pipeline"] += 1
    return [await step("before"), await hangs(), await step("after")]


HANGS = "pipeline::hangs::tool_call"


def statuses(client: Limpet, state_id: str, address: str) -> list[tuple[str, int]]:
    records = client.history(state_id).get_event_list()
    return [(record.status.value, record.attempt) for record in records if record.address == address]


# One attempt.


def test_an_attempt_that_takes_too_long_is_cut_off_and_fails_in_its_caller(client: Limpet) -> None:
    began = time.perf_counter()
    with pytest.raises(EventTimedOut, match=f"{HANGS}.*0.03 s") as caught:
        client.run_sync(pipeline, state_id="t")
    assert A_MOMENT_S <= time.perf_counter() - began < 5
    assert isinstance(caught.value, TimeoutError)
    assert isinstance(caught.value, EventFailed)
    assert HANGS == caught.value.address
    assert {"pipeline": 1, "before": 1, "hangs": 1} == executions
    assert StateStatus.FAILED is client.show("t").header.status
    assert [("started", 1), ("failed", 1)] == statuses(client, "t", HANGS)
    error = client.history("t")[HANGS].error
    assert error is not None
    assert error.type_name.endswith("EventTimedOut")


def test_what_took_too_long_is_tried_again_when_the_run_is_run_again(client: Limpet) -> None:
    with pytest.raises(EventTimedOut):
        client.run_sync(pipeline, state_id="t")
    switch["hang"] = False
    assert ["before", "hangs", "after"] == client.run_sync(pipeline, state_id="t")
    assert {"pipeline": 2, "before": 1, "hangs": 2, "after": 1} == executions


def test_a_call_that_is_quick_enough_knows_nothing_of_its_limit(client: Limpet) -> None:
    switch["hang"] = False
    assert ["before", "hangs", "after"] == client.run_sync(pipeline, state_id="t")
    assert [("started", 1), ("completed", 1)] == statuses(client, "t", HANGS)


@pytest.mark.parametrize("declare", [tool, llm, agent])
def test_every_kind_of_actor_can_be_limited(declare: Any) -> None:
    @declare(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def limited() -> None:
        await for_ever()

    @agent
    async def calls() -> None:
        await limited()

    with pytest.raises(EventTimedOut, match="calls::limited"):
        Limpet("memory://").run_sync(calls)
    with pytest.raises(EventTimedOut, match="limited"):
        Limpet("memory://").run_sync(limited)


@pytest.mark.parametrize("kind", [Tool, LLM, Agent])
def test_the_explicit_form_can_be_limited(kind: Any) -> None:
    async def handler(data: int, context: Any, state: ExecutionState) -> None:
        await for_ever()

    event = ExecutionEvent(kind(name="limited", handler=handler, timeout_s=A_MOMENT_S, retry_config=OFF))
    with pytest.raises(EventTimedOut, match="limited"):
        asyncio.run(event(1, None, ExecutionState()))
    assert ExecutionStatus.FAILED is event.execution_status


def test_one_call_can_be_given_another_limit() -> None:
    @tool(retry_config=OFF)
    async def unlimited() -> None:
        await for_ever()

    @agent
    async def calls() -> None:
        await unlimited.options(timeout_s=A_MOMENT_S)()

    with pytest.raises(EventTimedOut):
        Limpet("memory://").run_sync(calls)


def test_a_handler_that_is_cut_off_cleans_up_before_its_caller_goes_on() -> None:
    told: list[str] = []

    @tool(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def cleans_up() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            told.append("cancelled")
            raise
        finally:
            await asyncio.sleep(0)
            told.append("cleaned up")

    @agent
    async def calls() -> None:
        try:
            await cleans_up()
        except TimeoutError:
            told.append("caught")

    Limpet("memory://").run_sync(calls)
    assert ["cancelled", "cleaned up", "caught"] == told


def test_a_limited_handler_sees_the_context_of_its_caller() -> None:
    @tool(timeout_s=60)
    async def limited() -> str:
        return asked_by.get()

    @tool(timeout_s=60)
    def plain() -> str:
        return asked_by.get()

    @agent
    async def calls() -> list[str]:
        asked_by.set("kelp")
        return [await limited(), await plain()]

    assert ["kelp", "kelp"] == Limpet("memory://").run_sync(calls)


def test_what_a_handler_raises_instead_of_its_cancellation_is_the_cause() -> None:
    @tool(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def translates() -> None:
        try:
            await for_ever()
        except asyncio.CancelledError:
            raise LookupError("was cut off") from None

    @agent
    async def calls() -> None:
        await translates()

    with pytest.raises(EventTimedOut) as caught:
        Limpet("memory://").run_sync(calls)
    assert "was cut off" == str(caught.value.__cause__)


def test_a_timeout_that_a_handler_makes_itself_stays_its_own() -> None:
    @tool(timeout_s=30, retry_config=OFF)
    async def times_itself() -> None:
        async with asyncio.timeout(0.01):
            await for_ever()

    @agent
    async def calls() -> None:
        await times_itself()

    with pytest.raises(TimeoutError) as caught:
        Limpet("memory://").run_sync(calls)
    assert TimeoutError is type(caught.value)


def test_only_the_branch_that_takes_too_long_is_cut_off(client: Limpet) -> None:
    @agent
    async def gathers() -> list[object]:
        return list(await asyncio.gather(hangs("left"), step("right"), return_exceptions=True))

    left, right = client.run_sync(gathers)
    assert (EventTimedOut, "right") == (type(left), right)


def test_a_caught_timeout_is_replayed_as_the_same_exception(client: Limpet) -> None:
    @agent
    async def catches() -> str:
        try:
            await hangs()
            found = "in time"
        except EventTimedOut as error:
            found = error.address
        await breaks()
        return found

    @tool(retry_config=OFF)
    async def breaks() -> None:
        if switch.get("hang", True):
            raise LookupError

    with pytest.raises(LookupError):
        client.run_sync(catches, state_id="t")
    switch["hang"] = False
    assert "catches::hangs::tool_call" == client.run_sync(catches, state_id="t")
    assert 1 == executions["hangs"]


# Attempts that are followed by others.


def hangs_at_first(**options: Any) -> Any:
    async def at_first() -> str:
        executions["at first"] += 1
        if current_event().attempt < 3:
            await for_ever()
        return "in time"

    return tool(name="at_first", **options)(at_first)


def test_an_attempt_that_took_too_long_is_tried_again_as_the_configuration_says(client: Limpet) -> None:
    limited = hangs_at_first(timeout_s=A_MOMENT_S, retry_config=AT_ONCE)

    @agent
    async def calls() -> str:
        return await limited()

    assert "in time" == client.run_sync(calls, state_id="t")
    address = "calls::at_first::tool_call"
    assert [
        *[("started", 1), ("failed", 1), ("retrying", 1)],
        *[("started", 2), ("failed", 2), ("retrying", 2)],
        *[("started", 3), ("completed", 3)],
    ] == statuses(client, "t", address)
    assert {"EventTimedOut": 2} == {
        name.rpartition(".")[2]: count for name, count in client.history("t").retry_statistics().errors_by_type.items()
    }


def test_an_attempt_that_took_too_long_is_tried_again_where_nothing_is_configured(clock: Turned) -> None:
    limited = hangs_at_first(timeout_s=A_MOMENT_S)

    @agent
    async def calls() -> str:
        return await limited()

    assert "in time" == Limpet("memory://").run_sync(calls)
    assert 2 == len(clock.waits)


def test_an_attempt_that_took_too_long_is_not_tried_again_where_that_is_excluded() -> None:
    limited = hangs_at_first(
        timeout_s=A_MOMENT_S, retry_config=RetryConfig(3, initial_delay=0, exclude_exceptions=(EventTimedOut,))
    )

    @agent
    async def calls() -> str:
        return await limited()

    with pytest.raises(EventTimedOut):
        Limpet("memory://").run_sync(calls)
    assert 1 == executions["at first"]


def test_what_completed_inside_an_attempt_that_took_too_long_is_replayed_in_the_next(client: Limpet) -> None:
    @agent(timeout_s=LONG_ENOUGH_S, retry_config=RetryConfig(2, initial_delay=0))
    async def limited() -> list[str]:
        executions["limited"] += 1
        first = await step("first")
        if current_event().attempt == 1:
            await slow()
        return [first, await slow()]

    @tool
    async def slow() -> str:
        executions["slow"] += 1
        if executions["slow"] == 1:
            await for_ever()
        return "slow"

    @agent
    async def calls() -> list[str]:
        return await limited()

    assert ["first", "slow"] == client.run_sync(calls, state_id="t")
    assert {"limited": 2, "first": 1, "slow": 2} == executions
    assert [("started", 1), ("interrupted", 1), ("started", 1), ("completed", 1)] == statuses(
        client, "t", "calls::limited::slow::tool_call"
    )


def test_tasks_that_a_handler_has_left_running_are_ended_with_it() -> None:
    ended: list[str] = []

    async def beside() -> None:
        try:
            await for_ever()
        finally:
            ended.append("beside")

    @tool(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def spawns() -> None:
        switch["task"] = asyncio.create_task(beside())
        await for_ever()

    @agent
    async def calls() -> list[str]:
        try:
            await spawns()
        except TimeoutError:
            return list(ended)
        return []

    assert ["beside"] == Limpet("memory://").run_sync(calls)


# A call as a whole.


def test_all_attempts_together_have_only_so_much_time() -> None:
    @tool(timeout_s=0.02, total_timeout_s=0.1, retry_config=RetryConfig(20, BackoffStrategy.CONSTANT, 0.001))
    async def limited() -> None:
        executions["limited"] += 1
        await for_ever()

    @agent
    async def calls() -> None:
        await limited()

    began = time.perf_counter()
    with pytest.raises(EventTimedOut):
        Limpet("memory://").run_sync(calls, state_id="t")
    assert time.perf_counter() - began < 0.9
    assert 1 <= executions["limited"] <= 6


def test_a_call_whose_time_is_over_as_a_whole_is_not_tried_again(clock: Turned) -> None:
    @tool(total_timeout_s=A_MOMENT_S)
    async def limited() -> None:
        executions["limited"] += 1
        await for_ever()

    @agent
    async def calls() -> None:
        await limited()

    with pytest.raises(EventTimedOut, match="calls::limited"):
        Limpet("memory://").run_sync(calls)
    assert [] == clock.waits
    assert 1 == executions["limited"]


@pytest.mark.parametrize("limit", ["total_timeout_s", "retry_timeout"])
def test_a_wait_that_would_end_behind_the_time_of_the_whole_is_not_begun(limit: str, clock: Turned) -> None:
    seen: list[int] = []

    async def fails() -> None:
        seen.append(current_event().attempt)
        raise ConnectionError("down")

    limited = tool(**_limited_to(25.0, limit))(fails)

    @agent
    async def calls() -> None:
        await limited()

    with pytest.raises(ConnectionError, match="down"):
        Limpet("memory://").run_sync(calls)
    assert [10.0, 10.0] == clock.waits
    assert [1, 2, 3] == seen


def _limited_to(seconds: float, limit: str) -> Any:
    """Options of a call that waits for 10 s between attempts, and has so many as a whole."""
    is_total = limit == "total_timeout_s"
    config = RetryConfig(
        100, BackoffStrategy.CONSTANT, initial_delay=10.0, jitter=False, retry_timeout=None if is_total else seconds
    )
    return {"retry_config": config, "total_timeout_s": seconds} if is_total else {"retry_config": config}


@pytest.mark.parametrize("limit", ["total_timeout_s", "retry_timeout"])
@pytest.mark.parametrize("dies_behind", [1, 2])
def test_a_crash_while_waiting_keeps_what_was_spent_of_the_time_of_the_whole(
    limit: str, dies_behind: int, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    seen: list[int] = []

    async def fails() -> None:
        seen.append(current_event().attempt)
        raise ConnectionError("down")

    limited = tool(**_limited_to(25.0, limit))(fails)

    @agent
    async def calls() -> None:
        await limited()

    # The claim, and then each attempt that failed.
    _crashed(calls, reopen(), 1 + dies_behind)
    clock.turn(1000.0)
    with pytest.raises(ConnectionError, match="down"):
        Limpet(reopen()).run_sync(calls, state_id="t")
    assert [1, 2, 3] == seen


@pytest.mark.parametrize("limit", ["total_timeout_s", "retry_timeout"])
@pytest.mark.parametrize("passed_s", [0.0, 4.0, 1000.0])
def test_a_stop_while_waiting_keeps_what_was_spent_of_the_time_of_the_whole(
    limit: str, passed_s: float, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    seen: list[int] = []

    async def fails() -> None:
        seen.append(current_event().attempt)
        raise ConnectionError("down")

    limited = tool(**_limited_to(25.0, limit))(fails)

    @agent
    async def calls() -> None:
        await limited()

    clock.endless = 2
    _stopped(calls, reopen(), lambda: len(clock.waits) == 2)
    clock.turn(passed_s)
    with pytest.raises(ConnectionError, match="down"):
        Limpet(reopen()).run_sync(calls, state_id="t")
    assert [1, 2, 3] == seen


@pytest.mark.parametrize("limit", ["total_timeout_s", "retry_timeout"])
def test_a_crash_inside_a_later_attempt_keeps_what_was_spent_of_the_time_of_the_whole(
    limit: str, reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    seen: list[int] = []

    async def fails() -> None:
        seen.append(current_event().attempt)
        await step.options(key=f"of attempt {seen[-1]}")("inside")
        raise ConnectionError("down")

    limited = tool(**_limited_to(25.0, limit))(fails)

    @agent
    async def calls() -> None:
        await limited()

    # The claim, the step and the failure of the first attempt, and the step of the second one.
    _crashed(calls, reopen(), 4)
    assert [1, 2] == seen
    with pytest.raises(ConnectionError, match="down"):
        Limpet(reopen(), on_drift="ignore").run_sync(calls, state_id="t")
    assert [1, 2, 2, 3] == seen


def test_a_run_that_is_stopped_inside_a_later_attempt_keeps_what_was_spent_of_the_time_of_the_whole(
    reopen: Callable[[], StateBackend], clock: Turned
) -> None:
    seen: list[int] = []

    async def fails() -> None:
        seen.append(current_event().attempt)
        if seen == [1, 2]:
            await for_ever()
        raise ConnectionError("down")

    limited = tool(**_limited_to(25.0, "total_timeout_s"))(fails)

    @agent
    async def calls() -> None:
        await limited()

    _stopped(calls, reopen(), lambda: len(seen) == 2)
    with pytest.raises(ConnectionError, match="down"):
        Limpet(reopen()).run_sync(calls, state_id="t")
    assert [1, 2, 2, 3] == seen


def _stopped(actor: Any, backend: StateBackend, has_come_so_far: Callable[[], bool]) -> None:
    """Cancel a run when it has come so far."""

    async def main() -> None:
        run = asyncio.create_task(Limpet(backend).run(actor, state_id="t"))
        while not has_come_so_far():
            await asyncio.sleep(0)
        run.cancel()
        await run

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    header = Limpet(backend).show("t").header
    assert (StateStatus.RUNNING, None) == (header.status, header.holder)


def _crashed(actor: Any, backend: StateBackend, stop_at: int) -> None:
    with pytest.raises(SimulatedCrash):
        Limpet(CrashingBackend(backend, stop_at=stop_at, when="after")).run_sync(actor, state_id="t")
    gc.collect()


# Handlers that cannot be ended.


class GivenUp:
    """A handler that goes on after it was given up, tries to record something, and tells what came of that."""

    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.has_ended = threading.Event()
        self.refusals: list[BaseException] = []

    async def ignoring(self, data: str, context: Any, state: ExecutionState) -> str:
        executions["given up"] += 1
        if executions["given up"] > 1:
            return "in time"
        while not self.may_go_on.is_set():
            try:
                await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                continue
        try:
            for write in (lambda: state.storage.set("late", True), lambda: state.storage.set_artifact("late", b"late")):
                self._refused(write)
            try:
                await step("late")
            except BaseException as error:
                self.refusals.append(error)
            return "late"
        finally:
            self.has_ended.set()

    def plain(self, data: str, context: Any, state: ExecutionState) -> str:
        executions["given up"] += 1
        if executions["given up"] > 1:
            return "in time"
        assert self.may_go_on.wait(60)
        try:
            self._refused(lambda: state.storage.set("late", True))
            self._refused(lambda: state.storage.set_artifact("late", b"late"))
            self._refused(lambda: step.call("late"))
            return "late"
        finally:
            self.has_ended.set()

    def _refused(self, write: Callable[[], object]) -> None:
        try:
            write()
        except BaseException as error:
            self.refusals.append(error)

    async def let_go(self) -> None:
        """Let it go on, and wait for its end."""
        self.may_go_on.set()
        await asyncio.to_thread(self.has_ended.wait, 60)
        await asyncio.sleep(0)


@pytest.fixture
def given_up() -> Iterator[GivenUp]:
    made = GivenUp()
    yield made
    made.may_go_on.set()


@pytest.mark.parametrize("kind", ["ignoring", "plain"])
def test_a_handler_that_was_given_up_cannot_record_anything_any_more(
    kind: str, given_up: GivenUp, reopen: Callable[[], StateBackend], caplog: pytest.LogCaptureFixture
) -> None:
    async def main(state: ExecutionState) -> None:
        actor = Tool(name="given_up", handler=getattr(given_up, kind), timeout_s=LONG_ENOUGH_S, retry_config=OFF)
        with pytest.raises(EventTimedOut, match="given_up"):
            await ExecutionEvent(actor)("kelp", None, state)
        records = len(list(state.history))
        await given_up.let_go()
        assert records == len(list(state.history))

    state = ExecutionState(state_backend=reopen(), state_id="t")
    asyncio.run(main(state))
    assert 0 == executions["late"]
    state.save_checkpoint(StateStatus.PAUSED)
    assert any("is not recorded" in told.message for told in caplog.records if told.name == LOG)
    restored = ExecutionState.load_from_state_id("t", reopen())
    assert ExecutionStatus.FAILED is restored.history["given_up::tool_call"].status
    assert ["given_up::tool_call"] == restored.history.addresses()
    assert (False, False) == (restored.storage.has("late"), restored.storage.has_artifact("late"))
    assert 3 == len(given_up.refusals)


@pytest.mark.parametrize("kind", ["ignoring", "plain"])
def test_a_handler_that_was_given_up_cannot_write_to_the_state_of_a_run_that_has_ended(
    kind: str, given_up: GivenUp, reopen: Callable[[], StateBackend]
) -> None:
    limited = Tool(name="given_up", handler=getattr(given_up, kind), timeout_s=LONG_ENOUGH_S, retry_config=OFF)

    @agent
    async def catches() -> str:
        try:
            return await limited("kelp")
        except TimeoutError:
            return "gave up"

    async def main(client: Limpet) -> None:
        assert "gave up" == await client.run(catches, state_id="t")
        before = client.show("t").header
        await given_up.let_go()
        assert before == client.show("t").header

    client = Limpet(reopen())
    asyncio.run(main(client))
    assert (StateStatus.COMPLETED, None) == (client.show("t").header.status, client.show("t").header.holder)
    assert 0 == executions["late"]
    assert 3 == len(given_up.refusals)


@pytest.mark.parametrize("kind", ["ignoring", "plain"])
def test_what_a_given_up_attempt_gives_does_not_disturb_the_next_one(
    kind: str, given_up: GivenUp, client: Limpet
) -> None:
    config = RetryConfig(2, initial_delay=0)
    limited = Tool(name="given_up", handler=getattr(given_up, kind), timeout_s=LONG_ENOUGH_S, retry_config=config)

    @agent
    async def calls() -> str:
        found = await limited("kelp")
        await given_up.let_go()
        return found

    assert "in time" == client.run_sync(calls, state_id="t")
    address = "calls::given_up::tool_call"
    assert [
        *[("started", 1), ("failed", 1), ("retrying", 1)],
        *[("started", 2), ("completed", 2)],
    ] == statuses(client, "t", address)
    assert "in time" == client.history("t").get_event_result(address)
    assert ["calls::agent_call", address] == client.history("t").addresses()


def test_a_program_does_not_wait_for_a_handler_that_ignores_its_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @tool(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def ignores() -> None:
        while True:
            try:
                await for_ever()
            except asyncio.CancelledError:
                executions["ignored"] += 1

    @agent
    async def catches() -> str:
        try:
            await ignores()
        except TimeoutError:
            return "gave up"
        return "in time"

    began = time.perf_counter()
    assert "gave up" == Limpet("memory://").run_sync(catches)
    assert time.perf_counter() - began < 10
    assert 1 <= executions["ignored"]
    (told,) = [told for told in caplog.records if told.name == LOG]
    assert logging.WARNING == told.levelno
    assert "catches::ignores::tool_call" in told.message
    gc.collect()


def test_a_plain_function_that_is_given_up_is_reported(given_up: GivenUp, caplog: pytest.LogCaptureFixture) -> None:
    limited = Tool(name="given_up", handler=given_up.plain, timeout_s=LONG_ENOUGH_S, retry_config=OFF)

    @agent
    async def calls() -> None:
        await limited("kelp")

    began = time.perf_counter()
    with pytest.raises(EventTimedOut):
        Limpet("memory://").run_sync(calls)
    assert time.perf_counter() - began < 5
    (told,) = [told for told in caplog.records if told.name == LOG]
    assert "GivenUp.plain was given up, and goes on in its thread" in told.message


def test_a_call_that_a_plain_function_was_waiting_for_ends_with_it(client: Limpet) -> None:
    has_ended = threading.Event()

    @tool
    async def inner() -> None:
        executions["inner"] += 1
        await for_ever()

    @tool(timeout_s=LONG_ENOUGH_S, retry_config=OFF)
    def waits() -> None:
        try:
            inner.call()
        finally:
            has_ended.set()

    @agent
    async def calls() -> bool:
        try:
            await waits()
        except TimeoutError:
            return await asyncio.to_thread(has_ended.wait, 60)
        return False

    assert client.run_sync(calls, state_id="t")
    assert 1 == executions["inner"]
    assert not client.history("t").has_completed_event("calls::waits::inner::tool_call")


class Stubborn:
    """A tool that ignores its cancellation, and then calls another one: it is inside of what is given up."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()
        self.has_ended = asyncio.Event()

    async def ignore(self) -> None:
        while not self.may_go_on.is_set():
            try:
                await self.may_go_on.wait()
            except asyncio.CancelledError:
                executions["ignored"] += 1
        try:
            await step("late")
        finally:
            self.has_ended.set()

    async def let_go(self) -> None:
        self.may_go_on.set()
        await self.has_ended.wait()


def test_what_is_called_from_deep_inside_a_call_that_was_given_up_is_not_executed(client: Limpet) -> None:
    @tool
    async def inner() -> None:
        await switch["stubborn"].ignore()

    @agent(timeout_s=LONG_ENOUGH_S, retry_config=OFF)
    async def limited() -> None:
        await inner()

    @agent
    async def catches() -> str:
        switch["stubborn"] = Stubborn()
        try:
            await limited()
        except TimeoutError:
            await switch["stubborn"].let_go()
        return "gave up"

    assert "gave up" == client.run_sync(catches, state_id="t")
    assert 1 <= executions["ignored"]
    assert 0 == executions["late"], "what nobody records must not be done"


def test_what_a_branch_of_an_attempt_that_was_followed_by_another_still_calls_is_not_executed(client: Limpet) -> None:
    @tool(retry_config=OFF)
    async def stubborn() -> str:
        executions["stubborn"] += 1
        if executions["stubborn"] == 1:
            await switch["stubborn"].ignore()
        return "second"

    @tool(retry_config=OFF)
    async def breaks() -> str:
        executions["breaks"] += 1
        if executions["breaks"] == 1:
            raise LookupError("broken")
        return "mended"

    @agent(retry_config=RetryConfig(2, initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def retried() -> list[str]:
        return list(await asyncio.gather(stubborn(), breaks()))

    @agent
    async def calls() -> list[str]:
        switch["stubborn"] = Stubborn()
        found = await retried()
        await switch["stubborn"].let_go()
        return found

    assert ["second", "mended"] == client.run_sync(calls, state_id="t")
    assert Counter(stubborn=2, breaks=2, ignored=1) == executions


LEAVING = """
import asyncio, logging, sys
from limpet import Limpet, RetryConfig, agent, tool

logging.basicConfig(stream=sys.stdout, format="%(name)s: %(message)s")

async def beside():
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

@tool(timeout_s=0.03, retry_config=RetryConfig(enabled=False))
async def limited():
    task = asyncio.create_task(beside())
    await task

@tool(retry_config=RetryConfig(2, initial_delay=0))
async def retried():
    if not tasks:
        tasks.append(asyncio.create_task(beside()))
        await asyncio.sleep(0)
        raise ConnectionError

@agent
async def pipeline(name):
    if name == "retried":
        await retried()
    else:
        try:
            await limited()
        except TimeoutError:
            pass
    return "went on"

tasks = []
print(Limpet("memory://").run_sync(pipeline, sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["limited", "retried"])
def test_a_program_does_not_wait_for_a_task_that_an_attempt_has_left_running_and_that_ignores_its_cancellation(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "leaving.py").write_text(LEAVING)
    command = [sys.executable, "leaving.py", name]
    ended = subprocess.run(command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=20)
    assert "went on" == ended.stdout.splitlines()[-1]
    assert f"{LOG}: " in ended.stdout
    assert "" == ended.stderr


# A run as a whole.


def test_a_run_whose_time_is_over_is_stopped_and_can_be_taken_up(client: Limpet) -> None:
    @agent
    async def unlimited() -> list[str]:
        executions["unlimited"] += 1
        return [await step("before"), await hangs.options(timeout_s=60)("hangs"), await step("after")]

    with pytest.raises(ExecutionInterrupted, match=r"0\.3 s that it was given are over") as caught:
        asyncio.run(client.run(unlimited, state_id="t", timeout_s=LONG_ENOUGH_S))
    assert ("t", "timeout") == (caught.value.state_id, caught.value.reason)
    header = client.show("t").header
    assert (StateStatus.INTERRUPTED, None) == (header.status, header.holder)
    assert "timeout" == header.metadata.stopped["reason"]
    assert time.time() == pytest.approx(header.metadata.stopped["at"], abs=5)
    assert ("interrupted", 1) == statuses(client, "t", "unlimited::hangs::tool_call")[-1]
    switch["hang"] = False
    assert ["before", "hangs", "after"] == client.run_sync(unlimited, state_id="t")
    assert {"unlimited": 2, "before": 1, "hangs": 2, "after": 1} == executions
    header = client.show("t").header
    assert (StateStatus.COMPLETED, {}) == (header.status, header.metadata.stopped)


def test_a_run_stops_at_its_deadline(client: Limpet) -> None:
    @agent
    async def unlimited() -> str:
        executions["unlimited"] += 1
        return await hangs.options(timeout_s=60)("hangs")

    deadline = datetime.now(UTC) + timedelta(seconds=LONG_ENOUGH_S)
    with pytest.raises(ExecutionInterrupted) as caught:
        asyncio.run(client.run(unlimited, state_id="t", deadline=deadline))
    assert "timeout" == caught.value.reason
    assert datetime.now(UTC) >= deadline
    with pytest.raises(ExecutionInterrupted):
        asyncio.run(client.resume("t", agent=unlimited, deadline=deadline))
    assert {"unlimited": 1, "hangs": 1} == executions, "nothing is executed behind the deadline"
    switch["hang"] = False
    assert "hangs" == asyncio.run(client.resume("t", agent=unlimited, deadline=datetime.now(UTC) + timedelta(hours=1)))


def test_whichever_of_the_two_is_earlier_counts() -> None:
    @agent
    async def unlimited() -> None:
        await for_ever()

    for limits in (
        {"timeout_s": A_MOMENT_S, "deadline": datetime.now(UTC) + timedelta(hours=1)},
        {"timeout_s": 3600.0, "deadline": datetime.now(UTC) + timedelta(seconds=A_MOMENT_S)},
    ):
        with pytest.raises(ExecutionInterrupted):
            Limpet("memory://").run_sync(unlimited, **limits)


def test_code_that_swallows_everything_does_not_outlive_the_time_of_its_run(client: Limpet) -> None:
    @agent
    async def swallows() -> str:
        executions["swallows"] += 1
        while True:
            try:
                await hangs.options(timeout_s=60)("hangs")
                return "went on"
            except BaseException:
                executions["swallowed"] += 1
                if executions["swallowed"] > 5:
                    return "went on"

    with pytest.raises(ExecutionInterrupted):
        asyncio.run(client.run(swallows, state_id="t", timeout_s=LONG_ENOUGH_S))
    assert StateStatus.INTERRUPTED is client.show("t").header.status
    switch["hang"] = False
    executions["swallowed"] = 0
    assert "went on" == client.run_sync(swallows, state_id="t")


def test_a_run_whose_time_is_over_does_not_wait_for_a_plain_function(
    given_up: GivenUp, reopen: Callable[[], StateBackend]
) -> None:
    blocking = Tool(name="blocking", handler=given_up.plain)

    @agent
    async def calls() -> str:
        return await blocking("kelp")

    async def main(client: Limpet) -> None:
        with pytest.raises(ExecutionInterrupted):
            await client.run(calls, state_id="t", timeout_s=LONG_ENOUGH_S)
        before = client.show("t").header
        await given_up.let_go()
        assert before == client.show("t").header

    began = time.perf_counter()
    asyncio.run(main(Limpet(reopen())))
    assert time.perf_counter() - began < 5
    assert 0 == executions["late"]
    assert 3 == len(given_up.refusals)
    assert "in time" == Limpet(reopen()).run_sync(calls, state_id="t")


def test_a_run_that_ends_in_time_is_not_stopped_later(client: Limpet) -> None:
    async def main() -> None:
        assert "kelp" == await client.run(quick, state_id="t", timeout_s=LONG_ENOUGH_S)
        await asyncio.sleep(LONG_ENOUGH_S * 1.1)

    @agent
    async def quick() -> str:
        return await step("kelp")

    asyncio.run(main())
    assert (StateStatus.COMPLETED, {}) == (client.show("t").header.status, client.show("t").header.metadata.stopped)


# A state in the explicit form.


def blocking_tool(blocks_for_s: float) -> Tool:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["blocks"] += 1
        # A handler that does not let go of the loop, as one that computes.
        threading.Event().wait(blocks_for_s)
        return "late"

    return Tool(name="blocks", handler=handler)


def hanging_tool() -> Tool:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["hanging"] += 1
        if switch.get("hang", True):
            await for_ever()
        return data

    return Tool(name="hanging", handler=handler)


def test_a_state_can_be_given_a_time(reopen: Callable[[], StateBackend]) -> None:
    async def main(state: ExecutionState) -> None:
        state.set_timeout(A_MOMENT_S)
        with pytest.raises(ExecutionInterrupted) as caught:
            await ExecutionEvent(hanging_tool())("kelp", None, state)
        assert "timeout" == caught.value.reason

    state = ExecutionState(state_backend=reopen(), state_id="t")
    asyncio.run(main(state))
    assert StateStatus.INTERRUPTED is state.status
    restored = ExecutionState.load_from_state_id("t", reopen())
    assert "timeout" == restored.metadata.stopped["reason"]
    switch["hang"] = False
    result = asyncio.run(ExecutionEvent(hanging_tool())("kelp", None, restored))
    assert "kelp" == result.result


def test_the_time_of_a_state_can_be_taken_back() -> None:
    async def main(state: ExecutionState) -> Any:
        state.set_timeout(A_MOMENT_S)
        state.set_timeout(None)
        await asyncio.sleep(A_MOMENT_S * 1.5)
        return (await ExecutionEvent(hanging_tool())("kelp", None, state)).result

    switch["hang"] = False
    assert "kelp" == asyncio.run(main(ExecutionState()))


def test_a_handler_can_give_its_run_a_time(client: Limpet) -> None:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        state.set_timeout(A_MOMENT_S)
        return data

    limits = Tool(name="limits", handler=handler)

    @agent
    async def calls() -> str:
        await limits("kelp")
        return await hangs.options(timeout_s=60)("hangs")

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(calls, state_id="t")
    assert ExecutionStatus.COMPLETED is client.history("t")["calls::limits::tool_call"].status


def test_a_result_that_is_there_when_the_time_is_over_is_kept(reopen: Callable[[], StateBackend]) -> None:
    async def main(state: ExecutionState) -> None:
        state.set_timeout(LONG_ENOUGH_S)
        await ExecutionEvent(blocking_tool(LONG_ENOUGH_S * 1.2))("kelp", None, state)
        await ExecutionEvent(hanging_tool())("kelp", None, state)

    with pytest.raises(ExecutionInterrupted):
        asyncio.run(main(ExecutionState(state_backend=reopen(), state_id="t")))
    restored = ExecutionState.load_from_state_id("t", reopen())
    event = ExecutionEvent(blocking_tool(LONG_ENOUGH_S * 1.2))
    assert "late" == asyncio.run(event("kelp", None, restored)).result
    assert event.is_replayed
    assert 1 == executions["blocks"]


def test_a_result_that_is_there_when_the_time_of_a_run_is_over_is_kept(reopen: Callable[[], StateBackend]) -> None:
    blocks = blocking_tool(LONG_ENOUGH_S * 1.2)

    @agent
    async def calls() -> str:
        await blocks("kelp")
        return await hangs.options(timeout_s=60)("hangs")

    with pytest.raises(ExecutionInterrupted):
        asyncio.run(Limpet(reopen()).run(calls, state_id="t", timeout_s=LONG_ENOUGH_S))
    switch["hang"] = False
    assert "hangs" == Limpet(reopen()).run_sync(calls, state_id="t")
    assert 1 == executions["blocks"]


def test_an_attempt_that_does_not_let_go_of_the_loop_keeps_its_result_although_it_is_late(client: Limpet) -> None:
    @tool(timeout_s=A_MOMENT_S, retry_config=OFF)
    async def computes() -> str:
        executions["computes"] += 1
        threading.Event().wait(A_MOMENT_S * 2)
        return "late"

    @agent
    async def calls() -> str:
        return await computes()

    assert "late" == client.run_sync(calls)


# What cannot be.

WRONG = [0, -1, float("nan"), float("inf"), "3", True]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("option", ["timeout_s", "total_timeout_s"])
def test_a_limit_of_an_actor_is_a_time(option: str, wrong: object) -> None:
    limits: Any = {option: wrong}
    with pytest.raises(UsageError, match=f"{option} .*Give seconds, more than 0"):
        tool(**limits)(for_ever)
    with pytest.raises(UsageError, match="Give seconds, more than 0"):
        step.options(**limits)
    with pytest.raises(UsageError, match="Give seconds, more than 0"):
        Tool(name="wrong", handler=for_ever, **limits)


@pytest.mark.parametrize("wrong", WRONG)
def test_a_limit_of_a_run_is_a_time(wrong: Any) -> None:
    backend = MemoryStateBackend()
    with pytest.raises(UsageError, match="Give a number, more than 0"):
        Limpet(backend).run_sync(pipeline, timeout_s=wrong)
    with pytest.raises(UsageError, match="Give a number, more than 0"):
        ExecutionState(state_backend=backend).set_timeout(wrong)
    assert [] == backend.list_states()


@pytest.mark.parametrize("wrong", [datetime(2040, 1, 1), "2040-01-01", 3600.0])  # noqa: DTZ001 - that is what is wrong
def test_a_deadline_is_a_datetime_with_a_time_zone(wrong: Any) -> None:
    backend = MemoryStateBackend()
    with pytest.raises(UsageError, match="Give a datetime with a time zone"):
        Limpet(backend).run_sync(pipeline, deadline=wrong)
    assert [] == backend.list_states()


def test_a_deadline_may_be_the_end_of_all_times() -> None:
    switch["hang"] = False
    west = timezone(timedelta(hours=-1))
    for deadline in (datetime.max.replace(tzinfo=UTC), datetime.max.replace(tzinfo=west)):
        assert 3 == len(Limpet("memory://").run_sync(pipeline, deadline=deadline))


def test_outside_a_run_nothing_is_limited() -> None:
    switch["hang"] = False
    assert "hangs" == asyncio.run(hangs.options(timeout_s=1e-9)())
