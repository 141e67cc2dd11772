"""A call that fails is tried again as it is configured: how often, on which errors, and after which wait."""

from __future__ import annotations

import asyncio
import copy
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from acceptance.turned_clock import turned_clock
from crash.stores import opener
from pydantic import BaseModel

from limpet import (
    LLM,
    Agent,
    BackoffStrategy,
    EventBus,
    EventNotice,
    EventRecord,
    EventType,
    ExecutionEvent,
    ExecutionState,
    ExecutionStatus,
    Limpet,
    ReplayMode,
    RetryConfig,
    StateBackend,
    StateStatus,
    Tool,
    UsageError,
    ValueNotStorable,
    agent,
    current_event,
    llm,
    tool,
)

executions: Counter[str] = Counter()
failing: list[BaseException] = []
"""What the next executions raise, one after the other."""

FETCH = "research::fetch::tool_call"
AT_ONCE = RetryConfig(max_attempts=3, initial_delay=0)
OFF = RetryConfig(enabled=False)


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()


@pytest.fixture
def waits() -> Iterator[list[float]]:
    """The waits between attempts. The clock is turned by them, so nobody waits."""
    with turned_clock() as clock:
        yield clock.waits


@pytest.fixture(params=["memory", "normal", "files"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateBackend]:
    with opener(request.param, tmp_path / "store")() as opened:
        yield opened


@pytest.fixture
def client(backend: StateBackend) -> Limpet:
    return Limpet(backend)


class Answered(Exception):
    """What clients raise when a server answers with an error."""

    def __init__(self, status_code: int, retry_after: str = "") -> None:
        super().__init__(status_code, retry_after)
        self.http_status = status_code
        self.headers = {"Retry-After": retry_after} if retry_after else {}


def attempted(name: str) -> None:
    """Count an execution, and raise what it is to raise."""
    executions[name] += 1
    if failing:
        # A copy, since an exception that is raised again and again has an ever longer traceback.
        raise copy.copy(failing.pop(0))


def always(error: BaseException) -> None:
    failing.extend([error] * 5000)


@tool
async def fetch(url: str) -> str:
    attempted("fetch")
    return url.upper()


@agent
async def research(url: str) -> str:
    executions["research"] += 1
    return await fetch(url)


def tries(number: int) -> RetryConfig:
    return RetryConfig(max_attempts=number, initial_delay=0)


def statuses(records: list[EventRecord], address: str = FETCH) -> list[tuple[str, int]]:
    return [(record.status.value, record.attempt) for record in records if record.address == address]


# Which configuration counts.

LEVELS = [
    ((tries(2), tries(3), tries(4), tries(5)), 2),
    ((None, tries(3), tries(4), tries(5)), 3),
    ((None, None, tries(4), tries(5)), 4),
    ((None, None, None, tries(5)), 5),
    ((OFF, tries(3), tries(4), tries(5)), 1),
    ((None, OFF, tries(4), tries(5)), 1),
    ((None, None, OFF, tries(5)), 1),
    ((None, None, None, OFF), 1),
    ((tries(2), OFF, OFF, OFF), 2),
    ((None, tries(3), OFF, OFF), 3),
    ((None, None, tries(4), OFF), 4),
]
"""What is said of the call, of the actor, of its type and of all; and how often the call is tried then."""

Levels = tuple[RetryConfig | None, RetryConfig | None, RetryConfig | None, RetryConfig | None]


@pytest.mark.parametrize(("levels", "expected"), LEVELS)
@pytest.mark.parametrize("kind", [Tool, LLM, Agent])
def test_the_nearest_configuration_counts_in_the_explicit_form(
    levels: Levels, expected: int, kind: type[Tool] | type[LLM] | type[Agent]
) -> None:
    async def handler(data: int, context: Any, state: ExecutionState) -> int:
        attempted("handler")
        return data

    of_call, of_actor, of_type, of_all = levels
    always(ConnectionError("down"))
    state = ExecutionState(
        default_retry_config=of_all,
        retry_config_by_actor_type={} if of_type is None else {kind.event_type: of_type},
    )
    event = ExecutionEvent(kind(name="tried", handler=handler, retry_config=of_actor), retry_config=of_call)
    with pytest.raises(ConnectionError, match="down"):
        asyncio.run(event(1, None, state))
    assert expected == executions["handler"]
    assert ExecutionStatus.FAILED is event.execution_status


@pytest.mark.parametrize(("levels", "expected"), LEVELS)
def test_the_nearest_configuration_counts_in_a_run(levels: Levels, expected: int) -> None:
    of_call, of_actor, of_type, of_all = levels
    configured = fetch if of_actor is None else fetch.options(retry_config=of_actor)

    @agent(retry_config=OFF)
    async def calls() -> str:
        return await (configured if of_call is None else configured.options(retry_config=of_call))("kelp")

    client = Limpet(
        "memory://",
        default_retry_config=of_all,
        retry_config_by_actor_type={} if of_type is None else {EventType.TOOL_CALL: of_type},
    )
    always(ConnectionError("down"))
    with pytest.raises(ConnectionError, match="down"):
        client.run_sync(calls)
    assert expected == executions["fetch"]


def test_a_configuration_for_one_type_of_actor_says_nothing_of_the_others() -> None:
    @llm
    async def think() -> str:
        attempted("think")
        return "thought"

    @agent
    async def calls() -> str:
        executions["calls"] += 1
        try:
            await fetch("kelp")
        except ConnectionError:
            failing[:] = [ConnectionError("down")] * 10
        return await think()

    by_type = {EventType.TOOL_CALL: tries(2), EventType.LLM_CALL: tries(4)}
    failing[:] = [ConnectionError("down")] * 10
    with pytest.raises(ConnectionError):
        Limpet("memory://", retry_config_by_actor_type=by_type).run_sync(calls)
    assert Counter(calls=1, fetch=2, think=4) == executions


def test_a_type_of_actor_can_be_named_by_its_text_and_by_its_class() -> None:
    for named in ("tool_call", EventType.TOOL_CALL, Tool):
        state = ExecutionState(retry_config_by_actor_type={named: tries(2)})  # pyright: ignore[reportArgumentType]
        assert {EventType.TOOL_CALL: tries(2)} == state.retry_config_by_actor_type


def test_retrying_can_be_switched_off_for_tools_so_that_they_run_once(client: Limpet) -> None:
    @tool(retry_config=RetryConfig(enabled=False, max_attempts=3, initial_delay=0))
    async def pay() -> None:
        attempted("pay")

    @agent
    async def shop() -> None:
        await pay()

    always(TimeoutError("slow"))
    with pytest.raises(TimeoutError, match="slow"):
        client.run_sync(shop, state_id="off")
    assert 1 == executions["pay"]
    assert [("started", 1), ("failed", 1)] == statuses(client.history("off").get_event_list(), "shop::pay::tool_call")


# Which errors.

TRANSIENT = [
    TimeoutError("slow"),
    ConnectionResetError("reset"),
    ConnectionRefusedError("refused"),
    *(Answered(status) for status in (408, 425, 429, 500, 502, 503, 504, 599)),
]
LASTING = [
    ValueError("value"),
    TypeError("type"),
    KeyError("key"),
    IndexError("index"),
    AttributeError("attribute"),
    AssertionError("assertion"),
    ZeroDivisionError("zero"),
    NotImplementedError("not implemented"),
    *(Answered(status) for status in (400, 401, 403, 404, 409, 422)),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=repr)
@pytest.mark.parametrize("declare", [tool, llm])
def test_tools_and_models_are_tried_three_times_on_errors_that_pass_by(
    declare: Any, error: Exception, waits: list[float]
) -> None:
    @declare
    async def ask() -> None:
        attempted("ask")

    @agent
    async def asks() -> None:
        executions["asks"] += 1
        await ask()

    always(error)
    with pytest.raises(type(error)):
        Limpet("memory://").run_sync(asks)
    assert Counter(ask=3, asks=1) == executions
    assert 0.5 <= waits[0] <= 1.0
    assert 1.0 <= waits[1] <= 2.0


@pytest.mark.parametrize("error", [*LASTING, RuntimeError("anything"), PermissionError("denied")], ids=repr)
@pytest.mark.parametrize("declare", [tool, llm])
def test_nothing_else_is_tried_again_where_nothing_is_configured(declare: Any, error: Exception) -> None:
    @declare
    async def ask() -> None:
        attempted("ask")

    @agent
    async def asks() -> None:
        await ask()

    always(error)
    with pytest.raises(type(error)):
        Limpet("memory://").run_sync(asks)
    assert 1 == executions["ask"]


@pytest.mark.parametrize("error", [*LASTING, RuntimeError("anything")], ids=repr)
@pytest.mark.parametrize("declare", [tool, llm])
def test_a_configuration_that_names_no_errors_retries_every_one(declare: Any, error: Exception) -> None:
    @declare(retry_config=tries(4))
    async def ask() -> None:
        attempted("ask")

    @agent
    async def asks() -> None:
        await ask()

    always(error)
    with pytest.raises(type(error)):
        Limpet("memory://").run_sync(asks)
    assert 4 == executions["ask"]


class Verdict(BaseModel):
    score: int


def test_an_answer_of_a_model_that_fails_validation_is_asked_for_again() -> None:
    @llm(retry_config=tries(4))
    async def judge(text: str) -> Verdict:
        executions["judge"] += 1
        return Verdict.model_validate_json('{"score": "high"}' if executions["judge"] < 4 else '{"score": 7}')

    @agent
    async def judges() -> Verdict:
        return await judge("kelp")

    assert Verdict(score=7) == Limpet("memory://").run_sync(judges)
    assert 4 == executions["judge"]


@pytest.mark.parametrize("where", ["actor", "call", "by type", "store"])
def test_a_configuration_retries_every_error_wherever_it_is_given(where: str) -> None:
    always(ValueError("value"))

    async def find_once() -> None:
        attempted("find")

    find = tool(retry_config=AT_ONCE)(find_once) if where == "actor" else tool(find_once)

    @agent(retry_config=RetryConfig(enabled=False))
    async def finds() -> None:
        await (find.options(retry_config=AT_ONCE)() if where == "call" else find())

    client = Limpet(
        "memory://",
        default_retry_config=AT_ONCE if where == "store" else None,
        retry_config_by_actor_type={EventType.TOOL_CALL: AT_ONCE} if where == "by type" else None,
    )
    with pytest.raises(ValueError, match="value"):
        client.run_sync(finds)
    assert 3 == executions["find"]


def test_what_limpet_refuses_is_not_retried() -> None:
    @tool(retry_config=AT_ONCE)
    async def connects() -> object:
        executions["connects"] += 1
        return object()

    @agent
    async def opens() -> None:
        await connects()

    with pytest.raises(ValueNotStorable):
        Limpet("memory://").run_sync(opens)
    assert 1 == executions["connects"]


@pytest.mark.parametrize(
    ("config", "error", "expected"),
    [
        (RetryConfig(retry_on_exceptions=(ValueError,)), ValueError("named"), 3),
        (RetryConfig(retry_on_exceptions=(LookupError,)), KeyError("a subclass"), 3),
        (RetryConfig(retry_on_exceptions=(LookupError,)), TimeoutError("not named"), 1),
        (RetryConfig(retry_on_exceptions=()), TimeoutError("nothing is named"), 1),
        (RetryConfig(exclude_exceptions=(ConnectionError,)), ConnectionResetError("excluded"), 1),
        (RetryConfig(exclude_exceptions=(ConnectionError,)), TimeoutError("not excluded"), 3),
        (RetryConfig(retry_on_exceptions=(OSError,), exclude_exceptions=(TimeoutError,)), TimeoutError("both"), 1),
        (RetryConfig(retry_on_exceptions=(OSError,), exclude_exceptions=(TimeoutError,)), OSError("one"), 3),
    ],
)
def test_errors_can_be_named_and_excluded(
    config: RetryConfig, error: Exception, expected: int, waits: list[float]
) -> None:
    @agent
    async def calls() -> None:
        await fetch.options(retry_config=config)("kelp")

    always(error)
    with pytest.raises(type(error)):
        Limpet("memory://").run_sync(calls)
    assert expected == executions["fetch"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), asyncio.CancelledError()], ids=repr)
