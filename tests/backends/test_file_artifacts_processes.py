"""Real processes on one folder of artifacts: killed, racing, without room, with a gigabyte."""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from backends.worker_process import Worker

from limpet.backends.files import FileSystemArtifactBackend
from limpet.model.artifacts import CHUNK, Pin
from limpet.testing.conformance.artifact_case import id_of

WORKER = Path(__file__).with_name("artifact_worker.py")
KILLS = 15


@contextmanager
def _worker(work: str, folder: Path, number: int = 0) -> Generator[Worker]:
    worker = Worker(WORKER, work, folder, number)
    try:
        worker.begin()
        yield worker
    finally:
        worker.end()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


def test_content_that_a_killed_process_was_writing_is_never_seen_and_is_cleared(folder: Path) -> None:
    for number in range(1, 9):
        with _worker("put halfway", folder, number) as worker:
            artifact_id = worker.said()
            assert "halfway" == worker.said()
            assert 1 == len(os.listdir(folder / "tmp"))
            with FileSystemArtifactBackend(folder) as backend:
                # Its writer is alive, so it stays.
                assert (None, []) == (backend.find(artifact_id), backend.list_artifacts())
            assert 1 == len(os.listdir(folder / "tmp"))
        assert 1 == len(os.listdir(folder / "tmp"))
        with FileSystemArtifactBackend(folder) as backend:
            assert [] == os.listdir(folder / "tmp")
            assert (None, []) == (backend.find(artifact_id), backend.list_artifacts())


def test_what_was_acknowledged_before_a_kill_is_there_and_everything_that_is_seen_is_whole(folder: Path) -> None:
    chance = random.Random(0)
    acknowledged: set[str] = set()
    listed: list[str] = []
    for number in range(KILLS):
        with _worker("put aloud", folder, number) as worker:
            for _ in range(chance.randrange(1, 6)):
                acknowledged.add(worker.said())
            worker.process.kill()
            acknowledged.update(re.findall(r"^sha256:[0-9a-f]{64}$", worker.stdout.read(), re.MULTILINE))
        with FileSystemArtifactBackend(folder) as backend:
            assert [] == os.listdir(folder / "tmp")
            listed = [info.artifact_id for info in backend.list_artifacts()]
        assert acknowledged <= set(listed)
    with FileSystemArtifactBackend(folder) as backend:
        assert listed == [id_of(b"".join(backend.read(artifact_id))) for artifact_id in listed]
        pinned = {artifact_id for ids in backend.pins().values() for artifact_id in ids}
    assert set(listed) <= pinned


def test_processes_that_put_and_delete_the_same_agree_on_what_happened(folder: Path) -> None:
    with _worker("put and delete", folder, 1) as first, _worker("put and delete", folder, 2) as second:
        one, other = json.loads(first.said()), json.loads(second.said())
    assert (0, 0) == (one["wrong"], other["wrong"])
    totals = [sum(counts) for counts in zip(one["stored"], other["stored"], strict=True)]
    gone = [sum(counts) for counts in zip(one["deleted"], other["deleted"], strict=True)]
    assert min(gone) > 0
    with FileSystemArtifactBackend(folder) as backend:
        listed = backend.list_artifacts()
        assert {0, 1} >= {stored - deleted for stored, deleted in zip(totals, gone, strict=True)}
        assert sum(totals) - sum(gone) == len(listed)
        assert {Pin("0123456789abcdef" * 2, "kelp", number) for number in (1, 2)} == set(backend.pins())
    assert [] == os.listdir(folder / "tmp")


def test_a_process_on_a_full_disk_leaves_nothing_and_goes_on_when_there_is_room(folder: Path) -> None:
    with _worker("fill", folder) as worker:
        said: dict[str, Any] = json.loads(worker.said())
    assert "There is no room left" in said.pop("failed")
    assert {"half": [], "stored": True, "right": True} == said


def test_a_gibibyte_is_stored_and_read_in_little_memory(folder: Path) -> None:
    source = folder.with_name("source")
    try:
        with _worker("store a gibibyte", folder) as worker:
            said: dict[str, Any] = json.loads(worker.said())
    finally:
        source.unlink(missing_ok=True)
        for file in folder.glob("??/*"):
            file.unlink()
    assert (True, 1024 * CHUNK) == (said["stored"], said["size"])
    assert said["grown_kb"] < 100_000
