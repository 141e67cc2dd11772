"""The closed sets of words that records, headers and settings are written in."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class EventType(StrEnum):
    """What kind of actor an event calls; the last part of its address."""

    TOOL_CALL = "tool_call"
    LLM_CALL = "llm_call"
    AGENT_CALL = "agent_call"


class WaitType(StrEnum):
    """What an event waits for that calls no actor; the last part of its address."""

    QUESTION = "question"
    """A person is to answer."""
    TIMER = "timer"
    """A time is to come."""
    MESSAGE = "message"
    """A message is to come from outside."""


class ExecutionStatus(StrEnum):
    """What a record or a notice says of an event."""

    STARTED = "started"
    COMPLETED = "completed"
    FAILED = "failed"
    RETRYING = "retrying"
    RECOVERED = "recovered"
    AWAITING = "awaiting"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"


class StateStatus(StrEnum):
    """What a state is doing, or how it ended."""

    RUNNING = "running"
    PAUSED = "paused"
    AWAITING = "awaiting"
    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class DropReason(IntEnum):
    """Why a cleanup has dropped a record."""

    SUPERSEDED = 1
    """It was of an earlier timeline."""
    INTERMEDIATE = 2
    """It was of the current timeline of a completed state, and later ones of that say all that is needed."""


class ReplayMode(StrEnum):
    """How a call that may have a recorded outcome is treated."""

    NORMAL = "normal"
    """Skip what is settled; publish only what is new."""
    REPUBLISH_ALL = "republish_all"
    """Skip what is settled; publish that as well."""
    VALIDATION = "validation"
    """Execute everything again and compare; record nothing."""
    REHEARSAL = "rehearsal"
    """Run the agents' code on recorded results; nothing else is executed, and a call without an outcome is refused."""


class OnDrift(StrEnum):
    """What happens where the code no longer fits what is recorded."""

    DEFAULT = "default"
    """As ``warn``; but a changed input is an error at a call that ran beside others or is declared ``once``.

    There it may be another call that stands at the address.
    """
    WARN = "warn"
    """The address decides, and it is told: a DriftWarning, and a notice on the bus."""
    ERROR = "error"
    """Drift is raised, and nothing is given or executed."""
    IGNORE = "ignore"
    """The address decides; only the bus is told."""


class DeterminismLevel(StrEnum):
    """How far executing an actor again gives the same, and so what a validation compares."""

    STRICT = "strict"
    """Equal results of the same type."""
    APPROXIMATE = "approximate"
    """Numbers within a tolerance, or whatever the actor's own comparison accepts."""
    NON_DETERMINISTIC = "non_deterministic"
    """Only the type and the shape are the same."""


class Capture(StrEnum):
    """How much of the environment is captured where a state begins."""

    FULL = "full"
    MINIMAL = "minimal"
    """Python, the platform and the version of Limpet: nothing that tells one machine or program from another."""
    OFF = "off"