def test_what_ends_a_program_is_never_tried_again(error: BaseException) -> None:
    everything = RetryConfig(max_attempts=5, initial_delay=0, retry_on_exceptions=(BaseException,))
    always(error)
    with pytest.raises(type(error)):
        Limpet("memory://", default_retry_config=everything).run_sync(research, "kelp")
    assert Counter(research=1, fetch=1) == executions


def test_agents_are_not_retried_unless_that_is_said() -> None:
    @agent
    async def fragile() -> None:
        attempted("fragile")

    @agent
    async def outer() -> None:
        await fragile()

    always(TimeoutError("slow"))
    with pytest.raises(TimeoutError):
        Limpet("memory://").run_sync(outer)
    assert 1 == executions["fragile"]


def test_the_error_of_the_last_attempt_is_what_the_caller_gets() -> None:
    failing[:] = [ConnectionError("first"), TimeoutError("second"), ConnectionError("third")]
    with pytest.raises(ConnectionError, match="third"):
        Limpet("memory://", retry_config_by_actor_type={EventType.TOOL_CALL: AT_ONCE}).run_sync(research, "kelp")


# How long is waited.


def delays(client: Limpet, state_id: str, address: str = FETCH) -> list[float]:
    records = client.history(state_id).get_event_list()
    retrying = [record for record in records if record.address == address and record.status == "retrying"]
    return [record.details.delay_s for record in retrying if record.details is not None]


