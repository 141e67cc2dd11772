"""References to artifacts inside values: what stands where a part of a value is stored as an artifact.

Reading a value that has references needs somebody who loads what they name. It is given for one reading and one thread,
so that everything else in the codec need not hand it through.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from threading import local
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower
from limpet.errors import InvalidArtifactId, ValueNotReadable
from limpet.model.artifacts import ArtifactReference, checked_artifact_id

Load = Callable[[ArtifactReference], Any]
"""Gives the value that a reference stands for."""


class _Reading(local):
    """Who loads artifacts for the reading that this thread is in the middle of."""

    load: Load | None = None


_reading: Final = _Reading()


@contextmanager
def loading(load: Load) -> Generator[None]:
    """While this lasts, references that are read in this thread are loaded."""
    before, _reading.load = _reading.load, load
    try:
        yield
    finally:
        _reading.load = before


def _lower(value: ArtifactReference, _: Lower) -> Any:
    return [value.artifact_id, value.adapter, value.size, value.preview, value.details]


def _build(parts: Any) -> Any:
    artifact_id, adapter, size, preview, details = parts
    try:
        checked_artifact_id(artifact_id)
    except InvalidArtifactId as error:
        raise ValueNotReadable("artifact", str(error)) from error
    if _reading.load is None:
        raise ValueNotReadable("artifact", f"{artifact_id} is not in the journal, and no artifact backend is given")
    return _reading.load(ArtifactReference(artifact_id, str(adapter), int(size), str(preview), str(details)))


REFERENCE: Final = Kind(37, _lower, _build)
"""The kind of a reference."""
