"""``now``, ``random`` and ``uuid4`` give the same values again when a run is resumed, and real ones outside a run."""

from __future__ import annotations

import asyncio
import threading
import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from acceptance.turned_clock import turned_clock
from crash.stores import opener

from limpet import (
    Agent,
    Append,
    BackendError,
    BackendUnavailable,
    Budget,
    Drift,
    DriftWarning,
    EventBus,
    EventNotice,
    ExecutionEvent,
    ExecutionInterrupted,
    ExecutionState,
    Finding,
    InterruptReason,
    Limpet,
    MemoryStateBackend,
    Outcome,
    RehearsalReport,
    ReplayMode,
    RetryConfig,
    StateBackend,
    StateStatus,
    ValidationReport,
    agent,
    now,
    random,
    tool,
    uuid4,
)
from limpet.codec import values

switch: dict[str, Any] = {}
seen: list[Any] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    switch.clear()
    seen.clear()


@pytest.fixture(params=["memory", "normal", "full", "files"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], StateBackend]:
    return opener(request.param, tmp_path / "store")


class Broken(Exception):
    pass


@tool
async def post(what: str) -> str:
    seen.append(what)
    return what


@tool
def post_plainly(what: str) -> str:
    seen.append((what, str(uuid4())))
    if switch.get("post_fails"):
        raise Broken
    return what


Values = tuple[datetime, datetime, list[float], list[float], UUID]


def taken() -> Values:
    first, second = random(), random()
    return now(), now(), [first.random() for _ in range(3)], [second.random() for _ in range(3)], uuid4()


@agent
async def takes() -> Values:
    found = taken()
    await post(str(found[-1]))
    if switch.get("breaks"):
        raise Broken
    return found


@agent
def takes_plainly() -> Values:
    found = taken()
    post.call(str(found[-1]))
    if switch.get("breaks"):
        raise Broken
    return found


@agent
async def takes_in_branches() -> list[Values]:
    async def branch(turns: int) -> Values:
        for _ in range(turns):
            await asyncio.sleep(0)
        found = taken()
        await post(str(found[-1]))
        return found

    found = await asyncio.gather(*(branch(switch.get("turns", 0) * (5 - number)) for number in range(5)))
    if switch.get("breaks"):
        raise Broken
    return found


@agent
def takes_in_a_loop_of_its_own() -> list[Values]:
    async def inner() -> Values:
        found = taken()
        await post(str(found[-1]))
        return found

    found = [asyncio.run(inner())]
    if switch.get("breaks"):
        raise Broken
    return found


PROGRAMS = [takes, takes_plainly, takes_in_branches, takes_in_a_loop_of_its_own]


def fails(client: Limpet, program: Any, **options: Any) -> None:
    switch["breaks"] = True
    with pytest.raises(Broken):
        client.run_sync(program, state_id="r", **options)
    switch["breaks"] = False


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_a_resumed_run_is_given_the_recorded_values(program: Any, reopen: Callable[[], StateBackend]) -> None:
    switch["turns"] = 0
    fails(Limpet(reopen()), program)
    switch["turns"] = 1
    recorded = recorded_values(Limpet(reopen()))
    resumed = Limpet(reopen()).run_sync(program, state_id="r")
    assert recorded == recorded_values(Limpet(reopen()))
    runs = [resumed] if isinstance(resumed, tuple) else resumed
    assert sorted(seen) == sorted(str(run[-1]) for run in runs), "what was posted before the failure is what came out"
    for at, later, first, second, number in runs:
        assert UTC is at.tzinfo
        assert at <= later
        assert first != second
        assert 4 == number.version


def recorded_values(client: Limpet) -> dict[str, Any]:
    history = client.history("r")
    return {
        address: history.get_event_result(address)
        for address in history.addresses()
        if any(f"::{name}" in address for name in ("now", "random", "uuid4"))
    }


def test_the_values_have_addresses_in_their_scope() -> None:
    client = Limpet("memory://")
    at, later, first, _, number = client.run_sync(takes, state_id="r")
    recorded = recorded_values(client)
    seed = recorded["takes::random::tool_call"]
    assert {
        "takes::random::tool_call": seed,
        "takes::random#2::tool_call": recorded["takes::random#2::tool_call"],
        "takes::now::tool_call": at,
        "takes::now#2::tool_call": later,
        "takes::uuid4::tool_call": number,
    } == recorded
    generator = Random(seed)
    assert first == [generator.random() for _ in range(3)]


