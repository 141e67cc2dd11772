"""Backups: safe while another process writes, repeated at the cost of what is new, and verified where they arrive."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from acceptance import moving_program
from acceptance.moving_program import fishing
from acceptance.moving_stores import KINDS, executions, failing, fill, present, require_equal, stepping, writing

from limpet import (
    Claim,
    Content,
    Copied,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    Pin,
    StateStatus,
)
from limpet.testing import CrashingBackend
from limpet.testing.crashing import SimulatedCrash


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()
    moving_program.executed.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_has_everything_and_costs_what_is_new_when_it_is_repeated(kind: str, tmp_path: Path) -> None:
    client = Limpet(MemoryStateBackend())
    fill(client)
    with KINDS[kind](tmp_path) as backend:
        assert sorted(present()) == sorted(client.backup(backend).copied)
        again = client.backup(backend)
        assert Copied(unchanged=again.unchanged) == again
        client.run_sync(stepping, 1, state_id="new")
        report = client.backup(backend)
        assert (["new"], 3) == (report.copied, report.records)
        require_equal(client, Limpet(backend), [*present(), "new"])


def test_a_backup_reads_nothing_twice_of_what_is_unchanged() -> None:
    class Counting(MemoryStateBackend):
        frames = 0

        def read(self, state_id: str, after: int = 0, limit: int | None = None) -> Any:
            found = super().read(state_id, after, limit)
            self.frames += len(found)
            return found

    source, target = Counting(), Counting()
    client = Limpet(source)
    client.run_sync(stepping, 500, state_id="x")
    client.backup(target)
    source.frames = target.frames = 0
    assert ["x"] == client.backup(target).unchanged
    assert (1, 1) == (source.frames, target.frames)


def test_the_target_is_made_where_it_is_missing(tmp_path: Path) -> None:
    with Limpet(f"sqlite:///{tmp_path}/runs.db") as client:
        result = client.run_sync(writing, "end", state_id="x")
        told: list[tuple[int, int, str]] = []
        client.backup(f"sqlite:///{tmp_path}/deep/backup.db", on_progress=lambda *progress: told.append(progress))
    assert [(1, 1, "x")] == told
    with Limpet(f"sqlite:///{tmp_path}/deep/backup.db", create=False) as restored:
        assert result == asyncio.run(restored.resume("x"))


def test_a_backup_that_arrives_damaged_is_told() -> None:
    class Forgetful(MemoryStateBackend):
        """Loses a byte of every state that has three records or more."""

        def acquire(self, claims: Any) -> Any:
            return super().acquire([self._worn(claim) for claim in claims])

        def _worn(self, claim: Claim) -> Claim:
            if len(claim.bodies) < 3:
                return claim
            bodies = (*claim.bodies[:-1], claim.bodies[-1][:-1])
            return Claim(header=claim.header, bodies=bodies, holder=claim.holder, ttl_s=claim.ttl_s)

    client = Limpet(MemoryStateBackend())
    client.run_sync(stepping, 3, state_id="long")
    client.run_sync(stepping, 0, state_id="short")
    report = client.backup(Forgetful())
    assert (["short"], {"long"}) == (report.copied, set(report.refused))
    assert "State 'long' is damaged at record 5" in report.refused["long"]


def test_a_backup_whose_artifact_did_not_arrive_is_told() -> None:
    class Careless(MemoryArtifactBackend):
        """Says that it has put small content, and has not."""

        def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
            return content.size < 100_000 or super().put(artifact_id, content, pin)

    client = Limpet(MemoryStateBackend())
    client.run_sync(writing, "end", state_id="x")
    target = Limpet(MemoryStateBackend(), artifact_backend=Careless())
    assert "is not at memory://" in client.backup(target).refused["x"]


def test_a_backup_that_dies_again_and_again_is_completed_in_the_end() -> None:
    client = Limpet(MemoryStateBackend())
    fill(client)
    backend = MemoryStateBackend()
    deaths = 0
    while True:
        try:
            report = client.backup(CrashingBackend(backend, stop_at=7, when="after"))
            break
        except SimulatedCrash:
            deaths += 1
    assert {} == report.refused
    assert deaths > 1
    require_equal(client, Limpet(backend), present())


def test_backups_of_a_store_that_another_process_writes_are_whole_and_go_on(tmp_path: Path) -> None:
    url, target = (f"sqlite:///{tmp_path}/{name}.db?synchronous=normal" for name in ("runs", "backup"))
    command = [sys.executable, moving_program.__file__, url]
    reports: list[Copied] = []
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert "under way\n" == process.stdout.readline()
        with Limpet(url) as client, Limpet(target) as backup:
            for _ in range(5):
                reports.append(client.backup(backup))
                resume_all_that_is_unfinished(backup)
            process.stdin.write("end\n")
            process.stdin.flush()
            trips = int(process.stdout.readline())
            reports.append(client.backup(backup))
            states = [header.state_id for header in client.list_states(limit=10_000)]
            require_equal(client, backup, states)
    assert trips > 10
    assert 0 == process.returncode
    assert [{}] * 6 == [report.refused for report in reports]
    assert all(report.copied for report in reports[:5])


def resume_all_that_is_unfinished(backup: Limpet) -> None:
    """Take up what a backup has caught in the middle, elsewhere, and see that just the rest of it is executed."""
    elsewhere = Limpet(MemoryStateBackend())
    for header in backup.list_states(limit=10_000):
        if header.status is StateStatus.COMPLETED:
            continue
        Limpet.copy(backup, elsewhere, states=header.state_id)
        history = elsewhere.history(header.state_id)
        missing = [net for net in range(5) if not history.has_completed_event(address_of_haul(net))]
        moving_program.executed.clear()
        # Five hauls of six characters and four times " and ".
        assert 50_000 == asyncio.run(elsewhere.resume(header.state_id, agent=fishing))
        weighed = moving_program.executed.pop("weigh", 0)
        assert {f"haul {net}": 1 for net in missing} == moving_program.executed
        assert 1 == weighed or not missing


def address_of_haul(net: int) -> str:
    return f"fishing::haul{f'#{net + 1}' if net else ''}::tool_call"