def failed_for_good(config: RetryConfig) -> list[float]:
    """The waits of a call that fails always, by what is recorded of them."""
    client = Limpet("memory://", retry_config_by_actor_type={EventType.TOOL_CALL: config})
    if not failing:
        always(ConnectionError("down"))
    with pytest.raises(Exception, match=r"."):
        client.run_sync(research, "kelp", state_id="failed")
    return delays(client, "failed")


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (BackoffStrategy.CONSTANT, [2.0, 2.0, 2.0, 2.0, 2.0]),
        (BackoffStrategy.LINEAR, [2.0, 4.0, 6.0, 8.0, 10.0]),
        (BackoffStrategy.EXPONENTIAL, [2.0, 6.0, 18.0, 54.0, 60.0]),
        (BackoffStrategy.FIBONACCI, [2.0, 2.0, 4.0, 6.0, 10.0]),
    ],
)
def test_the_wait_grows_as_the_strategy_says(
    strategy: BackoffStrategy, expected: list[float], waits: list[float]
) -> None:
    config = RetryConfig(6, strategy, initial_delay=2.0, backoff_multiplier=3.0, jitter=False)
    assert expected == failed_for_good(config)
    assert expected == waits


def test_jitter_never_exceeds_the_longest_delay(waits: list[float]) -> None:
    made = failed_for_good(RetryConfig(200, BackoffStrategy.CONSTANT, initial_delay=7.0, max_delay=5.0))
    assert 199 == len(made)
    assert 2.5 <= min(made) <= max(made) <= 5.0
    assert 100 < len(set(made)), "waits with jitter differ"
    assert made == waits


