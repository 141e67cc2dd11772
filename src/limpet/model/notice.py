"""What the bus tells its subscribers of an event."""

from __future__ import annotations

from typing import Any

import msgspec

from limpet.model.words import ExecutionStatus


class EventNotice(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened to an event. The fields can also be read as items: ``notice["address"]``."""

    state_id: str
    address: str
    status: ExecutionStatus
    attempt: int = 1
    is_replayed: bool = False
    is_retry: bool = False
    retry_delay: float | None = None
    original_error: str | None = None
    execution_time: float = 0.0
    drift: str | None = None
    """What no longer agrees with the record that was replayed, or None."""
    save_error: str | None = None
    """Why what was recorded up to this event cannot be saved, told once when that begins; else None."""
    is_caught_up: bool = False
    """Whether this tells that all is saved which could not be saved before."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None
