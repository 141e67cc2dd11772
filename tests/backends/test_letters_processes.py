"""Real processes that deliver letters to the same states, one of which is killed in the middle."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from backends.letters_worker import LETTERS, opened
from backends.worker_process import Worker

from limpet.backends.contract import Claim, StateBackend
from limpet.model import Letter
from limpet.testing.conformance.case import OURS, new_header

WORKER = Path(__file__).with_name("letters_worker.py")
PROCESSES = 4


def _letters(backend: StateBackend) -> list[Letter]:
    return [*backend.letters("kelp"), *backend.letters("wrack")]


def _acknowledged(store: str, path: Path, backend: StateBackend) -> tuple[list[list[object]], list[int]]:
    """What the processes said, the first of which is killed in the middle; and what was seen to arrive meanwhile."""
    workers: list[Worker] = []
    said: list[list[object]] = []
    seen: list[int] = []
    try:
        workers.extend(Worker(WORKER, store, path, number) for number in range(PROCESSES))
        for worker in workers:
            worker.begin()
        for _ in range(LETTERS // 3):
            said.append(json.loads(workers[0].said()))
            seen += [number for number, _ in backend.arrivals(max(seen, default=0))]
        workers[0].process.kill()
        for worker in workers:
            # The last line of the one that was killed may be a part of one.
            said += [json.loads(line) for line in worker.stdout if line.endswith("]\n")]
            seen += [number for number, _ in backend.arrivals(max(seen, default=0))]
        assert [0] * (PROCESSES - 1) == [worker.process.wait() for worker in workers[1:]]
    finally:
        for worker in workers:
            worker.end()
    return said, seen


@pytest.mark.parametrize("store", ["sqlite", "files"])
def test_no_letter_that_was_acknowledged_is_lost_and_none_is_there_twice(store: str, tmp_path: Path) -> None:
    path = tmp_path / "store"
    with opened(store, str(path)) as backend:
        backend.acquire([Claim(header=new_header(each), holder=OURS, ttl_s=60.0) for each in ("kelp", "wrack")])
        said, seen = _acknowledged(store, path, backend)
        letters = _letters(backend)
        there = {letter.name: [letter.name, letter.number, int(letter.body)] for letter in letters}
        assert [] == [each for each in said if there.get(str(each[0])) != each]
        assert {1} == set(Counter(letter.name for letter in letters).values())
        assert {1} == set(Counter(letter.number for letter in letters).values())
        seen += [number for number, _ in backend.arrivals(max(seen, default=0))]
        assert sorted(letter.number for letter in letters) == seen
        # At most the letter that was on its way when the process was killed is there without being acknowledged.
        assert len(letters) - len({str(name) for name, _, _ in said}) in (0, 1)
    with opened(store, str(path)) as again:
        assert letters == _letters(again)
        assert [] == [flaw for flaw in again.examine_store() if not flaw.is_harmless]
        assert max(seen) < max(letter.number for letter in [again.deliver("kelp", "next", b"9")] if letter is not None)