def test_attempt_two_thousand_does_not_overflow(waits: list[float]) -> None:
    made = failed_for_good(RetryConfig(2001, backoff_multiplier=10.0, jitter=False))
    assert 2001 == executions["fetch"]
    assert [1.0, 10.0, *[60.0] * 1998] == made


@pytest.mark.parametrize("asked", ["3", "3.0"])
def test_a_server_that_asks_for_time_is_given_it(asked: str, waits: list[float]) -> None:
    failing[:] = [Answered(429, asked), Answered(503), Answered(503)]
    assert 3.0 == failed_for_good(RetryConfig(3, initial_delay=0.5, jitter=False))[0]
    assert [3.0, 1.0] == waits


def test_a_server_that_asks_for_more_than_the_longest_delay_is_given_that_too(waits: list[float]) -> None:
    failing[:] = [Answered(429, "30"), Answered(404)]
    assert [30.0] == failed_for_good(RetryConfig(2, initial_delay=0.5, max_delay=2.0))


def test_a_server_is_given_the_time_it_asks_for_where_nothing_is_configured(waits: list[float]) -> None:
    failing.append(Answered(429, "9"))
    assert "KELP" == Limpet("memory://").run_sync(research, "kelp")
    assert [9.0] == waits


def test_a_time_limit_of_the_whole_counts_the_waits(waits: list[float]) -> None:
    config = RetryConfig(100, BackoffStrategy.CONSTANT, initial_delay=10.0, jitter=False, retry_timeout=35.0)
    assert [10.0, 10.0, 10.0] == failed_for_good(config)
    assert 4 == executions["fetch"]


def test_a_retry_timeout_of_half_a_second_is_over_within_it() -> None:
    config = RetryConfig(100, BackoffStrategy.CONSTANT, initial_delay=0.1, jitter=False, retry_timeout=0.5)
    began = time.perf_counter()
    made = failed_for_good(config)
    assert time.perf_counter() - began < 0.9
    assert 1 <= len(made) <= 4


def test_a_wait_that_would_end_behind_the_retry_timeout_is_not_begun() -> None:
    began = time.perf_counter()
    assert [] == failed_for_good(RetryConfig(3, initial_delay=2.0, jitter=False, retry_timeout=0.5))
    assert time.perf_counter() - began < 1.9
    assert 1 == executions["fetch"]


def test_an_attempt_is_cut_off_at_the_retry_timeout() -> None:
    @tool(retry_config=RetryConfig(initial_delay=0.01, retry_timeout=0.05))
    async def hangs() -> None:
        executions["hangs"] += 1
        await asyncio.Event().wait()

    @agent
    async def calls() -> None:
        await hangs()

    with pytest.raises(TimeoutError, match="calls::hangs"):
        Limpet("memory://").run_sync(calls)
    assert 1 == executions["hangs"]


def test_a_wait_does_not_stop_what_goes_on_beside_it() -> None:
    other_is_done = asyncio.Event()

    @tool(retry_config=RetryConfig(2, initial_delay=0.01))
    async def waits_for_another() -> str:
        attempted("waits")
        await other_is_done.wait()
        return "first"

    @tool
    async def another() -> str:
        other_is_done.set()
        return "second"

    @agent
    async def both() -> list[str]:
        return list(await asyncio.gather(waits_for_another(), another()))

    failing.append(ConnectionError("down"))
    assert ["first", "second"] == Limpet("memory://").run_sync(both)
    assert 2 == executions["waits"]


# What is told and recorded.


