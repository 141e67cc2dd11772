"""A call that the code cancels is given to the code in its place among the others, live as on replay."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from limpet import DriftWarning, EventRecord, ExecutionStatus, Limpet, SQLiteStateBackend, agent, tool

executed: Counter[str] = Counter()
log: list[str] = []
is_broken = True
lock_is_free: asyncio.Event
lock_is_taken: asyncio.Event


class Broken(Exception):
    """A bug in the code behind all calls."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    global is_broken, lock_is_free, lock_is_taken
    executed.clear()
    log.clear()
    is_broken, lock_is_free, lock_is_taken = True, asyncio.Event(), asyncio.Event()
    with warnings.catch_warnings():
        warnings.simplefilter("error", DriftWarning)
        yield


@tool
async def hold_lock(who: str, is_slow_to_leave: bool = False) -> str:
    executed[who] += 1
    try:
        await asyncio.Event().wait()
    finally:
        lock_is_free.set()
        if is_slow_to_leave:
            await lock_is_taken.wait()
    return who


@tool
async def take_lock(who: str) -> str:
    executed[who] += 1
    await lock_is_free.wait()
    lock_is_taken.set()
    return who


@tool
async def note(what: str) -> str:
    executed[what] += 1
    return what


def run_and_resume(work: object) -> None:
    """Runs an agent that fails at its end, and resumes it."""
    global is_broken
    with Limpet("memory://") as client:
        with pytest.raises(Broken):
            client.run_sync(work, state_id="x")  # pyright: ignore[reportArgumentType]  # an agent without parameters
        is_broken = False
        log.append("resumed")
        client.run_sync(work, state_id="x")  # pyright: ignore[reportArgumentType]  # as above


def test_a_cancellation_and_a_result_of_one_commit_are_given_in_the_order_of_the_journal() -> None:
    @agent
    async def program() -> None:
        async def hold() -> None:
            try:
                await hold_lock("slow")
            except asyncio.CancelledError:
                log.append("slow is cancelled")

        async def take() -> None:
            log.append(await take_lock("quick"))

        async with asyncio.TaskGroup() as group:
            holding = group.create_task(hold())
            group.create_task(take())
            await note("both are under way")
            holding.cancel()
        if is_broken:
            raise Broken

    run_and_resume(program)
    assert ["slow is cancelled", "quick", "resumed", "slow is cancelled", "quick"] == log
    assert {"slow": 1, "quick": 1, "both are under way": 1} == executed


def test_a_call_that_is_cancelled_again_while_that_is_recorded_is_cancelled_once() -> None:
    @agent
    async def program() -> None:
        async def hold() -> None:
            try:
                await hold_lock("slow", is_slow_to_leave=True)
            except asyncio.CancelledError:
                log.append("slow is cancelled")
                await asyncio.sleep(0)
                log.append(await note("cleaned up"))

        async def cancel_again(holding: asyncio.Task[None]) -> None:
            log.append(await take_lock("quick"))
            holding.cancel()

        async with asyncio.TaskGroup() as group:
            holding = group.create_task(hold())
            group.create_task(cancel_again(holding))
            await note("both are under way")
            holding.cancel()
        if is_broken:
            raise Broken

    run_and_resume(program)
    in_order = ["quick", "slow is cancelled", "cleaned up"]
    assert [*in_order, "resumed", *in_order] == log
    assert {"slow": 1, "quick": 1, "both are under way": 1, "cleaned up": 1} == executed


def test_a_task_that_cancels_itself_ends_in_the_same_way_on_replay() -> None:
    @agent
    async def program() -> None:
        async def cancel_itself() -> str:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            return await note("made all the same")

        async with asyncio.TaskGroup() as group:
            group.create_task(take_lock("beside it"))
            task = asyncio.create_task(cancel_itself())
            await asyncio.wait([task])
            log.append("cancelled" if task.cancelled() else task.result())
            lock_is_free.set()
        if is_broken:
            raise Broken

    run_and_resume(program)
    assert ["cancelled", "resumed", "cancelled"] == log


