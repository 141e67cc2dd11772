"""What every conformance test of artifacts stands on: a fresh backend, a turned clock, and contents to store."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TypeVar

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.model.artifacts import ArtifactInfo, Content, Pin, content_of
from limpet.testing.conformance.case import TurnedClock

_Answer = TypeVar("_Answer")

THREADS = 8

OURS = Pin("0123456789abcdef" * 2, "kelp", 1)
THEIRS = Pin("fedcba9876543210" * 2, "kelp.2@a=b,c+d", 2)


class ArtifactCase:
    """The ground of the suite; see ``ArtifactBackendConformance`` for how it is used."""

    def make_backend(self, clock: Callable[[], float]) -> ArtifactBackend:
        """A backend on a new, empty place that notes by this clock when something is put."""
        raise NotImplementedError

    def reopen(self, backend: ArtifactBackend, clock: Callable[[], float]) -> ArtifactBackend:
        """The same place opened once more, as by another process; the backend itself where all dies with it."""
        return backend

    def setup_method(self) -> None:
        self.clock = TurnedClock()
        self._opened: list[ArtifactBackend] = []

    def teardown_method(self) -> None:
        for backend in self._opened:
            backend.close()

    @property
    def backend(self) -> ArtifactBackend:
        """The backend of this test, made when it is first asked for: after the fixtures of the subclass have run."""
        if not self._opened:
            self._opened.append(self.make_backend(self.clock))
        return self._opened[0]

    def opened_again(self) -> ArtifactBackend:
        self._opened.append(self.reopen(self.backend, self.clock))
        return self._opened[-1]

    def put(self, data: bytes, pin: Pin | None = None) -> str:
        """The id of content that has been put."""
        artifact_id = id_of(data)
        self.backend.put(artifact_id, content_of(data), pin)
        return artifact_id

    def read(self, artifact_id: str) -> bytes:
        return b"".join(self.backend.read(artifact_id))

    def info(self, artifact_id: str) -> ArtifactInfo:
        info = self.backend.find(artifact_id)
        assert info is not None
        return info

    def from_threads(self, call: Callable[[int], _Answer]) -> list[_Answer]:
        """What the call gives for each of some numbers, all called at the same time."""
        together = Barrier(THREADS)

        def work(number: int) -> _Answer:
            together.wait()
            return call(number)

        _ = self.backend
        with ThreadPoolExecutor(THREADS) as threads:
            return list(threads.map(work, range(THREADS)))


def id_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def noise(size: int, seed: int = 0) -> bytes:
    """Bytes that no compression makes shorter."""
    return random.Random(seed).randbytes(size)


def prose(size: int) -> bytes:
    """Bytes that compression makes a lot shorter."""
    line = b"the storm takes everything that is loose; what is held stays\n"
    return (line * (size // len(line) + 1))[:size]


def in_pieces(size: int, *pieces: bytes) -> Content:
    """Content that gives these very pieces, whatever it says of its size."""

    def chunks() -> Iterator[bytes]:
        return iter(pieces)

    return Content(size, chunks, "The sample")
