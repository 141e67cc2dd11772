"""What every artifact backend does alike: checks content on its way in and out, and lets put times only grow.

Decides and computes; opens nothing and stores nothing.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator

import msgspec

from limpet.backends.compression import DamagedFrame, decompressed
from limpet.errors import ArtifactCorrupted, ContentChanged, UsageError
from limpet.model.artifacts import Content, checked_artifact_id

_PREFIX = "sha256:"
_STORE_ID = re.compile(r"[0-9a-f]{32}")

_STEP_S = 1e-6


class StoredContent(msgspec.Struct, frozen=True):
    """Content as a backend keeps it, with what its reader has to know."""

    artifacts: str
    """What the backend is called."""
    artifact_id: str
    size: int
    is_compressed: bool


def checked_pieces(artifact_id: str, content: Content) -> Iterator[bytes]:
    """The pieces of content that is being put. Raises ContentChanged unless they are what the id and the size say."""
    digest = hashlib.sha256()
    size = 0
    for piece in content.chunks():
        size += len(piece)
        if size > content.size:
            raise ContentChanged(content.what)
        digest.update(piece)
        if piece:
            yield piece
    if size != content.size or digest.hexdigest() != hex_of(artifact_id):
        raise ContentChanged(content.what)


def verified(stored: StoredContent, pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The content from its stored pieces; the last one only if the whole is right, else ArtifactCorrupted."""
    digest = hashlib.sha256()
    size = 0
    held_back = b""
    try:
        for piece in decompressed(pieces, stored.size) if stored.is_compressed else pieces:
            size += len(piece)
            digest.update(piece)
            if held_back:
                yield held_back
            held_back = piece
    except DamagedFrame as error:
        raise damaged(stored, str(error)) from error
    if size != stored.size:
        raise damaged(stored, f"it has {size} bytes instead of {stored.size}")
    if digest.hexdigest() != hex_of(stored.artifact_id):
        raise damaged(stored, "the hash of its content is another one")
    if held_back:
        yield held_back


def damaged(stored: StoredContent, why: str) -> ArtifactCorrupted:
    return ArtifactCorrupted(stored.artifacts, stored.artifact_id, why)


def hex_of(artifact_id: str) -> str:
    """The hexadecimal digits of an id that was checked."""
    return artifact_id[len(_PREFIX) :]


def id_of_hex(digits: str) -> str:
    return _PREFIX + digits


def checked_start(after: str) -> str:
    """Where a listing begins: an id, or nothing for the beginning. Raises InvalidArtifactId."""
    return after and checked_artifact_id(after)


def checked_store_id(store_id: str) -> str:
    """The id of a store; it may become part of a path. Raises UsageError."""
    if not _STORE_ID.fullmatch(store_id):
        raise UsageError(
            f"{store_id!r} cannot be the id of a store.", "It is 32 hexadecimal digits; see `StateBackend.store_id`."
        )
    return store_id


def later(now: float, standing: float) -> float:
    """When something counts as put: now, or just after the put that stands if the clock does not say more than that."""
    return now if now > standing else max(standing + _STEP_S, math.nextafter(standing, math.inf))


def readable(name: str) -> str:
    """A name as text that can be written anywhere: a path may hold bytes that are no text."""
    return name.encode(errors="backslashreplace").decode()
