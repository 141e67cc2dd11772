"""Stopping a run from inside its process: what is asked for, what is left, and going on."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from acceptance.stopped_runs import (
    AT_MOST_S,
    begin_anew,
    cleaned,
    ended,
    executions,
    interrupted,
    let_threads_go_on,
    open_all,
    pipeline,
    require_handed_back,
    require_interrupted,
    states,
    statuses,
    stay,
    until,
    wait_at,
    wait_in_thread,
    work,
)

from limpet import (
    CheckpointRecord,
    EventBus,
    EventNotice,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    ExecutionStatus,
    InterruptReason,
    InterruptSignal,
    Limpet,
    LimpetError,
    RetryConfig,
    StateBackend,
    StateMetadata,
    StateStatus,
    Tool,
    agent,
    tool,
)

WAIT = "pipeline::wait_at::tool_call"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    begin_anew()
    yield
    let_threads_go_on()


async def waits(state: ExecutionState) -> list[str]:
    return [await work("before"), await wait_at("here"), await work("after")]


def stop_with(*args: Any, **kwargs: Any) -> Any:
    return lambda state: state.request_interrupt(*args, **kwargs)


# What is asked for, and what is left.


def test_the_reason_who_asked_for_it_and_the_time_are_kept(client: Limpet) -> None:
    stop = stop_with(InterruptReason.REQUESTED, "It is late.", "Ada")
    began = time.time()
    error = asyncio.run(interrupted(client, pipeline(waits), "here", stop=stop))
    assert ("s", "requested", "It is late.", "Ada") == (error.state_id, error.reason, error.message, error.triggered_by)
    assert "State 's' was interrupted by Ada (requested). It is late. Run it again" in str(error)
    assert isinstance(error, LimpetError)
    stopped = require_interrupted(client)
    assert {"reason": "requested", "message": "It is late.", "triggered_by": "Ada"} == {
        name: stopped[name] for name in stopped if name != "at"
    }
    assert began <= stopped["at"] <= time.time()
    saved = client.checkpoints("s")[-1]
    assert stopped == saved.metadata.stopped
    assert began <= saved.saved_at.timestamp() <= time.time()


def test_a_reason_may_be_a_word_of_ones_own(client: Limpet) -> None:
    asyncio.run(interrupted(client, pipeline(waits), "here", stop=stop_with("lunch")))
    assert "lunch" == require_interrupted(client, reason="lunch")["reason"]


def test_the_metadata_of_the_run_is_kept(client: Limpet) -> None:
    mine = StateMetadata(tags=["demo"], custom_data={"n": 1})
    asyncio.run(interrupted(client, pipeline(waits), "here", metadata=mine))
    metadata = client.show("s").header.metadata
    assert (["demo"], {"n": 1}) == (metadata.tags, metadata.custom_data)
    assert ["s"] == [header.state_id for header in client.list_states(status=StateStatus.INTERRUPTED, tags=["demo"])]


def test_without_a_checkpoint_the_status_and_the_reason_are_kept_all_the_same(client: Limpet) -> None:
    stop = stop_with("requested", "no mark", save_checkpoint=False)
    asyncio.run(interrupted(client, pipeline(waits), "here", stop=stop))
    header = client.show("s").header
    assert (StateStatus.INTERRUPTED, None, "no mark") == (
        header.status,
        header.holder,
        header.metadata.stopped["message"],
    )
    assert [] == client.checkpoints("s")
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")


def test_what_was_finished_is_not_executed_again_and_what_was_cut_off_is(client: Limpet) -> None:
    asyncio.run(interrupted(client, pipeline(waits), "here"))
    assert {"pipeline::agent_call": "interrupted", "pipeline::work::tool_call": "completed", WAIT: "interrupted"} == (
        statuses(client)
    )
    open_all()
    assert ["before", "here", "after"] == asyncio.run(client.resume("s", agent=pipeline(waits)))
    assert {"before": 1, "here": 2, "after": 1} == executions
    assert (StateStatus.COMPLETED, {}) == (client.show("s").header.status, client.show("s").header.metadata.stopped)


def test_a_run_can_be_interrupted_again_and_again(client: Limpet) -> None:
    for number in (1, 2, 3):
        asyncio.run(interrupted(client, pipeline(waits), "here"))
        require_interrupted(client)
        assert {"before": 1, "here": number} == executions
    assert 3 == len(client.checkpoints("s"))
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")


def test_observers_are_told(client: Limpet) -> None:
    notices: list[EventNotice] = []

    async def main() -> None:
        bus = EventBus()
        bus.subscribe(notices.append)
        await interrupted(client, pipeline(waits), "here", event_bus=bus)

    asyncio.run(main())
    assert (ExecutionStatus.INTERRUPTED, WAIT) in [(notice.status, notice.address) for notice in notices]


# Who asks for it, and when.


def test_it_can_be_asked_for_from_another_thread(client: Limpet) -> None:
    def from_a_thread(state: ExecutionState) -> None:
        thread = threading.Thread(target=state.request_interrupt, args=("requested", "from a thread"))
        thread.start()
        thread.join()

    asyncio.run(interrupted(client, pipeline(waits), "here", stop=from_a_thread))
    assert "from a thread" == require_interrupted(client)["message"]


def test_the_first_wish_counts(client: Limpet) -> None:
    def twice(state: ExecutionState) -> None:
        state.request_interrupt("requested", "first")
        state.request_interrupt("other", "second")

    asyncio.run(interrupted(client, pipeline(waits), "here", stop=twice))
    assert "first" == require_interrupted(client)["message"]
    assert 1 == len(client.checkpoints("s"))


def test_asking_again_while_it_is_being_stopped_does_not_disturb_the_cleaning_up(client: Limpet) -> None:
    async def body(state: ExecutionState) -> None:
        try:
            await stay("here")
        finally:
            state.request_interrupt("again")
            for _ in range(5):
                await asyncio.sleep(0)
            cleaned.append("all")

    asyncio.run(interrupted(client, pipeline(body), "here"))
    require_interrupted(client)
    assert ["here", "all"] == cleaned


def test_asking_for_it_after_the_end_changes_nothing(client: Limpet) -> None:
    async def main() -> None:
        open_all()
        await client.run(pipeline(waits), None, state_id="s")
        states["s"].request_interrupt()
        await asyncio.sleep(0)

    asyncio.run(main())
    states["s"].request_interrupt()
    header = client.show("s").header
    assert (StateStatus.COMPLETED, {}) == (header.status, header.metadata.stopped)
    assert [] == client.checkpoints("s")
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")


def test_asking_for_it_after_a_failure_changes_nothing(client: Limpet) -> None:
    async def fails(state: ExecutionState) -> None:
        raise LookupError("no")

    with pytest.raises(LookupError):
        client.run_sync(pipeline(fails), None, state_id="s")
    states["s"].request_interrupt()
    assert StateStatus.FAILED is client.show("s").header.status
    with pytest.raises(LookupError):
        client.run_sync(pipeline(fails), None, state_id="s")


def test_a_handler_that_asks_for_it_and_returns_has_its_result_recorded(client: Limpet) -> None:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["asks"] += 1
        state.request_interrupt("requested", "enough")
        return f"{data} done"

    asks = Tool(name="asks", handler=handler)

    async def body(state: ExecutionState) -> list[str]:
        return [await asks("this"), await work("after")]

    with pytest.raises(ExecutionInterrupted, match="enough"):
        client.run_sync(pipeline(body), None, state_id="s")
    require_interrupted(client)
    assert "this done" == client.history("s").get_event_result("pipeline::asks::tool_call")
    assert 0 == executions["after"]
    assert ["this done", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert {"asks": 1, "after": 1} == executions


def test_a_plain_handler_that_asks_for_it_and_returns_has_its_result_recorded(client: Limpet) -> None:
    def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["asks"] += 1
        state.request_interrupt()
        return f"{data} done"

    asks = Tool(name="asks", handler=handler)

    async def body(state: ExecutionState) -> list[str]:
        return [await asks("this"), await work("after")]

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(pipeline(body), None, state_id="s")
    require_interrupted(client)
    assert 0 == executions["after"]
    assert ["this done", "after"] == client.run_sync(pipeline(body), None, state_id="s")


def test_a_plain_handler_that_asks_for_it_and_goes_on_is_given_up(client: Limpet) -> None:
    def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["asks"] += 1
        if executions["asks"] == 1:
            state.request_interrupt()
            wait_in_thread.function("here")
        return data

    asks = Tool(name="asks", handler=handler)

    async def body(state: ExecutionState) -> str:
        return await asks("this")

    async def main() -> None:
        with pytest.raises(ExecutionInterrupted):
            await ended(asyncio.create_task(client.run(pipeline(body), None, state_id="s")))

    asyncio.run(main())
    require_interrupted(client)
    assert "interrupted" == statuses(client)["pipeline::asks::tool_call"]
    let_threads_go_on()
    assert "this" == client.run_sync(pipeline(body), None, state_id="s")
    assert 2 == executions["asks"]


def test_a_handler_that_asks_for_it_and_awaits_is_stopped_there(client: Limpet) -> None:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        executions["asks"] += 1
        if executions["asks"] == 1:
            state.request_interrupt()
            await stay("here")
        return data

    asks = Tool(name="asks", handler=handler)

    async def body(state: ExecutionState) -> str:
        return await asks("this")

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(pipeline(body), None, state_id="s")
    require_interrupted(client)
    assert ["here"] == cleaned
    assert "this" == client.run_sync(pipeline(body), None, state_id="s")


def test_an_agent_that_asks_for_it_before_its_first_event_executes_none(client: Limpet) -> None:
    async def body(state: ExecutionState) -> str:
        if not executions["asked"]:
            executions["asked"] += 1
            state.request_interrupt()
        return await work("first")

    with pytest.raises(ExecutionInterrupted):
        client.run_sync(pipeline(body), None, state_id="s")
    require_interrupted(client)
    assert 0 == executions["first"]
    assert "first" == client.run_sync(pipeline(body), None, state_id="s")


def test_of_several_runs_in_one_loop_only_the_one_that_is_meant_is_stopped(client: Limpet) -> None:
    names = [f"s{number}" for number in range(5)]

    async def body(state: ExecutionState) -> list[str]:
        return list(await asyncio.gather(*(wait_at(f"{state.state_id} {branch}") for branch in "ab")))

    async def main() -> list[Any]:
        runs = [asyncio.create_task(client.run(pipeline(body), None, state_id=name)) for name in names]
        await until(*(f"{name} {branch}" for name in names for branch in "ab"))
        states["s2"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await runs[2]
        assert [False, False, True, False, False] == [run.done() for run in runs]
        return await interrupt_the_rest(runs)

    async def interrupt_the_rest(runs: list[asyncio.Task[Any]]) -> list[Any]:
        for name in ("s0", "s1", "s3", "s4"):
            assert StateStatus.RUNNING is client.show(name).header.status
            states[name].request_interrupt("requested", name)
        return await asyncio.gather(*runs, return_exceptions=True)

    errors = asyncio.run(main())
    assert names == [error.state_id for error in errors]
    assert {1} == set(executions.values())


def test_a_run_beside_one_that_is_stopped_comes_to_its_end(client: Limpet) -> None:
    async def body(state: ExecutionState) -> str:
        return await wait_at(state.state_id)

    async def main() -> list[str]:
        stopped, other = (
            asyncio.create_task(client.run(pipeline(body), None, state_id=name)) for name in ("s", "other")
        )
        await until("s", "other")
        states["s"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await stopped
        states["other"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await other
        open_all()
        return [await client.run(pipeline(body), None, state_id=name) for name in ("s", "other")]

    assert ["s", "other"] == asyncio.run(main())


def test_a_run_inside_a_run_is_stopped_with_it(client: Limpet) -> None:
    @tool
    async def runs_another() -> list[str]:
        return await client.run(pipeline(waits, name="another"), None, state_id="inner")

    async def body(state: ExecutionState) -> list[str]:
        return await runs_another()

    asyncio.run(interrupted(client, pipeline(body), "here"))
    require_interrupted(client)
    require_interrupted(client, "inner", reason="cancelled")
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert {"before": 1, "here": 2, "after": 1} == executions


# Retries.


@pytest.mark.parametrize("stop_in", ["backoff", "backoff of an agent"])
def test_a_run_in_backoff_is_stopped_at_once_and_goes_on_with_the_remaining_attempts(
    client: Limpet, stop_in: str
) -> None:
    config = RetryConfig(max_attempts=3, initial_delay=3600, max_delay=3600, jitter=False)
    quick = RetryConfig(max_attempts=3, initial_delay=0)

    @tool(retry_config=quick if stop_in == "backoff of an agent" else config)
    async def fails() -> None:
        executions["fails"] += 1
        raise ConnectionError("no answer")

    @agent(retry_config=config)
    async def fails_itself() -> None:
        executions["fails"] += 1
        raise ConnectionError("no answer")

    async def body(state: ExecutionState) -> None:
        await (fails() if stop_in == "backoff" else fails_itself())

    notices: list[EventNotice] = []

    async def main() -> None:
        bus = EventBus()
        bus.subscribe(notices.append)
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s", event_bus=bus))
        async with asyncio.timeout(20):
            while not any(notice.status is ExecutionStatus.RETRYING for notice in notices):
                await asyncio.sleep(0)
        states["s"].request_interrupt()
        asked = time.perf_counter()
        with pytest.raises(ExecutionInterrupted):
            await running
        assert AT_MOST_S > time.perf_counter() - asked

    asyncio.run(main())
    require_interrupted(client)
    address = f"pipeline::{'fails::tool' if stop_in == 'backoff' else 'fails_itself::agent'}_call"
    record = client.history("s")[address]
    assert (ExecutionStatus.INTERRUPTED, 2) == (record.status, record.attempt)
    assert record.details is not None
    assert 3600 == record.details.delay_s
    assert 1 == executions["fails"]


def test_a_retry_that_was_interrupted_is_made_and_no_attempt_more(client: Limpet) -> None:
    config = RetryConfig(max_attempts=3, initial_delay=0.01, jitter=False)

    @tool(retry_config=config)
    async def fails() -> None:
        executions["fails"] += 1
        if executions["fails"] == 2:
            await stay("here")
        raise ConnectionError("no answer")

    async def body(state: ExecutionState) -> None:
        await fails()

    asyncio.run(interrupted(client, pipeline(body), "here"))
    open_all()
    with pytest.raises(ConnectionError):
        client.run_sync(pipeline(body), None, state_id="s")
    # The second attempt was cut off, and was made again.
    assert 4 == executions["fails"]
    assert 3 == client.history("s")["pipeline::fails::tool_call"].attempt


# Cancelling, by the program itself.


def test_cancelling_the_task_that_awaits_a_run_hands_it_back(client: Limpet) -> None:
    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(waits), None, state_id="s"))
        await until("here")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert running.cancelled()

    asyncio.run(main())
    assert "The task that awaited it was cancelled." == require_handed_back(client)["message"]
    assert "interrupted" == statuses(client)[WAIT]
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")
    assert {"before": 1, "here": 2, "after": 1} == executions


@pytest.mark.parametrize("is_graceful", [True, False])
def test_cancelling_the_task_that_awaits_a_run_which_is_being_stopped_ends_it(
    client: Limpet, is_graceful: bool
) -> None:
    async def body(state: ExecutionState) -> str:
        try:
            return await wait_at("here")
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            cleaned.append("all")

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until("here")
        if is_graceful:
            states["s"].set_interrupt_checker(lambda: InterruptSignal("lunch", is_graceful=True))
            await asyncio.sleep(0.2)
        else:
            states["s"].request_interrupt("lunch")
            await asyncio.sleep(0)
        assert not running.done()
        running.cancel()
        with pytest.raises((ExecutionInterrupted, asyncio.CancelledError)):
            await ended(running)

    asyncio.run(main())
    header = client.show("s").header
    assert (StateStatus.INTERRUPTED, None) == (header.status, header.holder)
    assert header.metadata.stopped["reason"] in ("lunch", "cancelled")
    open_all()
    assert "here" == client.run_sync(pipeline(body), None, state_id="s")


def test_a_timeout_around_a_run_is_the_timeout_of_whoever_set_it(client: Limpet) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await client.run(pipeline(waits), None, state_id="s")
        task = asyncio.current_task()
        assert task is not None
        assert 0 == task.cancelling()
        await asyncio.sleep(0)

    asyncio.run(main())
    require_handed_back(client)
    open_all()
    assert ["before", "here", "after"] == client.run_sync(pipeline(waits), None, state_id="s")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("raised_in", ["the agent", "a tool", "a task"])
def test_a_program_that_is_ended_by_a_person_leaves_its_run_as_interrupted_and_one_that_ends_itself_hands_it_back(
    client: Limpet, error: type[BaseException], raised_in: str
) -> None:
    @tool
    async def ends() -> str:
        executions["ends"] += 1
        if executions["ends"] == 1:
            raise error
        return "ended"

    async def body(state: ExecutionState) -> list[str]:
        first = await work("before")
        if raised_in == "the agent":
            return [first, await ends.function()]
        return [first, (await asyncio.gather(ends()))[0] if raised_in == "a task" else await ends()]

    with pytest.raises(error):
        client.run_sync(pipeline(body), None, state_id="s")
    header = client.show("s").header
    status = StateStatus.INTERRUPTED if error is KeyboardInterrupt else StateStatus.RUNNING
    assert (status, None, "cancelled") == (header.status, header.holder, header.metadata.stopped["reason"])
    assert ["before", "ended"] == client.run_sync(pipeline(body), None, state_id="s")
    assert {"before": 1, "ends": 2} == executions


@pytest.mark.parametrize("how", ["timeout", "wait_for", "cancel", "sibling"])
def test_a_call_that_the_code_itself_cancels_is_recorded_as_cancelled_and_executed_when_run_again(
    client: Limpet, how: str
) -> None:
    @tool
    async def breaks() -> None:
        await until("here")
        raise LookupError("sibling")

    async def cancels() -> None:
        match how:
            case "timeout":
                async with asyncio.timeout(0.05):
                    await wait_at("here")
            case "wait_for":
                await asyncio.wait_for(wait_at("here"), 0.05)
            case "cancel":
                task = asyncio.create_task(wait_at("here"))
                await until("here")
                task.cancel()
                await task
            case _:
                async with asyncio.TaskGroup() as group:
                    group.create_task(wait_at("here"))
                    group.create_task(breaks())

    async def body(state: ExecutionState) -> str:
        if not executions["here"]:
            await cancels()
        return await wait_at("here")

    with pytest.raises((TimeoutError, ExceptionGroup, asyncio.CancelledError)):
        client.run_sync(pipeline(body), None, state_id="s")
    assert "cancelled" in statuses(client).values()
    assert ["here"] == cleaned
    open_all()
    assert "here" == client.run_sync(pipeline(body), None, state_id="s")
    assert 2 == executions["here"]


def test_code_that_goes_on_after_cancelling_a_call_completes(client: Limpet) -> None:
    async def body(state: ExecutionState) -> list[str]:
        try:
            async with asyncio.timeout(0.05):
                first = await wait_at("here")
        except TimeoutError:
            first = "too slow"
        return [first, await work("after")]

    assert ["too slow", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert "cancelled" == statuses(client)[WAIT]
    assert ["too slow", "after"] == client.run_sync(pipeline(body), None, state_id="s")
    assert {"here": 1, "after": 1} == executions


def test_tasks_of_a_run_that_is_cancelled_end_with_it(client: Limpet) -> None:
    async def body(state: ExecutionState) -> None:
        task = asyncio.create_task(wait_at("beside"))
        await stay("here")
        await task

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until("here", "beside")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert ["beside", "here"] == sorted(cleaned)

    asyncio.run(main())
    require_handed_back(client)
    assert {"pipeline::agent_call": "interrupted", WAIT: "interrupted"} == statuses(client)


# What a run has opened.


async def numbers(name: str) -> AsyncIterator[int]:
    try:
        for number in range(3):
            yield number
    finally:
        await asyncio.sleep(0)
        cleaned.append(name)


@pytest.mark.parametrize("stop", ["interrupt", "cancel"])
@pytest.mark.parametrize("opened_in", ["the agent", "a tool", "a task"])
def test_generators_that_a_run_has_opened_are_closed_before_it_returns(
    client: Limpet, opened_in: str, stop: str
) -> None:
    kept: list[AsyncIterator[int]] = []

    async def opens() -> None:
        kept.append(numbers("stream"))
        await anext(kept[0])
        await stay("here")

    opening = tool(opens)

    async def body(state: ExecutionState) -> None:
        match opened_in:
            case "the agent":
                await opens()
            case "a tool":
                await opening()
            case _:
                await asyncio.gather(opens())

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until("here")
        if stop == "cancel":
            running.cancel()
        else:
            states["s"].request_interrupt()
        with pytest.raises((ExecutionInterrupted, asyncio.CancelledError)):
            await running
        assert "stream" in cleaned

    asyncio.run(main())
    if stop == "cancel":
        require_handed_back(client)
    else:
        require_interrupted(client)


def test_a_generator_that_is_closed_executes_no_tool(client: Limpet) -> None:
    kept: list[AsyncIterator[int]] = []

    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            cleaned.append("stream")
            await work("too late")

    async def body(state: ExecutionState) -> None:
        kept.append(stream())
        await anext(kept[0])
        await stay("here")

    asyncio.run(interrupted(client, pipeline(body), "here"))
    require_interrupted(client)
    assert ["here", "stream"] == cleaned
    assert 0 == executions["too late"]


def test_a_generator_that_fails_to_close_does_not_stop_the_stopping(
    client: Limpet, caplog: pytest.LogCaptureFixture
) -> None:
    kept: list[AsyncIterator[int]] = []

    async def stubborn() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("unclean")

    async def body(state: ExecutionState) -> None:
        kept.append(stubborn())
        await anext(kept[0])
        await stay("here")

    asyncio.run(interrupted(client, pipeline(body), "here"))
    require_interrupted(client)
    assert "could not be closed" in caplog.text


def test_generators_of_the_program_around_the_run_stay_open(client: Limpet) -> None:
    async def main() -> list[int]:
        mine = numbers("mine")
        found = [await anext(mine)]
        await interrupted(client, pipeline(waits), "here")
        assert "mine" not in cleaned
        return found + [number async for number in mine]

    assert [0, 1, 2] == asyncio.run(main())


def test_context_managers_that_a_run_has_entered_are_left(client: Limpet) -> None:
    @asynccontextmanager
    async def connection() -> AsyncIterator[str]:
        try:
            yield "open"
        finally:
            await asyncio.sleep(0)
            cleaned.append("connection")

    async def body(state: ExecutionState) -> None:
        async with connection():
            await wait_at("here")

    asyncio.run(interrupted(client, pipeline(body), "here"))
    assert ["here", "connection"] == cleaned


def test_a_task_that_ignores_everything_is_left_behind_and_reported(
    client: Limpet, caplog: pytest.LogCaptureFixture
) -> None:
    async def ignores() -> None:
        while "ignored" not in cleaned:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                executions["ignored"] += 1

    async def body(state: ExecutionState) -> None:
        task = asyncio.create_task(ignores())
        await stay("here")
        await task

    async def main() -> None:
        running = asyncio.create_task(client.run(pipeline(body), None, state_id="s"))
        await until("here")
        states["s"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await ended(running)
        cleaned.append("ignored")

    asyncio.run(main())
    require_interrupted(client)
    assert "ignores its cancellation, and is left behind" in caplog.text


# The explicit form.


async def in_events(state: ExecutionState) -> list[Any]:
    return [(await ExecutionEvent(actor)(name, None, state)).result for actor, name in EVENTS]


EVENTS = [(work, "before"), (wait_at, "here"), (work, "after")]


def test_an_event_that_is_interrupted_raises_and_so_does_every_further_one(
    client: Limpet, backend: StateBackend
) -> None:
    async def main() -> ExecutionState:
        state = ExecutionState(state_backend=backend, state_id="s")
        event = ExecutionEvent(wait_at)
        await ExecutionEvent(work)("before", None, state)
        running = asyncio.create_task(event("here", None, state))
        await until("here")
        state.request_interrupt("requested", "enough")
        with pytest.raises(ExecutionInterrupted, match="enough"):
            await running
        assert ExecutionStatus.INTERRUPTED is event.execution_status
        assert StateStatus.INTERRUPTED is state.status
        for _ in range(2):
            with pytest.raises(ExecutionInterrupted, match="enough"):
                await ExecutionEvent(work)("after", None, state)
        return state

    asyncio.run(main())
    require_interrupted(client)
    assert 0 == executions["after"]
    assert 1 == len(client.checkpoints("s"))
    open_all()
    loaded = ExecutionState.load_from_state_id("s", backend)
    assert ["before", "here", "after"] == asyncio.run(in_events(loaded))
    assert {"before": 1, "here": 2, "after": 1} == executions


def test_an_interrupt_between_two_events_stops_the_second(client: Limpet, backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        await ExecutionEvent(work)("before", None, state)
        state.request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await ExecutionEvent(work)("after", None, state)
        task = asyncio.current_task()
        assert task is not None
        assert 0 == task.cancelling()
        await asyncio.sleep(0)

    asyncio.run(main())
    require_interrupted(client)
    assert {"before": 1} == executions


def test_an_interrupt_before_the_first_event_leaves_a_state_that_can_be_loaded(
    client: Limpet, backend: StateBackend
) -> None:
    state = ExecutionState(state_backend=backend, state_id="s")
    state.request_interrupt("requested", "not yet")
    with pytest.raises(ExecutionInterrupted, match="not yet"):
        asyncio.run(ExecutionEvent(work)("first", None, state))
    require_interrupted(client)
    assert {} == executions
    loaded = ExecutionState.load_from_state_id("s", backend)
    assert "first" == asyncio.run(ExecutionEvent(work)("first", None, loaded)).result


def test_an_idle_state_is_interrupted_by_its_id_at_its_next_event(client: Limpet, backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        await ExecutionEvent(work)("before", None, state)
        assert client.interrupt("s", "enough")
        async with asyncio.timeout(20):
            while True:
                await ExecutionEvent(work)("more", None, state)
                await asyncio.sleep(0.01)

    with pytest.raises(ExecutionInterrupted, match="enough"):
        asyncio.run(main())
    require_interrupted(client)
    assert 1 == executions["before"]


def test_events_side_by_side_are_all_interrupted_and_one_checkpoint_is_left(
    client: Limpet, backend: StateBackend
) -> None:
    names = ["a", "b", "c"]

    async def main() -> list[Any]:
        state = ExecutionState(state_backend=backend, state_id="s")
        events = [ExecutionEvent(wait_at, tag=name)(name, None, state) for name in names]
        running = asyncio.gather(*events, return_exceptions=True)
        await until(*names)
        state.request_interrupt()
        return await running

    errors = asyncio.run(main())
    assert [ExecutionInterrupted] * 3 == [type(error) for error in errors]
    require_interrupted(client)
    assert {f"wait_at[{name}]::tool_call": "interrupted" for name in names} == statuses(client)
    assert 1 == len([record for record in client.history("s") if isinstance(record, CheckpointRecord)])


def test_an_agent_of_the_explicit_form_is_stopped_inside(client: Limpet, backend: StateBackend) -> None:
    async def body(state: ExecutionState) -> list[Any]:
        try:
            return await in_events(state)
        except Exception:
            return ["swallowed"]

    async def main(state: ExecutionState) -> Any:
        return (await ExecutionEvent(pipeline(body))(None, None, state)).result

    async def stopped() -> None:
        running = asyncio.create_task(main(ExecutionState(state_backend=backend, state_id="s")))
        await until("here")
        states["s"].request_interrupt()
        with pytest.raises(ExecutionInterrupted):
            await running

    asyncio.run(stopped())
    require_interrupted(client)
    open_all()
    loaded = ExecutionState.load_from_state_id("s", backend)
    assert ["before", "here", "after"] == asyncio.run(main(loaded))
    assert {"before": 1, "here": 2, "after": 1} == executions


def test_cancelling_one_event_says_nothing_of_the_state(client: Limpet, backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        running = asyncio.create_task(ExecutionEvent(wait_at)("here", None, state))
        await until("here")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert StateStatus.RUNNING is state.status
        assert "after" == (await ExecutionEvent(work)("after", None, state)).result

    asyncio.run(main())
    assert {"wait_at::tool_call": "cancelled", "work::tool_call": "completed"} == statuses(client)


def test_the_time_of_a_state_runs_out_between_events_as_well(client: Limpet, backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        state.set_timeout(0.05)
        await ExecutionEvent(work)("before", None, state)
        await asyncio.sleep(0.1)
        with pytest.raises(ExecutionInterrupted, match=r"The 0\.05 s that it was given are over"):
            await ExecutionEvent(work)("after", None, state)

    asyncio.run(main())
    require_interrupted(client, reason="timeout")
    assert {"before": 1} == executions


def test_a_checker_of_a_state_is_asked_before_every_event(client: Limpet, backend: StateBackend) -> None:
    async def main() -> None:
        state = ExecutionState(state_backend=backend, state_id="s")
        state.set_interrupt_checker(lambda: executions["before"] == 1)
        await ExecutionEvent(work)("before", None, state)
        with pytest.raises(ExecutionInterrupted):
            await ExecutionEvent(work)("after", None, state)

    asyncio.run(main())
    require_interrupted(client, reason="checker")
    assert {"before": 1} == executions
