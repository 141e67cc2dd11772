"""The conformance suite on a folder of files: in both of its settings, and with segments that are always packed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from limpet.backends.contract import StateBackend
from limpet.backends.files.states import FileSystemStateBackend
from limpet.testing import StateBackendConformance


class _FilesConformance(StateBackendConformance):
    synchronous: Literal["full", "normal"]
    compression: Literal["zstd", "gzip"] | None = None
    segment_size = 4 << 20

    @pytest.fixture(autouse=True)
    def _in_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "states"

    def make_backend(self, clock: Callable[[], float]) -> FileSystemStateBackend:
        return FileSystemStateBackend(
            self.path, self.synchronous, clock, compression=self.compression, segment_size=self.segment_size
        )

    def reopen(self, backend: StateBackend, clock: Callable[[], float]) -> FileSystemStateBackend:
        return self.make_backend(clock)


class TestFilesFull(_FilesConformance):
    synchronous = "full"


class TestFilesNormal(_FilesConformance):
    synchronous = "normal"


class TestFilesInPackedSegments(_FilesConformance):
    synchronous = "normal"
    compression = "zstd"
    segment_size = 300
