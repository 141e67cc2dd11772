"""The collector deletes what nothing names, proves it first, and leaves the rest alone."""

from __future__ import annotations

import asyncio
import json
import random
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from limpet import (
    ArtifactsShared,
    Claim,
    ExecutionState,
    FileSystemArtifactBackend,
    LeaseLost,
    Limpet,
    MemoryStateBackend,
    Pin,
    SQLiteStateBackend,
    StateBackend,
    StateCorrupted,
    StateStatus,
    agent,
    compute_artifact_id,
    tool,
)
from limpet.cli.main import commands
from limpet.engine.lease import mark_ended, mark_running
from limpet.model.artifacts import content_of
from limpet.testing import TurnedClock

NOW = timedelta(0)


def big(number: int) -> bytes:
    return random.Random(number).randbytes(40_000)


@tool
async def make(number: int) -> bytes:
    return big(number)


@agent
async def makes(first: int, count: int) -> int:
    return sum([len(await make(number)) for number in range(first, first + count)])


def ids(client: Limpet) -> set[str]:
    assert client.artifacts is not None
    return {info.artifact_id for info in client.artifacts.list_artifacts()}


def expected(*numbers: int) -> set[str]:
    return {compute_artifact_id(big(number)) for number in numbers}


def test_what_only_a_deleted_state_named_goes_and_what_another_names_stays() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(makes, 0, 3, state_id="x")
    client.run_sync(makes, 2, 2, state_id="y")
    client.delete("x")
    planned = client.collect(grace=NOW, dry_run=True)
    assert expected(0, 1, 2, 3) == ids(client)
    collected = client.collect(grace=NOW)
    assert planned.deleted == collected.deleted
    assert expected(0, 1) == {info.artifact_id for info in collected.deleted}
    assert (2, 0, 0, 80_000) == (collected.named, collected.held, collected.young, collected.freed)
    assert expected(2, 3) == ids(client)
    assert 80_000 == client.run_sync(makes, 2, 2, state_id="y")
    assert [] == client.collect(grace=NOW).deleted


def test_what_was_put_within_the_grace_stays() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(makes, 0, 1, state_id="x")
    client.delete("x")
    kept = client.collect()
    assert (0, 1) == (len(kept.deleted), kept.young)
    assert expected(0) == ids(client)


def test_a_value_that_the_storage_no_longer_has_is_still_named_by_its_record() -> None:
    backend = MemoryStateBackend()
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set_artifact("a", big(1))
    state.storage.delete_artifact("a")
    state.save_checkpoint(status=StateStatus.PAUSED)
    assert [] == Limpet(backend).collect(grace=NOW).deleted


def pinned_by(backend: StateBackend, state: ExecutionState, number: int) -> None:
    """What a writer has put and not yet named in a record."""
    artifacts = Limpet(backend).artifacts
    assert artifacts is not None
    lease = state._live.lease
    assert lease is not None
    data = big(number)
    artifacts.put(compute_artifact_id(data), content_of(data), Pin(backend.store_id, lease.state_id, lease.fence))


def test_what_a_run_may_yet_name_is_held() -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("a", 1)
    pinned_by(backend, state, 1)
    mark_running(state._live.holder)
    for dry_run in (True, False):
        report = client.collect(grace=NOW, dry_run=dry_run)
        assert (0, 1) == (len(report.deleted), report.held)
    assert expected(1) == ids(client)
    mark_ended(state._live.holder)
    state.save_checkpoint(status=StateStatus.PAUSED)
    assert expected(1) == {info.artifact_id for info in client.collect(grace=NOW, dry_run=True).deleted}
    assert expected(1) == {info.artifact_id for info in client.collect(grace=NOW).deleted}


def test_a_writer_whose_lease_ran_out_is_fenced_before_its_artifacts_go() -> None:
    clock = TurnedClock()
    backend = MemoryStateBackend(clock)
    client = Limpet(backend)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("a", 1)
    pinned_by(backend, state, 1)
    clock.turn(3600)
    planned = client.collect(grace=NOW, dry_run=True)
    assert expected(1) == {info.artifact_id for info in planned.deleted}
    state.storage.set("b", 2)  # A dry run has fenced nobody.
    assert planned.deleted == client.collect(grace=NOW).deleted
    with pytest.raises(LeaseLost):
        state.storage.set_artifact("late", big(1))
    again = ExecutionState.load_from_state_id("x", backend)
    again.storage.set_artifact("late", big(1))
    assert big(1) == again.storage.get_artifact("late")


def test_nobody_is_fenced_whose_artifacts_are_all_named() -> None:
    clock = TurnedClock()
    backend = MemoryStateBackend(clock)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set_artifact("a", big(1))
    clock.turn(3600)
    assert [] == Limpet(backend).collect(grace=NOW).deleted
    state.storage.set("b", 2)


def test_pins_of_ended_runs_are_forgotten() -> None:
    client = Limpet(MemoryStateBackend())
    client.run_sync(makes, 0, 2, state_id="x")
    assert client.artifacts is not None
    assert {"x"} == {pin.state_id for pin in client.artifacts.pins()}
    client.collect(grace=NOW)
    assert {} == dict(client.artifacts.pins())
    client.run_sync(makes, 5, 1, state_id="y")
    client.delete("y")
    client.collect(grace=NOW)
    assert {} == dict(client.artifacts.pins())


