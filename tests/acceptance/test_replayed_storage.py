"""Storage is part of the run: resumed code reads what it had read, and what it wrote is not written again."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from limpet import (
    Agent,
    DriftWarning,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    ReadRecord,
    ReplayMode,
    Retention,
    RetryConfig,
    StateBackend,
    StateStatus,
    StorageRecord,
    Tool,
    current_event,
)
from limpet.errors import Drift
from limpet.testing import CrashingBackend

Handler = Callable[[Any, Any, ExecutionState], Any]

QUICKLY = RetryConfig(max_attempts=3, initial_delay=0.0001, jitter=False)
switch: dict[str, Any] = {}
executed: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    switch.clear()
    executed.clear()


async def _step(name: str, context: Any, state: ExecutionState) -> str:
    executed.append(name)
    if name in switch.get("failing", ()):
        raise LookupError(name)
    return name


async def _bump(name: str, context: Any, state: ExecutionState) -> int:
    await asyncio.sleep(0)
    return increase(state, "n")


step = Tool(name="step", handler=_step, retry_config=RetryConfig(enabled=False))
bump = Tool(name="bump", handler=_bump)


def increase(state: ExecutionState, key: str) -> int:
    number = state.storage.get(key, 0)
    state.storage.set(key, number + 1)
    return number


async def call(actor: Any, data: Any, state: ExecutionState) -> Any:
    return (await ExecutionEvent(actor)(data, None, state)).result


def agent_of(handler: Handler, name: str = "main", **options: Any) -> Agent:
    return Agent(name=name, handler=handler, **options)


def run(actor: Any, backend: StateBackend, **options: Any) -> Any:
    return Limpet(backend, **options).run_sync(actor, "", state_id="x")


def kept(backend: StateBackend, **options: Any) -> dict[str, Any]:
    storage = ExecutionState.load_from_state_id("x", backend, **options).storage
    return {key: storage.get(key) for key in storage.keys()}  # noqa: SIM118  # not a mapping


def changes(backend: StateBackend, key: str) -> list[Any]:
    """The values that were written under a key, in order."""
    state = ExecutionState.load_from_state_id("x", backend)
    stored = state._live.stored
    return [
        None if record.value is None else stored.decode(record.value)
        for record in state.history
        if isinstance(record, StorageRecord) and record.key == key
    ]


def stopped_everywhere(actor: Any) -> list[tuple[Any, dict[str, Any]]]:
    """What a run gives and leaves in the storage, undisturbed and then stopped behind each of its writes."""
    backend = CrashingBackend(MemoryStateBackend())
    found = [(run(actor, backend), kept(backend))]
    for stop_at in range(1, backend.writes):
        backend = MemoryStateBackend()
        with pytest.raises(BaseException):  # noqa: B017, PT011  # what it becomes on its way depends on where
            run(actor, CrashingBackend(backend, stop_at=stop_at, when="after"))
        found.append((run(actor, backend), kept(backend)))
    return found


def test_a_counter_of_an_agent_counts_each_turn_once() -> None:
    async def count(_: Any, context: Any, state: ExecutionState) -> list[int]:
        found = []
        for number in range(3):
            found.append(increase(state, "n"))
            await call(step, str(number), state)
        return found

    assert [([0, 1, 2], {"n": 3})] == unique(stopped_everywhere(agent_of(count)))


def test_a_counter_of_tools_counts_each_call_once() -> None:
    async def count(_: Any, context: Any, state: ExecutionState) -> tuple[list[int], int]:
        found = [await call(bump, str(number), state) for number in range(3)]
        return found, state.storage.get("n")

    assert [(([0, 1, 2], 3), {"n": 3})] == unique(stopped_everywhere(agent_of(count)))


def unique(found: list[Any]) -> list[Any]:
    return [each for number, each in enumerate(found) if each not in found[:number]]


def test_a_counter_goes_on_in_a_run_that_had_failed() -> None:
    async def count(_: Any, context: Any, state: ExecutionState) -> list[int]:
        found = []
        for name in ("a", "b", "c"):
            found.append(increase(state, "n"))
            await call(step, name, state)
        return found

    backend, main = MemoryStateBackend(), agent_of(count)
    switch["failing"] = {"c"}
    with pytest.raises(LookupError):
        run(main, backend)
    switch.clear()
    assert ([0, 1, 2], {"n": 3}) == (run(main, backend), kept(backend))
    assert ["a", "b", "c", "c"] == executed


def test_an_agent_that_is_retried_goes_on_with_its_counter() -> None:
    async def count(_: Any, context: Any, state: ExecutionState) -> list[int]:
        found = []
        for name in ("a", "b", "c"):
            found.append(increase(state, "n"))
            if name == "c" and current_event().attempt < 3:
                raise ConnectionError(name)
            await call(step, name, state)
        return found

    assert [([0, 1, 2], {"n": 3})] == unique(stopped_everywhere(agent_of(count, retry_config=QUICKLY)))


def test_a_tool_that_is_retried_writes_again() -> None:
    async def fail_twice(_: Any, context: Any, state: ExecutionState) -> int:
        before = increase(state, "n")
        if current_event().attempt < 3:
            raise ConnectionError
        return before

    flaky = Tool(name="flaky", handler=fail_twice, retry_config=QUICKLY)

    async def main(_: Any, context: Any, state: ExecutionState) -> tuple[int, int]:
        return await call(flaky, "", state), state.storage.get("n")

    assert [((2, 3), {"n": 3})] == unique(stopped_everywhere(agent_of(main)))


def test_what_an_agent_wrote_because_it_failed_is_written_over_once_it_works() -> None:
    async def report(_: Any, context: Any, state: ExecutionState) -> str:
        try:
            await call(step, "a", state)
        except LookupError:
            state.storage.set("status", "failed")
            raise
        state.storage.set("status", "worked")
        return state.storage.get("status")

    backend, main = MemoryStateBackend(), agent_of(report)
    switch["failing"] = {"a"}
    with pytest.raises(LookupError):
        run(main, backend)
    assert {"status": "failed"} == kept(backend)
    switch.clear()
    crashing = CrashingBackend(backend, stop_at=2, when="after")
    with pytest.raises(BaseException):  # noqa: B017, PT011
        run(main, crashing)
    assert ("worked", {"status": "worked"}) == (run(main, backend), kept(backend))
    assert ["failed", "worked"] == changes(backend, "status")


def test_what_an_agent_wrote_before_its_own_mistake_is_not_written_again() -> None:
    async def mistaken(_: Any, context: Any, state: ExecutionState) -> int:
        before = increase(state, "n")
        if switch.get("mistake"):
            state.storage.set("status", "mistaken")
            raise ZeroDivisionError
        state.storage.set("status", "right")
        return before

    backend, main = MemoryStateBackend(), agent_of(mistaken)
    switch["mistake"] = True
    with pytest.raises(ZeroDivisionError):
        run(main, backend)
    switch.clear()
    assert (0, {"n": 1, "status": "right"}) == (run(main, backend), kept(backend))


def stopped_after(backend: StateBackend, actor: Any, writes: int) -> None:
    with pytest.raises(BaseException):  # noqa: B017, PT011
        run(actor, CrashingBackend(backend, stop_at=writes, when="after"))


async def _set_then_step(_: Any, context: Any, state: ExecutionState) -> list[Any]:
    if "more" in switch:
        state.storage.set("more", switch["more"])
    state.storage.set("value", switch["value"])
    await call(step, "a", state)
    seen = [state.storage.get("value"), state.storage.get("more"), sorted(state.storage.keys())]
    state.storage.set("value", "last")
    await call(step, "b", state)
    return seen


def test_code_that_writes_another_value_now_is_told_and_the_recorded_one_stands() -> None:
    backend, main = MemoryStateBackend(), agent_of(_set_then_step)
    switch["value"] = "recorded"
    stopped_after(backend, main, 3)
    switch["value"] = "changed"
    with pytest.warns(DriftWarning, match=r"main::agent_call.*storage\['value'\] is set to another value now") as told:
        assert ["recorded", None, ["value"]] == run(main, backend)
    assert [__file__] == [warning.filename for warning in told]
    assert ["recorded", "last"] == changes(backend, "value")


def test_code_that_writes_another_value_now_is_refused_where_drift_is_an_error() -> None:
    backend, main = MemoryStateBackend(), agent_of(_set_then_step)
    switch["value"] = "recorded"
    stopped_after(backend, main, 3)
    switch["value"] = "changed"
    with pytest.raises(Drift, match="storage"):
        run(main, backend, on_drift="error")
    assert ["recorded"] == changes(backend, "value")


def test_a_write_that_is_new_in_the_code_is_made_and_changes_no_other_read() -> None:
    backend, main = MemoryStateBackend(), agent_of(_set_then_step)
    switch["value"] = "recorded"
    stopped_after(backend, main, 5)
    assert {"value": "last"} == kept(backend)
    switch["more"] = "new"
    assert ["recorded", "new", ["more", "value"]] == run(main, backend)
    assert {"value": "last", "more": "new"} == kept(backend)
    assert ["recorded", "last"] == changes(backend, "value")


def test_a_write_that_the_code_no_longer_makes_stands() -> None:
    backend, main = MemoryStateBackend(), agent_of(_set_then_step)
    switch.update(value="recorded", more="old")
    stopped_after(backend, main, 4)
    del switch["more"]
    assert ["recorded", "old", ["more", "value"]] == run(main, backend)


def test_a_tool_that_was_killed_behind_its_write_may_find_something_else() -> None:
    async def look(_: Any, context: Any, state: ExecutionState) -> str:
        state.storage.set("found", switch["found"])
        return state.storage.get("found")

    looks = Tool(name="look", handler=look)

    async def main(_: Any, context: Any, state: ExecutionState) -> list[str]:
        return [await call(looks, "", state), state.storage.get("found")]

    backend, program = MemoryStateBackend(), agent_of(main)
    for found in ("first", "second"):
        switch["found"] = found
        stopped_after(backend, program, 2 if found == "first" else 3)
        assert {"found": found} == kept(backend)
    switch["found"] = "first"
    assert ["first", "first"] == run(program, backend, on_drift="error")
    assert ["first", "second", "first"] == changes(backend, "found")


class Beside:
    """Two agents side by side: one reads what the other writes, in an order that the test decides."""

    def __init__(self) -> None:
        self.wrote, self.has_read = asyncio.Event(), asyncio.Event()
        self.is_first = True

    async def writes(self, _: Any, context: Any, state: ExecutionState) -> None:
        state.storage.set("news", 1)
        self.wrote.set()
        if self.is_first:
            await self.has_read.wait()
        state.storage.set("news", 2)

    async def reads(self, _: Any, context: Any, state: ExecutionState) -> list[Any]:
        seen = [state.storage.get("news"), state.storage.keys()]
        if self.is_first:
            await self.wrote.wait()
        seen += [state.storage.get("news"), state.storage.has("news"), state.storage.keys()]
        await call(step, "a", state)
        self.has_read.set()
        if self.is_first:
            await asyncio.sleep(3600)
        return seen

    async def main(self, _: Any, context: Any, state: ExecutionState) -> list[Any]:
        reads, writes = agent_of(self.reads, "reads"), agent_of(self.writes, "writes")
        both = await asyncio.gather(call(reads, "", state), call(writes, "", state))
        return both[0]


def test_what_was_read_of_a_call_beside_is_read_again() -> None:
    backend = MemoryStateBackend()

    async def stopped() -> None:
        beside = Beside()
        running = asyncio.create_task(Limpet(backend).run(agent_of(beside.main), "", state_id="x"))
        await beside.has_read.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def resumed() -> Any:
        beside = Beside()
        beside.is_first = False
        return await Limpet(backend).run(agent_of(beside.main), "", state_id="x")

    asyncio.run(stopped())
    reads = [record for record in Limpet(backend).history("x") if isinstance(record, ReadRecord)]
    assert [("main::reads", "news", 2)] == [
        (each.place.replace("task[call]::", ""), each.key, each.number) for each in reads
    ]
    assert [None, [], 1, True, ["news"]] == asyncio.run(resumed())
    assert {"news": 2} == kept(backend)


def test_a_read_that_nothing_depends_on_yet_finds_what_is_newest() -> None:
    async def wait(_: Any, context: Any, state: ExecutionState) -> Any:
        await call(step, "a", state)
        if not state.storage.has("answer"):
            raise KeyboardInterrupt
        return state.storage.get("answer")

    async def perform(state: ExecutionState) -> Any:
        return await call(agent_of(wait), "", state)

    backend = MemoryStateBackend()
    state = ExecutionState(state_backend=backend, state_id="x")
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(perform(state))
    restored = ExecutionState.load_from_state_id("x", backend)
    restored.storage.set("answer", "yes")
    assert "yes" == asyncio.run(perform(restored))
    assert ["a"] == executed


def test_at_the_top_of_the_explicit_form_storage_is_not_replayed() -> None:
    async def main(state: ExecutionState) -> int:
        before = increase(state, "n")
        await call(step, "a", state)
        return before

    backend = MemoryStateBackend()
    assert 0 == asyncio.run(main(ExecutionState(state_backend=backend, state_id="x")))
    assert 1 == asyncio.run(main(ExecutionState.load_from_state_id("x", backend)))
    assert (["a"], {"n": 2}) == (executed, kept(backend))


async def _counts_and_tools(_: Any, context: Any, state: ExecutionState) -> list[Any]:
    seen: list[Any] = []
    for name in ("a", "b", "c"):
        seen.append(increase(state, "turn"))
        seen.append(await call(bump, name, state))
        state.storage.set(f"of {name}", await call(step, name, state))
    return [*seen, state.storage.keys()]


AT_THE_END = {"turn": 3, "n": 3, "of a": "a", "of b": "b", "of c": "c"}


@pytest.mark.parametrize("at", ["bump", "step", "bump#2", "step#2", "bump#3", "step#3", "main"])
def test_a_run_that_is_run_on_from_an_event_ends_with_the_same_storage(at: str) -> None:
    backend, main = MemoryStateBackend(), agent_of(_counts_and_tools)
    expected = run(main, backend)
    client = Limpet(backend)
    assert expected == asyncio.run(client.rerun("x", at, agent=main))
    assert AT_THE_END == kept(backend) == kept(backend, timeline=1)
    fork = client.fork("x", at)
    assert expected == asyncio.run(client.resume(fork, agent=main))
    storage = ExecutionState.load_from_state_id(fork, backend).storage
    assert AT_THE_END == {key: storage.get(key) for key in storage.keys()}  # noqa: SIM118


@pytest.mark.parametrize("at", ["bump#2", "step#3"])
def test_a_run_that_was_compacted_can_still_be_run_on_from_an_event(at: str) -> None:
    backend, main = MemoryStateBackend(), agent_of(_counts_and_tools)
    expected = run(main, backend)
    client = Limpet(backend)
    client.cleanup(Retention(compact_after=timedelta(0)))
    assert expected == asyncio.run(client.rerun("x", at, agent=main))
    assert AT_THE_END == kept(backend)


def test_a_run_that_is_run_on_from_an_event_keeps_what_calls_beside_it_had_written() -> None:
    async def main(_: Any, context: Any, state: ExecutionState) -> int:
        await asyncio.gather(*(call(bump, str(number), state) for number in range(3)))
        return state.storage.get("n")

    backend, program = MemoryStateBackend(), agent_of(main)
    assert 3 == run(program, backend)
    history = Limpet(backend).history("x")
    last = max((record for record in history.get_event_list() if "bump" in record.address), key=lambda each: each.order)
    assert 3 == asyncio.run(Limpet(backend).rerun("x", last.address, agent=program))
    assert {"n": 3} == kept(backend)


def test_a_write_that_depends_on_what_runs_again_is_made_again() -> None:
    async def inner(_: Any, context: Any, state: ExecutionState) -> str:
        return f"{await call(step, 'inner', state)} {switch['turn']}"

    async def main(_: Any, context: Any, state: ExecutionState) -> str:
        state.storage.set("before", "kept")
        state.storage.set("last", await call(agent_of(inner, "inner"), "", state))
        return state.storage.get("last")

    backend, program = MemoryStateBackend(), agent_of(main)
    switch["turn"] = "first"
    run(program, backend)
    switch["turn"] = "second"
    assert "inner second" == asyncio.run(Limpet(backend).rerun("x", "step", agent=program))
    assert {"before": "kept", "last": "inner second"} == kept(backend)
    assert ["inner first", "inner second"] == changes_of_all_timelines(backend, "last")


def changes_of_all_timelines(backend: StateBackend, key: str) -> list[Any]:
    state = ExecutionState.load_from_state_id("x", backend)
    stored = state._live.stored
    records = state.to_snapshot().records
    return [
        stored.decode(record.value)
        for record in records
        if isinstance(record, StorageRecord) and record.key == key and record.value is not None
    ]


def test_a_finished_run_is_rehearsed_and_validated_with_the_storage_as_it_was() -> None:
    backend, main = MemoryStateBackend(), agent_of(_counts_and_tools)
    run(main, backend)
    before = list(backend.read("x"))
    client = Limpet(backend)
    assert asyncio.run(client.validate("x", agent=main)).is_ok

    async def perform(mode: ReplayMode) -> tuple[Any, ExecutionState]:
        state = ExecutionState.load_from_state_id("x", backend, replay_mode=mode)
        return await call(main, "", state), state

    result, state = asyncio.run(perform(ReplayMode.VALIDATION))
    assert state.validation is not None
    assert state.validation.is_ok
    rehearsed, _ = asyncio.run(perform(ReplayMode.REHEARSAL))
    assert result == rehearsed == run(main, backend)
    assert before == list(backend.read("x"))


def test_a_rehearsal_writes_nothing_and_sees_what_it_would_write() -> None:
    backend, main = MemoryStateBackend(), agent_of(_set_then_step)
    switch["value"] = "recorded"
    run(main, backend)
    before = list(backend.read("x"))
    switch["more"] = "new"
    state = ExecutionState.load_from_state_id("x", backend, replay_mode=ReplayMode.REHEARSAL)
    assert ["recorded", "new", ["more", "value"]] == asyncio.run(call(main, "", state))
    assert before == list(backend.read("x"))


def test_large_values_and_artifacts_are_replayed_as_well() -> None:
    async def collect(_: Any, context: Any, state: ExecutionState) -> list[Any]:
        storage = state.storage
        seen: list[Any] = []
        for number in range(2):
            seen.append(len(storage.get("pages", [])))
            storage.set("pages", [*storage.get("pages", []), str(number) * 200_000])
            ids = storage.set_artifact("page", f"{number} " * 50_000)
            await call(step, str(number), state)
            seen += [ids, storage.get_artifact("page")[:1], storage.artifact_keys()]
        storage.delete_artifact("page")
        await call(step, "last", state)
        return [*seen, storage.has_artifact("page"), len(storage.get("pages"))]

    found = stopped_everywhere(agent_of(collect))
    first, *others = [result for result, _ in found]
    assert [0, 1] == [first[0], first[4]]
    assert ([False, 2], []) == (first[-2:], [other for other in others if other != first])


def test_what_a_task_writes_after_its_call_has_ended_is_written_like_from_outside() -> None:
    left: list[asyncio.Task[None]] = []

    async def late(state: ExecutionState, ended: asyncio.Event) -> None:
        await ended.wait()
        state.storage.set("late", True)

    async def leave(_: Any, context: Any, state: ExecutionState) -> None:
        left.append(asyncio.create_task(late(state, switch["ended"])))

    async def main(_: Any, context: Any, state: ExecutionState) -> Any:
        switch["ended"] = asyncio.Event()
        await call(agent_of(leave, "leave"), "", state)
        switch["ended"].set()
        await left[-1]
        await call(step, "a", state)
        return state.storage.get("late")

    backend = MemoryStateBackend()
    assert run(agent_of(main), backend)
    [record] = [record for record in Limpet(backend).history("x") if isinstance(record, StorageRecord)]
    assert ("", 0) == (record.place, record.number)
    assert Limpet(backend).verify("x").is_sound


def test_a_plain_function_has_the_storage_of_its_call() -> None:
    def plain(name: str, context: Any, state: ExecutionState) -> list[int]:
        first = increase(state, "n")
        step.call(name)
        return [first, increase(state, "n")]

    plain_tool = Tool(name="plain", handler=plain)

    async def main(_: Any, context: Any, state: ExecutionState) -> list[Any]:
        return [await call(plain_tool, "a", state), state.storage.get("n")]

    assert [([[0, 1], 2], {"n": 2})] == unique(stopped_everywhere(agent_of(main)))


@pytest.mark.parametrize("policy", ["every_n_steps", "on_gates", "manual"])
def test_a_run_that_saves_by_a_policy_goes_on_with_what_was_saved(policy: str) -> None:
    async def count(_: Any, context: Any, state: ExecutionState) -> list[int]:
        found = []
        for number in range(4):
            found.append(increase(state, "n"))
            found.append(await call(bump, str(number), state))
            if number == 1:
                state.save_checkpoint(StateStatus.RUNNING)
        return found

    main = agent_of(count)
    backend = CrashingBackend(MemoryStateBackend())
    client = Limpet(backend, checkpoint_policy=policy)
    expected = client.run_sync(main, "", state_id="x")
    for stop_at in range(1, backend.writes):
        store = MemoryStateBackend()
        with pytest.raises(BaseException):  # noqa: B017, PT011
            Limpet(CrashingBackend(store, stop_at=stop_at, when="after"), checkpoint_policy=policy).run_sync(
                main, "", state_id="x"
            )
        assert expected == Limpet(store, checkpoint_policy=policy).run_sync(main, "", state_id="x")
        assert {"n": 8} == kept(store)


def test_nothing_is_told_while_code_that_is_the_same_is_replayed() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stopped_everywhere(agent_of(_counts_and_tools))
