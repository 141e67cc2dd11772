"""Two artifact backends as one: small content goes to the one, large content to the other. Keeps nothing itself.

An artifact lies where its size says. If the limit was another one before, it may lie in both; it is then listed once,
read from either, and deleted from both, each time only as it was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.errors import ArtifactMissing
from limpet.model.artifacts import ArtifactInfo, Content, Pin


class TieredArtifactBackend(ArtifactBackend):
    """Content of at most ``limit`` bytes is in ``small``, longer content in ``large``. Closing it closes both."""

    def __init__(self, small: ArtifactBackend, large: ArtifactBackend, limit: int) -> None:
        self.name = small.name
        self.waits = small.waits or large.waits
        self._small = small
        self._large = large
        self._limit = limit
        self._enlisted_in_large: dict[str, str] = {}

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        if content.size <= self._limit:
            return self._small.put(artifact_id, content, pin)
        self._enlist_in_large()
        return self._large.put(artifact_id, content, pin)

    def read(self, artifact_id: str) -> Iterator[bytes]:
        for backend in (self._small, self._large):
            with suppress(ArtifactMissing):
                return backend.read(artifact_id)
        raise ArtifactMissing(self.name, artifact_id)

    def find(self, artifact_id: str) -> ArtifactInfo | None:
        found = [each.find(artifact_id) for each in (self._small, self._large)]
        return max((info for info in found if info is not None), key=_put_at, default=None)

    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        newest: dict[str, ArtifactInfo] = {}
        for backend in (self._small, self._large):
            for info in backend.list_artifacts(after, limit):
                newest[info.artifact_id] = max(info, newest.get(info.artifact_id, info), key=_put_at)
        return [newest[artifact_id] for artifact_id in sorted(newest)[: max(limit, 0)]]

    def delete(self, artifact_id: str, put_at: float) -> bool:
        deleted = [each.delete(artifact_id, put_at) for each in (self._small, self._large)]
        return any(deleted)

    def pins(self) -> Mapping[Pin, frozenset[str]]:
        merged = dict(self._small.pins())
        for pin, pinned in self._large.pins().items():
            merged[pin] = merged.get(pin, frozenset()) | pinned
        return merged

    def unpin(self, pins: Sequence[Pin]) -> None:
        self._small.unpin(pins)
        self._large.unpin(pins)

    def enlist(self, store_id: str, name: str) -> None:
        """Note it where small content lies, and where large content lies as soon as any is put there."""
        self._small.enlist(store_id, name)

    def stores(self) -> Mapping[str, str]:
        return {**self._large.stores(), **self._small.stores()}

    def close(self) -> None:
        self._small.close()
        self._large.close()

    def _enlist_in_large(self) -> None:
        """Whoever opens ``large`` by itself must see which stores name artifacts there."""
        stores = dict(self._small.stores())
        for store_id, name in stores.items():
            if self._enlisted_in_large.get(store_id) != name:
                self._large.enlist(store_id, name)
        self._enlisted_in_large = stores


def _put_at(info: ArtifactInfo) -> float:
    return info.put_at
