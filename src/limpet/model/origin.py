"""Where a state came from that was not begun in its store: kept in its metadata, for people to see. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from enum import StrEnum
from typing import Any, cast

import msgspec

from limpet.model.metadata import StateMetadata

_USER = re.compile(r"(?<=://)[^/?#]*@")


class Arrival(StrEnum):
    """How a state came into its store."""

    IMPORT = "import"
    COPY = "copy"
    BACKUP = "backup"


def with_origin(metadata: StateMetadata, how: Arrival, source: str, at: datetime) -> StateMetadata:
    """The metadata of a state that has arrived from a file or a store.

    What came into the store it is copied from stays known as ``first``. What a file says of itself does not count.
    """
    origin: dict[str, Any] = {"by": str(how), "from": _shown(source), "at": at.isoformat(timespec="seconds")}
    before = metadata.origin.get("first") or metadata.origin
    if isinstance(before, dict) and before and how is not Arrival.IMPORT:
        origin["first"] = {key: str(cast("dict[str, Any]", before).get(key, "?")) for key in ("by", "from", "at")}
    return msgspec.structs.replace(metadata, origin=origin)


def without_origin(metadata: StateMetadata) -> StateMetadata:
    """What is the same of a state in every store that it is copied to."""
    return msgspec.structs.replace(metadata, origin={}) if metadata.origin else metadata


def _shown(source: str) -> str:
    """The name of a file, or the URL of a store without the credentials and settings in it."""
    text = source.encode(errors="replace").decode()
    return _USER.sub("", text).partition("?")[0] if "://" in text else text
