"""Generated programs, stopped at generated places and taken up again with other timings, end as if never stopped."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.generated_program import Part, executions, program, timing
from crash.stores import KINDS, opener
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet import (
    EventRecord,
    ExecutionStatus,
    Limpet,
    MemoryStateBackend,
    StateBackend,
)
from limpet.codec import values
from limpet.testing import CrashingBackend

steps = st.builds(lambda number: ["step", number], st.integers(-5, 5))
parts: st.SearchStrategy[Part] = st.recursive(
    steps,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["seq", "gather", "group", "tasks"]), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("loop"), st.integers(1, 3), inner),
        st.tuples(st.sampled_from(["nest", "fail"]), inner),
    ).map(list),
    max_leaves=8,
)
stops = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(["before", "after"]), st.integers(0, 1000)), min_size=1, max_size=4
)


def run(backend: StateBackend, part: Part, seed: int) -> Any:
    timing.seed(seed)
    return Limpet(backend).run_sync(program, part, state_id="generated")


def addresses(backend: StateBackend) -> list[str]:
    return sorted(Limpet(backend).history("generated").addresses())


def recorded(backend: StateBackend) -> set[str]:
    """Where in the program a step stands whose result is in the store."""
    if backend.find_state("generated") is None:
        return set()
    return {
        values.decode(record.input)[1]
        for record in Limpet(backend).history("generated")
        if isinstance(record, EventRecord)
        and record.status is ExecutionStatus.COMPLETED
        and record.address.endswith("tool_call")
        and record.input is not None
    }


def check(open_store: Callable[[], StateBackend], part: Part, places: list[tuple[int, Any, int]]) -> None:
    undisturbed = MemoryStateBackend()
    expected = run(undisturbed, part, seed=0)
    for stop_at, when, seed in places:
        known = recorded(open_store())
        executions.clear()
        crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
        try:
            assert expected == run(crashing, part, seed)
        except BaseException:
            if not crashing.is_stopped:
                raise
        assert set() == known & set(executions), "a recorded step was executed again"
    gc.collect()
    known = recorded(open_store())
    executions.clear()
    assert expected == run(open_store(), part, seed=1)
    assert set() == known & set(executions), "a recorded step was executed again"
    assert addresses(undisturbed) == addresses(open_store())


@settings(max_examples=300, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(part=parts, places=stops)
def test_a_generated_program_ends_the_same_however_often_it_is_stopped(
    part: Part, places: list[tuple[int, Any, int]]
) -> None:
    backend = MemoryStateBackend()
    check(lambda: backend, part, places)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "memory"])
def test_a_generated_program_ends_the_same_on_disk(kind: str) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(part=parts, places=stops)
    def each(part: Part, places: list[tuple[int, Any, int]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check(opener(kind, Path(folder) / "store"), part, places)

    each()