def test_outside_a_run_the_values_are_real() -> None:
    before = datetime.now(UTC)
    assert before <= now() <= datetime.now(UTC)
    assert random().random() != random().random()
    assert uuid4() != uuid4()
    assert 4 == uuid4().version


def test_the_time_is_that_of_the_clock_of_the_run() -> None:
    with turned_clock() as clock:
        clock.turn(1_000_000)
        at, *_ = Limpet("memory://").run_sync(takes, state_id="r")
    assert 999_000 < (at - datetime.now(UTC)).total_seconds() < 1_001_000


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0.001, jitter=False))
async def pays() -> str:
    key = str(uuid4())
    seen.append(key)
    if len(seen) < switch.get("works_at", 1):
        raise ConnectionError
    return key


@agent
async def pays_once() -> str:
    return await pays()


def test_a_tool_that_is_tried_again_is_given_the_same_values() -> None:
    switch["works_at"] = 3
    key = Limpet("memory://").run_sync(pays_once, state_id="r")
    assert [key] * 3 == seen


def test_a_tool_that_failed_its_run_is_given_the_same_values_when_it_is_resumed(
    reopen: Callable[[], StateBackend],
) -> None:
    @agent
    def posts() -> str:
        return post_plainly.call("a")

    switch["post_fails"] = True
    with pytest.raises(Broken):
        Limpet(reopen()).run_sync(posts, state_id="r")
    switch["post_fails"] = False
    Limpet(reopen()).run_sync(posts, state_id="r")
    assert 2 == len(seen)
    assert seen[0] == seen[1]


