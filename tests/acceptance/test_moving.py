"""Copies of states between stores of every kind: equal in every byte, and taken up on the other side."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import msgspec
import pytest
from acceptance.moving_stores import (
    KINDS,
    artifacts_in,
    executions,
    failing,
    fill,
    present,
    require_equal,
    stepping,
    told,
    writing,
)

from limpet import (
    ArtifactMissing,
    Base,
    Claim,
    Content,
    Copied,
    Encryption,
    ExecutionState,
    InvalidStateId,
    LeaseHeld,
    Limpet,
    MemoryArtifactBackend,
    MemoryStateBackend,
    Pin,
    StateBackend,
    StateHeader,
    StateMetadata,
    StateStatus,
    StoreFull,
    UnknownState,
    UnknownStore,
    UsageError,
    WrongKey,
    new_key,
)
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.testing import CrashingBackend
from limpet.testing.crashing import SimulatedCrash

KEY = new_key()


@pytest.fixture(autouse=True)
def fresh() -> None:
    executions.clear()
    failing.clear()


@pytest.fixture(params=[(source, target) for source in KINDS for target in KINDS], ids="-to-".join)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StateBackend, StateBackend]]:
    with ExitStack() as opened:
        made: list[StateBackend] = []
        for number, kind in enumerate(request.param):
            folder = tmp_path / str(number)
            folder.mkdir()
            made.append(opened.enter_context(KINDS[kind](folder)))
        yield made[0], made[1]


def resume(client: Limpet, state_id: str) -> Any:
    return asyncio.run(client.resume(state_id))


def headers(backend: StateBackend) -> dict[str, Any]:
    return {header.state_id: told(header) for header in backend.list_states(limit=1000)}


def test_a_whole_store_is_copied_in_every_byte(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = map(Limpet, stores)
    fill(source)
    report = Limpet.copy(*stores)
    assert sorted(present()) == sorted(report.copied)
    assert ([], [], {}) == (report.updated, report.unchanged, report.refused)
    assert sorted(present()) == sorted(header.state_id for header in target.list_states())
    require_equal(source, target, present())
    assert artifacts_in(source) == artifacts_in(target)
    assert len(artifacts_in(target)) == report.artifacts == 3
    assert report.bytes > 340_000
    again = Limpet.copy(*stores)
    assert Copied(unchanged=again.unchanged) == again
    assert sorted(present()) == sorted(again.unchanged)


def test_a_copy_goes_on_without_executing_what_is_recorded(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = map(Limpet, stores)
    fill(source)
    source.copy(source, target)
    executions.clear()
    assert ["s3/1", "s4/1"] == resume(target, "failed")[2:]
    assert Counter(s3=1, s4=1) == executions
    executions.clear()
    assert resume(source, "run") == resume(target, "run")
    assert resume(source, "artifacts") == resume(target, "artifacts")
    assert resume(source, "child") == resume(target, "child")
    assert resume(source, "orphan") == resume(target, "orphan")
    assert Counter() == executions
    resume(target, "grandchild")
    resume(target, "of-orphan")
    assert Counter(s4=1, s3=1) == executions
    explicit = ExecutionState.load_from_state_id("explicit", target.backend)
    assert ({"fathoms": 20}, b"\x00" * 40_000) == (
        explicit.storage.get("depth"),
        explicit.storage.get_artifact("chart"),
    )
    assert 2 == len(target.timelines("timelines"))


def test_what_forks_share_is_shared_in_the_copy_too(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = map(Limpet, stores)
    fill(source)
    report = Limpet.copy(source, target)
    own = sum(header.position - (header.bases[-1].last if header.bases else 0) for header in source.list_states())
    # The records of the deleted state are written once, with the first state that shares them.
    orphan = source.backend.find_state("orphan")
    assert orphan is not None
    assert own + orphan.bases[-1].last == report.records
    # A parent can go there as well, and its forks keep what they share.
    target.delete("run")
    require_equal(source, target, ["child", "grandchild"])
    assert resume(source, "child") == resume(target, "child")


@pytest.mark.parametrize("state_id", ["child", "grandchild", "of-orphan", "run"])
def test_a_fork_is_copied_by_itself_with_what_it_shares(
    stores: tuple[StateBackend, StateBackend], state_id: str
) -> None:
    source, target = map(Limpet, stores)
    fill(source)
    assert [state_id] == Limpet.copy(source, target, states=state_id).copied
    assert [state_id] == [header.state_id for header in target.list_states()]
    require_equal(source, target, [state_id])
    # The rest follows, and finds what is there.
    report = Limpet.copy(source, target)
    assert ([state_id], {}) == (report.unchanged, report.refused)
    require_equal(source, target, present())


def test_a_copy_is_brought_up_to_date_with_what_is_new(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = map(Limpet, stores)
    failing.add("s3")
    with pytest.raises(LookupError):
        source.run_sync(stepping, 4, state_id="x")
    source.run_sync(stepping, 1, state_id="y")
    Limpet.copy(source, target)
    failing.clear()
    resume(source, "x")
    source.run_sync(writing, "end", state_id="z")
    before = target.backend.find_state("x")
    assert before is not None
    report = Limpet.copy(source, target)
    assert (["z"], ["x"], ["y"]) == (report.copied, report.updated, report.unchanged)
    new = [len(source.backend.read("x")) - before.position, len(source.backend.read("z"))]
    assert sum(new) == report.records
    require_equal(source, target, ["x", "y", "z"])
    asyncio.run(source.rerun("x", "step#2"))
    assert ["x"] == Limpet.copy(source, target).updated
    require_equal(source, target, ["x"])
    assert 2 == len(target.timelines("x"))


def test_a_header_that_has_changed_is_brought_up_to_date(stores: tuple[StateBackend, StateBackend]) -> None:
    source, target = map(Limpet, stores)
    state = ExecutionState(state_backend=source.backend, state_id="x")
    state.storage.set("a", 1)
    Limpet.copy(source, target)
    state.save_checkpoint(StateStatus.PAUSED, StateMetadata(tags=["new"], description="changed"))
    state.save_checkpoint(StateStatus.COMPLETED)
    assert ["x"] == Limpet.copy(source, target).updated
    require_equal(source, target, ["x"])
    assert ["x"] == [header.state_id for header in target.list_states(tags=["new"], status=StateStatus.COMPLETED)]
    assert ["x"] == Limpet.copy(source, target).unchanged


def test_a_running_state_is_copied_as_it_stands_and_free_on_the_other_side() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    state = ExecutionState(state_backend=source.backend, state_id="x")
    state.storage.set("a", 1)
    Limpet.copy(source, target)
    header = target.backend.find_state("x")
    assert header is not None
    assert (StateStatus.RUNNING, None) == (header.status, header.holder)
    there = ExecutionState.load_from_state_id("x", target.backend)
    there.storage.set("b", 2)
    assert [1, 2] == [there.storage.get(key) for key in "ab"]


def test_a_state_that_went_on_in_the_target_is_refused_and_left_alone() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    failing.add("s3")
    with pytest.raises(LookupError):
        source.run_sync(stepping, 4, state_id="x")
    source.run_sync(stepping, 1, state_id="y")
    Limpet.copy(source, target)
    failing.clear()
    resume(target, "x")
    before = headers(target.backend)
    report = Limpet.copy(source, target)
    assert (["y"], ["x"], False) == (report.unchanged, list(report.refused), report.is_ok)
    assert "it has gone on there, and has 4 records more" in report.refused["x"]
    with pytest.raises(UsageError, match="Another state has the id 'x' in memory://"):
        Limpet.copy(source, target, states="x")
    resume(source, "x")
    assert "they differ from record 6 on" in Limpet.copy(source, target).refused["x"]
    assert before == headers(target.backend)


def test_another_state_of_the_same_id_is_refused() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    source.run_sync(stepping, 2, state_id="x")
    target.run_sync(stepping, 3, state_id="x")
    refused = Limpet.copy(source, target).refused
    assert {"x"} == set(refused)
    assert "they differ from record 1 on. It was left as it is." in refused["x"]


def test_a_fork_whose_parent_is_another_state_in_the_target_is_refused_by_both_names() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    source.run_sync(stepping, 3, state_id="x")
    source.fork("x", "step#2", new_state_id="y")
    target.run_sync(stepping, 3, state_id="x")
    refused = Limpet.copy(source, target).refused
    assert {"x", "y"} == set(refused)
    assert "State 'y' shares 2 records with 'x', which is in memory:// with other records." in refused["y"]


def test_a_fork_whose_parent_is_older_in_the_target_says_what_to_copy() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    failing.add("s2")
    with pytest.raises(LookupError):
        source.run_sync(stepping, 4, state_id="x")
    Limpet.copy(source, target)
    failing.clear()
    resume(source, "x")
    source.fork("x", "step#4", new_state_id="y")
    with pytest.raises(UsageError, match=r"with only 4 of these\. Copy 'x' too, or use another store\."):
        Limpet.copy(source, target, states="y")
    report = Limpet.copy(source, target, states=["y", "x"])
    assert (["y"], ["x"]) == (report.copied, report.updated)


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_that_took_the_id_of_a_deleted_parent_is_copied_as_well(kind: str, tmp_path: Path) -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(KINDS[kind](tmp_path))
    source.run_sync(stepping, 3, state_id="x")
    source.fork("x", "step#2", new_state_id="y")
    source.delete("x")
    source.run_sync(stepping, 4, state_id="x")
    assert ["y", "x"] == Limpet.copy(source, target).copied
    require_equal(source, target, ["x", "y"])
    target.backend.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_that_has_the_id_of_what_it_shares_is_copied(kind: str, tmp_path: Path) -> None:
    source = Limpet(MemoryStateBackend())
    source.run_sync(stepping, 4, state_id="x")
    resume(source, source.fork("x", "step#2", new_state_id="y"))
    source.delete("x")
    source.fork("y", "step#4", new_state_id="x")
    header = source.backend.find_state("x")
    assert header is not None
    assert ["x", "y"] == [base.state_id for base in header.bases]
    for states in ("x", None):
        folder = tmp_path / str(states)
        folder.mkdir()
        with KINDS[kind](folder) as backend:
            target = Limpet(backend)
            assert "x" in Limpet.copy(source, target, states=states).copied
            require_equal(source, target, ["x"])
            assert resume(target, "x")


def test_parents_come_first_whatever_the_clocks_said() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    source.run_sync(stepping, 3, state_id="x")
    fork = source.fork("x", "step#2", new_state_id="y")
    header = source.backend.find_state("x")
    child = source.backend.find_state(fork)
    assert header is not None
    assert child is not None
    # Made again as what a machine would have made whose clock is slow.
    frames = [frame for _, frame in source.backend.read("y")][child.bases[-1].last :]
    source.delete("y")
    early = header.created_at.replace(year=2001)
    claim = Claim(
        header=msgspec.structs.replace(child, created_at=early),
        bodies=tuple(frames),
        base=Base("x", child.bases[-1].last),
        holder=new_holder(),
        ttl_s=0.0,
    )
    source.backend.acquire((claim,))
    assert ["x", "y"] == [header.state_id for header in source.list_states()]
    told_of: list[tuple[int, int, str]] = []
    report = Limpet.copy(source, target, on_progress=lambda *progress: told_of.append(progress))
    assert ["x", "y"] == report.copied
    assert [(1, 2, "x"), (2, 2, "y")] == told_of
    assert header.position + len(frames) == report.records


def test_a_damaged_state_is_refused_and_hides_no_other() -> None:
    backend, target = MemoryStateBackend(), Limpet(MemoryStateBackend())
    source = Limpet(backend)
    for state_id in ("a", "b", "c"):
        source.run_sync(stepping, 3, state_id=state_id)
    source.fork("b", "step#2", new_state_id="early")
    source.fork("b", "step#3", new_state_id="late")
    bodies = next(backend._by_id["b"].journal.sources()).bodies
    bodies[2] = bodies[2][:-1] + b"?"
    report = Limpet.copy(source, target)
    assert (["a", "c", "early"], {"b", "late"}) == (report.copied, set(report.refused))
    assert "State 'b' is damaged at record 3" in report.refused["b"]
    assert {"a", "c", "early"} == set(headers(target.backend))


def test_a_state_whose_artifact_is_gone_is_refused() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    source.run_sync(writing, "end", state_id="x")
    assert source.artifacts is not None
    (info, *_) = source.artifacts.list_artifacts()
    source.artifacts.delete(info.artifact_id, info.put_at)
    with pytest.raises(ArtifactMissing):
        Limpet.copy(source, target, states="x")
    assert {} == headers(target.backend)


def test_artifacts_are_copied_from_and_to_where_they_are_kept() -> None:
    kept, other = MemoryArtifactBackend(), MemoryArtifactBackend()
    source = Limpet(MemoryStateBackend(), artifact_backend=kept)
    target = Limpet(MemoryStateBackend(), artifact_backend=other)
    result = source.run_sync(writing, "end", state_id="x")
    assert 2 == len(kept.list_artifacts()) == Limpet.copy(source, target).artifacts
    assert 2 == len(other.list_artifacts())
    assert result == resume(target, "x")
    assert {target.backend.store_id} == set(other.stores())
    assert 2 == target.collect(grace=timedelta(0)).named


def test_an_encrypted_store_is_copied_with_its_key_and_stays_encrypted(
    stores: tuple[StateBackend, StateBackend],
) -> None:
    source = Limpet(stores[0], encryption=Encryption(KEY))
    fill(source, Encryption(KEY))
    target = Limpet(stores[1], encryption=Encryption(KEY))
    assert sorted(present()) == sorted(Limpet.copy(source, target).copied)
    require_equal(source, target, present())
    assert resume(source, "artifacts") == resume(target, "artifacts")
    with pytest.raises(WrongKey):
        Limpet(stores[1]).history("run")


def test_an_encrypted_state_without_its_key_is_refused() -> None:
    source = Limpet(MemoryStateBackend(), encryption=Encryption(KEY))
    source.run_sync(stepping, 1, state_id="x")
    target = MemoryStateBackend()
    with pytest.raises(WrongKey):
        Limpet.copy(source.backend, target, states="x")
    assert ["x"] == list(Limpet.copy(source.backend, target).refused)
    assert {} == headers(target)


def test_a_state_that_is_being_run_in_the_target_is_left_alone() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    state = ExecutionState(state_backend=source.backend, state_id="x")
    state.storage.set("a", 1)
    Limpet.copy(source, target)
    state.storage.set("b", 2)
    header = target.backend.find_state("x")
    assert header is not None
    holder = new_holder()
    mark_running(holder)
    (grant,) = target.backend.acquire((Claim(header=header, holder=holder, ttl_s=30),))
    assert grant is not None
    assert grant.lease is not None
    with pytest.raises(LeaseHeld):
        Limpet.copy(source, target, states="x")
    assert "is being run by" in Limpet.copy(source, target).refused["x"]
    mark_ended(holder)
    assert ["x"] == Limpet.copy(source, target).updated


def test_only_the_states_that_are_named_are_copied() -> None:
    source, target = Limpet(MemoryStateBackend()), Limpet(MemoryStateBackend())
    for state_id in ("a", "b", "c"):
        source.run_sync(stepping, 1, state_id=state_id)
    report = Limpet.copy(source, target, states=["c", "a", "nothing"])
    assert (["a", "c"], ["nothing"]) == (report.copied, list(report.refused))
    assert "No state 'nothing' is in this store." in report.refused["nothing"]
    with pytest.raises(UnknownState):
        Limpet.copy(source, target, states="nothing")
    with pytest.raises(InvalidStateId):
        Limpet.copy(source, target, states=["../a"])
    assert Copied() == Limpet.copy(source, target, states=[])


def test_stores_are_given_by_url_too(tmp_path: Path) -> None:
    url, other = f"sqlite:///{tmp_path}/a.db", f"sqlite:///{tmp_path}/b.db"
    with pytest.raises(UnknownStore):
        Limpet.copy(url, other)
    assert [] == list(tmp_path.iterdir())
    with Limpet(url) as client:
        result = client.run_sync(writing, "end", state_id="x")
        assert ["x"] == client.copy(url, other).copied
    with Limpet(other) as client:
        assert result == resume(client, "x")


def test_what_concerns_the_whole_target_is_raised() -> None:
    class Full(MemoryStateBackend):
        def acquire(self, claims: Any) -> Any:
            raise StoreFull(self.name, "the disk is full")

    source = Limpet(MemoryStateBackend())
    source.run_sync(stepping, 1, state_id="x")
    with pytest.raises(StoreFull):
        Limpet.copy(source, Full())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_copy_that_dies_at_any_write_leaves_whole_states_and_is_completed(
    kind: str, when: Any, tmp_path: Path
) -> None:
    source = Limpet(MemoryStateBackend())
    fill(source)
    counting = CrashingBackend(MemoryStateBackend())
    Limpet.copy(source, counting)
    assert counting.writes > 15
    for write in range(1, counting.writes + 1):
        folder = tmp_path / str(write)
        folder.mkdir()
        with KINDS[kind](folder) as backend:
            with pytest.raises(SimulatedCrash):
                Limpet.copy(source, CrashingBackend(backend, stop_at=write, when=when))
            target = Limpet(backend)
            whole = [header.state_id for header in target.list_states() if header.state_id != "gone"]
            require_equal(source, target, whole)
            report = Limpet.copy(source, target)
            assert {} == report.refused
            require_equal(source, target, present())
            assert sorted(present()) == sorted(header.state_id for header in target.list_states())
            assert artifacts_in(source) == artifacts_in(target)


def test_a_stand_in_that_a_crash_left_behind_is_cleared_away() -> None:
    source = Limpet(MemoryStateBackend())
    fill(source)
    for states, owner in (("orphan", "gone"), ("child", "run")):
        for write in range(1, 4):
            backend = MemoryStateBackend()
            with pytest.raises(SimulatedCrash):
                Limpet.copy(source, CrashingBackend(backend, stop_at=write, when="after"), states=states)
            assert (owner in headers(backend)) is (write < 3)
            report = Limpet.copy(source, backend)
            assert {} == report.refused
            assert sorted(present()) == sorted(headers(backend))


def test_two_copies_at_once_do_not_hinder_each_other() -> None:
    source = Limpet(MemoryStateBackend())
    fill(source)

    class Racing(MemoryStateBackend):
        """Another copy goes by before each claim."""

        is_racing = False

        def acquire(self, claims: Any) -> Any:
            if not self.is_racing:
                self.is_racing = True
                with suppress(UnknownState, LeaseHeld):
                    Limpet.copy(source, self, states=claims[0].header.state_id)
                self.is_racing = False
            return super().acquire(claims)

    target = Limpet(Racing())
    report = Limpet.copy(source, target)
    assert {} == report.refused
    require_equal(source, target, present())


def test_what_is_deleted_or_made_anew_while_it_is_copied_is_left_for_the_next_time() -> None:
    class Restless(MemoryStateBackend):
        """Deletes two states when they are read, and makes one of them anew."""

        def read(self, state_id: str, after: int = 0, limit: int | None = None) -> Any:
            if state_id in ("b", "c") and not executions["deleted " + state_id]:
                executions["deleted " + state_id] += 1
                self.delete_state(state_id)
                if state_id == "c":
                    Limpet(self).run_sync(stepping, 3, state_id="c")
            return super().read(state_id, after, limit)

    source, target = Restless(), Limpet(MemoryStateBackend())
    for state_id in ("a", "b", "c"):
        Limpet(source).run_sync(stepping, 1, state_id=state_id)
    executions.clear()
    assert Copied(copied=["a"], records=3, bytes=ANY) == Limpet.copy(source, target)
    assert ["c"] == Limpet.copy(source, target).copied
    require_equal(Limpet(source), target, ["a", "c"])


def test_a_state_whose_header_is_damaged_is_refused_on_either_side() -> None:
    class Worn(MemoryStateBackend):
        is_worn = False

        def find_state(self, state_id: str) -> StateHeader | None:
            header = super().find_state(state_id)
            return msgspec.structs.replace(header, damage="it is worn") if header and self.is_worn else header

    source, target = Worn(), Worn()
    Limpet(source).run_sync(stepping, 1, state_id="x")
    source.is_worn = True
    assert "its header cannot be trusted (it is worn)" in Limpet.copy(source, target).refused["x"]
    source.is_worn = False
    Limpet.copy(source, target)
    target.is_worn = True
    assert "its header in memory:// cannot be trusted (it is worn)" in Limpet.copy(source, target).refused["x"]


def test_records_that_are_damaged_since_the_last_copy_are_refused() -> None:
    backend, target = MemoryStateBackend(), Limpet(MemoryStateBackend())
    state = ExecutionState(state_backend=backend, state_id="x")
    state.storage.set("a", 1)
    Limpet.copy(backend, target)
    state.storage.set("b", 2)
    state.storage.set("c", 3)
    bodies = next(backend._by_id["x"].journal.sources()).bodies
    whole = bodies[1]
    bodies[1] = whole[:-1] + b"?"
    assert "State 'x' is damaged at record 2" in Limpet.copy(backend, target).refused["x"]
    assert 1 == len(target.backend.read("x"))
    bodies[1] = whole
    assert ["x"] == Limpet.copy(backend, target).updated


def test_a_store_without_a_place_for_artifacts_says_so() -> None:
    class Bare(MemoryStateBackend):
        def __init__(self) -> None:
            super().__init__()
            self.own_artifacts = None

    source = Limpet(MemoryStateBackend())
    source.run_sync(writing, "end", state_id="x")
    source.run_sync(stepping, 1, state_id="y")
    report = Limpet.copy(source, Bare())
    assert (["y"], ["x"]) == (report.copied, list(report.refused))
    assert "has no place for the artifacts" in report.refused["x"]


def test_a_state_is_given_back_where_bringing_it_up_to_date_fails() -> None:
    class Small(MemoryArtifactBackend):
        def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
            raise StoreFull(self.name, "the disk is full")

    source = Limpet(MemoryStateBackend())
    target = Limpet(MemoryStateBackend(), artifact_backend=Small())
    state = ExecutionState(state_backend=source.backend, state_id="x")
    state.storage.set("a", 1)
    Limpet.copy(source, target)
    state.storage.set_artifact("chart", b"kelp")
    with pytest.raises(StoreFull):
        Limpet.copy(source, target)
    header = target.backend.find_state("x")
    assert header is not None
    assert (1, None) == (header.position, header.holder)


def test_a_state_that_was_migrated_on_one_side_says_what_to_do() -> None:
    class Older(MemoryStateBackend):
        def find_state(self, state_id: str) -> StateHeader | None:
            header = super().find_state(state_id)
            return header and msgspec.structs.replace(header, version=1)

    source, target = Limpet(MemoryStateBackend()), Limpet(Older())
    source.run_sync(stepping, 1, state_id="x")
    target.run_sync(stepping, 1, state_id="x")
    refused = Limpet.copy(source, target).refused["x"]
    assert "it has format version 1 there, and 2 here" in refused
    assert "`limpet migrate`" in refused
