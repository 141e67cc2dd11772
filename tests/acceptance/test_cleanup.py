"""A cleanup deletes what a retention lets go and nothing else, and reports what the disk shows."""

from __future__ import annotations

import asyncio
import gc
import random
from datetime import timedelta
from pathlib import Path

import pytest

from limpet import (
    Cleanup,
    ExecutionState,
    FileSystemArtifactBackend,
    FileSystemStateBackend,
    Limpet,
    MemoryStateBackend,
    Removed,
    Retention,
    SQLiteStateBackend,
    StateBackend,
    StateMetadata,
    StateStatus,
    UnknownState,
    UsageError,
    agent,
    load_config,
    tool,
)
from limpet.journal.room import RoomLeft

KINDS = ["memory", "sqlite", "files", "packed"]
NOW = timedelta(0)
ALL = Retention(max_per_pipeline=0)


@tool
async def step(number: int) -> str:
    return "x" * (200 + number)


@agent
async def stepping(count: int) -> int:
    return sum([len(await step(number)) for number in range(count)])


@tool
async def make(number: int) -> bytes:
    return random.Random(number).randbytes(40_000)


@agent
async def makes(first: int, count: int) -> int:
    return sum([len(await make(number)) for number in range(first, first + count)])


def opened(kind: str, folder: Path) -> StateBackend:
    match kind:
        case "memory":
            return MemoryStateBackend()
        case "sqlite":
            return SQLiteStateBackend(folder / "runs.db", "normal")
        case "files":
            return FileSystemStateBackend(folder / "states", "normal")
        case _:
            return FileSystemStateBackend(folder / "states", "normal", compression="zstd", segment_size=1500)


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Limpet:
    return Limpet(opened(request.param, tmp_path))


def ids(client: Limpet) -> list[str]:
    return sorted(header.state_id for header in client.list_states(limit=1000))


def same(planned: Cleanup, done: Cleanup) -> None:
    """A dry run reports what the real run does."""
    assert (True, False) == (planned.is_dry_run, done.is_dry_run)
    assert (planned.removed, planned.kept, planned.freed) == (done.removed, done.kept, done.freed)
    assert (planned.artifacts, planned.artifact_bytes) == (done.artifacts, done.artifact_bytes)


def on_disk(folder: Path) -> int:
    """The room that all files of states take; locks have no content."""
    files = [*folder.glob("states/*/**/*"), *folder.glob("deleted/*/**/*")]
    return sum(file.stat().st_size for file in files if file.is_file() and file.name != "lock")


def test_a_limit_of_10_on_200_leaves_the_10_newest(client: Limpet) -> None:
    for number in range(200):
        client.run_sync(stepping, 1, state_id=f"s{number:03}")
    planned = client.cleanup(Retention(max_per_pipeline=10), dry_run=True)
    assert 200 == len(ids(client))
    told: list[tuple[int, int, str]] = []
    done = client.cleanup(Retention(max_per_pipeline=10), on_progress=lambda *each: told.append(each))
    same(planned, done)
    assert [f"s{number:03}" for number in range(190, 200)] == ids(client)
    assert [f"s{number:03}" for number in range(190)] == [each.state_id for each in done.removed]
    assert {"within the limits": 10} == done.kept
    assert [(number, 190) for number in range(1, 191)] == [each[:2] for each in told]
    assert all(each.bytes > 200 for each in done.removed)


def test_what_is_not_finished_stays_and_goes_on(client: Limpet) -> None:
    with pytest.raises(ZeroDivisionError):
        client.run_sync(failing, state_id="failed")
    for state_id, status in (("paused", StateStatus.PAUSED), ("awaiting", StateStatus.AWAITING)):
        state = ExecutionState(state_backend=client.backend, state_id=state_id)
        state.save_checkpoint(status=status)
        del state
    client.run_sync(stepping, 1, state_id="completed")
    done = client.cleanup(Retention(max_age=NOW, max_per_pipeline=0, max_total_size=0))
    assert ["completed"] == [each.state_id for each in done.removed]
    assert ["awaiting", "failed", "paused"] == ids(client)
    done = client.cleanup(Retention(max_per_pipeline=0, statuses=["failed"]))
    assert ["failed"] == [each.state_id for each in done.removed]
    assert {"not finished: awaiting": 1, "not finished: paused": 1} == done.kept


@tool
async def divide() -> float:
    return 1 / 0


@agent
async def failing() -> float:
    return await divide()


def test_what_is_being_run_stays_even_where_its_status_is_named(client: Limpet) -> None:
    found: list[Cleanup] = []

    @agent
    async def cleaning_up() -> int:
        rules = Retention(max_per_pipeline=0, statuses=["running", "completed"])
        found.append(await asyncio.to_thread(client.cleanup, rules))
        return 1

    client.run_sync(stepping, 1, state_id="other")
    assert 1 == client.run_sync(cleaning_up, state_id="running")
    assert (["other"], {"being run": 1}) == ([each.state_id for each in found[0].removed], found[0].kept)
    assert ["running"] == ids(client)