class Slow(MemoryStateBackend):
    """Commits on a thread, and only while its gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.commit_waits = True
        self.inline_when_quick = False
        self.gate = threading.Event()
        self.gate.set()
        self.waits = threading.Event()
        self.failure: BackendError | None = None

    def append(self, appends: Sequence[Append]) -> list[BackendError | None]:
        if not self.gate.is_set():
            self.waits.set()
            self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return super().append(appends)


def test_no_handler_starts_before_the_values_are_durable() -> None:
    backend = Slow()
    handed_out: list[UUID] = []

    @agent
    async def posts() -> str:
        backend.gate.clear()
        handed_out.append(uuid4())
        return await post(str(handed_out[0]))

    async def go() -> None:
        running = asyncio.create_task(Limpet(backend).run(posts, state_id="r"))
        await asyncio.to_thread(backend.waits.wait)
        for _ in range(20):
            await asyncio.sleep(0)
        assert 1 == len(handed_out), "the agent itself need not wait"
        assert [] == seen
        backend.gate.set()
        assert str(handed_out[0]) == await running

    asyncio.run(go())
    assert [str(handed_out[0])] == seen


def test_a_call_that_is_cancelled_while_it_waits_does_not_disturb_others() -> None:
    backend = Slow()

    @agent
    async def posts() -> list[str]:
        backend.gate.clear()
        uuid4()
        first, second = asyncio.create_task(post("first")), asyncio.create_task(post("second"))
        await asyncio.to_thread(backend.waits.wait)
        first.cancel()
        backend.gate.set()
        return [await second]

    assert ["second"] == Limpet(backend).run_sync(posts, state_id="r")
    assert ["second"] == seen


def test_where_a_value_cannot_be_recorded_nothing_that_follows_is_executed() -> None:
    backend = Slow()

    @agent
    async def posts() -> list[str]:
        backend.failure = BackendUnavailable("memory", "the disk is gone")
        key = str(uuid4())
        posted: list[str] = []
        for _ in range(3):
            try:
                posted.append(await post(key))
            except Exception:
                continue
        return posted

    with pytest.raises(BackendError):
        Limpet(backend).run_sync(posts, state_id="r")
    assert [] == seen


def test_in_a_tool_a_value_is_durable_when_it_is_given(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    read: list[list[UUID]] = []

    @tool
    async def notes() -> list[UUID]:
        given = [uuid4(), uuid4()]
        with Limpet(store) as other:
            history = other.history("r")
            found = [history.get_event_result(each) for each in history.addresses() if "uuid4" in each]
        read.append(found)
        return given

    @agent
    async def writes() -> list[list[UUID]]:
        first = await notes()
        return [first, *await asyncio.gather(notes(), notes())]

    with Limpet(store) as client:
        given = client.run_sync(writes, state_id="r")
    assert [2, 4, 6] == sorted(len(found) for found in read)
    assert {each for pair in given for each in pair} == set(read[-1])


def test_the_value_in_a_fork_is_new_behind_its_cut() -> None:
    @agent
    async def twice() -> list[UUID]:
        first = uuid4()
        await post("between")
        return [first, uuid4()]

    client = Limpet("memory://")
    first, second = client.run_sync(twice, state_id="r")
    fork = client.fork("r", "twice::post::tool_call")
    found = asyncio.run(client.resume(fork, agent=twice))
    assert first == found[0]
    assert second != found[1]
    assert [first, second] == client.run_sync(twice, state_id="r")
    assert "twice::uuid4#2::tool_call" in str(client.diff("r", fork))


def test_a_run_is_run_on_from_a_value_or_with_another_one() -> None:
    client = Limpet("memory://")
    at, later, *_ = client.run_sync(takes, state_id="r")
    rerun = asyncio.run(client.rerun("r", "takes::now#2::tool_call", agent=takes))
    assert (at, True) == (rerun[0], rerun[1] > later)
    other = datetime(2030, 1, 1, tzinfo=UTC)
    replaced = asyncio.run(client.rerun("r", "takes::now::tool_call", replace=other, agent=takes))
    assert other == replaced[0]


def validated(client: Limpet, program: Any) -> ValidationReport:
    report = asyncio.run(client.validate("r", agent=program)).reports["r"]
    assert isinstance(report, ValidationReport)
    return report


def rehearsed(client: Limpet, program: Any) -> RehearsalReport:
    report = asyncio.run(client.rehearse("r", agent=program)).reports["r"]
    assert isinstance(report, RehearsalReport)
    return report


def test_a_validation_gives_the_recorded_values() -> None:
    client = Limpet("memory://")
    client.run_sync(takes, state_id="r")
    report = validated(client, takes)
    assert report.is_ok
    assert 5 == len(report.reused)
    assert [seen[0]] * 2 == seen, "the tool was executed again with what it was given before"


def test_a_validation_reports_a_value_that_is_not_recorded() -> None:
    client = Limpet("memory://")
    client.run_sync(takes_more, state_id="r")
    switch["more"] = True
    report = validated(client, takes_more)
    assert ["takes_more::now#2::tool_call"] == report.extra
    assert Outcome.EXTRA is dict(report.entries)["takes_more::now#2::tool_call"]


@agent
async def takes_more() -> int:
    number = int(now().timestamp() > 0)
    await post("a")
    if switch.get("more"):
        number += int(now().timestamp() > 0)
    await post("b")
    return number


def test_a_rehearsal_gives_the_recorded_values_and_executes_nothing() -> None:
    client = Limpet("memory://")
    client.run_sync(takes, state_id="r")
    report = rehearsed(client, takes)
    assert () == report.divergences
    assert {Finding.REUSED} == {call.finding for call in report.calls}
    assert 1 == len(seen)


def test_a_rehearsal_goes_on_behind_a_value_that_is_not_recorded_and_names_its_line() -> None:
    client = Limpet("memory://")
    client.run_sync(takes_more, state_id="r")
    switch["more"] = True
    before = client.history("r").addresses()
    report = rehearsed(client, takes_more)
    assert [("takes_more::now#2::tool_call", Finding.MISSING)] == [
        (found.address, found.finding) for found in report.divergences
    ]
    assert report.divergences[0].file == __file__
    assert "takes_more::post#2::tool_call" in {call.address for call in report.calls}
    assert before == client.history("r").addresses()


def test_a_value_that_comes_in_or_is_no_longer_taken_is_drift() -> None:
    client = Limpet("memory://")
    with pytest.raises(Broken):
        client.run_sync(changes, state_id="r")
    switch["works"] = switch["more"] = True
    with pytest.warns(DriftWarning, match="executes 'changes::now#2::tool_call' although it is not recorded"):
        client.run_sync(changes, state_id="r")

    other = Limpet("memory://")
    switch["works"] = False
    with pytest.raises(Broken):
        other.run_sync(changes, state_id="r")
    switch["works"], switch["more"] = True, False
    with pytest.warns(DriftWarning, match="no longer calls 'changes::now#2::tool_call'"):
        other.run_sync(changes, state_id="r")


@agent
async def changes() -> int:
    now()
    await post("a")
    if switch.get("more"):
        now()
    await post("b")
    if not switch.get("works"):
        raise Broken
    return 1


def test_a_recorded_result_of_another_type_is_drift() -> None:
    @tool(name="now")
    async def own_now() -> str:
        return "noon"

    @agent
    async def tells() -> str:
        at = now() if switch.get("changed") else await own_now()
        if not switch.get("changed"):
            raise Broken
        return str(at)

    client = Limpet("memory://")
    with pytest.raises(Broken):
        client.run_sync(tells, state_id="r")
    switch["changed"] = True
    with pytest.raises(Drift, match="is of type str, and now\\(\\) gives datetime"):
        client.run_sync(tells, state_id="r")


@pytest.mark.parametrize("options", [{"checkpoint_policy": "manual"}, {"on_save_error": "continue"}])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_policies_hold_values_back_as_they_hold_results_back(
    program: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as client:
        fails(client, program, **options)
        before = recorded_values(client)
        client.run_sync(program, state_id="r", **options)
        assert before == recorded_values(client)


def test_observers_are_told_of_the_values() -> None:
    bus, notices = EventBus(), list[EventNotice]()
    bus.subscribe(notices.append)
    client = Limpet(Slow())
    client.run_sync(takes, state_id="r", event_bus=bus)
    bus.flush()
    told = [notice.address for notice in notices if notice.status == "completed"]
    assert client.history("r").addresses()[1:] == told[:-1]


def test_in_the_explicit_form_the_values_are_recorded_too() -> None:
    backend = MemoryStateBackend()

    @tool
    def plain(text: str) -> str:
        return f"{text} {uuid4()}"

    async def go(state: ExecutionState) -> list[str]:
        for _ in range(2):
            await ExecutionEvent(plain)("a", None, state)
        history = state.history
        return [f"{address} {history.get_event_result(address)}" for address in history.addresses()]

    state = ExecutionState(state_backend=backend, state_id="r")
    first = asyncio.run(go(state))
    state.save_checkpoint(status=StateStatus.PAUSED)
    assert 4 == len(first)
    loaded = ExecutionState.load_from_state_id("r", backend, replay_mode=ReplayMode.REPUBLISH_ALL)
    assert first == asyncio.run(go(loaded))


def test_a_run_that_is_stopped_may_still_ask_for_values_and_records_none() -> None:
    async def clean_up(given: None, context: None, state: ExecutionState) -> None:
        at = now()
        state.request_interrupt(InterruptReason.REQUESTED, "enough")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append((at, now(), uuid4()))

    client = Limpet("memory://")
    with pytest.raises(ExecutionInterrupted):
        client.run_sync(Agent(name="cleans_up", handler=clean_up), None, state_id="r")
    at, later, _ = seen[-1]
    assert at < later
    assert {"cleans_up::now::tool_call": at} == recorded_values(client)


def test_values_count_as_events_of_a_budget_and_are_never_refused() -> None:
    client = Limpet("memory://")
    with pytest.raises(ExecutionInterrupted):
        client.run_sync(takes, state_id="r", budget=Budget(events=3))
    assert [] == seen
    assert 5 == len(recorded_values(client))


@pytest.mark.parametrize("record_inputs", [True, False])
def test_replaying_values_is_no_drift(record_inputs: bool) -> None:
    client = Limpet("memory://", on_drift="error")
    fails(client, takes, record_inputs=record_inputs)
    before = recorded_values(client)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.run_sync(takes, state_id="r", record_inputs=record_inputs)
    assert before == recorded_values(client)


def test_a_value_is_one_small_record(tmp_path: Path) -> None:
    assert 40 > len(values.encode(datetime.now(UTC)))
    client = Limpet(f"sqlite:///{tmp_path}/runs.db")
    client.run_sync(takes, state_id="r")
    # The start of the run, five values, the call, and the outcome.
    assert 8 == client.show("r").header.position
    client.close()