def test_a_lease_that_was_superseded_holds_nothing() -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("a", 1)
    pinned_by(backend, state, 1)
    lease = state._live.lease
    assert lease is not None
    header = backend.find_state("x")
    assert header is not None
    assert header.holder is not None
    claim = Claim(header=header, holder=header.holder, ttl_s=60.0, supersede=lease.fence)
    backend.acquire([claim])
    for dry_run in (True, False):
        assert expected(1) == {info.artifact_id for info in client.collect(grace=NOW, dry_run=dry_run).deleted}


def test_artifacts_that_several_stores_use_are_collected_only_with_all_of_them(tmp_path: Path) -> None:
    artifacts = FileSystemArtifactBackend(tmp_path / "artifacts")
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "two")]
    for number, url in enumerate(urls):
        with Limpet(url, artifact_backend=artifacts) as client:
            client.run_sync(makes, number, 2, state_id="x")
    with Limpet(urls[0], artifact_backend=artifacts) as client:
        client.delete("x")
        with pytest.raises(ArtifactsShared, match=r"also used by sqlite:///.*two\.db"):
            client.collect(grace=NOW)
        assert expected(0, 1, 2) == ids(client)
        collected = client.collect(grace=NOW, also=[urls[1]])
        assert expected(0) == {info.artifact_id for info in collected.deleted}
        with SQLiteStateBackend(tmp_path / "two.db") as other:
            assert [] == client.collect(grace=NOW, also=[other]).deleted


def test_a_pin_of_a_store_that_nobody_knows_stops_it() -> None:
    client = Limpet(MemoryStateBackend())
    assert client.artifacts is not None
    client.artifacts.put(compute_artifact_id(b"x"), content_of(b"x"), Pin("0" * 32, "x", 1))
    with pytest.raises(ArtifactsShared, match="the store 000"):
        client.collect(grace=NOW)


def test_nothing_is_collected_where_a_state_cannot_be_read(tmp_path: Path) -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)
    client.run_sync(makes, 0, 1, state_id="gone")
    client.run_sync(makes, 1, 1, state_id="damaged")
    client.delete("gone")
    stored = backend._by_id["damaged"]
    bodies = stored.journal.own.bodies
    bodies[1] = bodies[1][:-1] + b"x"
    with pytest.raises(StateCorrupted, match="damaged"):
        client.collect(grace=NOW)
    assert expected(0, 1) == ids(client)


def test_a_run_whose_input_was_collected_before_the_state_named_it_has_it_all_the_same() -> None:
    backend = MemoryStateBackend()
    client = Limpet(backend)

    @agent
    async def echo(data: bytes) -> int:
        return len(data)

    real = backend.acquire

    def acquire(claims: list[Claim]) -> object:
        # A collector in another process may come just before the state is made.
        if any(claim.bodies for claim in claims):
            client.collect(grace=NOW)
        return real(claims)

    backend.acquire = acquire  # pyright: ignore[reportAttributeAccessIssue]  # for this test
    assert 40_000 == client.run_sync(echo, big(7), state_id="x")
    assert expected(7) == ids(client)
    assert 40_000 == asyncio.run(client.resume("x", agent=echo))


def test_the_command_collects_and_says_what(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Limpet(store) as client:
        client.run_sync(makes, 0, 2, state_id="x")
        client.run_sync(makes, 1, 1, state_id="y")
        client.delete("x")
    run = CliRunner().invoke
    planned = run(commands, ["collect", "--dry-run", "--grace", "0", "--store", store])
    (gone,) = expected(0)
    assert f"{gone}  40.0 kB\nWould delete 1 artifacts, 40.0 kB.\n" in planned.output
    assert "1 named by states" in planned.output
    done = run(commands, ["collect", "--grace", "0", "--json", "--store", store])
    assert [{"artifact_id": gone, "size": 40_000}] == json.loads(done.output)["deleted"]
    kept = run(commands, ["collect", "--store", store])
    assert "Deleted 0 artifacts, 0 B." in kept.output


def test_the_command_fetches_an_artifact(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/runs.db"
    with Limpet(store) as client:
        client.run_sync(makes, 0, 1, state_id="x")
    (artifact_id,) = expected(0)
    run = CliRunner().invoke
    assert big(0) == run(commands, ["artifact", artifact_id, "--store", store]).stdout_bytes
    written = run(commands, ["artifact", artifact_id, "-o", str(tmp_path / "out"), "--store", store, "--json"])
    assert 40_000 == json.loads(written.stdout)["size"]
    assert big(0) == (tmp_path / "out").read_bytes()
    for wrong, code in ((f"sha256:{'0' * 64}", 4), ("../../etc/passwd", 2)):
        assert code == run(commands, ["artifact", wrong, "--store", store]).exit_code
    assert big(0) == run(commands, ["artifact", artifact_id[:15], "--store", store]).stdout_bytes
    assert 4 == run(commands, ["artifact", "sha256:0000", "--store", store]).exit_code
    assert artifact_id[7:15] in run(commands, ["show", "x", "--store", store]).output