def test_every_attempt_is_recorded_in_order(client: Limpet) -> None:
    failing[:] = [ConnectionError("one"), TimeoutError("two")]
    config = RetryConfig(initial_delay=0.01, jitter=False)

    @agent
    async def calls() -> str:
        return await fetch.options(retry_config=config)("kelp")

    assert "KELP" == client.run_sync(calls, state_id="told")
    address = "calls::fetch::tool_call"
    records = [record for record in client.history("told").get_event_list() if record.address == address]
    assert [
        ("started", 1),
        ("failed", 1),
        ("retrying", 1),
        ("started", 2),
        ("failed", 2),
        ("retrying", 2),
        ("started", 3),
        ("completed", 3),
    ] == statuses(records, address)
    _, failed, first, _, _, second, started, completed = records
    for record in (failed, first):
        assert record.error is not None
        assert ("ConnectionError", "one") == (record.error.type_name, record.error.message)
        assert 'attempted("fetch")' in record.error.traceback
    assert first.details is not None
    assert second.details is not None
    assert (0.01, 0.02) == (first.details.delay_s, second.details.delay_s)
    assert first.at + 0.01 == pytest.approx(first.details.due_at, abs=0.001)
    assert started.at >= second.details.due_at - 0.001
    assert completed.error is None
    assert records == sorted(records, key=lambda record: record.seq)


def test_the_start_of_an_event_keeps_its_place_however_often_it_is_tried(client: Limpet) -> None:
    failing[:] = [ConnectionError("one"), ConnectionError("two")]
    client = Limpet(client.backend, retry_config_by_actor_type={EventType.TOOL_CALL: AT_ONCE})
    client.run_sync(research, "kelp", state_id="placed")
    assert {2} == {record.order for record in client.history("placed").get_event_list() if record.address == FETCH}


def test_observers_are_told_of_every_attempt() -> None:
    bus, seen = EventBus(), list[EventNotice]()
    bus.subscribe(seen.append)
    failing[:] = [ConnectionError("one"), TimeoutError("two")]
    config = RetryConfig(initial_delay=0.001, jitter=False)
    client = Limpet("memory://", retry_config_by_actor_type={EventType.TOOL_CALL: config})
    client.run_sync(research, "kelp", event_bus=bus)
    assert bus.flush()
    one, two = "ConnectionError: one", "TimeoutError: two"
    assert [
        ("started", 1, False, None, None),
        ("failed", 1, False, 0.001, one),
        ("retrying", 1, True, 0.001, one),
        ("started", 2, True, None, None),
        ("failed", 2, True, 0.002, two),
        ("retrying", 2, True, 0.002, two),
        ("started", 3, True, None, None),
        ("completed", 3, True, None, None),
    ] == [
        (notice.status.value, notice.attempt, notice.is_retry, notice.retry_delay, notice.original_error)
        for notice in seen
        if notice.address == FETCH
    ]


def test_observers_are_told_of_a_failure_for_good() -> None:
    bus, seen = EventBus(), list[EventNotice]()
    bus.subscribe(seen.append)
    always(ConnectionError("down"))
    client = Limpet("memory://", retry_config_by_actor_type={EventType.TOOL_CALL: tries(2)})
    with pytest.raises(ConnectionError):
        client.run_sync(research, "kelp", event_bus=bus)
    assert bus.flush()
    told = [(notice.status.value, notice.attempt) for notice in seen if notice.address == FETCH]
    assert [("started", 1), ("failed", 1), ("retrying", 1), ("started", 2), ("failed", 2)] == told
    assert "ConnectionError: down" == seen[-1].original_error


def test_a_handler_knows_which_attempt_it_is_and_keeps_its_idempotency_key() -> None:
    seen: list[tuple[int, bool]] = []
    keys: set[str] = set()

    @tool(retry_config=AT_ONCE)
    async def pay() -> None:
        event = current_event()
        seen.append((event.attempt, event.is_retry))
        keys.add(event.idempotency_key)
        attempted("pay")

    @agent
    async def shop() -> None:
        await pay()

    failing[:] = [ConnectionError("one"), ConnectionError("two")]
    Limpet("memory://").run_sync(shop)
    assert [(1, False), (2, True), (3, True)] == seen
    assert 1 == len(keys)


