"""The artifacts of a backend that dies at a chosen write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.memory import MemoryStateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.model.artifacts import Pin, content_of
from limpet.testing import ArtifactBackendConformance, CrashingBackend, SimulatedCrash
from limpet.testing.conformance.artifact_case import id_of

PIN = Pin("0123456789abcdef" * 2, "kelp", 1)


def _artifacts(backend: CrashingBackend) -> ArtifactBackend:
    assert backend.own_artifacts is not None
    return backend.own_artifacts


class TestCrashingArtifacts(ArtifactBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> ArtifactBackend:
        return _artifacts(CrashingBackend(MemoryStateBackend(clock)))


@pytest.mark.parametrize(("when", "is_there"), [("before", False), ("after", True)])
def test_a_put_is_a_write_that_it_can_die_at(when: Literal["before", "after"], is_there: bool) -> None:
    inner = MemoryStateBackend()
    crashing = CrashingBackend(inner, stop_at=2, when=when)
    artifacts = _artifacts(crashing)
    artifacts.put(id_of(b"first"), content_of(b"first"))
    with pytest.raises(SimulatedCrash):
        artifacts.put(id_of(b"second"), content_of(b"second"))
    assert 2 == crashing.writes
    assert inner.own_artifacts is not None
    assert is_there == (inner.own_artifacts.find(id_of(b"second")) is not None)
    uses = (
        lambda: artifacts.put(id_of(b"x"), content_of(b"x")),
        lambda: artifacts.read(id_of(b"first")),
        lambda: artifacts.find(id_of(b"first")),
        artifacts.list_artifacts,
        lambda: artifacts.delete(id_of(b"first"), 0.0),
        artifacts.pins,
        lambda: artifacts.unpin([PIN]),
        lambda: artifacts.enlist(PIN.store_id, "x"),
        artifacts.stores,
        crashing.list_states,
    )
    for use in uses:
        with pytest.raises(SimulatedCrash):
            use()


def test_large_artifacts_are_counted_too(tmp_path: Path) -> None:
    inner = SQLiteStateBackend(tmp_path / "runs.db", "normal")
    with CrashingBackend(inner) as crashing:
        for size in (10, 300_000):
            _artifacts(crashing).put(id_of(bytes(size)), content_of(bytes(size)))
        assert (2, None) == (crashing.writes, crashing.artifacts_folder)
        assert inner.store_id == crashing.store_id
    assert ["runs.db", "runs.db-artifacts"] == sorted(entry.name for entry in tmp_path.iterdir())
