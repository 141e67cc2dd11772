"""What is known of an artifact: a large value, stored once under the hash of its content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

import msgspec

from limpet.errors import InvalidArtifactId

_ARTIFACT_ID = re.compile(r"sha256:[0-9a-f]{64}")

CHUNK = 1 << 20
"""The longest piece in which content is read and written."""


class ArtifactInfo(msgspec.Struct, frozen=True):
    """An artifact as it stands in an artifact backend."""

    artifact_id: str
    size: int
    """How many bytes its content has, however they are kept."""
    put_at: float
    """When it was last put, in seconds since 1970 UTC. Putting it again makes this greater."""


class Pin(msgspec.Struct, frozen=True):
    """Says who is about to write a record that names an artifact: the holder of one lease of one state."""

    store_id: str
    state_id: str
    fence: int


class Content(msgspec.Struct, frozen=True):
    """Bytes that can be read several times, in pieces of at most CHUNK."""

    size: int
    chunks: Callable[[], Iterator[bytes]]
    what: str = "The value"
    """What it is called in an error."""


class ArtifactReference(msgspec.Struct, frozen=True):
    """What stands in a value for a part of it that is an artifact."""

    artifact_id: str
    adapter: str
    """The name of the adapter that turns the content into the value."""
    size: int
    preview: str
    """What people are shown of it."""
    details: str = ""
    """What the adapter has to know besides the content, such as the name of a file."""


def checked_artifact_id(artifact_id: object) -> str:
    """The id, if it can name an artifact; it may become part of a path. Raises InvalidArtifactId."""
    if not isinstance(artifact_id, str) or not _ARTIFACT_ID.fullmatch(artifact_id):
        raise InvalidArtifactId(artifact_id)
    return artifact_id


def id_of_chunks(chunks: Iterable[bytes]) -> str:
    """The id of the content that these pieces make up."""
    digest = hashlib.sha256()
    for chunk in chunks:
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


def content_of(data: bytes, what: str = "The value") -> Content:
    """Bytes in memory as content."""

    def chunks() -> Iterator[bytes]:
        return (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))

    return Content(len(data), chunks, what)
