"""The conformance suite on SQLite, in both of its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from limpet.backends.contract import StateBackend
from limpet.backends.sqlite import SQLiteStateBackend
from limpet.testing import StateBackendConformance


class _SQLiteConformance(StateBackendConformance):
    synchronous: Literal["full", "normal"]

    @pytest.fixture(autouse=True)
    def _in_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "states.db"

    def make_backend(self, clock: Callable[[], float]) -> SQLiteStateBackend:
        return SQLiteStateBackend(self.path, self.synchronous, clock)

    def reopen(self, backend: StateBackend, clock: Callable[[], float]) -> SQLiteStateBackend:
        return SQLiteStateBackend(self.path, self.synchronous, clock)


class TestSQLiteFull(_SQLiteConformance):
    synchronous = "full"


class TestSQLiteNormal(_SQLiteConformance):
    synchronous = "normal"
