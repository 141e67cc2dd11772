"""The conformance suite on every artifact backend, in each of its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.files import FileSystemArtifactBackend
from limpet.backends.memory.artifacts import MemoryArtifactBackend
from limpet.backends.sqlite.artifacts import SQLiteArtifactBackend
from limpet.backends.sqlite.connection import locate
from limpet.backends.sqlite.database import Database
from limpet.backends.tiered_artifacts import TieredArtifactBackend
from limpet.testing import ArtifactBackendConformance


class TestMemoryArtifacts(ArtifactBackendConformance):
    def make_backend(self, clock: Callable[[], float]) -> MemoryArtifactBackend:
        return MemoryArtifactBackend(clock)


class _InFolder(ArtifactBackendConformance):
    @pytest.fixture(autouse=True)
    def _in_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def reopen(self, backend: ArtifactBackend, clock: Callable[[], float]) -> ArtifactBackend:
        return self.make_backend(clock)


class _FilesConformance(_InFolder):
    synchronous: Literal["full", "normal"]

    def make_backend(self, clock: Callable[[], float]) -> FileSystemArtifactBackend:
        return FileSystemArtifactBackend(self.folder / "artifacts", self.synchronous, clock)


class TestFilesFull(_FilesConformance):
    synchronous = "full"


class TestFilesNormal(_FilesConformance):
    synchronous = "normal"


class OwnDatabase(SQLiteArtifactBackend):
    """Artifacts in a file that no store has open."""

    def __init__(self, path: Path, synchronous: str, clock: Callable[[], float]) -> None:
        self._own = Database(locate(path, 30.0), synchronous)
        super().__init__(self._own, clock)

    def close(self) -> None:
        super().close()
        self._own.close()


class _SQLiteConformance(_InFolder):
    synchronous: Literal["full", "normal"]

    def make_backend(self, clock: Callable[[], float]) -> SQLiteArtifactBackend:
        return OwnDatabase(self.folder / "states.db", self.synchronous, clock)


class TestSQLiteFull(_SQLiteConformance):
    synchronous = "full"


class TestSQLiteNormal(_SQLiteConformance):
    synchronous = "normal"


class TestTiered(_InFolder):
    def make_backend(self, clock: Callable[[], float]) -> TieredArtifactBackend:
        small = OwnDatabase(self.folder / "states.db", "normal", clock)
        large = FileSystemArtifactBackend(self.folder / "states.db-artifacts", "normal", clock)
        return TieredArtifactBackend(small, large, 2000)
