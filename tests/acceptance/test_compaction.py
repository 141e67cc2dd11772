"""A cleanup that drops records keeps results: what was completed is replayed, run on, forked and moved as before."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    AwaitingAnswer,
    CheckpointDropped,
    Cleanup,
    Compacted,
    DroppedRecord,
    Encryption,
    ExecutionState,
    FileSystemArtifactBackend,
    FileSystemStateBackend,
    Holdfast,
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
from holdfast.backends.contract import Append, Claim
from holdfast.engine import cleaning, compacting
from holdfast.keys import new_key

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
def hf(request: pytest.FixtureRequest, tmp_path: Path) -> Holdfast:
    tried.clear()
    options: dict[str, Any] = {"encryption": KEY} if request.param.startswith("encrypted") else {}
    return Holdfast(opened(request.param, tmp_path), **options)


@pytest.fixture
def memory() -> Holdfast:
    tried.clear()
    return Holdfast(MemoryStateBackend())


def travelled(hf: Holdfast, state_id: str = "s", **options: Any) -> int:
    """A run with retries, on three timelines."""
    result = hf.run_sync(stepping, 4, state_id=state_id, **options)
    for _ in range(2):
        assert result == asyncio.run(hf.rerun(state_id, STEP_2))
    return result


def loaded(hf: Holdfast, state_id: str = "s", **more: Any) -> ExecutionState:
    options: dict[str, Any] = {"encryption": KEY} if hf._stored.cipher is not None else {}
    return ExecutionState.load_from_state_id(state_id, hf.backend, **options, **more)


def dropped(hf: Holdfast, state_id: str = "s") -> int:
    records = loaded(hf, state_id).to_snapshot(with_artifacts=False).records
    return sum(isinstance(record, DroppedRecord) for record in records)


def foreseen(hf: Holdfast, retention: Retention, **options: Any) -> Cleanup:
    """A cleanup that did what its dry run had said."""
    frames = {header.state_id: hf.backend.read(header.state_id) for header in hf.list_states(limit=1000)}
    planned = hf.cleanup(retention, dry_run=True, **options)
    assert frames == {header.state_id: hf.backend.read(header.state_id) for header in hf.list_states(limit=1000)}
    done = hf.cleanup(retention, **options)
    assert (planned.removed, planned.compacted, planned.freed) == (done.removed, done.compacted, done.freed)
    assert (planned.kept, planned.left_whole) == (done.kept, done.left_whole)
    assert (planned.artifacts, planned.artifact_bytes) == (done.artifacts, done.artifact_bytes)
    return done


def room(hf: Holdfast, state_id: str = "s") -> int:
    (found,) = hf.backend.measure([state_id])
    assert found is not None
    return found.bytes


def test_compacting_keeps_results_and_whatever_running_on_needs(hf: Holdfast) -> None:
    result = travelled(hf)
    addresses, before = hf.history("s").addresses(), loaded(hf).to_snapshot()
    header, took, executed = hf.backend.find_state("s"), room(hf), dict(tried)
    done = foreseen(hf, COMPACT)
    (compacted,) = done.compacted
    assert ("s", "completed, and not changed for more than 0 seconds") == (compacted.state_id, compacted.reason)
    assert compacted.records == dropped(hf) > 10
    assert compacted.bytes == done.freed > 3000
    assert room(hf) < took
    after = hf.backend.find_state("s")
    assert header is not None
    assert after is not None
    assert (header.updated_at, header.position, header.status) == (after.updated_at, after.position, after.status)
    assert hf.verify("s").is_sound
    assert hf.doctor().is_sound
    assert set(addresses) == set(hf.history("s").addresses())
    diff = StateSnapshot.diff(before, loaded(hf).to_snapshot())
    assert ((), (), (), {}) == (diff.new_events, diff.removed_events, diff.changed_events, diff.changed_storage)
    assert result == hf.run_sync(stepping, 4, state_id="s")
    assert executed == tried, "nothing was executed again"
    assert {"nothing to drop": 1} == foreseen(hf, COMPACT).left_whole
    for address in ("stepping::agent_call", STEP_2, "stepping::inner#4::agent_call"):
        assert result == asyncio.run(hf.rerun("s", address))
    assert result == asyncio.run(hf.resume(hf.fork("s", STEP_2)))
    assert hf.doctor().is_sound


def test_the_room_that_goes_is_that_of_the_records(tmp_path: Path) -> None:
    for kind in ("memory", "sqlite"):
        tried.clear()
        hf = Holdfast(opened(kind, tmp_path))
        travelled(hf)
        before = room(hf)
        assert before - room(hf) == 0
        freed = foreseen(hf, COMPACT).freed
        assert before - freed == room(hf), kind


def test_a_compacted_state_is_rehearsed_and_validated(hf: Holdfast) -> None:
    travelled(hf)
    foreseen(hf, COMPACT)
    assert asyncio.run(hf.rehearse("s", agent=stepping)).is_ok
    tried.update(dict.fromkeys(tried, 1))
    assert asyncio.run(hf.validate("s", agent=stepping)).is_ok
    assert [] == [each for each in hf.history("s") if isinstance(each, DroppedRecord)]


def test_a_compacted_state_is_copied_exported_and_backed_up(hf: Holdfast, tmp_path: Path) -> None:
    result = travelled(hf)
    foreseen(hf, COMPACT)
    frames = hf.backend.read("s")
    options: dict[str, Any] = {"encryption": KEY} if hf._stored.cipher is not None else {}
    with Holdfast(f"file://{tmp_path}/copies", **options) as copies:
        Holdfast.copy(hf, copies)
        assert frames == copies.backend.read("s")
        assert copies.verify("s").is_sound
    hf.export("s", tmp_path / "s.holdfast")
    with Holdfast(f"sqlite:///{tmp_path}/imported.db", **options) as imported:
        imported.import_(tmp_path / "s.holdfast")
        assert frames == imported.backend.read("s")
        assert result == imported.run_sync(stepping, 4, state_id="s")
    hf.backup(f"file://{tmp_path}/backup")


def test_a_backup_takes_over_what_was_dropped_since(hf: Holdfast, tmp_path: Path) -> None:
    travelled(hf)
    hf.backup(f"file://{tmp_path}/backup")
    foreseen(hf, COMPACT)
    done = hf.backup(f"file://{tmp_path}/backup")
    assert ({}, 1) == (dict(done.refused), len(done.updated))
    asyncio.run(hf.rerun("s", STEP_2))
    foreseen(hf, COMPACT)
    done = hf.backup(f"file://{tmp_path}/backup")
    assert ({}, 1) == (dict(done.refused), len(done.updated))
    with Holdfast(f"file://{tmp_path}/backup", create=False) as copies:
        assert hf.backend.read("s") == copies.backend.read("s")
        assert copies.verify("s").is_sound
    assert ([], {}) == (list(hf.backup(f"file://{tmp_path}/backup").updated), dict(done.refused))


def test_what_was_dropped_is_told_to_be(hf: Holdfast) -> None:
    hf.run_sync(stepping, 2, state_id="s")
    state = loaded(hf)
    position = state.save_checkpoint(StateStatus.COMPLETED)
    del state
    asyncio.run(hf.rerun("s", STEP_2))
    assert 2 == len(hf.timelines("s"))
    foreseen(hf, COMPACT)
    assert [1, 2] == [each.number for each in hf.timelines("s")], "that they were there is still known"
    for look in (
        lambda: hf.history("s", timeline=1),
        lambda: hf.show("s", timeline=1),
        lambda: hf.diff("s:1", "s"),
        lambda: hf.fork("s", timeline=1),
        lambda: loaded(hf, timeline=1),
        lambda: asyncio.run(hf.rerun("s", STEP_2, timeline=1)),
    ):
        with pytest.raises(TimelineDropped, match="a cleanup has dropped"):
            look()
    for look in (
        lambda: hf.history("s", checkpoint=position),
        lambda: hf.diff(f"s:c{position}", "s"),
        lambda: hf.fork("s", checkpoint=position),
        lambda: loaded(hf, checkpoint=position),
    ):
        with pytest.raises(CheckpointDropped, match="a cleanup has dropped"):
            look()


def test_pruning_leaves_the_current_timeline_as_it_is_whatever_the_status(hf: Holdfast) -> None:
    travelled(hf)
    state = loaded(hf)
    state.save_checkpoint(StateStatus.RUNNING)
    position = state.save_checkpoint(StateStatus.PAUSED)
    del state
    before = list(hf.history("s"))
    statistics = hf.history("s").retry_statistics()
    done = foreseen(hf, PRUNE)
    assert ["earlier timelines, not changed for more than 0 seconds"] == [each.reason for each in done.compacted]
    assert before == list(hf.history("s"))
    assert statistics == hf.history("s").retry_statistics()
    assert position in [each.position for each in hf.checkpoints("s")]
    assert list(hf.history("s", checkpoint=position)) == before[: len(list(hf.history("s", checkpoint=position)))]
    assert 400 == asyncio.run(hf.rerun("s", STEP_2))
    assert list(hf.history("s", timeline=3))
    assert hf.doctor().is_sound


@agent
async def asking() -> str:
    await step(7)
    return await ask("Which one?", str)


def test_a_question_that_is_open_is_answered_after_a_pruning(memory: Holdfast) -> None:
    with pytest.raises(AwaitingAnswer):
        memory.run_sync(asking, state_id="s")
    with pytest.raises(AwaitingAnswer):
        asyncio.run(memory.rerun("s", "asking::step::tool_call"))
    assert 1 == len(foreseen(memory, Retention(prune_after=NOW, compact_after=NOW)).compacted)
    memory.answer("s", "this one")
    assert "this one" == asyncio.run(memory.resume("s"))


def test_rules_say_which_states_lose_records(memory: Holdfast) -> None:
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


def test_states_that_share_records_are_left_alone(hf: Holdfast) -> None:
    travelled(hf, "parent")
    hf.fork("parent", STEP_2, new_state_id="fork")
    asyncio.run(hf.resume("fork"))
    travelled(hf, "gone")
    hf.fork("gone", STEP_2, new_state_id="orphan")
    asyncio.run(hf.resume("orphan"))
    hf.delete("gone")
    done = foreseen(hf, Retention(compact_after=NOW, prune_after=NOW))
    assert ([], {"shares records with other states": 3}) == (done.compacted, done.left_whole)
    hf.delete("fork")
    assert ["parent"] == [each.state_id for each in foreseen(hf, COMPACT).compacted]
    assert 400 == asyncio.run(hf.resume("orphan"))


def test_a_fork_that_goes_in_the_same_cleanup_keeps_nothing_back(memory: Holdfast) -> None:
    travelled(memory, "parent", metadata=StateMetadata(pipeline_name="old"))
    memory.fork("parent", STEP_2, new_state_id="fork", metadata=StateMetadata(tags=["go"]))
    asyncio.run(memory.resume("fork"))
    rules = Retention(max_per_pipeline=0, compact_after=NOW, tags=["go"])
    assert ["fork"] == [each.state_id for each in foreseen(memory, rules).removed]
    assert ["parent"] == [each.state_id for each in foreseen(memory, COMPACT).compacted]


def test_what_is_held_or_taken_up_meanwhile_stays_whole(hf: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    travelled(hf)
    frames = hf.backend.read("s")
    claimed = cleaning.claimed

    def taken_up(*arguments: Any) -> Any:
        grants = claimed(*arguments)
        loaded(hf).save_checkpoint(StateStatus.COMPLETED)
        return grants

    monkeypatch.setattr(compacting, "claimed", taken_up)
    done = hf.cleanup(COMPACT)
    assert [] == done.compacted
    assert frames == hf.backend.read("s")[: len(frames)]
    monkeypatch.undo()
    state = loaded(hf)
    state.save_checkpoint(StateStatus.RUNNING)
    assert {"being run": 1} == hf.cleanup(PRUNE).left_whole
    del state


def test_a_state_that_was_loaded_before_goes_on_behind_the_records_as_they_are(hf: Holdfast) -> None:
    travelled(hf)
    state, earlier = loaded(hf), loaded(hf, timeline=1)
    foreseen(hf, COMPACT)
    state.storage.set("x", 1)
    state.save_checkpoint(StateStatus.COMPLETED)
    assert hf.verify("s").is_sound
    assert 1 == loaded(hf).storage.get("x")
    with pytest.raises(TimelineDropped):
        earlier.storage.set("x", 2)
    assert hf.verify("s").is_sound


class ForkedInBetween(MemoryStateBackend):
    """Compacts a state between the look of a fork at it and the claim."""

    def __init__(self) -> None:
        super().__init__()
        self.compacts: Holdfast | None = None

    def acquire(self, claims: Any) -> Any:
        if self.compacts is not None and any(isinstance(claim, Claim) and claim.base for claim in claims):
            hf, self.compacts = self.compacts, None
            assert hf.cleanup(COMPACT).compacted
        return super().acquire(claims)


def test_a_fork_of_what_is_just_compacted_is_whole() -> None:
    tried.clear()
    backend = ForkedInBetween()
    hf = Holdfast(backend)
    travelled(hf)
    backend.compacts = hf
    hf.fork("s", STEP_2, new_state_id="fork")
    assert hf.verify("fork").is_sound
    assert 400 == asyncio.run(hf.resume("fork"))


class CompactedBeforeReading(MemoryStateBackend):
    compacts: Holdfast | None = None

    def read(self, state_id: str, after: int = 0, limit: int | None = None) -> list[tuple[int, bytes]]:
        if self.compacts is not None:
            hf, self.compacts = self.compacts, None
            assert hf.cleanup(COMPACT).compacted
        return super().read(state_id, after, limit)


def test_a_state_that_is_compacted_between_its_header_and_its_records_is_read() -> None:
    tried.clear()
    backend = CompactedBeforeReading()
    hf = Holdfast(backend)
    travelled(hf)
    backend.compacts = hf
    assert 9 == len(hf.history("s"))
    assert backend.compacts is None


class ForkedBeforeRewriting(MemoryStateBackend):
    forks: Holdfast | None = None

    def rewrite(self, appends: Any) -> None:
        if self.forks is not None and any(isinstance(append, Append) for append in appends):
            hf, self.forks = self.forks, None
            hf.fork("s", STEP_2, new_state_id="fork")
        super().rewrite(appends)


def test_what_is_just_forked_is_not_compacted() -> None:
    tried.clear()
    backend = ForkedBeforeRewriting()
    hf = Holdfast(backend)
    travelled(hf)
    backend.forks = hf
    done = hf.cleanup(COMPACT)
    assert ([], {"shares records with other states": 1}) == (done.compacted, done.left_whole)
    assert hf.verify("fork").is_sound
    assert hf.verify("s").is_sound


@tool
async def make(number: int) -> bytes:
    tried[number] = tried.get(number, 0) + 1
    return random.Random(1000 * number + tried[number]).randbytes(40_000)


@agent
async def making(count: int) -> int:
    return sum([len(await make(number)) for number in range(count)])


def test_artifacts_that_only_dropped_records_name_go_in_the_same_cleanup(hf: Holdfast, tmp_path: Path) -> None:
    tried.clear()
    options: dict[str, Any] = {"encryption": KEY} if hf._stored.cipher is not None else {}
    store = Holdfast(hf.backend, artifact_backend=FileSystemArtifactBackend(tmp_path / "artifacts"), **options)
    store.run_sync(making, 3, state_id="s")
    asyncio.run(store.rerun("s", "making::make#2::tool_call"))
    done = foreseen(store, PRUNE, grace=NOW)
    assert 2 == done.artifacts
    assert 120_000 == store.run_sync(making, 3, state_id="s")
    assert store.verify("s").is_sound


def test_a_damaged_state_is_left_alone(memory: Holdfast) -> None:
    travelled(memory)
    stored = memory.backend._by_id["s"]  # type: ignore[attr-defined]
    stored.journal.own.bodies[3] = stored.journal.own.bodies[3][:-1] + b"?"
    done = foreseen(memory, COMPACT)
    assert ([], {"damaged": 1}) == (done.compacted, done.left_whole)


def test_what_model_calls_used_stays_known(memory: Holdfast) -> None:
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
