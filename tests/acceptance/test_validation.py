"""Validation: a stored run is executed again and compared with what is recorded, which is never touched."""

from __future__ import annotations

import asyncio
import math
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pydantic import BaseModel

from limpet import (
    AgentNotFound,
    Checked,
    DeterminismLevel,
    ExecutionEvent,
    ExecutionState,
    Limpet,
    MemoryStateBackend,
    NotChecked,
    Outcome,
    ReplayMode,
    StateBackend,
    StateStatus,
    Tool,
    UnknownState,
    UsageError,
    ValidationReport,
    agent,
    llm,
    tool,
)

executions: Counter[str] = Counter()
switch: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    switch.clear()


@dataclass
class Page:
    title: str
    words: list[str] = field(default_factory=list)


@dataclass
class Book:
    pages: list[Page]
    year: int = 1900


class Summary(BaseModel):
    text: str
    scores: dict[str, float]


def values() -> dict[str, Any]:
    frame = {"a": [1, 2, 3], "b": [0.5, math.nan, 1.5], "c": ["x", "y", None]}
    return {
        "nothing": None,
        "numbers": [1, 1.5, -0.0, math.nan, math.inf, True, 2**80],
        "texts": ("kelp", b"bytes", "☃"),
        "sets": {"kelp", "wrack", "dulse", "laver"},
        "frozen": frozenset({1, 2.5, "x"}),
        "dataclass": Book([Page("one", ["a"]), Page("two")]),
        "model": Summary(text="t", scores={"x": 0.1, "nan": math.nan}),
        "array": np.linspace(0, 1, 1000),
        "nan array": np.array([[1.0, math.nan]]),
        "pandas": pd.DataFrame(frame),
        "polars": pl.DataFrame(frame),
        "large": "kelp " * 50_000,
        "decimal": Decimal("1.10"),
        "when": datetime(2026, 1, 1, tzinfo=UTC),
    }


@tool
async def give(name: str) -> Any:
    executions[name] += 1
    return values()[name]


@agent
async def gives_all() -> dict[str, Any]:
    return {name: await give(name) for name in values()}


@tool
async def read_book(year: int) -> Book:
    executions["read"] += 1
    return Book([Page("one"), Page(switch.get("title", "two"))], year)


@tool
async def count(book: Book) -> int:
    executions["count"] += 1
    return len(book.pages) + switch.get("off", 0)


@agent
async def reads() -> list[Any]:
    book = await read_book(1900)
    return [book, await count(book)]


def validated(client: Limpet, state_id: str, **options: Any) -> ValidationReport:
    report = asyncio.run(client.validate(state_id, **options))[state_id]
    assert isinstance(report, ValidationReport)
    return report