def test_what_is_run_on_between_looking_and_deleting_stays(client: Limpet) -> None:
    for state_id in ("a", "b", "c"):
        client.run_sync(stepping, 2, state_id=state_id)

    def resumed(planned: Cleanup) -> bool:
        assert ["a", "b", "c"] == [each.state_id for each in planned.removed]
        asyncio.run(client.rerun("b", "stepping::step#2::tool_call"))
        client.delete("c")
        return True

    done = client.cleanup(ALL, confirm=resumed)
    assert ["a"] == [each.state_id for each in done.removed]
    assert {"changed meanwhile": 2} == done.kept
    assert 401 == client.run_sync(stepping, 2, state_id="b")


def test_nothing_is_deleted_where_that_is_not_confirmed(client: Limpet) -> None:
    client.run_sync(stepping, 1, state_id="a")
    report = client.cleanup(ALL, confirm=lambda _: False)
    assert (True, ["a"]) == (report.is_dry_run, ids(client))


def test_the_latest_are_all_loadable_although_some_are_damaged(tmp_path: Path) -> None:
    client = Limpet(FileSystemStateBackend(tmp_path / "states", "normal"))
    for number in range(9):
        client.run_sync(stepping, 1, state_id=f"s{number}")
    for number in (6, 8):
        (journal,) = (tmp_path / "states" / "states" / f"s{number}").glob("journal-*.jsonl")
        journal.write_bytes(journal.read_bytes().replace(b'"header"', b'"hexder"', 1))
        (journal.parent / "header.json").unlink()
    done = client.cleanup(Retention(max_age=NOW, keep_latest=5))
    assert ["s0", "s1"] == [each.state_id for each in done.removed]
    assert 2 == done.kept["damaged"]
    for number in (2, 3, 4, 5, 7):
        assert 200 == client.run_sync(stepping, 1, state_id=f"s{number}")


def test_a_size_is_kept_by_deleting_the_oldest(client: Limpet) -> None:
    for number in range(10):
        client.run_sync(stepping, 5, state_id=f"s{number}")
    sizes = {each.state_id: each.bytes for each in client.cleanup(ALL, dry_run=True).removed}
    most = sum(list(sizes.values())[6:]) + 10
    planned = client.cleanup(Retention(max_total_size=most), dry_run=True)
    done = client.cleanup(Retention(max_total_size=most))
    same(planned, done)
    assert [f"s{number}" for number in range(6)] == [each.state_id for each in done.removed]
    assert sum(list(sizes.values())[:6]) == done.freed
    assert [] == client.cleanup(Retention(max_total_size=most)).removed


ORDERS = [("kelp",), ("fork",), ("kelp", "fork"), ("fork", "again"), ("kelp", "again"), ("kelp", "fork", "again")]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_forks_share_is_freed_with_the_last_of_them(kind: str, order: tuple[str, ...], tmp_path: Path) -> None:
    client = forked(opened(kind, tmp_path))
    for state_id in order:
        before, on_disk_before = taken(client), on_disk(tmp_path / "states")
        rules = Retention(max_per_pipeline=0, tags=[state_id])
        planned = client.cleanup(rules, dry_run=True)
        done = client.cleanup(rules)
        same(planned, done)
        assert [state_id] == [each.state_id for each in done.removed]
        assert before - taken(client) == done.freed
        if kind in ("files", "packed"):
            assert on_disk_before - on_disk(tmp_path / "states") == done.freed
        for left in ids(client):
            assert 1836 == client.run_sync(stepping, 9, state_id=left)


@pytest.mark.parametrize("kind", KINDS)
def test_parents_and_forks_that_go_together_free_all_that_they_took(kind: str, tmp_path: Path) -> None:
    client = forked(opened(kind, tmp_path))
    before, on_disk_before = taken(client), on_disk(tmp_path / "states")
    planned = client.cleanup(ALL, dry_run=True)
    done = client.cleanup(ALL)
    same(planned, done)
    assert (["kelp", "fork", "again"], before) == ([each.state_id for each in done.removed], done.freed)
    assert kind not in ("files", "packed") or on_disk_before == done.freed
    assert 0 == on_disk(tmp_path / "states")


def forked(backend: StateBackend) -> Limpet:
    """A state, a fork of it and a fork of that, each with its id as a tag."""
    client = Limpet(backend)
    client.run_sync(stepping, 9, state_id="kelp", metadata=StateMetadata(tags=["kelp"]))
    for parent, place, fork in (("kelp", 5, "fork"), ("fork", 8, "again")):
        address = f"stepping::step#{place}::tool_call"
        client.fork(parent, at=address, new_state_id=fork, metadata=StateMetadata(tags=[fork]))
        asyncio.run(client.resume(fork))
    return client


def taken(client: Limpet) -> int:
    """The room that all states of a store take."""
    rooms = client.backend.measure(ids(client))
    return RoomLeft(room for room in rooms if room is not None).total


