"""Generated programs that use the storage are stopped again and again, and go on as they had begun."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from typing import Any

from crash.generated_storage import Part, call, program, timing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet import ExecutionState, Limpet, MemoryStateBackend, ReplayMode, StateBackend, StorageRecord
from limpet.testing import CrashingBackend

KEYS = st.sampled_from(["a", "b", "c"])
SIMPLE = st.one_of(
    st.tuples(st.sampled_from(["read", "write", "delete", "artifact", "bump", "flaky"]), KEYS).map(list),
    st.just(["keys"]),
    st.just(["step"]),
)


def parts_with(kind: str) -> st.SearchStrategy[list[Part]]:
    return st.recursive(
        st.lists(SIMPLE, min_size=1, max_size=6),
        lambda inner: st.lists(
            st.one_of(
                SIMPLE,
                st.tuples(st.sampled_from(["nest", kind]), inner).map(list),
                st.tuples(st.sampled_from(["agents", "branches"]), st.lists(inner, min_size=2, max_size=3)).map(list),
            ),
            min_size=1,
            max_size=5,
        ),
        max_leaves=12,
    )


# Not both: an attempt that failed passes on the failures inside it, also those that were caught.
PARTS = parts_with("fail") | parts_with("again")


def run(parts: list[Part], backend: StateBackend) -> Any:
    return Limpet(backend, on_drift="error").run_sync(program, parts, state_id="x")


def run_until_stopped(parts: list[Part], backend: CrashingBackend) -> None:
    try:
        run(parts, backend)
    except BaseException:
        if not backend.is_stopped:
            raise
    gc.collect()


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(PARTS, st.integers(0, 2**32), st.lists(st.tuples(st.integers(2, 30), st.booleans()), min_size=1, max_size=4))
def test_code_that_is_replayed_reads_what_it_had_read(
    parts: list[Part], seed: int, stops: list[tuple[int, bool]]
) -> None:
    timing.seed(seed)
    backend = MemoryStateBackend()
    for stop_at, is_before in stops:
        when = "before" if is_before else "after"
        run_until_stopped(parts, CrashingBackend(backend, stop_at=stop_at, when=when))
    result = run(parts, backend)
    made = Counter(
        (record.place, record.is_artifact, record.key, record.number)
        for record in Limpet(backend).history("x")
        if isinstance(record, StorageRecord)
    )
    for (place, *_), count in made.items():
        assert count == (3 if "flaky" in place else 1), "every change is made once by each execution"
    if "again" not in str(parts):  # Code that asks for the number of its attempt is rehearsed as the first one.
        assert result == rehearsed(parts, backend)


def rehearsed(parts: list[Part], backend: StateBackend) -> Any:
    """What the code gives on recorded results alone, with nothing left to be read anew."""
    state = ExecutionState.load_from_state_id("x", backend, replay_mode=ReplayMode.REHEARSAL)
    return asyncio.run(call(program, parts, state))
