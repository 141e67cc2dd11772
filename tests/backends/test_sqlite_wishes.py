"""Wishes for the holder of a state in an SQLite file; and of backends that die, or take none."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from limpet.backends.contract import Claim, StateBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.driver import connect
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import UsageError
from limpet.model import Lease
from limpet.testing import CrashingBackend, SimulatedCrash, StateBackendConformance
from limpet.testing.conformance.case import OURS, granted, new_header


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


@pytest.fixture
def backend(path: Path) -> Iterator[SQLiteStateBackend]:
    with SQLiteStateBackend(path, "normal", busy_timeout_s=0.01) as backend:
        yield backend


def _lease(backend: StateBackend, state_id: str = "kelp") -> Lease:
    (grant,) = backend.acquire([Claim(header=new_header(state_id), bodies=(b"one",), holder=OURS, ttl_s=600.0)])
    assert grant is not None
    return granted(grant)


def _rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_a_wish_stands_beside_the_holder_and_nothing_else_of_the_row_changes(
    backend: SQLiteStateBackend, path: Path
) -> None:
    _lease(backend)
    ((holder,),) = _rows(path, "SELECT holder FROM states")
    before = _rows(path, "SELECT * FROM states")
    backend.leave_wish("kelp", "stop")
    ((with_wish,),) = _rows(path, "SELECT holder FROM states")
    assert {**json.loads(holder), "wish": "stop"} == json.loads(with_wish)
    found = backend.find_state("kelp")
    assert found is not None
    assert (OURS, None) == (found.holder, found.damage)
    _rows(path, f"UPDATE states SET holder = '{holder}'")
    assert before == _rows(path, "SELECT * FROM states")


@pytest.mark.parametrize("beside", ['"wish":1', '"wish":null', '"wish":["stop"]', '"other":{"wish":"stop"}'])
def test_what_else_stands_beside_a_holder_is_no_wish_and_does_not_disturb(
    backend: SQLiteStateBackend, path: Path, beside: str
) -> None:
    lease = _lease(backend)
    _rows(path, f"UPDATE states SET holder = replace(holder, '}}', ',{beside}}}')")
    assert [None] == backend.wishes([lease])
    assert OURS == backend.leave_wish("kelp", "stop")
    assert ["stop"] == backend.wishes([lease])


@pytest.mark.parametrize("holder", ['{"wish":"stop"', '["wish"]', '"wish"', '{"host":"wish"}', ""])
def test_a_holder_that_cannot_be_read_has_no_wish_and_keeps_nobody_from_the_others(
    backend: SQLiteStateBackend, path: Path, holder: str
) -> None:
    lease, wrack = _lease(backend), _lease(backend, "wrack")
    backend.leave_wish("wrack", "stop")
    _rows(path, f"UPDATE states SET holder = '{holder}' WHERE state_id = 'kelp'")
    assert [None, "stop"] == backend.wishes([lease, wrack])
    assert backend.leave_wish("kelp", "stop") is None
    assert [None, "stop"] == backend.wishes([lease, wrack])


def test_wishes_are_read_while_another_process_writes(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    backend.leave_wish("kelp", "stop")
    other = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    other.execute("BEGIN IMMEDIATE")
    assert ["stop"] == backend.wishes([lease])
    other.close()


def test_many_leases_are_asked_for_by_their_keys(backend: SQLiteStateBackend, path: Path) -> None:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['find_wishes']}", ("[]",)).fetchall()]
    connection.close()
    assert "SEARCH states USING INTEGER PRIMARY KEY (rowid=?)" in plan
    claims = [Claim(header=new_header(str(number)), holder=OURS, ttl_s=60.0) for number in range(1000)]
    leases = [granted(grant) for grant in backend.acquire(claims) if grant is not None]
    backend.leave_wish("999", "stop")
    assert [*([None] * 999), "stop"] == backend.wishes(leases)


def test_a_closed_store_says_that_it_is_closed(path: Path) -> None:
    backend = SQLiteStateBackend(path)
    lease = _lease(backend)
    backend.close()
    for use in (lambda: backend.leave_wish("kelp", "stop"), lambda: backend.wishes([lease])):
        with pytest.raises(UsageError, match=r"states\.db is closed"):
            use()


def test_a_backend_that_dies_hands_wishes_on_until_then(backend: SQLiteStateBackend) -> None:
    crashing = CrashingBackend(backend, stop_at=2)
    lease = _lease(crashing)
    assert OURS == crashing.leave_wish("kelp", "stop")
    assert ["stop"] == crashing.wishes([lease])
    with pytest.raises(SimulatedCrash):
        crashing.append([])
    with pytest.raises(SimulatedCrash):
        crashing.leave_wish("kelp", "stop")
    assert ([None], ["stop"]) == (crashing.wishes([lease]), backend.wishes([lease]))


class _Deaf(MemoryStateBackend):
    leave_wish = StateBackend.leave_wish
    wishes = StateBackend.wishes


class TestABackendThatTakesNoWishes(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> _Deaf:
        return _Deaf(clock)

    def test_it_says_so_and_what_to_do_instead(self) -> None:
        lease = self.lease()
        with pytest.raises(UsageError, match=r"memory:// cannot tell its holder anything\. Stop the process"):
            self.backend.leave_wish("kelp", "stop")
        assert [None] == self.backend.wishes([lease])
