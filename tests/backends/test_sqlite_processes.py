"""Real processes on one SQLite store."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from backends.worker_process import Worker

from limpet.backends.sqlite import SQLiteStateBackend

WORKER = Path(__file__).with_name("sqlite_worker.py")


@contextmanager
def _workers(work: str, path: Path, count: int) -> Generator[list[Worker]]:
    workers: list[Worker] = []
    try:
        # One by one, so that those which were started are ended also if a later one does not start.
        workers.extend(Worker(WORKER, work, path, number) for number in range(count))
        for worker in workers:
            worker.begin()
        yield workers
    finally:
        for worker in workers:
            worker.end()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "states.db"


def _outcomes(work: str, path: Path, count: int) -> list[object]:
    with _workers(work, path, count) as workers:
        return [json.loads(worker.said()) for worker in workers]


def test_processes_that_append_to_one_store_at_the_same_time_lose_nothing(path: Path) -> None:
    SQLiteStateBackend(path).close()
    assert [200] * 4 == _outcomes("append", path, 4)
    with SQLiteStateBackend(path) as backend:
        for number in range(4):
            expected = [(seq, b"%d:%d" % (number, seq)) for seq in range(1, 201)]
            assert expected == backend.read(f"kelp-{number}")


def test_of_processes_that_race_for_one_state_exactly_one_gets_the_lease(path: Path) -> None:
    SQLiteStateBackend(path).close()
    assert [False] * 5 + [True] == sorted(map(bool, _outcomes("claim", path, 6)))


def test_processes_that_make_the_store_at_the_same_time_all_find_it_whole(path: Path) -> None:
    assert [200] * 8 == _outcomes("append", path, 8)
    with SQLiteStateBackend(path) as backend:
        assert {200} == {header.position for header in backend.list_states()}
        assert 8 == len(backend.list_states())


def test_what_was_acknowledged_is_there_after_the_process_was_killed(path: Path) -> None:
    with _workers("append aloud", path, 1) as (worker,):
        for seq in range(1, 101):
            assert str(seq) == worker.said()
        worker.process.kill()
        rest = worker.stdout.read().split()
    acknowledged = 100 + len(rest)
    with SQLiteStateBackend(path) as backend:
        found = backend.read("kelp-0")
    assert [(seq, b"0:%d" % seq) for seq in range(1, len(found) + 1)] == found
    assert len(found) >= acknowledged
