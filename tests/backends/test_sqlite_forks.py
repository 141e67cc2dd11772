"""What forks are in the SQLite file: no copies while they live, and nothing that is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from limpet.backends.contract import Append, Claim
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.backends.sqlite.driver import connect
from limpet.model import Base, Holder, Lease, StateHeader, StateStatus

BODY = b"x" * 250


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


@pytest.fixture
def backend(path: Path) -> Iterator[SQLiteStateBackend]:
    with SQLiteStateBackend(path, "normal") as backend:
        yield backend


def _claim(state_id: str, count: int, base: Base | None) -> Claim:
    now = datetime(2024, 1, 1, tzinfo=UTC)
    header = StateHeader(state_id=state_id, status=StateStatus.RUNNING, created_at=now, updated_at=now)
    holder = Holder("here", "", "", 1, "", "")
    return Claim(header=header, bodies=(BODY,) * count, holder=holder, ttl_s=600.0, base=base)


def _lease(backend: SQLiteStateBackend, state_id: str, count: int, base: Base | None = None) -> Lease:
    """The lease of a new state with some records of its own."""
    (grant,) = backend.acquire([_claim(state_id, count, base)])
    assert grant is not None
    assert grant.lease is not None
    return grant.lease


def _records(path: Path) -> list[tuple[Any, ...]]:
    """The state and the number of every record in the file."""
    return _rows(path, "SELECT state, seq FROM records ORDER BY state, seq")


def _spans(path: Path) -> list[tuple[Any, ...]]:
    return _rows(path, "SELECT state, first, last, source FROM spans ORDER BY state, first")


def _rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def test_a_fork_copies_no_record(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend, "kelp", 1000)
    before = _records(path)
    for number in range(10):
        _lease(backend, f"fork-{number}", 0, Base("kelp", 1000))
    assert before == _records(path)
    assert {1000} == {len(backend.read(header.state_id)) for header in backend.list_states()}


def test_a_state_that_is_no_fork_has_no_spans(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend, "kelp", 3)
    assert [] == _spans(path)


def test_a_fork_has_one_span_for_each_state_that_wrote_its_records_whatever_the_depth(
    backend: SQLiteStateBackend, path: Path
) -> None:
    leases = [_lease(backend, "a", 2)]
    leases.append(_lease(backend, "b", 2, Base("a", 2)))
    leases.append(_lease(backend, "c", 0, Base("b", 3)))
    leases.append(_lease(backend, "d", 1, Base("c", 3)))
    a, b, c, d = (lease.key for lease in leases)
    end = 2**63 - 1
    shared = [[(key, 1, 2, a), (key, 3, 3, b), (key, 4, end, key)] for key in (c, d)]
    assert [(b, 1, 2, a), (b, 3, end, b), *shared[0], *shared[1]] == _spans(path)


def test_a_fork_of_the_hundredth_generation_is_read_in_order(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend, "fork-1", 1)
    for number in range(2, 101):
        lease = _lease(backend, f"fork-{number}", 0, Base(f"fork-{number - 1}", number - 1))
        assert [None] == backend.append([Append(lease, number, (b"%d" % number,))])
    assert [(1, BODY), *((seq, b"%d" % seq) for seq in range(2, 101))] == backend.read("fork-100")
    assert 100 == len(_records(path))


def test_what_nobody_shares_goes_at_once_and_the_rest_with_the_last_fork(
    backend: SQLiteStateBackend, path: Path
) -> None:
    kelp = _lease(backend, "kelp", 5)
    two, three = _lease(backend, "two", 1, Base("kelp", 2)), _lease(backend, "three", 0, Base("kelp", 3))
    backend.delete_state("kelp", kelp)
    assert [(kelp.key, 1), (kelp.key, 2), (kelp.key, 3), (two.key, 3)] == _records(path)
    backend.delete_state("three", three)
    assert [(kelp.key, 1), (kelp.key, 2), (two.key, 3)] == _records(path)
    backend.delete_state("two", two)
    assert ([], []) == (_records(path), _spans(path))


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
def test_nothing_is_left_when_all_generations_are_deleted_in_any_order(
    backend: SQLiteStateBackend, path: Path, order: str
) -> None:
    leases = {"a": _lease(backend, "a", 3)}
    leases["b"] = _lease(backend, "b", 2, Base("a", 2))
    leases["c"] = _lease(backend, "c", 1, Base("b", 3))
    for state_id in order:
        assert backend.delete_state(state_id, leases[state_id])
    assert ([], []) == (_records(path), _spans(path))


def test_a_fork_that_is_deleted_leaves_all_records_of_a_parent_that_lives(
    backend: SQLiteStateBackend, path: Path
) -> None:
    _lease(backend, "kelp", 5)
    before = _records(path)
    backend.delete_state("fork", _lease(backend, "fork", 2, Base("kelp", 2)))
    assert before == _records(path)


def test_a_fork_that_cannot_be_created_leaves_no_row(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend, "kelp", 1)
    assert [None] == backend.acquire([_claim("fork", 2, Base("kelp", 2))])
    assert [("kelp",)] == _rows(path, "SELECT state_id FROM states")
    assert (1, []) == (len(_records(path)), _spans(path))


def test_damaged_bases_are_named(backend: SQLiteStateBackend, path: Path) -> None:
    _lease(backend, "kelp", 1)
    _lease(backend, "fork", 1, Base("kelp", 1))
    _rows(path, "UPDATE states SET bases = '[{}]' WHERE state_id = 'fork'")
    found = backend.find_state("fork")
    assert found is not None
    assert found.damage is not None
    assert "its header cannot be read" in found.damage
