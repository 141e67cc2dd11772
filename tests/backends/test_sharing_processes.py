"""Eight real processes write to one store: each to a state of its own, and all to one that they share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from backends.worker_process import Worker

from limpet.stores import open_store

WORKER = Path(__file__).with_name("sharing_worker.py")
PROCESSES = 8
APPENDS = 200


def outcomes(url: str, folder: Path) -> list[dict[str, int]]:
    workers: list[Worker] = []
    try:
        workers.extend(Worker(WORKER, url, folder, number) for number in range(PROCESSES))
        for worker in workers:
            worker.begin()
        return [json.loads(worker.said()) for worker in workers]
    finally:
        for worker in workers:
            worker.end()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///{}/runs.db",
        "sqlite:///{}/runs.db?synchronous=normal",
        "file://{}/store",
        "file://{}/store?synchronous=normal&compression=zstd",
    ],
)
def test_eight_processes_on_one_store_lose_nothing_and_tear_nothing(url: str, tmp_path: Path) -> None:
    store = url.format(tmp_path)
    assert [{"own": APPENDS, "shared": APPENDS}] * PROCESSES == outcomes(url, tmp_path)
    with open_store(store) as backend:
        for number in range(PROCESSES):
            expected = [(seq, b"%d:%d" % (number, seq)) for seq in range(1, APPENDS + 1)]
            assert expected == backend.read(f"own-{number}")
        shared = backend.read("shared")
        assert list(range(1, PROCESSES * APPENDS + 1)) == [seq for seq, _ in shared]
        for number in range(PROCESSES):
            mine = [body for _, body in shared if body.startswith(b"%d:" % number)]
            assert [b"%d:%d" % (number, written) for written in range(APPENDS)] == mine
        assert {"shared"} | {f"own-{number}" for number in range(PROCESSES)} == {
            header.state_id for header in backend.list_states()
        }
        assert [] == backend.examine_store()
