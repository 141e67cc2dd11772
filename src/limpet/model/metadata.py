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

_MOST_LEVELS = 100
"""How deep lists and maps may be nested. Whoever reads the JSON has a stack that ends."""

_MOST_ITEMS = 1_000_000
"""How many there may be in each field. Whoever reads the JSON takes far more memory than it has bytes."""

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
    flaw = _flaw_of(value, _MOST_LEVELS, [_MOST_ITEMS])
    if flaw is not None:
        where, otherwise = flaw
        raise InvalidMetadata(place + where, otherwise)


def _flaw_of(value: object, room: int, left: list[int]) -> tuple[str, str] | None:
    """What is no plain JSON in a value, and where. The place is put together only where there is something.

    There is room for so many levels, and so many items are left for all of them together.
    """
    if isinstance(value, str):
        return None if _is_utf8(value) else ("", "has a lone surrogate, which JSON does not have")
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -(2**63) <= value < 2**64 else ("", "is a number too large for JSON")
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"is {value}, which JSON does not have")
    if not isinstance(value, (Mapping, list, tuple)):
        return "", f"is of type {type(value).__name__}"
    if not room:
        return "", f"is nested deeper than {_MOST_LEVELS} levels"
    left[0] -= len(cast("list[object]", value))
    if left[0] < 0:
        return "", f"has more than {_MOST_ITEMS:,} items"
    is_map = isinstance(value, Mapping)
    items = cast("Mapping[object, object]", value).items() if is_map else enumerate(cast("list[object]", value))
    for key, item in items:
        if is_map and not isinstance(key, str):
            return "", f"has the key {key!r}, which is not text"
        flaw = _flaw_of(item, room - 1, left)
        if flaw is not None:
            return f"[{key!r}]{flaw[0]}", flaw[1]
    return None
