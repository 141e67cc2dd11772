"""Artifacts in the memory of the process: for tests, and for runs that need not outlive it. Touches no file.

Everything is under one lock; content is checked before it is taken and while it is given out.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.artifact_rules import (
    StoredContent,
    checked_pieces,
    checked_start,
    checked_store_id,
    later,
    readable,
    verified,
)
from limpet.errors import ArtifactMissing, UsageError
from limpet.model.artifacts import ArtifactInfo, Content, Pin, checked_artifact_id, content_of
from limpet.processes import new_lock


class MemoryArtifactBackend(ArtifactBackend):
    """Artifacts in the memory of the process; they are gone with it, or when the backend is closed."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.name = "memory://"
        self.waits = False
        self._clock = clock
        self._lock = new_lock(is_awaited=True)
        self._is_closed = False
        self._contents: dict[str, bytes] = {}
        self._put_at: dict[str, float] = {}
        self._deleted_put_at = 0.0
        self._pins: defaultdict[Pin, set[str]] = defaultdict(set)
        self._stores: dict[str, str] = {}

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        checked_artifact_id(artifact_id)
        if pin is not None:
            checked_store_id(pin.store_id)
        with self._lock:
            self._require_open()
            if artifact_id in self._contents:
                self._note(artifact_id, pin)
                return False
        body = b"".join(checked_pieces(artifact_id, content))
        with self._lock:
            self._require_open()
            is_new = artifact_id not in self._contents
            self._contents.setdefault(artifact_id, body)
            self._note(artifact_id, pin)
        return is_new

    def read(self, artifact_id: str) -> Iterator[bytes]:
        checked_artifact_id(artifact_id)
        with self._lock:
            self._require_open()
            body = self._contents.get(artifact_id)
        if body is None:
            raise ArtifactMissing(self.name, artifact_id)
        return verified(StoredContent(self.name, artifact_id, len(body), False), content_of(body).chunks())

    def find(self, artifact_id: str) -> ArtifactInfo | None:
        checked_artifact_id(artifact_id)
        with self._lock:
            self._require_open()
            return self._info(artifact_id) if artifact_id in self._contents else None

    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        start = checked_start(after)
        with self._lock:
            self._require_open()
            behind = sorted(artifact_id for artifact_id in self._contents if artifact_id > start)
            return [self._info(artifact_id) for artifact_id in behind[: max(limit, 0)]]

    def delete(self, artifact_id: str, put_at: float) -> bool:
        checked_artifact_id(artifact_id)
        with self._lock:
            self._require_open()
            if self._put_at.get(artifact_id) != put_at:
                return False
            self._deleted_put_at = max(self._deleted_put_at, put_at)
            del self._contents[artifact_id], self._put_at[artifact_id]
            return True

    def pins(self) -> Mapping[Pin, frozenset[str]]:
        with self._lock:
            self._require_open()
            return {pin: frozenset(pinned) for pin, pinned in self._pins.items()}

    def unpin(self, pins: Sequence[Pin]) -> None:
        with self._lock:
            self._require_open()
            for pin in pins:
                self._pins.pop(pin, None)

    def enlist(self, store_id: str, name: str) -> None:
        checked_store_id(store_id)
        with self._lock:
            self._require_open()
            self._stores[store_id] = readable(name)

    def stores(self) -> Mapping[str, str]:
        with self._lock:
            self._require_open()
            return dict(self._stores)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._contents.clear()
            self._put_at.clear()

    def _note(self, artifact_id: str, pin: Pin | None) -> None:
        """Note that an artifact has been put, and by whom."""
        standing = self._put_at.get(artifact_id, self._deleted_put_at)
        self._put_at[artifact_id] = later(self._clock(), standing)
        if pin is not None:
            self._pins[pin].add(artifact_id)

    def _info(self, artifact_id: str) -> ArtifactInfo:
        return ArtifactInfo(artifact_id, len(self._contents[artifact_id]), self._put_at[artifact_id])

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"The artifacts at {self.name} are closed, and gone.", "Close the backend after the last use."
            )
