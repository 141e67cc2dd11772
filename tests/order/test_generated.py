"""Generated order-dependent programs, stopped at generated writes and resumed with other timings, go on as they began.

500 of them, always the same; ``ORDER_EXAMPLES=5000`` makes as many others as are said (``make soak``).
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from order.checks import Ending, faults
from order.generated_program import (
    CALLING_KINDS,
    HAS_STORAGE,
    ORDERED_KINDS,
    SETTLED_KINDS,
    WRAPPING_KINDS,
    Part,
    can_be_rehearsed,
    program,
)
from order.in_process import Life, When
from order.loops import HERE, Loop

from limpet import MemoryStateBackend

_ASKED = os.environ.get("ORDER_EXAMPLES")
EXAMPLES = int(_ASKED or 500)

Stop = tuple[int | None, When]

calls = st.tuples(st.sampled_from([*CALLING_KINDS, *(["count"] * HAS_STORAGE)]), st.integers(0, 9)).map(list)


def side_by_side(inner: st.SearchStrategy[Part]) -> st.SearchStrategy[Part]:
    # What goes by an order comes up more often than what does not.
    kinds = st.sampled_from([*SETTLED_KINDS, *ORDERED_KINDS, *ORDERED_KINDS])
    return st.tuples(kinds, st.lists(inner, min_size=2, max_size=3)).map(list)


parts: st.SearchStrategy[Part] = side_by_side(
    st.recursive(
        calls,
        lambda inner: st.one_of(side_by_side(inner), st.tuples(st.sampled_from(WRAPPING_KINDS), inner).map(list)),
        max_leaves=5,
    )
)
stops: st.SearchStrategy[list[Stop]] = st.lists(
    st.tuples(st.integers(3, 16), st.sampled_from(["before", "after"])), min_size=1, max_size=3
)


@settings(max_examples=EXAMPLES, deadline=None, derandomize=not _ASKED, suppress_health_check=[HealthCheck.too_slow])
@given(part=parts, stops=stops, loop=st.sampled_from(HERE), seed=st.integers(0, 2**16))
@example(
    # The call that the group cancels is given in its place, before the step that nobody cancels.
    part=["breaking", [["step", 0], ["finished", [["step", 0], ["paid", 0]]]]],
    stops=[(3, "before")],
    loop=Loop.PLAIN,
    seed=1,
)
def test_a_generated_program_goes_on_as_it_had_begun(part: Part, stops: list[Stop], loop: Loop, seed: int) -> None:
    backend = MemoryStateBackend()
    life = Life(program, loop, lambda: backend, part)
    whole: Stop = (None, "before")
    for number, stop in enumerate([*stops, whole]):
        if life.run(seed + number, *stop).ending is not Ending.STOPPED:
            break
    if can_be_rehearsed(part):
        life.rehearse(seed + len(stops) + 1)
    assert [] == faults(life.processes, may_drop_effects=True)