def test_what_an_agent_cuts_off_by_a_cancel_scope_around_itself_stays_cancelled() -> None:
    @agent
    async def program() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(hold_lock, "in a task")
            await note("both are under way")
            group.cancel_scope.cancel()
            await hold_lock("in the agent itself")
        # Nor does anyio's cancellation hide what the code cancels later.
        with anyio.move_on_after(0.001):
            await hold_lock("later")
        if is_broken:
            raise Broken

    run_and_resume(program)
    assert {"in a task": 1, "both are under way": 1, "in the agent itself": 1, "later": 1} == executed


def test_many_tasks_that_a_cancel_scope_cuts_off_stay_cancelled() -> None:
    many = 300

    @agent
    async def program() -> None:
        async with anyio.create_task_group() as group:
            for number in range(many):
                group.start_soon(hold_lock, str(number))
            await note("all are under way")
            group.cancel_scope.cancel()
        await note("none is under way")
        if is_broken:
            raise Broken

    run_and_resume(program)
    assert many + 2 == len(executed)
    assert {1} == {*executed.values()}


def test_what_anyio_cancels_again_while_it_cleans_up_goes_on_before_the_next_result() -> None:
    @agent
    async def program() -> None:
        async def clean_up_slowly() -> None:
            try:
                await hold_lock("slow")
            finally:
                try:
                    await anyio.sleep(1)
                finally:
                    log.append("cleaning up is cut short")

        async def take() -> None:
            log.append(await take_lock("quick"))

        async with anyio.create_task_group() as whole:
            whole.start_soon(take)
            async with anyio.create_task_group() as group:
                group.start_soon(clean_up_slowly)
                await note("both are under way")
                group.cancel_scope.cancel()
        if is_broken:
            raise Broken

    run_and_resume(program)
    in_order = ["cleaning up is cut short", "quick"]
    assert [*in_order, "resumed", *in_order] == log


def test_code_cancels_calls_by_itself_again_once_it_has_taken_back_a_cancellation_from_outside() -> None:
    @agent
    async def stubborn() -> None:
        task = asyncio.current_task()
        assert task is not None
        threading.Timer(0.01, task.get_loop().call_soon_threadsafe, (task.cancel,)).start()
        try:
            await hold_lock("stopped from outside")
        except asyncio.CancelledError:
            task.uncancel()
        slow = asyncio.create_task(hold_lock.options(key="slow")("slow"))
        await note("quick")
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)

    with Limpet("memory://") as client:
        client.run_sync(stubborn, state_id="x")
        statuses = {record.address: record.status for record in client.history("x") if isinstance(record, EventRecord)}
    assert ExecutionStatus.INTERRUPTED is statuses["stubborn::hold_lock::tool_call"]
    assert ExecutionStatus.CANCELLED is statuses["stubborn::hold_lock[slow]::tool_call"]


def test_a_cancellation_from_outside_behind_a_timeout_of_the_code_is_not_the_doing_of_the_code(tmp_path: Path) -> None:
    """On a store with a disk, where the cancelled call is given by the writer, and not in a callback of the order."""
    store = SQLiteStateBackend(tmp_path / "runs.db")
    asked_dear = asyncio.Event()

    @tool
    async def ask(what: str) -> str:
        executed[what] += 1
        if what == "dear":
            asked_dear.set()
        if is_broken:
            await asyncio.Event().wait()
        return what

    @agent
    async def patient() -> list[str]:
        try:
            async with asyncio.timeout(0.01):
                return [await ask("cheap")]
        except TimeoutError:
            pass
        return [await ask("dear")]

    async def main() -> None:
        running = asyncio.create_task(Limpet(store).run(patient, state_id="patient"))
        await asked_dear.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    global is_broken
    asyncio.run(main())
    records = [record for record in Limpet(store).history("patient") if isinstance(record, EventRecord)]
    assert {
        "patient::agent_call": ExecutionStatus.INTERRUPTED,
        "patient::ask::tool_call": ExecutionStatus.CANCELLED,
        "patient::ask#2::tool_call": ExecutionStatus.INTERRUPTED,
    } == {record.address: record.status for record in records}
    is_broken = False
    assert ["dear"] == Limpet(store).run_sync(patient, state_id="patient")
    assert {"cheap": 1, "dear": 2} == executed
