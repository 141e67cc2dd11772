"""When states are cleaned up by themselves, and what is noted of a cleanup that was made."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A time that says its zone, also where it is read from what was stored."""


class Schedule(StrEnum):
    """When a supervisor cleans up the store that it serves."""

    MANUAL = "manual"
    """Never: whoever wants a cleanup asks for it."""
    ON_START = "on_start"
    """Once, when a supervisor starts."""
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"


class CleanupRun(msgspec.Struct, frozen=True, kw_only=True):
    """A cleanup that was made, or is under way."""

    began_at: Moment
    finished_at: Moment | None = None
    """None while it is under way, and for good where its process died."""
    by: str
    """The process that made it."""
    schedule: Schedule | None = None
    """The schedule by which it was due; None where somebody has asked for it."""
    removed: int = 0
    """How many states were deleted. Of one that did not come to its end that is not known, and 0."""
    freed: int = 0
    """How many bytes these took."""
    error: str | None = None
    """Why it did not come to its end."""
