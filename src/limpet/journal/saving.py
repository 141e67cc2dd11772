"""When records are saved, by the policy of a run. Pure: it is told what was recorded, and how long ago."""

from __future__ import annotations

import msgspec

from limpet.journal.waits import is_wait
from limpet.model import CheckpointFrequency, CheckpointPolicy, CheckpointTrigger, EventType, ExecutionStatus


class Recorded(msgspec.Struct, frozen=True):
    """What the policy looks at of a record that is about to be held back or saved."""

    address: str
    status: ExecutionStatus = ExecutionStatus.STARTED
    is_gate: bool = False
    is_once: bool = False


class Unsaved(msgspec.Struct):
    """What was recorded since the last save."""

    steps: int = 0
    """How many outcomes; those of attempts that are followed by another one count as well."""
    oldest: float | None = None
    """When the first of them was recorded, as durations are counted."""
    largest_artifact: int = 0
    """The size of the largest artifact that they name."""

    def note(self, now: float) -> None:
        """Another outcome was recorded."""
        self.steps += 1
        self.begin(now)

    def begin(self, now: float) -> None:
        """Something was recorded that is no outcome, such as a value of the storage."""
        if self.oldest is None:
            self.oldest = now


def why_save(policy: CheckpointPolicy, recorded: Recorded, unsaved: Unsaved, now: float) -> CheckpointTrigger | None:
    """Why everything is saved now that this outcome was recorded, which ``unsaved`` counts; None: it is held back."""
    if is_wait(recorded.address):
        return CheckpointTrigger.WAIT
    if recorded.is_once:
        return CheckpointTrigger.ONCE
    is_large = unsaved.largest_artifact >= max(1, policy.large_artifact)
    if is_large and CheckpointTrigger.LARGE_ARTIFACT in policy.triggers:
        return CheckpointTrigger.LARGE_ARTIFACT
    for trigger, kind in _AFTER.items():
        if trigger in policy.triggers and recorded.address.endswith(kind):
            return trigger
    match policy.frequency:
        case CheckpointFrequency.EVERY_N_STEPS:
            return CheckpointTrigger.EVERY_N_STEPS if unsaved.steps >= policy.steps else None
        case CheckpointFrequency.TIME_BASED:
            return CheckpointTrigger.TIME_BASED if is_due(policy, unsaved, now) else None
        case CheckpointFrequency.ON_GATES:
            return CheckpointTrigger.GATE if recorded.is_gate else None
        case _:
            return None


def is_due(policy: CheckpointPolicy, unsaved: Unsaved, now: float) -> bool:
    """Whether what is held back has been so for as long as a policy by time allows."""
    return (
        policy.frequency is CheckpointFrequency.TIME_BASED
        and unsaved.oldest is not None
        and now - unsaved.oldest >= policy.interval_s
    )


_AFTER = {
    CheckpointTrigger.LLM_CALL: f"::{EventType.LLM_CALL}",
    CheckpointTrigger.TOOL_CALL: f"::{EventType.TOOL_CALL}",
}
