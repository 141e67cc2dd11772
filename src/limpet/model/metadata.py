"""What people attach to a state and search it by. Plain JSON, so that any tool and any database can read it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from limpet.errors import InvalidMetadata


class StateMetadata(msgspec.Struct, frozen=True):
    """Tags, a description and plain data that belong to a state.

    Raises InvalidMetadata where any of it holds anything but plain JSON.
    """

    tags: list[str] = []
    description: str = ""
    pipeline_name: str = ""
    parent_state_id: str | None = None
    custom_data: dict[str, Any] = {}
    environment: dict[str, Any] = {}
    """What was captured by itself where the state began: Python, platform, host, versions."""
    settings: dict[str, Any] = {}
    """What was configured for the state and counts when it is taken up again or looked at: how it retries, about how
    many events it has."""
    stopped: dict[str, Any] = {}
    """Why and when it was last stopped, while it is: ``reason``, ``message``, ``triggered_by`` and ``at``."""
    replayed: dict[str, Any] = {}
    """What replay has saved of model calls so far: ``calls``, ``tokens`` and ``cost``."""
    waiting: dict[str, Any] = {}
    """What it waits for, while it does (``model.waits.Waiting``)."""
    origin: dict[str, Any] = {}
    """Where it came from, if it was imported or copied: ``by``, ``from`` and ``at`` (``model.origin``)."""

    def __post_init__(self) -> None:
        # Every run makes one, of which most is empty.
        for place, kinds, otherwise in _KINDS:
            found = getattr(self, place)
            if not isinstance(found, kinds):
                raise InvalidMetadata(place, otherwise)
            if found and place != "tags":
                _require_plain(found, place)
        for number, tag in enumerate(cast("list[object]", self.tags)):
            if not isinstance(tag, str):
                raise InvalidMetadata(f"tags[{number}]", f"is {type(tag).__name__}, not text")
            _require_plain(tag, f"tags[{number}]")
        _require_plain(self.parent_state_id, "parent_state_id")

    def to_json(self) -> str:
        """As it is stored: what few states have is not there where it is empty."""
        found: dict[str, Any] = {
            "tags": self.tags,
            "description": self.description,
            "pipeline_name": self.pipeline_name,
            "parent_state_id": self.parent_state_id,
            "custom_data": self.custom_data,
            "environment": self.environment,
        }
        for name in _RARE:
            if value := getattr(self, name):
                found[name] = value
        return msgspec.json.encode(found).decode()

    @classmethod
    def from_json(cls, text: str) -> StateMetadata:
        return msgspec.json.decode(text, type=cls)


_KINDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    # One text for a list of tags is the commonest slip, and would be stored letter by letter.
    ("tags", (list, tuple), "is not a list"),
    *((place, str, "is not text") for place in ("description", "pipeline_name")),
    *(
        (place, dict, "is not a dict")
        for place in ("custom_data", "environment", "settings", "stopped", "replayed", "waiting", "origin")
    ),
)
"""Of each field but one: what it may be, and what is said of anything else."""

_RARE = ("settings", "stopped", "replayed", "waiting", "origin")


def _is_utf8(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _require_plain(value: object, place: str) -> None:
    if isinstance(value, str):
        if not _is_utf8(value):
            raise InvalidMetadata(place, "has a lone surrogate, which JSON does not have")
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**64:
            raise InvalidMetadata(place, "is a number too large for JSON")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidMetadata(place, f"is {value}, which JSON does not have")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[object, object]", value).items():
            if not isinstance(key, str):
                raise InvalidMetadata(place, f"has the key {key!r}, which is not text")
            _require_plain(item, f"{place}[{key!r}]")
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(cast("list[object]", value)):
            _require_plain(item, f"{place}[{number}]")
    else:
        raise InvalidMetadata(place, f"is of type {type(value).__name__}")
