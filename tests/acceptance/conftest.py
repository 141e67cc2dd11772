"""What the stories of time travel stand on: a store of each kind, and the verbs on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from limpet import Limpet, MemoryStateBackend, SQLiteStateBackend, StateBackend


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StateBackend]:
    made = MemoryStateBackend() if request.param == "memory" else SQLiteStateBackend(tmp_path / "s.db", "normal")
    with made as opened:
        yield opened


@pytest.fixture
def client(backend: StateBackend) -> Limpet:
    return Limpet(backend)
