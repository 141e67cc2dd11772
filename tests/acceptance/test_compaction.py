"""A cleanup that drops records keeps results: what was completed is replayed, run on, forked and moved as before."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from limpet import (
    AwaitingAnswer,
    CheckpointDropped,
    Cleanup,
    Compacted,
    DroppedRecord,
    Encryption,
    ExecutionState,
    FileSystemArtifactBackend,
    FileSystemStateBackend,
    Limpet,
    LLMResult,
    MemoryStateBackend,
    Retention,
    RetryConfig,
    SQLiteStateBackend,
    StateBackend,
    StateMetadata,
    StateSnapshot,
    StateStatus,
    TimelineDropped,
    agent,
    ask,
    llm,
    tool,
)
from limpet.backends.contract import Append, Claim
from limpet.engine import cleaning, compacting
from limpet.keys import new_key

KINDS = ["memory", "sqlite", "files", "packed", "encrypted", "encrypted files"]
NOW = timedelta(0)
COMPACT = Retention(compact_after=NOW)
PRUNE = Retention(prune_after=NOW)
STEP_2 = "stepping::inner#2::step::tool_call"

tried: dict[int, int] = {}


@tool(retry_config=RetryConfig(max_attempts=3, initial_delay=0.0))
async def step(number: int) -> str:
    tried[number] = tried.get(number, 0) + 1
    if tried[number] % 2:
        raise ConnectionError(f"not yet: {number}")
    return f"{number}" * 100


@agent
async def inner(number: int) -> int:
    return len(await step(number))


@agent
async def stepping(count: int) -> int:
    return sum([await inner(number) for number in range(count)])


def opened(kind: str, folder: Path) -> StateBackend:
    match kind:
        case "memory":
            return MemoryStateBackend()
        case "sqlite" | "encrypted":
            return SQLiteStateBackend(folder / "runs.db", "normal")
        case "files" | "encrypted files":
            return FileSystemStateBackend(folder / "states", "normal")
        case _:
            return FileSystemStateBackend(folder / "states", "normal", compression="zstd", segment_size=1500)


KEY = Encryption(new_key())


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Limpet:
    tried.clear()
    options: dict[str, Any] = {"encryption": KEY} if request.param.startswith("encrypted") else {}
    return Limpet(opened(request.param, tmp_path), **options)


@pytest.fixture
def memory() -> Limpet:
    tried.clear()
    return Limpet(MemoryStateBackend())


def travelled(client: Limpet, state_id: str = "s", **options: Any) -> int:
    """A run with retries, on three timelines."""
    result = client.run_sync(stepping, 4, state_id=state_id, **options)
    for _ in range(2):
        assert result == asyncio.run(client.rerun(state_id, STEP_2))
    return result


def loaded(client: Limpet, state_id: str = "s", **more: Any) -> ExecutionState:
    options: dict[str, Any] = {"encryption": KEY} if client._stored.cipher is not None else {}
    return ExecutionState.load_from_state_id(state_id, client.backend, **options, **more)


def dropped(client: Limpet, state_id: str = "s") -> int:
    records = loaded(client, state_id).to_snapshot(with_artifacts=False).records
    return sum(isinstance(record, DroppedRecord) for record in records)


def foreseen(client: Limpet, retention: Retention, **options: Any) -> Cleanup:
    """A cleanup that did what its dry run had said."""
    frames = {header.state_id: client.backend.read(header.state_id) for header in client.list_states(limit=1000)}
    planned = client.cleanup(retention, dry_run=True, **options)
    assert frames == {
        header.state_id: client.backend.read(header.state_id) for header in client.list_states(limit=1000)
    }
    done = client.cleanup(retention, **options)
    assert (planned.removed, planned.compacted, planned.freed) == (done.removed, done.compacted, done.freed)
    assert (planned.kept, planned.left_whole) == (done.kept, done.left_whole)
    assert (planned.artifacts, planned.artifact_bytes) == (done.artifacts, done.artifact_bytes)
    return done


def room(client: Limpet, state_id: str = "s") -> int:
    (found,) = client.backend.measure([state_id])
    assert found is not None
    return found.bytes


def test_compacting_keeps_results_and_whatever_running_on_needs(client: Limpet) -> None:
    result = travelled(client)
    addresses, before = client.history("s").addresses(), loaded(client).to_snapshot()
    header, took, executed = client.backend.find_state("s"), room(client), dict(tried)
    done = foreseen(client, COMPACT)
    (compacted,) = done.compacted
    assert ("s", "completed, and not changed for more than 0 seconds") == (compacted.state_id, compacted.reason)
    assert compacted.records == dropped(client) > 10
    assert compacted.bytes == done.freed > 3000
    assert room(client) < took
    after = client.backend.find_state("s")
    assert header is not None
    assert after is not None
    assert (header.updated_at, header.position, header.status) == (after.updated_at, after.position, after.status)
    assert client.verify("s").is_sound
    assert client.doctor().is_sound
    assert set(addresses) == set(client.history("s").addresses())
    diff = StateSnapshot.diff(before, loaded(client).to_snapshot())
    assert ((), (), (), {}) == (diff.new_events, diff.removed_events, diff.changed_events, diff.changed_storage)
    assert result == client.run_sync(stepping, 4, state_id="s")
    assert executed == tried, "nothing was executed again"
    assert {"nothing to drop": 1} == foreseen(client, COMPACT).left_whole
    for address in ("stepping::agent_call", STEP_2, "stepping::inner#4::agent_call"):
        assert result == asyncio.run(client.rerun("s", address))
    assert result == asyncio.run(client.resume(client.fork("s", STEP_2)))
    assert client.doctor().is_sound


def test_the_room_that_goes_is_that_of_the_records(tmp_path: Path) -> None:
    for kind in ("memory", "sqlite"):
        tried.clear()
        client = Limpet(opened(kind, tmp_path))
        travelled(client)
        before = room(client)
        assert before - room(client) == 0
        freed = foreseen(client, COMPACT).freed
        assert before - freed == room(client), kind


def test_a_compacted_state_is_rehearsed_and_validated(client: Limpet) -> None:
    travelled(client)
    foreseen(client, COMPACT)
    assert asyncio.run(client.rehearse("s", agent=stepping)).is_ok
    tried.update(dict.fromkeys(tried, 1))
    assert asyncio.run(client.validate("s", agent=stepping)).is_ok
    assert [] == [each for each in client.history("s") if isinstance(each, DroppedRecord)]


def test_a_compacted_state_is_copied_exported_and_backed_up(client: Limpet, tmp_path: Path) -> None:
    result = travelled(client)
    foreseen(client, COMPACT)
    frames = client.backend.read("s")
    options: dict[str, Any] = {"encryption": KEY} if client._stored.cipher is not None else {}
    with Limpet(f"file://{tmp_path}/copies", **options) as copies:
        Limpet.copy(client, copies)
        assert frames == copies.backend.read("s")
        assert copies.verify("s").is_sound
    client.export("s", tmp_path / "s.limpet")
    with Limpet(f"sqlite:///{tmp_path}/imported.db", **options) as imported:
        imported.import_(tmp_path / "s.limpet")
        assert frames == imported.backend.read("s")
        assert result == imported.run_sync(stepping, 4, state_id="s")
    client.backup(f"file://{tmp_path}/backup")


def test_a_backup_takes_over_what_was_dropped_since(client: Limpet, tmp_path: Path) -> None:
    travelled(client)
    client.backup(f"file://{tmp_path}/backup")
    foreseen(client, COMPACT)
    done = client.backup(f"file://{tmp_path}/backup")
    assert ({}, 1) == (dict(done.refused), len(done.updated))
    asyncio.run(client.rerun("s", STEP_2))
    foreseen(client, COMPACT)
    done = client.backup(f"file://{tmp_path}/backup")
    assert ({}, 1) == (dict(done.refused), len(done.updated))
    with Limpet(f"file://{tmp_path}/backup", create=False) as copies:
        assert client.backend.read("s") == copies.backend.read("s")
        assert copies.verify("s").is_sound
    assert ([], {}) == (list(client.backup(f"file://{tmp_path}/backup").updated), dict(done.refused))


def test_what_was_dropped_is_told_to_be(client: Limpet) -> None:
    client.run_sync(stepping, 2, state_id="s")
    state = loaded(client)
    position = state.save_checkpoint(StateStatus.COMPLETED)
    del state
    asyncio.run(client.rerun("s", STEP_2))
    assert 2 == len(client.timelines("s"))
    foreseen(client, COMPACT)
    assert [1, 2] == [each.number for each in client.timelines("s")], "that they were there is still known"
    for look in (
        lambda: client.history("s", timeline=1),
        lambda: client.show("s", timeline=1),
        lambda: client.diff("s:1", "s"),
        lambda: client.fork("s", timeline=1),
        lambda: loaded(client, timeline=1),
        lambda: asyncio.run(client.rerun("s", STEP_2, timeline=1)),
    ):
        with pytest.raises(TimelineDropped, match="a cleanup has dropped"):
            look()
    for look in (
        lambda: client.history("s", checkpoint=position),
        lambda: client.diff(f"s:c{position}", "s"),
        lambda: client.fork("s", checkpoint=position),
        lambda: loaded(client, checkpoint=position),
    ):
        with pytest.raises(CheckpointDropped, match="a cleanup has dropped"):
            look()


def test_pruning_leaves_the_current_timeline_as_it_is_whatever_the_status(client: Limpet) -> None:
    travelled(client)
    state = loaded(client)
    state.save_checkpoint(StateStatus.RUNNING)
    position = state.save_checkpoint(StateStatus.PAUSED)
    del state
    before = list(client.history("s"))
    statistics = client.history("s").retry_statistics()
    done = foreseen(client, PRUNE)
    assert ["earlier timelines, not changed for more than 0 seconds"] == [each.reason for each in done.compacted]
    assert before == list(client.history("s"))
    assert statistics == client.history("s").retry_statistics()
    assert position in [each.position for each in client.checkpoints("s")]
    assert (
        list(client.history("s", checkpoint=position)) == before[: len(list(client.history("s", checkpoint=position)))]
    )
    assert 400 == asyncio.run(client.rerun("s", STEP_2))
    assert list(client.history("s", timeline=3))
    assert client.doctor().is_sound


@agent
async def asking() -> str:
    await step(7)
    return await ask("Which one?", str)


def test_a_question_that_is_open_is_answered_after_a_pruning(memory: Limpet) -> None:
    with pytest.raises(AwaitingAnswer):
        memory.run_sync(asking, state_id="s")
    with pytest.raises(AwaitingAnswer):
        asyncio.run(memory.rerun("s", "asking::step::tool_call"))
    assert 1 == len(foreseen(memory, Retention(prune_after=NOW, compact_after=NOW)).compacted)
    memory.answer("s", "this one")
    assert "this one" == asyncio.run(memory.resume("s"))


def test_rules_say_which_states_lose_records(memory: Limpet) -> None:
    for tag in ("keep", "other"):
        travelled(memory, tag, metadata=StateMetadata(tags=[tag]))
    travelled(memory, "plain")
    wanted = Retention(compact_after=NOW, keep_tags=["keep"], tags=["other"], statuses=["failed"])
    assert ["other"] == [each.state_id for each in foreseen(memory, wanted).compacted]
    assert [] == memory.cleanup(Retention(compact_after=timedelta(days=1), prune_after=timedelta(days=1))).compacted
    both = Retention(compact_after=timedelta(days=1), prune_after=NOW)
    done = foreseen(memory, both)
    assert {"earlier timelines, not changed for more than 0 seconds"} == {each.reason for each in done.compacted}
    assert {"keep", "plain"} == {each.state_id for each in done.compacted}


def test_states_that_share_records_are_left_alone(client: Limpet) -> None:
    travelled(client, "parent")
    client.fork("parent", STEP_2, new_state_id="fork")
    asyncio.run(client.resume("fork"))
    travelled(client, "gone")
    client.fork("gone", STEP_2, new_state_id="orphan")
    asyncio.run(client.resume("orphan"))
    client.delete("gone")
    done = foreseen(client, Retention(compact_after=NOW, prune_after=NOW))
    assert ([], {"shares records with other states": 3}) == (done.compacted, done.left_whole)
    client.delete("fork")
    assert ["parent"] == [each.state_id for each in foreseen(client, COMPACT).compacted]
    assert 400 == asyncio.run(client.resume("orphan"))


def test_a_fork_that_goes_in_the_same_cleanup_keeps_nothing_back(memory: Limpet) -> None:
    travelled(memory, "parent", metadata=StateMetadata(pipeline_name="old"))
    memory.fork("parent", STEP_2, new_state_id="fork", metadata=StateMetadata(tags=["go"]))
    asyncio.run(memory.resume("fork"))
    rules = Retention(max_per_pipeline=0, compact_after=NOW, tags=["go"])
    assert ["fork"] == [each.state_id for each in foreseen(memory, rules).removed]
    assert ["parent"] == [each.state_id for each in foreseen(memory, COMPACT).compacted]


def test_what_is_held_or_taken_up_meanwhile_stays_whole(client: Limpet, monkeypatch: pytest.MonkeyPatch) -> None:
    travelled(client)
    frames = client.backend.read("s")
    claimed = cleaning.claimed

    def taken_up(*arguments: Any) -> Any:
        grants = claimed(*arguments)
        loaded(client).save_checkpoint(StateStatus.COMPLETED)
        return grants

    monkeypatch.setattr(compacting, "claimed", taken_up)
    done = client.cleanup(COMPACT)
    assert [] == done.compacted
    assert frames == client.backend.read("s")[: len(frames)]
    monkeypatch.undo()
    state = loaded(client)
    state.save_checkpoint(StateStatus.RUNNING)
    assert {"being run": 1} == client.cleanup(PRUNE).left_whole
    del state


def test_a_state_that_was_loaded_before_goes_on_behind_the_records_as_they_are(client: Limpet) -> None:
    travelled(client)
    state, earlier = loaded(client), loaded(client, timeline=1)
    foreseen(client, COMPACT)
    state.storage.set("x", 1)
    state.save_checkpoint(StateStatus.COMPLETED)
    assert client.verify("s").is_sound
    assert 1 == loaded(client).storage.get("x")
    with pytest.raises(TimelineDropped):
        earlier.storage.set("x", 2)
    assert client.verify("s").is_sound


class ForkedInBetween(MemoryStateBackend):
    """Compacts a state between the look of a fork at it and the claim."""

    def __init__(self) -> None:
        super().__init__()
        self.compacts: Limpet | None = None

    def acquire(self, claims: Any) -> Any:
        if self.compacts is not None and any(isinstance(claim, Claim) and claim.base for claim in claims):
            client, self.compacts = self.compacts, None
            assert client.cleanup(COMPACT).compacted
        return super().acquire(claims)


def test_a_fork_of_what_is_just_compacted_is_whole() -> None:
    tried.clear()
    backend = ForkedInBetween()
    client = Limpet(backend)
    travelled(client)
    backend.compacts = client
    client.fork("s", STEP_2, new_state_id="fork")
    assert client.verify("fork").is_sound
    assert 400 == asyncio.run(client.resume("fork"))


class CompactedBeforeReading(MemoryStateBackend):
    compacts: Limpet | None = None

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        if self.compacts is not None:
            client, self.compacts = self.compacts, None
            assert client.cleanup(COMPACT).compacted
        return super().read(state_id, after, limit)


def test_a_state_that_is_compacted_between_its_header_and_its_records_is_read() -> None:
    tried.clear()
    backend = CompactedBeforeReading()
    client = Limpet(backend)
    travelled(client)
    backend.compacts = client
    assert 9 == len(client.history("s"))
    assert backend.compacts is None


class ForkedBeforeRewriting(MemoryStateBackend):
    forks: Limpet | None = None

    def rewrite(self, appends: Any) -> None:
        if self.forks is not None and any(isinstance(append, Append) for append in appends):
            client, self.forks = self.forks, None
            client.fork("s", STEP_2, new_state_id="fork")
        super().rewrite(appends)


def test_what_is_just_forked_is_not_compacted() -> None:
    tried.clear()
    backend = ForkedBeforeRewriting()
    client = Limpet(backend)
    travelled(client)
    backend.forks = client
    done = client.cleanup(COMPACT)
    assert ([], {"shares records with other states": 1}) == (done.compacted, done.left_whole)
    assert client.verify("fork").is_sound
    assert client.verify("s").is_sound


@tool
async def make(number: int) -> bytes:
    tried[number] = tried.get(number, 0) + 1
    return random.Random(1000 * number + tried[number]).randbytes(40_000)


@agent
async def making(count: int) -> int:
    return sum([len(await make(number)) for number in range(count)])


def test_artifacts_that_only_dropped_records_name_go_in_the_same_cleanup(client: Limpet, tmp_path: Path) -> None:
    tried.clear()
    options: dict[str, Any] = {"encryption": KEY} if client._stored.cipher is not None else {}
    store = Limpet(client.backend, artifact_backend=FileSystemArtifactBackend(tmp_path / "artifacts"), **options)
    store.run_sync(making, 3, state_id="s")
    asyncio.run(store.rerun("s", "making::make#2::tool_call"))
    done = foreseen(store, PRUNE, grace=NOW)
    assert 2 == done.artifacts
    assert 120_000 == store.run_sync(making, 3, state_id="s")
    assert store.verify("s").is_sound


def test_a_damaged_state_is_left_alone(memory: Limpet) -> None:
    travelled(memory)
    stored = memory.backend._by_id["s"]  # type: ignore[attr-defined]
    stored.journal.own.bodies[3] = stored.journal.own.bodies[3][:-1] + b"?"
    done = foreseen(memory, COMPACT)
    assert ([], {"damaged": 1}) == (done.compacted, done.left_whole)


def test_what_model_calls_used_stays_known(memory: Limpet) -> None:
    @llm
    async def model(number: int) -> LLMResult:
        return LLMResult("x", 10, "m", 0.5)

    @agent
    async def thinking() -> int:
        return sum([(await model(number)).tokens_used for number in range(3)])

    memory.run_sync(thinking, state_id="s")
    asyncio.run(memory.rerun("s", "thinking::model#2::llm_call"))
    before = memory.usage("s")
    assert 50 == before.tokens
    assert [Compacted] == [type(each) for each in foreseen(memory, COMPACT).compacted]
    assert before == memory.usage("s")
