"""A program with effects that must not be repeated is stopped at every write, and so are settling and rolling back.

Whenever a run says that it does not know what became of a call, it is told the truth, which stands outside the store.
So in the end every effect has happened exactly once, and what is undone once only was undone once.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from crash.effects_program import ONCE, UNDONE_ONCE, done, effects, result_of, undone
from crash.stores import KINDS, Open, opener
from crash.sweeping import When, places

from limpet import (
    EventRecord,
    ExecutionStatus,
    InterruptReason,
    InterruptSignal,
    Limpet,
    MemoryStateBackend,
    StateBackend,
    StateStatus,
)
from limpet.codec import values
from limpet.errors import ExecutionInterrupted, OutcomeUnknown, RolledBack, UsageError
from limpet.testing import CrashingBackend

Work = Callable[[StateBackend], Any]

MOST_S = 20.0
"""A run that takes longer hangs."""


def run(backend: StateBackend, *, is_to_fail: bool = False, **options: Any) -> Any:
    async def until_it_hangs() -> Any:
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(MOST_S):
                return await Limpet(backend).run(effects, is_to_fail, state_id="swept", **options)
        finally:
            assert asyncio.get_running_loop().time() - began < MOST_S, "it hangs"

    return asyncio.run(until_it_hangs())


def driven(backend: StateBackend) -> Any:
    """What the run gives when it is told, as often as it asks, what became of its calls."""
    while True:
        try:
            return run(backend)
        except OutcomeUnknown as unknown:
            header = Limpet(backend).show("swept").header
            assert StateStatus.AWAITING is header.status
            assert InterruptReason.UNKNOWN_OUTCOME == header.metadata.stopped["reason"]
            tell_the_truth(backend, unknown.address)


def failing(backend: StateBackend) -> None:
    with pytest.raises(RuntimeError, match="in vain"):
        run(backend, is_to_fail=True)


def tell_the_truth(backend: StateBackend, address: str) -> None:
    client = Limpet(backend)
    record = client.history("swept")[address]
    assert record.input is not None
    name = values.decode(record.input)[0] if "rollback" not in address else undone_by(record)
    if "rollback" in address:
        word: dict[str, Any] = {"happened": "so it was"} if name in undone else {"again": True}
    elif name == "refused" and done[name]:
        word = {"failed": "it was refused"}
    else:
        word = {"happened": result_of(name)} if done[name] else {"again": True}
    assert address == client.settle("swept", address, **word, by="the test")


def undone_by(record: EventRecord) -> str:
    """The name of the call that a call of ``refund`` undoes."""
    assert record.input is not None
    given = values.decode(record.input)
    return str(given["args"][0] if isinstance(given, dict) else given[0])


def rolled_back(backend: StateBackend) -> list[str]:
    """What rolling back gives when it is told, as often as it asks, what became of a call."""
    while True:
        try:
            return asyncio.run(Limpet(backend).roll_back("swept"))
        except OutcomeUnknown as unknown:
            tell_the_truth(backend, unknown.address)


def is_stopped_in(crashing: CrashingBackend, work: Work) -> bool:
    try:
        work(crashing)
    except BaseException:
        if not crashing.is_stopped:
            raise
    gc.collect()
    return crashing.is_stopped


def to_do_again(open_store: Open) -> set[str]:
    """The calls that are not declared once, and whose result is not recorded."""
    ordinary = {"room", "g3.0", "g5.room"}
    if open_store().find_state("swept") is None:
        return ordinary
    return ordinary - {
        values.decode(record.input)[0]
        for record in Limpet(open_store()).history("swept")
        if isinstance(record, EventRecord)
        and record.status is ExecutionStatus.COMPLETED
        and "reserve" in record.address
        and record.input is not None
    }


@pytest.fixture(scope="module")
def expected() -> Any:
    forget()
    result = run(MemoryStateBackend())
    assert {1} == set(done.values())
    assert set() == ONCE - set(done)
    return result


def forget() -> None:
    done.clear()
    undone.clear()


def require_each_once(open_store: Open, again: set[str], crashes: int = 1) -> None:
    assert dict.fromkeys(ONCE, 1) == {name: done[name] for name in ONCE}
    assert set() == {name for name, count in done.items() if count > 1} - again, "a recorded result ran again"
    assert max(done.values()) <= 1 + crashes
    assert StateStatus.COMPLETED is Limpet(open_store()).show("swept").header.status


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_effects_of_a_run_stopped_at_any_write_happen_once(
    kind: str, when: When, tmp_path: Path, expected: Any
) -> None:
    writes = places(kind, when)
    stop_at, is_stopped = 0, True
    while is_stopped:
        stop_at = next(writes)
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        forget()
        is_stopped = is_stopped_in(CrashingBackend(open_store(), stop_at=stop_at, when=when), driven)
        again = to_do_again(open_store)
        assert expected == driven(open_store())
        require_each_once(open_store, again)
    assert stop_at > 15


@pytest.mark.parametrize("kind", ["memory", "files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_settling_is_stopped_at_any_write_and_no_word_is_taken_twice(
    kind: str, when: When, tmp_path: Path, expected: Any
) -> None:
    """The second process takes over, says that it does not know, is told, and goes on. All of that is swept."""
    numbers = itertools.count()
    # Not every combination, and on a disk fewer still. What is cut off first differs with ``when``.
    stop_at, is_stopped = 2 if when == "before" else 3, True
    while is_stopped:
        for second in range(1, 13, 1 if kind == "memory" else 3):
            open_store = opener(kind, tmp_path / f"store-{next(numbers)}")
            forget()
            is_stopped = is_stopped_in(CrashingBackend(open_store(), stop_at=stop_at, when=when), driven)
            again = to_do_again(open_store)
            is_stopped_twice = is_stopped_in(CrashingBackend(open_store(), stop_at=second, when=when), driven)
            assert expected == driven(open_store())
            require_each_once(open_store, again, crashes=2)
            if not is_stopped_twice:
                break
        stop_at += 2 if kind == "memory" else 5


@pytest.mark.parametrize("kind", KINDS)
def test_effects_of_a_run_stopped_again_and_again_happen_once(kind: str, tmp_path: Path, expected: Any) -> None:
    open_store = opener(kind, tmp_path / "store")
    forget()
    chance = random.Random("kelp")
    crashes = 0
    # In a fixed order a word that a call is executed again could always be followed by a stop before it is.
    while is_stopped_in(CrashingBackend(open_store(), stop_at=chance.randint(3, 9), when="after"), driven):
        crashes += 1
        assert crashes < 200, "it makes no progress"
    assert crashes > 10
    assert expected == run(open_store())
    require_each_once(open_store, {"room", "g3.0", "g5.room"}, crashes)


@pytest.mark.parametrize("is_graceful", [True, False])
def test_an_interrupt_leaves_no_effect_to_be_repeated(is_graceful: bool, expected: Any) -> None:
    signal = InterruptSignal("test", is_graceful=is_graceful)
    number, is_interrupted = 0, True
    while is_interrupted:
        number += 1
        open_store = opener("memory", Path())
        forget()
        asked = itertools.count(1)
        try:
            run(open_store(), interrupt_checker=lambda n=number, asked=asked: n == next(asked) and signal)
            is_interrupted = False
        except ExecutionInterrupted:
            assert StateStatus.INTERRUPTED is Limpet(open_store()).show("swept").header.status
        again = to_do_again(open_store)
        assert expected == driven(open_store())
        require_each_once(open_store, again)
    assert number > 10


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rollback_stopped_at_any_write_undoes_everything_and_nothing_twice(
    kind: str, when: When, tmp_path: Path
) -> None:
    writes = places(kind, when)
    stop_at, is_stopped = 0, True
    while is_stopped:
        stop_at = next(writes)
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        forget()
        failing(open_store())
        is_stopped = is_stopped_in(CrashingBackend(open_store(), stop_at=stop_at, when=when), rolled_back)
        before = undone_on_record(open_store)
        so_far = len(undone)
        addresses = rolled_back(open_store())
        assert 6 == len(addresses) == len(set(addresses))
        assert set() == before & set(undone[so_far:]), "what is undone was undone again"
        require_undone(open_store, {"room", "g3.0", "g5.room", *UNDONE_ONCE})
        if kind == "memory" or not is_stopped:
            require_over(open_store)
    assert stop_at > 10


def undone_on_record(open_store: Open) -> set[str]:
    return {
        undone_by(record)
        for record in Limpet(open_store()).history("swept")
        if isinstance(record, EventRecord)
        and record.status is ExecutionStatus.COMPLETED
        and record.address.startswith("rollback")
        and record.address.endswith("tool_call")
    }


def require_undone(open_store: Open, names: set[str]) -> None:
    """Exactly these were undone, from the newest to the oldest."""
    counts = Counter(undone)
    assert names == set(counts)
    assert set() == {name for name in UNDONE_ONCE if counts[name] > 1}
    assert max(counts.values(), default=0) <= 2, "what was in flight is undone at most once more"
    order = list(dict.fromkeys(undone))
    executed = [name for name in ("room", "deposit", "book") if name in order]
    assert executed == [name for name in reversed(order) if name in executed], "the newest first"
    assert StateStatus.FAILED is Limpet(open_store()).show("swept").header.status


def require_over(open_store: Open) -> None:
    """Nothing is undone or run any more."""
    before = list(undone)
    rolled_back(open_store())
    assert before == undone
    with pytest.raises(RolledBack):
        run(open_store(), is_to_fail=True)


@pytest.mark.parametrize("kind", ["memory", "files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_was_stopped_at_any_write_can_be_rolled_back(kind: str, when: When, tmp_path: Path) -> None:
    """Also what a person, or a probe, has said to have happened is undone."""
    stop_at = 1
    while True:
        stop_at += 1
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        forget()
        if not is_stopped_in(CrashingBackend(open_store(), stop_at=stop_at, when=when), failing):
            break
        rolled_back(open_store())
        # Of what is not declared once only what is recorded is known to have happened.
        unknown = to_do_again(open_store)
        happened = {name for name in ("room", "g3.0", "g5.room", *UNDONE_ONCE) if done[name]} - unknown
        require_undone(open_store, happened)
    assert stop_at > 15


def test_what_nobody_asks_is_not_answered() -> None:
    backend = MemoryStateBackend()
    run(backend)
    with pytest.raises(UsageError):
        Limpet(backend).settle("swept", again=True)
