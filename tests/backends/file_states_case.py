"""What the tests of states in a folder stand on: the ground of the conformance suite, and the folder itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import msgspec
import ormsgpack
import pytest
from backends.bounds import NOBODY

from limpet.backends.files.states import FileSystemStateBackend
from limpet.model import EventRecord, ExecutionStatus
from limpet.testing.conformance.case import BackendCase


class FileStatesCase(BackendCase):
    """A backend on a new folder for each test; ``self.path`` is the folder."""

    synchronous: Literal["full", "normal"] = "normal"
    compression: Literal["zstd", "gzip"] | None = None
    segment_size = 4 << 20

    @pytest.fixture(autouse=True)
    def _in_folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store"

    def make_backend(self, clock: Callable[[], float]) -> FileSystemStateBackend:
        return FileSystemStateBackend(
            self.path,
            self.synchronous,
            clock,
            lock_timeout_s=5.0,
            compression=self.compression,
            segment_size=self.segment_size,
        )

    def reopen(self, backend: object, clock: Callable[[], float]) -> FileSystemStateBackend:
        return self.make_backend(clock)

    def folder(self, state_id: str = "kelp") -> Path:
        return self.path / "states" / state_id

    def segments(self, state_id: str = "kelp") -> list[Path]:
        return sorted(self.folder(state_id).glob("journal-*"))

    def journal(self, state_id: str = "kelp") -> Path:
        """The newest segment of a state."""
        return self.segments(state_id)[-1]


@contextmanager
def folder_of_ordinary_user() -> Generator[Path]:
    """A folder that an ordinary user can reach, and owns."""
    folder = Path(tempfile.mkdtemp())
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, -1)
    try:
        yield folder
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)
        shutil.rmtree(folder)


def frames(state_id: str, count: int, text: str = "what stands there") -> list[bytes]:
    """Records as they are written: plain frames of events, each chained to the one before."""
    made: list[bytes] = []
    chain = zlib.crc32(state_id.encode())
    for seq in range(1, count + 1):
        result = ormsgpack.packb(f"{text} {seq}")
        record = EventRecord(seq, f"research::fetch#{seq}::tool_call", ExecutionStatus.COMPLETED, 1.5, result=result)
        body = msgspec.msgpack.encode(record)
        own = zlib.crc32(b"\x03" + body, zlib.crc32(state_id.encode())).to_bytes(4, "big")
        chain = zlib.crc32(own, chain)
        made.append(chain.to_bytes(4, "big") + b"\x03" + own + body)
    return made


def flipped(data: bytes, place: int, bit: int = 0) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)
