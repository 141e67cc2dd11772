"""When the records of a run are saved, what happens where that fails, and what a checkpoint says of itself."""

from __future__ import annotations

import math
from collections.abc import Collection
from enum import StrEnum
from typing import cast

import msgspec

from limpet.errors import UsageError

LARGE_ARTIFACT = 1 << 20
"""From how many bytes on an artifact counts as large, unless another number is said."""


class CheckpointFrequency(StrEnum):
    """How often what was recorded is saved."""

    EVERY_STEP = "every_step"
    """Every outcome is durable before its caller has it."""
    EVERY_N_STEPS = "every_n_steps"
    TIME_BASED = "time_based"
    ON_GATES = "on_gates"
    """Where an event that is declared ``gate=True`` has its outcome."""
    MANUAL = "manual"
    """Where the program says so: ``state.save_checkpoint()``."""


class CheckpointTrigger(StrEnum):
    """Why records were saved. The first three may be asked for besides a frequency."""

    LLM_CALL = "llm_call"
    TOOL_CALL = "tool_call"
    LARGE_ARTIFACT = "large_artifact"
    EVERY_N_STEPS = "every_n_steps"
    TIME_BASED = "time_based"
    GATE = "gate"
    ONCE = "once"
    """What is declared ``once`` begins or has its outcome; that is never left to a policy."""
    WAIT = "wait"
    """The run waits for something outside of itself, or that has come."""
    MANUAL = "manual"
    STOPPED = "stopped"
    """The run is left, and can be taken up again."""
    POLICY_CHANGED = "policy_changed"
    PROGRESS = "progress"
    """The program has said how far it is."""
    SAVE_FAILED = "save_failed"
    """The store took no records for a while; what stands behind this was saved later than it was to be."""


TRIGGERS = (CheckpointTrigger.LLM_CALL, CheckpointTrigger.TOOL_CALL, CheckpointTrigger.LARGE_ARTIFACT)
"""What may be asked for besides a frequency."""


class OnSaveError(StrEnum):
    """What a run does while its store takes no records."""

    FAIL = "fail"
    """It fails. What was acknowledged is safe, and running again goes on from there."""
    PAUSE = "pause"
    """Whoever waits for a record goes on waiting, until the store takes it."""
    CONTINUE = "continue"
    """It goes on, and what it has recorded is saved when the store is back. It does not end before that."""


class CheckpointPolicy(msgspec.Struct, frozen=True):
    """When the records of a run become durable. What was not saved when its process dies is executed again.

    Whatever is said here, saved at once is what others act on: the start and the outcome of what is declared ``once``,
    what is waited for, a new timeline, and the end of a run. Raises UsageError where it makes no sense.
    """

    frequency: CheckpointFrequency | str = CheckpointFrequency.EVERY_STEP
    steps: int = 10
    """With ``every_n_steps``: after so many outcomes, so one less is lost at most."""
    interval_s: float = 10.0
    """With ``time_based``: how long after the first outcome that is not saved it is."""
    triggers: Collection[str] = frozenset()
    """What is saved after besides: ``llm_call``, ``tool_call``, ``large_artifact``."""
    large_artifact: int = LARGE_ARTIFACT
    """From how many bytes on an artifact is large."""

    def __post_init__(self) -> None:
        if self.frequency not in list(CheckpointFrequency):
            raise _senseless("frequency", self.frequency, f"Give one of {_listed(CheckpointFrequency)}.")
        msgspec.structs.force_setattr(self, "frequency", CheckpointFrequency(self.frequency))
        for field, least in (("steps", 1), ("large_artifact", 0)):
            value = getattr(self, field)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise _senseless(field, value, f"Give a whole number from {least} on.")
        if not _is_time(self.interval_s):
            raise _senseless("interval_s", self.interval_s, "Give a number of seconds, more than 0.")
        if isinstance(self.triggers, str) or not set(self.triggers) <= set(TRIGGERS):
            raise _senseless("triggers", self.triggers, f"Give a list of some of {_listed(TRIGGERS)}.")
        msgspec.structs.force_setattr(self, "triggers", frozenset(map(CheckpointTrigger, self.triggers)))

    @property
    def saves_every_step(self) -> bool:
        return self.frequency is CheckpointFrequency.EVERY_STEP


def policy_of(given: CheckpointPolicy | str) -> CheckpointPolicy:
    """A policy, of which the frequency alone may be given. Raises UsageError."""
    if isinstance(given, CheckpointPolicy):
        return given
    return CheckpointPolicy(given)


def on_save_error_of(given: OnSaveError | str) -> OnSaveError:
    """What is done where saving fails, which may be given as text. Raises UsageError."""
    if given not in list(OnSaveError):
        raise UsageError(f"A run cannot {given!r} where it cannot be saved.", f"Give one of {_listed(OnSaveError)}.")
    return OnSaveError(given)


def _is_time(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 < cast(float, value) < math.inf


def _listed(words: Collection[StrEnum] | type[StrEnum]) -> str:
    return ", ".join(repr(str(word)) for word in words)


def _senseless(field: str, value: object, remedy: str) -> UsageError:
    return UsageError(f"A checkpoint policy cannot have {field}={value!r}.", remedy)


class CheckpointNote(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a checkpoint says of the moment it was made in. Stored by name, and only what differs from its default."""

    trigger: str = ""
    """Why it was made: a ``CheckpointTrigger``."""
    address: str = ""
    """The event that was recorded last."""
    events: int = 0
    """How many events had an outcome, on the timeline that it stands on."""
    done: float = 0.0
    total: float = 0.0
    """How far the program has said to be, ``done`` of ``total``; 0 of 0 where it has said nothing."""
    error: str = ""
    """Why records could not be saved."""
