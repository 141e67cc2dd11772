"""Artifacts inside the SQLite file of a store, for small ones: content is held in memory while it is put or read.

Shares the connections of the store, which opens and closes them. The tables are described in ``schema.sql``.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from limpet.backends.artifact_contract import ArtifactBackend
from limpet.backends.artifact_rules import (
    StoredContent,
    checked_pieces,
    checked_start,
    checked_store_id,
    hex_of,
    id_of_hex,
    later,
    readable,
    verified,
)
from limpet.backends.compression import compressed_where_it_pays
from limpet.backends.sqlite.database import Database
from limpet.backends.sqlite.driver import Cursor
from limpet.backends.sqlite.queries import QUERIES
from limpet.errors import ArtifactMissing, UsageError
from limpet.model.artifacts import ArtifactInfo, Content, Pin, checked_artifact_id, content_of


class _Standing(msgspec.Struct, frozen=True):
    """An artifact as its row says. ``is_whole`` is False if its size and the length of its body do not fit."""

    body: int
    put_at: float
    size: int
    is_whole: bool


class SQLiteArtifactBackend(ArtifactBackend):
    """Artifacts in the file of a store. It lives as long as its database, which somebody else closes."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self.name = database.name
        self.waits = database.waits
        self._database = database
        self._clock = clock
        self._is_closed = False

    def put(self, artifact_id: str, content: Content, pin: Pin | None = None) -> bool:
        digest = _digest(artifact_id)
        if pin is not None:
            checked_store_id(pin.store_id)
        self._require_open()
        with self._database.transaction() as cursor:
            if self._put_again(cursor, digest, content.size, pin):
                return False
        # Read and compressed outside of the transaction: the runs of the store are not to wait for that.
        is_compressed, pieces = compressed_where_it_pays(content.size, checked_pieces(artifact_id, content))
        body = b"".join(pieces)
        with self._database.transaction() as cursor:
            if self._put_again(cursor, digest, content.size, pin):
                return False
            before = self._cleared(cursor, digest)
            self._pin(cursor, digest, pin)
            cursor.execute(QUERIES["insert_body"], (body,))
            row = (digest, later(self._clock(), before), content.size, int(is_compressed))
            cursor.execute(QUERIES["insert_artifact"], (*row, self._database.writer.last_insert_rowid()))
        return True

    def read(self, artifact_id: str) -> Iterator[bytes]:
        digest = _digest(artifact_id)
        self._require_open()
        rows = self._database.fetch("read_artifact", (digest,))
        if not rows:
            raise ArtifactMissing(self.name, artifact_id)
        ((size, is_compressed, body),) = rows
        stored = StoredContent(self.name, artifact_id, size, bool(is_compressed))
        return verified(stored, content_of(body).chunks())

    def find(self, artifact_id: str) -> ArtifactInfo | None:
        digest = _digest(artifact_id)
        self._require_open()
        rows = self._database.fetch("find_artifact", (digest,))
        return ArtifactInfo(artifact_id, *rows[0]) if rows else None

    def list_artifacts(self, after: str = "", limit: int = 1000) -> list[ArtifactInfo]:
        start = bytes.fromhex(hex_of(checked_start(after)))
        self._require_open()
        rows = self._database.fetch("list_artifacts", (start, max(limit, 0)))
        return [ArtifactInfo(_id(digest), size, put_at) for digest, size, put_at in rows]

    def delete(self, artifact_id: str, put_at: float) -> bool:
        digest = _digest(artifact_id)
        self._require_open()
        with self._database.transaction() as cursor:
            standing = self._standing(cursor, digest)
            if standing is None or standing.put_at != put_at:
                return False
            cursor.execute(QUERIES["note_deleted"], (put_at,))
            self._delete(cursor, digest, standing)
        return True

    def pins(self) -> Mapping[Pin, frozenset[str]]:
        self._require_open()
        found: defaultdict[Pin, set[str]] = defaultdict(set)
        for store_id, state_id, fence, digest in self._database.fetch("list_pins", ()):
            found[Pin(store_id, state_id, fence)].add(_id(digest))
        return {pin: frozenset(pinned) for pin, pinned in found.items()}

    def unpin(self, pins: Sequence[Pin]) -> None:
        self._require_open()
        with self._database.transaction() as cursor:
            cursor.executemany(QUERIES["delete_pin"], [(pin.store_id, pin.state_id, pin.fence) for pin in pins])

    def enlist(self, store_id: str, name: str) -> None:
        checked_store_id(store_id)
        wanted = readable(name)
        if self.stores().get(store_id) == wanted:
            return
        with self._database.transaction() as cursor:
            cursor.execute(QUERIES["enlist_store"], (store_id, wanted))

    def stores(self) -> Mapping[str, str]:
        self._require_open()
        return dict(self._database.fetch("list_stores", ()))

    def close(self) -> None:
        self._is_closed = True

    def _put_again(self, cursor: Cursor, digest: bytes, size: int, pin: Pin | None) -> bool:
        """Take note that content is put which is there; False if it is not, or can be seen to be damaged."""
        standing = self._standing(cursor, digest)
        if standing is None or not standing.is_whole or standing.size != size:
            return False
        self._pin(cursor, digest, pin)
        cursor.execute(QUERIES["put_again"], (later(self._clock(), standing.put_at), digest))
        return True

    def _cleared(self, cursor: Cursor, digest: bytes) -> float:
        """Make room for content that comes, where it stands damaged; what its ``put_at`` has to be greater than."""
        deleted_put_at: float = cursor.execute(QUERIES["find_deleted_put_at"]).get
        standing = self._standing(cursor, digest)
        if standing is None:
            return deleted_put_at
        self._delete(cursor, digest, standing)
        return max(deleted_put_at, standing.put_at)

    def _standing(self, cursor: Cursor, digest: bytes) -> _Standing | None:
        rows = cursor.execute(QUERIES["find_standing"], (digest,)).fetchall()
        if not rows:
            return None
        body, put_at, size, is_compressed, length = rows[0]
        is_whole = length is not None and (bool(is_compressed) or length == size)
        return _Standing(body, put_at, size, is_whole)

    def _delete(self, cursor: Cursor, digest: bytes, standing: _Standing) -> None:
        cursor.execute(QUERIES["delete_body"], (standing.body,))
        cursor.execute(QUERIES["delete_artifact"], (digest,))

    def _pin(self, cursor: Cursor, digest: bytes, pin: Pin | None) -> None:
        if pin is not None:
            cursor.execute(QUERIES["insert_pin"], (pin.store_id, pin.state_id, pin.fence, digest))

    def _require_open(self) -> None:
        if self._is_closed:
            raise UsageError(
                f"The artifacts at {self.name} are closed.", "Close them, or their store, after the last use."
            )


def _digest(artifact_id: str) -> bytes:
    return bytes.fromhex(hex_of(checked_artifact_id(artifact_id)))


def _id(digest: bytes) -> str:
    return id_of_hex(digest.hex())