@pytest.mark.parametrize("is_restored", [False, True])
def test_what_was_tried_again_is_counted(backend: StateBackend, is_restored: bool) -> None:
    async def flaky(data: str, context: Any, state: ExecutionState) -> str:
        attempted(data)
        return data

    async def main(state: ExecutionState) -> None:
        for name, errors in (("good", 0), ("shaky", 2), ("bad", 3)):
            failing[:] = [TimeoutError("slow"), *[ConnectionError("down")] * 2][:errors]
            try:
                await ExecutionEvent(Tool(name=name, handler=flaky))(name, None, state)
            except ConnectionError:
                assert "bad" == name

    config = RetryConfig(3, BackoffStrategy.LINEAR, initial_delay=0.001, jitter=False)
    state = ExecutionState(state_backend=backend, state_id="counted", default_retry_config=config)
    asyncio.run(main(state))
    history = ExecutionState.load_from_state_id("counted", backend).history if is_restored else state.history
    counts = history.retry_statistics()
    assert (3, 2, 4, 7) == (counts.events, counts.events_retried, counts.retries, counts.attempts)
    assert {"TimeoutError": 2, "ConnectionError": 3} == counts.errors_by_type
    assert (1, pytest.approx(2 / 3)) == (counts.recovered, counts.rate)
    assert pytest.approx(0.006) == counts.waited_s
    assert "3 calls, 2 tried again (66.7%), 1 recovered: 4 retries" in str(counts)


# Agents that are retried.


