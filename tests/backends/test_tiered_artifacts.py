"""Two artifact backends as one: who gets what, and what both know."""

from __future__ import annotations

from pathlib import Path

import pytest

from limpet.backends.files import FileSystemArtifactBackend
from limpet.backends.memory.artifacts import MemoryArtifactBackend
from limpet.backends.tiered_artifacts import TieredArtifactBackend
from limpet.errors import UsageError
from limpet.model.artifacts import Pin, content_of
from limpet.testing import TurnedClock
from limpet.testing.conformance.artifact_case import id_of

PIN = Pin("0123456789abcdef" * 2, "kelp", 1)

SMALL, LARGE = b"x" * 10, b"x" * 11


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def small(clock: TurnedClock) -> MemoryArtifactBackend:
    return MemoryArtifactBackend(clock)


@pytest.fixture
def large(clock: TurnedClock, tmp_path: Path) -> FileSystemArtifactBackend:
    return FileSystemArtifactBackend(tmp_path / "large", "normal", clock)


@pytest.fixture
def tiered(small: MemoryArtifactBackend, large: FileSystemArtifactBackend) -> TieredArtifactBackend:
    return TieredArtifactBackend(small, large, 10)


def test_content_goes_where_its_size_says(
    tiered: TieredArtifactBackend, small: MemoryArtifactBackend, large: FileSystemArtifactBackend
) -> None:
    for data in (SMALL, LARGE):
        assert tiered.put(id_of(data), content_of(data), PIN)
    assert [id_of(SMALL)] == [info.artifact_id for info in small.list_artifacts()]
    assert [id_of(LARGE)] == [info.artifact_id for info in large.list_artifacts()]
    assert {PIN: {id_of(SMALL), id_of(LARGE)}} == dict(tiered.pins())
    tiered.unpin([PIN])
    assert ({}, {}) == (small.pins(), large.pins())


def test_the_place_for_large_content_is_not_made_before_there_is_any(
    tiered: TieredArtifactBackend, tmp_path: Path
) -> None:
    tiered.enlist(PIN.store_id, "ours")
    tiered.put(id_of(SMALL), content_of(SMALL), PIN)
    assert [id_of(SMALL)] == [info.artifact_id for info in tiered.list_artifacts()]
    assert ({PIN.store_id: "ours"}, {PIN}) == (dict(tiered.stores()), set(tiered.pins()))
    tiered.unpin([PIN])
    assert [] == list(tmp_path.iterdir())


def test_stores_are_known_where_large_content_lies_before_the_content_is(
    tiered: TieredArtifactBackend, large: FileSystemArtifactBackend
) -> None:
    other = "f" * 32
    tiered.enlist(PIN.store_id, "ours")
    tiered.put(id_of(LARGE), content_of(LARGE))
    assert {PIN.store_id: "ours"} == dict(large.stores())
    tiered.enlist(other, "theirs")
    tiered.put(id_of(LARGE), content_of(LARGE))
    assert {PIN.store_id: "ours", other: "theirs"} == dict(large.stores())


def test_what_lies_in_both_is_listed_once_and_deleted_as_it_was_seen(
    tiered: TieredArtifactBackend, small: MemoryArtifactBackend, large: FileSystemArtifactBackend, clock: TurnedClock
) -> None:
    small.put(id_of(LARGE), content_of(LARGE))
    clock.turn(10.0)
    large.put(id_of(LARGE), content_of(LARGE))
    (info,) = tiered.list_artifacts()
    assert info == tiered.find(id_of(LARGE))
    assert clock.now == info.put_at
    assert tiered.delete(id_of(LARGE), info.put_at)
    (info,) = tiered.list_artifacts()
    assert LARGE == b"".join(tiered.read(id_of(LARGE)))
    assert tiered.delete(id_of(LARGE), info.put_at)
    assert tiered.find(id_of(LARGE)) is None


def test_both_are_closed(
    tiered: TieredArtifactBackend, small: MemoryArtifactBackend, large: FileSystemArtifactBackend
) -> None:
    tiered.close()
    for backend in (small, large):
        with pytest.raises(UsageError, match="closed"):
            backend.list_artifacts()


def test_it_waits_if_one_of_them_does(tiered: TieredArtifactBackend, small: MemoryArtifactBackend) -> None:
    assert (True, False) == (tiered.waits, TieredArtifactBackend(small, small, 1).waits)
