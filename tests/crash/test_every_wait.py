"""Runs that wait are stopped at every write, told what they wait for in every order, and taken up by new processes."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from acceptance.turned_clock import Turned, turned_clock
from crash import waiting_program
from crash.stores import KINDS, Open, opener
from crash.sweeping import When, places
from crash.waiting_program import EXPECTED, SAY, STATE, waiting

from limpet import Awaiting, Limpet, StateBackend
from limpet.testing import CrashingBackend, SimulatedCrash

ORDERS = list(itertools.permutations(["left", "right", "news", "time"]))

executions: Counter[str] = Counter()


@pytest.fixture
def clock() -> Iterator[Turned]:
    executions.clear()
    waiting_program.note = lambda name: executions.update([name])
    with turned_clock() as clock:
        yield clock


def go_on(backend: StateBackend) -> Any:
    """The result, or None where the run waits."""
    try:
        return Limpet(backend).run_sync(waiting, state_id=STATE)
    except Awaiting:
        return None


def tell(backend: StateBackend, what: str, clock: Turned) -> None:
    if what == "time":
        clock.turn(3600)
    else:
        SAY[what](Limpet(backend))


def require_all_done(found: Any) -> None:
    assert EXPECTED == found
    assert {"begun", *EXPECTED} == set(executions)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_waited_for_may_come_in_any_order(kind: str, tmp_path: Path, clock: Turned) -> None:
    for number, order in enumerate(ORDERS if kind in ("memory", "normal", "files") else ORDERS[:3]):
        executions.clear()
        open_store = opener(kind, tmp_path / f"store-{number}")
        assert go_on(open_store()) is None
        for what in order[:-1]:
            tell(open_store(), what, clock)
            assert go_on(open_store()) is None
        tell(open_store(), order[-1], clock)
        require_all_done(go_on(open_store()))
        assert {1} == set(executions.values())
        assert [] == Limpet(open_store()).questions()


@pytest.mark.parametrize("kind", KINDS)
def test_it_may_come_all_at_once(kind: str, tmp_path: Path, clock: Turned) -> None:
    open_store = opener(kind, tmp_path / "store")
    assert go_on(open_store()) is None
    for what in ORDERS[0]:
        tell(open_store(), what, clock)
    require_all_done(go_on(open_store()))
    assert {1} == set(executions.values())


def run_stopped_at(
    stop_at: int, when: When, order: tuple[str, ...], open_store: Open, clock: Turned, *, is_held_back: bool = False
) -> bool:
    """A run that is told what it waits for, stopped at one write of it or of those who tell it; False: there is none.

    Whoever was stopped does again what they were doing; with a policy that holds records back, also what was held.
    """
    crashing = CrashingBackend(open_store(), stop_at=stop_at, when=when)
    found = None
    for what in (None, *order):
        for _ in range(2):
            backend = open_store() if crashing.is_stopped else crashing
            try:
                if what is not None:
                    tell(backend, what, clock)
                found = go_on(backend)
                break
            except SimulatedCrash:
                gc.collect()
    require_all_done(found)
    assert max(executions.values()) <= (2 if crashing.is_stopped else 1), "what was in flight runs at most once more"
    assert is_held_back or sum(executions.values()) <= len(executions) + crashing.is_stopped
    assert go_on(open_store()) == found
    return crashing.is_stopped


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_waits_and_is_stopped_at_any_write_ends_as_the_undisturbed_one(
    kind: str, when: When, tmp_path: Path, clock: Turned
) -> None:
    for number, stop_at in enumerate(places(kind, when)):
        executions.clear()
        # In another order each time, so that the sweep meets them all.
        order = ORDERS[number % len(ORDERS)]
        if not run_stopped_at(stop_at, when, order, opener(kind, tmp_path / f"store-{stop_at}"), clock):
            assert stop_at > 15
            return


@pytest.mark.parametrize("kind", ["memory", "normal", "files"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_that_waits_is_saved_where_it_does_whatever_the_policy(
    kind: str, when: When, tmp_path: Path, clock: Turned, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIMPET_CHECKPOINT__FREQUENCY", "manual")
    for number, stop_at in enumerate(places(kind, when)):
        executions.clear()
        order = ORDERS[number % len(ORDERS)]
        open_store = opener(kind, tmp_path / f"store-{stop_at}")
        if not run_stopped_at(stop_at, when, order, open_store, clock, is_held_back=True):
            assert stop_at > 10
            return


def process(store: str, log: Path) -> str:
    command = [sys.executable, waiting_program.__file__, store, str(log)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("url", ["sqlite:///{}/runs.db", "file://{}/store"])
@pytest.mark.parametrize("order", list(itertools.permutations(SAY)))
def test_each_wait_has_a_process_of_its_own_that_ends(order: tuple[str, ...], url: str, tmp_path: Path) -> None:
    store, log = url.format(tmp_path), tmp_path / "log"
    found = process(store, log)
    assert "AwaitingAnswer" == found
    for number, what in enumerate(order):
        with Limpet(store) as limpet:
            SAY[what](limpet)
        found = process(store, log)
        assert number == 2 or found in ("AwaitingAnswer", "Awaiting")
    # The time may not have come before the last answer did.
    while found == "Awaiting":
        found = process(store, log)
    assert str(EXPECTED) == found
    assert sorted(["begun", *EXPECTED]) == sorted(log.read_text().splitlines())
