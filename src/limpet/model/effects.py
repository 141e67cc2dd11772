"""What can be said of a call that is declared ``once`` and was cut off, and what a handler can know of its own call."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class Happened(msgspec.Struct, frozen=True):
    """What a probe gives where the work was done: this is its result."""

    result: Any = None


class DidNotHappen(msgspec.Struct, frozen=True):
    """What a probe gives where the work was not done: the call may be executed."""


class Settled(StrEnum):
    """How the outcome of a call became known, where it was not by itself."""

    HAPPENED = "happened"
    """A person or a probe has given its result."""
    AGAIN = "again"
    """A person has said that it did not happen, and may be executed."""
    FAILED = "failed"
    """A person has said that it failed for good."""
    NOT_EXECUTED = "not executed"
    """It failed, or was cut off, before its handler ran."""


class CurrentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The call that a handler is being executed for."""

    state_id: str
    address: str
    attempt: int
    """The how-manieth attempt this is, from 1 on."""
    idempotency_key: str
    """The same for every attempt of the call, and after every crash: give it to services that take one."""

    @property
    def is_retry(self) -> bool:
        return self.attempt > 1
