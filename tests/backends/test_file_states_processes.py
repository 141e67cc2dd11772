"""Real processes on one folder of states."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from backends.worker_process import Worker

from limpet.backends.contract import StateBackend
from limpet.backends.files.states import FileSystemStateBackend

WORKER = Path(__file__).with_name("files_worker.py")


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
    return tmp_path / "store"


def _outcomes(work: str, path: Path, count: int) -> list[object]:
    with _workers(work, path, count) as workers:
        return [json.loads(worker.said()) for worker in workers]


def _must_be_without_flaw(backend: StateBackend) -> None:
    assert [] == backend.examine_store()
    assert [] == [flaw for header in backend.list_states(limit=1000) for flaw in backend.examine(header.state_id)]


def test_processes_that_make_the_store_at_the_same_time_and_append_lose_nothing(path: Path) -> None:
    assert [200] * 8 == _outcomes("append", path, 8)
    with FileSystemStateBackend(path, "normal") as backend:
        for number in range(8):
            expected = [(seq, b"%d:%d" % (number, seq)) for seq in range(1, 201)]
            assert expected == backend.read(f"kelp-{number}")
        assert 8 == len(backend.list_states())
        _must_be_without_flaw(backend)


def test_processes_that_fight_for_one_state_all_write_it_and_lose_nothing(path: Path) -> None:
    assert [25] * 6 == _outcomes("fight", path, 6)
    with FileSystemStateBackend(path, "normal") as backend:
        found = backend.read("shared")
        assert list(range(1, 151)) == [seq for seq, _ in found]
        for number in range(6):
            expected = [b"%d:%d" % (number, written) for written in range(25)]
            assert expected == [body for _, body in found if body.startswith(b"%d:" % number)]
        _must_be_without_flaw(backend)


def test_of_processes_that_race_for_one_state_exactly_one_gets_the_lease(path: Path) -> None:
    assert [False] * 5 + [True] == sorted(map(bool, _outcomes("claim", path, 6)))


def test_states_that_come_and_go_in_many_processes_leave_nothing_behind(path: Path) -> None:
    assert [15] * 4 == _outcomes("come and go", path, 4)
    with FileSystemStateBackend(path, "normal") as backend:
        assert [] == backend.list_states()
        assert [] == backend.examine_store()
    assert [] == [*(path / "states").iterdir(), *(path / "deleted").iterdir(), *(path / "tmp").iterdir()]


@pytest.mark.parametrize("reached", [1, 30, 77])
def test_what_was_acknowledged_is_there_after_the_process_was_killed(path: Path, reached: int) -> None:
    with _workers("append aloud", path, 1) as (worker,):
        for seq in range(1, reached + 1):
            assert str(seq) == worker.said()
        worker.process.kill()
        rest = worker.stdout.read().split()
    acknowledged = reached + len(rest)
    with FileSystemStateBackend(path, "normal") as backend:
        found = backend.read("kelp-0")
        assert [(seq, b"0:%d" % seq) for seq in range(1, len(found) + 1)] == found
        assert len(found) >= acknowledged
        assert [] == [flaw for flaw in backend.examine("kelp-0") if not flaw.is_harmless]
        (header,) = backend.list_states()
        assert len(found) == header.position
        assert [] == list((path / "tmp").iterdir())


def test_processes_that_are_killed_while_they_create_and_delete_leave_nothing_that_is_not_mended(path: Path) -> None:
    for turn in range(2):
        with _workers("come and go", path, 3) as workers:
            # Somewhere in the middle of their work: the others are killed as soon as the first has got so far.
            assert workers[turn % 3].said()
        with FileSystemStateBackend(path, "normal", clock=lambda: 1e12) as backend:
            backend.examine_store(repair=True)
            _must_be_without_flaw(backend)
            for header in backend.list_states():
                assert header.damage is None
                assert header.position == len(backend.read(header.state_id))
                assert backend.delete_state(header.state_id)
            assert [] == backend.examine_store()
            assert [] == [*(path / "states").iterdir(), *(path / "deleted").iterdir(), *(path / "tmp").iterdir()]
