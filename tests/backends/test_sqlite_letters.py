"""Letters to states in an SQLite file; and of backends that die, or take none."""

from __future__ import annotations

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
from limpet.errors import BackendUnavailable, UsageError
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


def _rows(path: Path, statement: str, *bindings: Any) -> list[tuple[Any, ...]]:
    connection = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    try:
        return connection.execute(statement, bindings).fetchall()
    finally:
        connection.close()


def test_a_letter_is_a_row_and_touches_no_other(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    before = [_rows(path, f"SELECT * FROM {table}") for table in ("states", "records", "tags")]
    letter = backend.deliver("kelp", "question", b"yes")
    assert letter is not None
    backend.deliver("kelp", "question", b"no")
    columns = "number, state, at, name, body"
    assert [(1, lease.key, letter.at, "question", b"yes")] == _rows(path, f"SELECT {columns} FROM letters")
    assert before == [_rows(path, f"SELECT * FROM {table}") for table in ("states", "records", "tags")]


def test_nothing_of_its_letters_is_left_of_a_deleted_state(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    _lease(backend, "wrack")
    for state_id in ("kelp", "wrack"):
        backend.deliver(state_id, "question", b"yes")
    backend.delete_state("kelp", lease)
    assert [(2,)] == _rows(path, "SELECT number FROM letters")


def test_letters_are_read_while_another_process_writes(backend: SQLiteStateBackend, path: Path) -> None:
    lease = _lease(backend)
    letter = backend.deliver("kelp", "question", b"yes")
    other = connect(str(path), apsw.SQLITE_OPEN_READWRITE)
    other.execute("BEGIN IMMEDIATE")
    assert ([letter], [(1, "kelp")]) == (backend.letters("kelp"), backend.arrivals())
    writes = (lambda: backend.deliver("kelp", "other", b""), lambda: backend.discard_letters(lease, ["question"]))
    for write in writes:
        with pytest.raises(BackendUnavailable):
            write()
    other.close()
    assert ([letter], [(1, "kelp")]) == (backend.letters("kelp"), backend.arrivals())


@pytest.mark.parametrize("query", ["list_arrivals", "list_letters"])
def test_what_is_new_is_found_without_looking_at_the_rest(backend: SQLiteStateBackend, path: Path, query: str) -> None:
    del backend
    bindings = (0, 10) if query == "list_arrivals" else ("kelp", 0)
    plan = [row[3] for row in _rows(path, f"EXPLAIN QUERY PLAN {QUERIES[query]}", *bindings)]
    expected = {
        "list_arrivals": "SEARCH letters USING INTEGER PRIMARY KEY (rowid>?)",
        "list_letters": "SEARCH letters USING INDEX letters_by_state (state=? AND rowid>?)",
    }
    assert expected[query] in plan
    assert [] == [step for step in plan if step.startswith(("SCAN", "USE TEMP"))]


def test_a_closed_store_says_that_it_is_closed(path: Path) -> None:
    backend = SQLiteStateBackend(path)
    lease = _lease(backend)
    backend.close()
    for use in (
        lambda: backend.deliver("kelp", "question", b""),
        lambda: backend.letters("kelp"),
        lambda: backend.arrivals(),
        lambda: backend.discard_letters(lease, []),
    ):
        with pytest.raises(UsageError, match=r"states\.db is closed"):
            use()


@pytest.mark.parametrize("when", ["before", "after"])
def test_letters_are_writes_of_a_backend_that_dies(backend: SQLiteStateBackend, when: Any) -> None:
    lease = _lease(backend)
    crashing = CrashingBackend(backend, stop_at=2, when=when)
    first = crashing.deliver("kelp", "first", b"")
    assert ([first], [(1, "kelp")]) == (crashing.letters("kelp"), crashing.arrivals())
    with pytest.raises(SimulatedCrash):
        crashing.deliver("kelp", "second", b"")
    names = {"before": ["first"], "after": ["first", "second"]}[when]
    assert names == [letter.name for letter in backend.letters("kelp")]
    for use in (
        lambda: crashing.deliver("kelp", "third", b""),
        lambda: crashing.letters("kelp"),
        lambda: crashing.discard_letters(lease, names),
    ):
        with pytest.raises(SimulatedCrash):
            use()
    assert [] == crashing.arrivals()
    dying = CrashingBackend(backend, stop_at=1, when=when)
    with pytest.raises(SimulatedCrash):
        dying.discard_letters(lease, names)
    assert {"before": names, "after": []}[when] == [letter.name for letter in backend.letters("kelp")]


class _WithoutInboxes(MemoryStateBackend):
    deliver = StateBackend.deliver
    letters = StateBackend.letters
    arrivals = StateBackend.arrivals
    discard_letters = StateBackend.discard_letters


class TestABackendThatTakesNoLetters(StateBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> _WithoutInboxes:
        return _WithoutInboxes(clock)

    def test_it_says_so_and_what_to_do_instead(self) -> None:
        lease = self.lease()
        for use in (
            lambda: self.backend.deliver("kelp", "question", b""),
            lambda: self.backend.discard_letters(lease, []),
        ):
            with pytest.raises(UsageError, match=r"memory:// has no inboxes for its states\. Use another store"):
                use()
        assert ([], []) == (self.backend.letters("kelp"), self.backend.arrivals())