def test_artifacts_that_only_removed_states_named_are_collected(client: Limpet) -> None:
    client.run_sync(makes, 0, 3, state_id="x")
    client.run_sync(makes, 2, 2, state_id="y")
    rules = Retention(max_per_pipeline=1)
    planned = client.cleanup(rules, dry_run=True, grace=NOW)
    done = client.cleanup(rules, grace=NOW)
    same(planned, done)
    assert (["x"], 2, 80_000) == ([each.state_id for each in done.removed], done.artifacts, done.artifact_bytes)
    assert 80_000 == client.run_sync(makes, 2, 2, state_id="y")
    assert done.artifacts_kept_because is None


def test_artifacts_that_other_stores_use_stay_and_the_report_says_why(tmp_path: Path) -> None:
    artifacts = FileSystemArtifactBackend(tmp_path / "artifacts")
    client, other = (
        Limpet(SQLiteStateBackend(tmp_path / name, "normal"), artifact_backend=artifacts) for name in ("a.db", "b.db")
    )
    for each in (client, other):
        each.run_sync(makes, 0, 1, state_id="x")
    done = client.cleanup(ALL, grace=NOW)
    assert (["x"], 0) == ([each.state_id for each in done.removed], done.artifacts)
    assert "b.db" in str(done.artifacts_kept_because)
    assert 40_000 == other.run_sync(makes, 0, 1, state_id="x")


def test_the_file_of_a_store_is_reported_and_compacted(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    client = Limpet(SQLiteStateBackend(path))
    for number in range(30):
        client.run_sync(stepping, 20, state_id=f"s{number:02}")
    first = client.cleanup(Retention(max_per_pipeline=20))
    assert first.disk_before is not None
    assert first.disk_after is not None
    assert path.stat().st_size == first.disk_after.bytes >= first.disk_before.bytes
    assert first.disk_after.free > first.disk_before.free
    done = client.cleanup(Retention(max_per_pipeline=2), compact=True)
    assert done.disk_after is not None
    assert (path.stat().st_size, 0) == (done.disk_after.bytes, done.disk_after.free)
    assert done.disk_after.bytes < first.disk_after.bytes / 2
    assert done.not_compacted_because is None
    assert 4190 == client.run_sync(stepping, 20, state_id="s29")
    assert ["s28", "s29"] == ids(client)


def test_a_store_in_which_something_is_run_is_not_compacted(tmp_path: Path) -> None:
    client = Limpet(SQLiteStateBackend(tmp_path / "runs.db"))
    state = ExecutionState(state_backend=client.backend, state_id="held")
    state.storage.set("a", 1)
    done = client.cleanup(ALL, compact=True)
    assert "a process runs a state in this store" in str(done.not_compacted_because)
    assert {"being run": 1} == done.kept
    assert "held" == state.state_id


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_a_store_that_gives_room_back_by_itself_has_nothing_to_compact(kind: str, tmp_path: Path) -> None:
    client = Limpet(opened(kind, tmp_path))
    done = client.cleanup(ALL, compact=True)
    assert (None, None, None) == (done.disk_before, done.disk_after, done.not_compacted_because)


def test_a_retention_without_a_limit_is_refused(client: Limpet) -> None:
    with pytest.raises(UsageError, match="Give one of max_age, max_per_pipeline, max_total_size, compact_after"):
        client.cleanup(Retention(keep_latest=5))


def test_the_state_of_a_dead_process_goes_where_its_status_is_named(client: Limpet) -> None:
    state = ExecutionState(state_backend=client.backend, state_id="left")
    state.storage.set("a", 1)
    del state
    gc.collect()
    done = client.cleanup(Retention(max_per_pipeline=0, statuses=["running"]))
    assert [Removed("left", "more than 0 without a pipeline", done.freed)] == done.removed
    with pytest.raises(UnknownState):
        client.show("left")


def test_without_a_retention_the_configured_one_counts(tmp_path: Path) -> None:
    client = Limpet("memory://", config=load_config(folder=tmp_path, retention={"max_per_pipeline": 2}))
    for number in range(5):
        client.run_sync(stepping, 1, state_id=f"s{number}")
    assert ["s0", "s1", "s2"] == [each.state_id for each in client.cleanup().removed]
    assert [] == client.cleanup(Retention(max_age=timedelta(days=1))).removed


def test_a_configured_retention_is_followed(tmp_path: Path) -> None:
    file = tmp_path / "limpet.toml"
    file.write_text("retention.max_per_pipeline = 4")
    client = Limpet("memory://", config=load_config(folder=tmp_path))
    for number in range(5):
        client.run_sync(stepping, 1, state_id=f"s{number}")
    assert 1 == len(client.cleanup().removed)
    file.write_text("retention.max_per_pipeline = 1")
    client.config.reload()
    assert 3 == len(client.cleanup().removed)


def test_without_any_retention_it_is_said_what_to_do(tmp_path: Path) -> None:
    client = Limpet("memory://", config=load_config(folder=tmp_path, retention={"keep_latest": 2}))
    with pytest.raises(UsageError, match=r"no limit is configured. Give .* or set a limit in \[retention\]"):
        client.cleanup()
