"""Hostile content of artifacts, under the hash that is honestly its own, and what reading it comes to.

An input is one text of bytes: the number of the adapter that the reference names, the size that it claims, the content.
"""

from __future__ import annotations

import random
import struct
from typing import Any

import numpy as np
import polars as pl
from acceptance.table_of_types import rows
from hostile.fuzzing import Fuzzer

from limpet import ArtifactReference, MemoryArtifactBackend
from limpet.artifacts.stored_values import StoredValues
from limpet.codec.values import encode
from limpet.errors import ArtifactCorrupted, ValueNotReadable
from limpet.model.artifacts import content_of, id_of_chunks

ADAPTERS = ("npy", "arrow", "text", "value", "bytes", "nobody's")
_head = struct.Struct(">BQ")


def packed(adapter: str, content: bytes, size: int | None = None) -> bytes:
    return _head.pack(ADAPTERS.index(adapter), len(content) if size is None else size) + content


def reference_to(data: bytes, artifacts: MemoryArtifactBackend) -> ArtifactReference:
    """Store the content of an input, and give what a record would name it by."""
    adapter, size = _head.unpack_from(data)
    content = content_of(data[_head.size :])
    artifact_id = id_of_chunks(content.chunks())
    artifacts.put(artifact_id, content)
    return ArtifactReference(artifact_id, ADAPTERS[adapter], size, "", "")


def read_content(data: bytes) -> Any:
    """The value of an artifact. Raises what reading it raises."""
    artifacts = MemoryArtifactBackend()
    return StoredValues(artifacts).decode(encode([reference_to(data, artifacts)]))[0]


def read_artifact(data: bytes) -> str:
    """The outcome of reading an artifact."""
    try:
        read_content(data)
    except (ValueNotReadable, ArtifactCorrupted) as error:
        return type(error).__name__
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    return "a value"


class ChangedArtifacts:
    """An endless supply of changed artifacts, the same for the same seed."""

    def __init__(self, samples: list[list[bytes]], seed: int) -> None:
        self._random = random.Random(seed)
        self._fuzzer = Fuzzer(samples, seed)
        self._honest = {adapter: contents_of(adapter) for adapter in ("npy", "arrow")}

    def next(self) -> bytes:
        chance = self._random
        adapter = chance.choice((*ADAPTERS, "npy", "arrow", "arrow"))
        if adapter in self._honest:
            content = self._fuzzer.changed_bytes(chance.choice(self._honest[adapter]))
        else:
            content = self._fuzzer.next()
        sizes = (None, None, None, None, 0, len(content) + 1, len(content) - 1, 2**40, 2**63)
        return packed(adapter, content, max(0, size) if (size := chance.choice(sizes)) is not None else None)


def contents_of(adapter: str) -> list[bytes]:
    """The content of every value of the table that has this adapter."""
    values = [value for row in rows().values() for value in row.values()]
    kinds = (np.ndarray,) if adapter == "npy" else (pl.DataFrame, pl.Series)
    contents: list[bytes] = []
    for value in values:
        if isinstance(value, kinds):
            artifacts = MemoryArtifactBackend()
            _, pending = StoredValues(artifacts).encode_artifact(value, "value")
            if pending[-1].reference.adapter == adapter:
                contents.append(b"".join(pending[-1].content.chunks()))
    return contents