def test_a_deterministic_pipeline_of_all_kinds_of_results_reports_nothing(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(gives_all, state_id="x")
    report = validated(client, "x")
    assert report.is_ok, str(report)
    assert ([], [], []) == (report.mismatches, report.missing, report.extra)
    assert [*(a for a in client.history("x").addresses()[1:]), "gives_all::agent_call"] == report.matched
    assert {2} == set(executions.values())


def test_a_different_answer_is_reported_with_its_address_and_place(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(reads, state_id="x")
    switch["title"] = "other"
    checked = asyncio.run(client.validate("x"))
    first = checked.mismatches[0]
    assert ("reads::read_book::tool_call", "x") == (first.address, first.state_id)
    assert ["result.pages[1].title: 'two' -> 'other'"] == [str(each) for each in first.differences]
    assert (Book([Page("one"), Page("two")]), Book([Page("one"), Page("other")])) == (first.recorded, first.actual)
    # What it was given for is told as another input, and the whole as another result.
    assert [
        ("reads::read_book::tool_call", ["result.pages[1].title"]),
        ("reads::count::tool_call", ["input[0].pages[1].title"]),
        ("reads::agent_call", ["result[0].pages[1].title"]),
    ] == [(each.address, [one.place for one in each.differences]) for each in checked.mismatches]
    assert 1 == checked.exit_code


def test_the_journal_is_never_touched(backend: StateBackend) -> None:
    client = Limpet(backend)
    client.run_sync(reads, state_id="x")
    before = backend.read("x"), backend.find_state("x"), [state.state_id for state in client.list_states()]
    artifacts = client.artifacts
    assert artifacts is not None
    stored = artifacts.list_artifacts()
    for title in ("two", "other"):
        switch["title"] = title
        validated(client, "x")
        assert before == (
            backend.read("x"),
            backend.find_state("x"),
            [state.state_id for state in client.list_states()],
        )
        assert stored == artifacts.list_artifacts()


def test_a_large_result_that_differs_and_is_handed_on_is_told_and_not_stored(backend: StateBackend) -> None:
    client = Limpet(backend)
    switch["title"] = "kelp " * 20_000
    client.run_sync(reads, state_id="x")
    assert validated(client, "x").is_ok
    artifacts = client.artifacts
    assert artifacts is not None
    stored = artifacts.list_artifacts()
    for title in ("kelp " * 20_001, "small"):
        switch["title"] = title
        report = validated(client, "x")
        assert ["result.pages[1].title", "input[0].pages[1].title", "result[0].pages[1].title"] == [
            mismatch.differences[0].place.partition(" ")[0] for mismatch in report.mismatches
        ]
        assert stored == artifacts.list_artifacts()


def test_a_run_that_is_held_by_another_can_be_validated(backend: StateBackend) -> None:
    client = Limpet(backend)

    @agent
    async def validates_itself() -> list[int]:
        found = [await count(Book([]))]
        if not switch.get("inside"):
            switch["inside"] = True
            switch["report"] = (await client.validate("x", agent=validates_itself))["x"]
        return [*found, await count(Book([]))]

    client.run_sync(validates_itself, state_id="x")
    assert ["validates_itself::count::tool_call"] == switch["report"].matched
    assert ["validates_itself::count#2::tool_call"] == switch["report"].extra


def test_a_call_that_is_no_longer_made_is_missing_and_a_new_one_extra() -> None:
    client = Limpet(MemoryStateBackend())

    @agent
    async def changes() -> list[int]:
        found = [await count(Book([]))]
        if switch.get("old", True):
            found.append(await count.options(key="old")(Book([])))
        else:
            found.append(await count.options(key="new")(Book([])))
        return found

    client.run_sync(changes, state_id="x")
    switch["old"] = False
    report = validated(client, "x", agent=changes)
    assert ["changes::count[old]::tool_call"] == report.missing
    assert ["changes::count[new]::tool_call"] == report.extra
    assert ["changes::count::tool_call", "changes::agent_call"] == report.matched
    assert not report.is_ok
    assert [
        ("changes::count::tool_call", Outcome.MATCHED),
        ("changes::count[new]::tool_call", Outcome.EXTRA),
        ("changes::agent_call", Outcome.MATCHED),
    ] == report.entries
    assert [
        "✗ x: 2 matched, 1 missing, 1 extra",
        "    - changes::count[old]::tool_call was not executed",
        "    + changes::count[new]::tool_call is not recorded",
    ] == str(report).splitlines()


def fails_with(message: str) -> Any:
    switch["message"] = message

    @tool
    async def fails() -> int:
        if switch["message"] is None:
            return 1
        raise LookupError(switch["message"])

    @agent
    async def catches() -> str:
        try:
            await fails()
        except LookupError:
            pass
        except ValueError:
            pass
        return "went on"

    return catches


def test_failures_are_compared() -> None:
    client = Limpet(MemoryStateBackend())
    catches = fails_with("gone")
    client.run_sync(catches, state_id="x")
    assert validated(client, "x", agent=catches).is_ok
    switch["message"] = "elsewhere"
    (mismatch,) = validated(client, "x", agent=catches).mismatches
    assert ["error: gone -> elsewhere"] == [str(each) for each in mismatch.differences]
    switch["message"] = None
    (mismatch,) = validated(client, "x", agent=catches).mismatches
    assert "outcome: LookupError: gone -> a result" == str(mismatch.differences[0])


def test_a_result_that_became_a_failure_is_told_and_the_validation_ends_well() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(reads, state_id="x")

    def broken(book: Book) -> int:
        raise OSError("disk")

    original, count.function, count.is_plain = count.function, broken, True
    try:
        report = validated(client, "x")
    finally:
        count.function, count.is_plain = original, False
    assert ["reads::count::tool_call", "reads::agent_call"] == [each.address for each in report.mismatches]
    assert "outcome: a result -> OSError: disk" == str(report.mismatches[0].differences[0])


def measured(**options: Any) -> Any:
    @tool(**options)
    async def measure() -> Any:
        return switch["value"]

    @agent
    async def measures() -> Any:
        return await measure()

    return measures


def mismatches(first: Any, second: Any, **options: Any) -> list[str]:
    client = Limpet(MemoryStateBackend())
    measures = measured(**options)
    switch["value"] = first
    client.run_sync(measures, state_id="x")
    switch["value"] = second
    return [str(each.differences[0]) for each in validated(client, "x", agent=measures).mismatches]


def test_approximate_numbers_may_be_apart_by_the_tolerance() -> None:
    level = DeterminismLevel.APPROXIMATE
    assert [] == mismatches(1.0, 1.0 + 1e-9, determinism=level)
    assert [] == mismatches({"a": [100.0]}, {"a": [100.9]}, determinism=level, tolerance=0.01)
    assert [] == mismatches(np.array([1.0, 2.0]), np.array([1.0, 2.01]), tolerance=0.01)
    assert [] == mismatches(
        Summary(text="t", scores={"a": 1.0}), Summary(text="t", scores={"a": 1.001}), tolerance=0.01
    )
    assert "result: 1.0 -> 1.1" == mismatches(1.0, 1.1, determinism=level)[0]
    assert "result['a'][0]: 100.0 -> 102.0" == mismatches({"a": [100.0]}, {"a": [102.0]}, tolerance=0.01)[0]
    assert "result: 'kelp' -> 'wrack'" == mismatches("kelp", "wrack", determinism=level, tolerance=0.5)[0]


def test_an_approximate_actor_can_compare_by_itself() -> None:
    def same_words(recorded: str, actual: str) -> bool:
        return set(recorded.split()) == set(actual.split())

    assert [] == mismatches("kelp and wrack", "wrack and kelp", compare=same_words)
    assert [] == mismatches(
        "kelp and wrack", "wrack and kelp", compare=same_words, determinism=DeterminismLevel.APPROXIMATE
    )
    assert mismatches("kelp and wrack", "kelp or wrack", compare=same_words)


def test_of_what_never_answers_alike_only_type_and_shape_count() -> None:
    level = DeterminismLevel.NON_DETERMINISTIC
    assert [] == mismatches("one answer", "quite another", determinism=level)
    assert [] == mismatches(Summary(text="a", scores={}), Summary(text="b", scores={}), determinism=level)
    assert [] == mismatches([Page("a")], [Page("b"), Page("c")], determinism=level)
    assert [] == mismatches({"a": 1}, {"a": 2}, determinism=level)
    assert mismatches("text", 5, determinism=level)
    assert mismatches({"a": 1}, {"b": 1}, determinism=level)
    assert mismatches({"a": 1}, {"a": "x"}, determinism=level)
    assert mismatches(np.zeros(3), np.zeros(4), determinism=level)


def test_a_level_can_be_set_for_one_call() -> None:
    client = Limpet(MemoryStateBackend())

    @tool
    async def roll() -> float:
        return random.SystemRandom().random()

    @agent
    async def rolls() -> float:
        return await roll.options(determinism=DeterminismLevel.NON_DETERMINISTIC)()

    client.run_sync(rolls, state_id="x")
    assert validated(client, "x", agent=rolls).is_ok


def test_what_is_made_of_a_varying_result_is_not_reported() -> None:
    client = Limpet(MemoryStateBackend())

    @llm(determinism=DeterminismLevel.NON_DETERMINISTIC)
    async def model(prompt: str) -> str:
        executions["model"] += 1
        return f"answer {executions['model']}"

    @tool
    async def shout(text: str) -> str:
        return text.upper()

    @agent
    async def inner(text: str) -> str:
        return await shout(text)

    @agent
    async def talks() -> list[str]:
        before = await shout("before")
        answer = await model("question")
        return [before, await shout(answer), await inner(answer), await shout("fixed") + str(switch.get("off", ""))]

    client.run_sync(talks, state_id="x")
    report = validated(client, "x", agent=talks)
    assert report.is_ok, str(report)


def test_what_does_not_depend_on_a_varying_result_is_still_held_to_it() -> None:
    client = Limpet(MemoryStateBackend())

    @tool(determinism=DeterminismLevel.NON_DETERMINISTIC)
    async def roll() -> float:
        return random.SystemRandom().random()

    @agent
    async def rolls() -> list[Any]:
        return [await roll(), await count(Book([]))]

    client.run_sync(rolls, state_id="x")
    switch["off"] = 1
    assert ["rolls::count::tool_call"] == [each.address for each in validated(client, "x", agent=rolls).mismatches]


def test_unfinished_and_failed_runs_are_validated_as_far_as_they_went() -> None:
    client = Limpet(MemoryStateBackend())

    @agent
    async def stops() -> list[int]:
        found = [await count(Book([])), await count(Book([]))]
        if switch.get("stop", True):
            raise OSError("full")
        return found

    with pytest.raises(OSError, match="full"):
        client.run_sync(stops, state_id="x")
    assert validated(client, "x", agent=stops).is_ok
    switch["stop"] = False
    (mismatch,) = validated(client, "x", agent=stops).mismatches
    assert ("stops::agent_call", "outcome: OSError: full -> a result") == (
        mismatch.address,
        str(mismatch.differences[0]),
    )


def test_concurrent_runs_validate_well() -> None:
    client = Limpet(MemoryStateBackend())

    @agent
    async def spreads() -> list[Any]:
        async def chain(name: str) -> list[Any]:
            return [await give(name), await give("numbers")]

        return list(await asyncio.gather(chain("texts"), chain("sets"), give("model")))

    client.run_sync(spreads, state_id="x")
    for _ in range(3):
        report = validated(client, "x", agent=spreads)
        assert report.is_ok, str(report)


def test_only_the_current_timeline_is_compared() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(reads, state_id="x")
    switch["title"] = "new"
    asyncio.run(client.rerun("x"))
    assert validated(client, "x").is_ok
    fork = client.fork("x", "count")
    asyncio.run(client.resume(fork))
    assert validated(client, fork).is_ok


class Adds(Tool):
    def __init__(self) -> None:
        super().__init__(name="adds")

    async def handler(self, data: int, context: Any, state: ExecutionState) -> int:
        executions["adds"] += 1
        return data + 1 + switch.get("off", 0)


def test_the_explicit_form_reports_on_the_state(backend: StateBackend) -> None:
    async def adds(state: ExecutionState, *numbers: int) -> list[int]:
        return [(await ExecutionEvent(Adds())(number, None, state)).result for number in numbers]

    made = ExecutionState(state_backend=backend, state_id="x")
    assert made.validation is None
    asyncio.run(adds(made, 1, 2, 3))
    made.save_checkpoint(StateStatus.PAUSED)
    before = backend.read("x"), backend.find_state("x")

    def validating() -> ExecutionState:
        return ExecutionState.load_from_state_id("x", backend, replay_mode=ReplayMode.VALIDATION)

    state = validating()
    asyncio.run(adds(state, 1, 2))
    assert state.validation is not None
    assert ["adds::tool_call", "adds#2::tool_call"] == state.validation.matched
    assert ["adds#3::tool_call"] == state.validation.missing
    switch["off"] = 10
    state = validating()
    assert [12, 13, 14] == asyncio.run(adds(state, 1, 2, 3))
    assert state.validation is not None
    assert (1, 3) == (state.validation.exit_code, len(state.validation.mismatches))
    assert [
        "✗ x: 0 matched, 3 mismatched",
        "    ≠ adds::tool_call",
        "        result: 2 -> 12",
    ] == str(state.validation).splitlines()[:3]
    assert before == (backend.read("x"), backend.find_state("x"))


def test_a_report_prints_well_and_has_an_exit_code() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(reads, state_id="x")
    assert (0, "✓ x: 3 matched") == ((report := validated(client, "x")).exit_code, str(report))
    switch["off"] = 5
    assert 1 == (report := validated(client, "x")).exit_code
    assert [
        "✗ x: 1 matched, 2 mismatched",
        "    ≠ reads::count::tool_call",
        "        result: 2 -> 7",
        "    ≠ reads::agent_call",
        "        result[1]: 2 -> 7",
    ] == str(report).splitlines()


def test_many_states_are_validated_with_progress_and_a_summary() -> None:
    client = Limpet(MemoryStateBackend())
    for number in range(3):
        client.run_sync(reads, state_id=f"x{number}")
    told: list[tuple[int, int, str]] = []
    checked = asyncio.run(client.validate(on_progress=lambda *progress: told.append(progress)))
    assert isinstance(checked, Checked)
    assert [(1, 3, "x2"), (2, 3, "x1"), (3, 3, "x0")] == told
    assert (True, 0, []) == (checked.is_ok, checked.exit_code, checked.failed)
    assert "3 states validated: 3 went through, 0 did not." == str(checked)
    switch["off"] = 1
    checked = asyncio.run(client.validate(["x0", *client.list_states(limit=1)]))
    assert (1, ["x0", "x2"]) == (checked.exit_code, checked.failed)
    assert {"x0", "x2"} == {mismatch.state_id for mismatch in checked.mismatches}
    assert "2 states validated: 0 went through, 2 did not." == str(checked).splitlines()[-1]


def explicit(backend: StateBackend, state_id: str) -> None:
    state = ExecutionState(state_backend=backend, state_id=state_id)
    asyncio.run(ExecutionEvent(Adds())(1, None, state))
    state.save_checkpoint(StateStatus.PAUSED)


def test_a_state_of_the_explicit_form_cannot_be_validated_from_outside(backend: StateBackend) -> None:
    client = Limpet(backend)
    explicit(backend, "explicit")
    only_storage = ExecutionState(state_backend=backend, state_id="only-storage")
    only_storage.storage.set("a", 1)
    only_storage.save_checkpoint(StateStatus.PAUSED)
    client.run_sync(reads, state_id="run")
    for state_id in ("explicit", "only-storage"):
        with pytest.raises(UsageError, match="explicit form"):
            asyncio.run(client.validate(state_id))
    checked = asyncio.run(client.validate())
    assert isinstance(checked["explicit"], NotChecked)
    assert isinstance(checked["only-storage"], NotChecked)
    assert isinstance(checked["run"], ValidationReport)
    assert (1, {"explicit", "only-storage"}) == (checked.exit_code, set(checked.failed))
    assert "? explicit: State 'explicit' was made in the explicit form" in str(checked)


def test_a_state_whose_agent_is_not_found_is_told(backend: StateBackend) -> None:
    client = Limpet(backend)

    def leave_behind() -> None:
        @agent
        async def forgotten() -> int:
            return 1

        client.run_sync(forgotten, state_id="x")

    leave_behind()
    client.run_sync(reads, state_id="y")
    with pytest.raises(AgentNotFound, match="forgotten"):
        asyncio.run(client.validate("x"))
    checked = asyncio.run(client.validate(["x", "y"]))
    assert isinstance(checked["x"], NotChecked)
    assert ["x"] == checked.failed
    with pytest.raises(UnknownState):
        asyncio.run(client.validate("z"))


def test_only_the_two_modes_that_record_nothing_check_states() -> None:
    client = Limpet(MemoryStateBackend())
    with pytest.raises(UsageError, match="normal"):
        asyncio.run(client.validate([], mode=ReplayMode.NORMAL))
    assert asyncio.run(client.validate([])).is_ok


def test_a_call_that_code_leaves_behind_does_not_hold_a_validation_up() -> None:
    """It has been recorded, and now goes on when its agent has ended: it has no place in the order any more."""
    is_hasty = False

    @tool
    async def work() -> str:
        if is_hasty:
            await asyncio.Event().wait()
        return "done"

    @agent
    async def leaves() -> str:
        working = asyncio.create_task(work())
        await (asyncio.sleep(0) if is_hasty else asyncio.wait([working]))
        return "left"

    client = Limpet("memory://")
    client.run_sync(leaves, state_id="leaves")
    is_hasty = True

    async def main() -> Checked:
        return await asyncio.wait_for(client.validate("leaves", agent=leaves), 5)

    report = asyncio.run(main())["leaves"]
    assert isinstance(report, ValidationReport)
    assert [] == report.mismatches