def test_a_retried_agent_replays_what_completed_inside_it_and_retries_what_failed(client: Limpet) -> None:
    @tool(retry_config=OFF)
    async def step(name: str) -> str:
        executions[name] += 1
        if name == "bad" and executions[name] < 3:
            raise LookupError(name)
        return name

    @agent(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def careful() -> list[str]:
        executions["careful"] += 1
        return [await step("good"), await step("bad"), await step("after")]

    @agent
    async def outer() -> list[str]:
        executions["outer"] += 1
        return await careful()

    assert ["good", "bad", "after"] == client.run_sync(outer, state_id="careful")
    assert Counter(outer=1, careful=3, good=1, bad=3, after=1) == executions
    records = client.history("careful").get_event_list()
    assert [
        ("started", 1),
        ("failed", 1),
        ("retrying", 1),
        ("started", 2),
        ("failed", 2),
        ("retrying", 2),
        ("started", 3),
        ("completed", 3),
    ] == statuses(records, "outer::careful::agent_call")
    assert ["failed", "failed", "completed"] == [
        record.status.value
        for record in records
        if record.address == "outer::careful::step#2::tool_call" and record.status != "started"
    ]


def test_the_agent_of_a_run_is_retried_where_that_is_said(client: Limpet) -> None:
    failing[:] = [LookupError("one"), LookupError("two")]

    @agent(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def whole() -> str:
        executions["whole"] += 1
        return await fetch("kelp")

    assert "KELP" == client.run_sync(whole, state_id="whole")
    assert Counter(whole=3, fetch=3) == executions
    header = client.show("whole").header
    assert (StateStatus.COMPLETED, None) == (header.status, header.holder)


def test_a_failure_that_a_retried_agent_had_caught_is_given_again_to_its_next_attempt(client: Limpet) -> None:
    @tool(retry_config=OFF)
    async def step(name: str) -> str:
        attempted(name)
        return name

    @agent(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def catches() -> list[str]:
        executions["catches"] += 1
        try:
            found = await step("caught")
        except LookupError as error:
            found = str(error)
        return [found, await step("passed on")]

    failing[:] = [LookupError("was caught"), LookupError("was passed on")]
    assert ["was caught", "passed on"] == client.run_sync(catches)
    assert {"catches": 2, "caught": 1, "passed on": 2} == executions


def test_a_retried_agent_does_not_run_leftover_branches_twice_at_a_time(client: Limpet) -> None:
    under_way: list[str] = []
    most: list[int] = []
    go_on = asyncio.Event()

    @tool(retry_config=OFF)
    async def slow() -> str:
        executions["slow"] += 1
        under_way.append("slow")
        most.append(len(under_way))
        try:
            await go_on.wait()
            return "slow"
        finally:
            under_way.remove("slow")

    @tool(retry_config=OFF)
    async def breaks() -> str:
        executions["breaks"] += 1
        if executions["breaks"] == 1:
            raise LookupError("broken")
        go_on.set()
        return "mended"

    @agent(retry_config=RetryConfig(initial_delay=0.01, retry_on_exceptions=(LookupError,)))
    async def gathers() -> list[str]:
        return list(await asyncio.gather(slow(), breaks()))

    assert ["slow", "mended"] == client.run_sync(gathers, state_id="gathers")
    assert [1, 1] == most
    assert [] == under_way
    assert Counter(slow=2, breaks=2) == executions
    assert [("started", 1), ("interrupted", 1), ("started", 1), ("completed", 1)] == statuses(
        client.history("gathers").get_event_list(), "gathers::slow::tool_call"
    )


def test_a_branch_that_ended_before_the_agent_was_retried_is_not_run_again(client: Limpet) -> None:
    quick_is_done = asyncio.Event()

    @tool
    async def quick() -> str:
        executions["quick"] += 1
        return "quick"

    @tool(retry_config=OFF)
    async def breaks() -> str:
        await quick_is_done.wait()
        attempted("breaks")
        return "mended"

    async def then_tell() -> str:
        found = await quick()
        quick_is_done.set()
        return found

    @agent(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def gathers() -> list[str]:
        return list(await asyncio.gather(then_tell(), breaks()))

    failing.append(LookupError("broken"))
    assert ["quick", "mended"] == client.run_sync(gathers)
    assert Counter(quick=1, breaks=2) == executions


def test_an_agent_whose_group_of_tasks_failed_is_retried_and_replays_what_completed_in_it(client: Limpet) -> None:
    quick_is_done = asyncio.Event()

    @tool(retry_config=OFF)
    async def quick() -> str:
        executions["quick"] += 1
        return "quick"

    @tool(retry_config=OFF)
    async def breaks() -> str:
        await quick_is_done.wait()
        attempted("breaks")
        return "mended"

    async def then_tell() -> str:
        found = await quick()
        quick_is_done.set()
        return found

    @agent(retry_config=RetryConfig(initial_delay=0, retry_on_exceptions=(LookupError,)))
    async def groups() -> list[str]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(then_tell()), group.create_task(breaks())]
        return [task.result() for task in tasks]

    failing[:] = [LookupError("one"), LookupError("two")]
    assert ["quick", "mended"] == client.run_sync(groups)
    assert Counter(quick=1, breaks=3) == executions


def test_a_result_that_does_not_hold_what_was_asked_of_it_is_tried_again_where_that_is_configured() -> None:
    @llm(postconditions=[lambda answer: answer.isdigit()], retry_config=AT_ONCE)
    async def number() -> str:
        executions["number"] += 1
        return "forty-two" if executions["number"] < 3 else "42"

    @agent
    async def asks() -> str:
        return await number()

    client = Limpet("memory://")
    assert "42" == client.run_sync(asks, state_id="asks")
    assert 3 == executions["number"]
    (name,) = client.history("asks").retry_statistics().errors_by_type
    assert name.endswith("ConditionFailed")


def test_plain_functions_are_retried_too(client: Limpet) -> None:
    @tool(retry_config=AT_ONCE)
    def plain() -> str:
        attempted("plain")
        return "plain"

    @agent
    def plainly() -> str:
        return plain.call()

    failing[:] = [ConnectionError("one"), ConnectionError("two")]
    assert "plain" == client.run_sync(plainly)
    assert 3 == executions["plain"]


def test_branches_are_retried_each_by_itself(client: Limpet) -> None:
    @tool(retry_config=RetryConfig(3, initial_delay=0.001))
    async def shaky(number: int) -> int:
        executions[str(number)] += 1
        if current_event().attempt <= number % 3:
            raise ConnectionError(number)
        return number

    @agent
    async def gathers() -> list[int]:
        return list(await asyncio.gather(*(shaky(number) for number in range(9))))

    assert list(range(9)) == client.run_sync(gathers, state_id="branches")
    assert {str(number): 1 + number % 3 for number in range(9)} == executions
    assert (6, 9) == (
        client.history("branches").retry_statistics().events_retried,
        client.history("branches").retry_statistics().retries,
    )


# What cannot be.


def test_what_is_declared_once_is_never_retried(waits: list[float]) -> None:
    @tool(once=True)
    async def charge() -> None:
        attempted("charge")

    @agent(retry_config=OFF)
    async def order() -> None:
        await charge()

    for client in (Limpet("memory://"), Limpet("memory://", default_retry_config=tries(5))):
        executions.clear()
        always(TimeoutError("slow"))
        with pytest.raises(TimeoutError, match="slow"):
            client.run_sync(order)
        assert 1 == executions["charge"]
    assert [] == waits


def charge() -> None: ...


@pytest.mark.parametrize(
    "declare",
    [
        lambda: tool(once=True, retry_config=tries(2))(charge),
        lambda: tool(once=True)(charge).options(retry_config=tries(2)),
        lambda: tool(retry_config=tries(2))(charge).options(once=True),
        lambda: Tool(name="charge", handler=charge, once=True, retry_config=tries(2)),
        lambda: ExecutionEvent(Tool(name="charge", handler=charge, once=True), retry_config=tries(2)),
    ],
)
def test_once_and_several_attempts_contradict_each_other(declare: Callable[[], object]) -> None:
    with pytest.raises(UsageError, match="'charge' is declared once, and is to be tried 2 times"):
        declare()


@pytest.mark.parametrize("config", [RetryConfig(max_attempts=1), RetryConfig(enabled=False)])
def test_once_and_one_attempt_do_not(config: RetryConfig) -> None:
    assert config is tool(once=True, retry_config=config)(charge).retry_config


@pytest.mark.parametrize(
    "values",
    [
        {"max_attempts": 0},
        {"max_attempts": -1},
        {"max_attempts": 2.5},
        {"max_attempts": True},
        {"initial_delay": -1},
        {"initial_delay": float("nan")},
        {"max_delay": float("inf")},
        {"max_delay": "60"},
        {"backoff_multiplier": 0},
        {"backoff_strategy": "quadratic"},
        {"retry_timeout": 0},
        {"retry_on_exceptions": "TimeoutError"},
        {"retry_on_exceptions": (int,)},
        {"exclude_exceptions": [TimeoutError()]},
        {"jitter": 1},
        {"enabled": "no"},
    ],
    ids=repr,
)
def test_a_value_without_a_meaning_is_refused(values: dict[str, Any]) -> None:
    (field,) = values
    with pytest.raises(UsageError, match=f"RetryConfig was given {field}="):
        RetryConfig(**values)


@pytest.mark.parametrize(
    "configure",
    [
        lambda wrong: tool(retry_config=wrong)(charge),
        lambda wrong: fetch.options(retry_config=wrong),
        lambda wrong: Tool(name="charge", handler=charge, retry_config=wrong),
        lambda wrong: ExecutionEvent(fetch, retry_config=wrong),
        lambda wrong: ExecutionState(default_retry_config=wrong),
        lambda wrong: ExecutionState(retry_config_by_actor_type={EventType.TOOL_CALL: wrong}),
        lambda wrong: Limpet("memory://", default_retry_config=wrong),
        lambda wrong: Limpet("memory://", retry_config_by_actor_type={EventType.TOOL_CALL: wrong}),
    ],
)
@pytest.mark.parametrize("wrong", [{"max_attempts": 3}, 3, RetryConfig])
def test_what_is_no_configuration_is_refused_at_every_level(configure: Callable[[Any], object], wrong: object) -> None:
    with pytest.raises(UsageError, match="Give a RetryConfig"):
        configure(wrong)


def test_a_type_of_actor_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match="'tools' is no type of actor"):
        ExecutionState(retry_config_by_actor_type={"tools": AT_ONCE})  # pyright: ignore[reportArgumentType]


def test_a_configuration_whose_errors_could_not_be_found_again_is_refused_before_anything_runs() -> None:
    class Local(Exception):
        pass

    config = RetryConfig(retry_on_exceptions=(Local,))
    with pytest.raises(UsageError, match="cannot be found again by its name"):
        ExecutionState(default_retry_config=config)
    with pytest.raises(UsageError, match="cannot be found again by its name"):
        Limpet("memory://", default_retry_config=config).run_sync(research, "kelp")
    assert Counter() == executions


# The other modes.


def test_validation_executes_what_was_retried_once_and_records_nothing(client: Limpet) -> None:
    client = Limpet(client.backend, retry_config_by_actor_type={EventType.TOOL_CALL: AT_ONCE})
    failing[:] = [ConnectionError("one"), ConnectionError("two")]
    client.run_sync(research, "kelp", state_id="valid")
    before = client.show("valid").header
    executions.clear()
    assert asyncio.run(client.validate("valid")).is_ok
    assert Counter(research=1, fetch=1) == executions
    always(ConnectionError("down"))
    report = asyncio.run(client.validate("valid"))
    assert [FETCH, "research::agent_call"] == [mismatch.address for mismatch in report.mismatches]
    assert Counter(research=2, fetch=2) == executions
    assert before == client.show("valid").header


def test_replay_and_rehearsal_give_the_result_of_the_last_attempt_without_executing(backend: StateBackend) -> None:
    async def handler(data: str, context: Any, state: ExecutionState) -> str:
        attempted("handler")
        return data

    flaky = Tool(name="flaky", handler=handler)
    failing[:] = [ConnectionError("one"), ConnectionError("two")]
    state = ExecutionState(state_backend=backend, state_id="modes", default_retry_config=AT_ONCE)
    asyncio.run(_result(flaky, state))
    state.save_checkpoint(StateStatus.PAUSED)
    assert 3 == executions["handler"]
    for mode in (ReplayMode.NORMAL, ReplayMode.REPUBLISH_ALL, ReplayMode.REHEARSAL):
        loaded = ExecutionState.load_from_state_id("modes", backend, replay_mode=mode)
        assert "kelp" == asyncio.run(_result(flaky, loaded))
    assert 3 == executions["handler"]


async def _result(actor: Tool, state: ExecutionState) -> Any:
    return (await ExecutionEvent(actor)("kelp", None, state)).result


def test_outside_a_run_nothing_is_tried_again() -> None:
    always(ConnectionError("down"))
    with pytest.raises(ConnectionError):
        asyncio.run(fetch.options(retry_config=AT_ONCE)("kelp"))
    assert 1 == executions["fetch"]
