"""Real processes that swap one note: every turn is taken once, also where one of them is killed in the middle."""

from __future__ import annotations

from pathlib import Path

import pytest
from backends.letters_worker import opened
from backends.notes_worker import TURNS
from backends.worker_process import Worker

WORKER = Path(__file__).with_name("notes_worker.py")
PROCESSES = 3


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_every_turn_is_taken_by_one_process(store: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    workers: list[Worker] = []
    said: list[int] = []
    try:
        workers.extend(Worker(WORKER, store, path, number) for number in range(PROCESSES))
        for worker in workers:
            worker.begin()
        # It may come to no turn at all, if the others are faster.
        said += [int(line) for line in [workers[0].said()] if line]
        workers[0].process.kill()
        for worker in workers:
            # The last line of the one that was killed may be a part of one.
            said += [int(line) for line in worker.stdout if line.endswith("\n")]
        assert [0] * (PROCESSES - 1) == [worker.process.wait() for worker in workers[1:]]
    finally:
        for worker in workers:
            worker.end()
    assert len(set(said)) == len(said), "no turn is taken twice"
    # At most the turn that was being taken when the process was killed is not acknowledged.
    assert TURNS - len(said) in (0, 1)
    with opened(store, str(path)) as backend:
        assert str(TURNS) == backend.note("turn")
        assert [] == [flaw for flaw in backend.examine_store() if not flaw.is_harmless]
