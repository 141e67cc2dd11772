"""How two states, two timelines or two checkpoints differ."""

from __future__ import annotations

from collections import Counter

import msgspec

from limpet.model.difference import Difference
from limpet.model.readable_time import readable_time
from limpet.model.records import EventRecord
from limpet.model.words import ExecutionStatus

_MOST_SHOWN = 10


class StatePoint(msgspec.Struct, frozen=True):
    """A state as it stands, on one of its timelines, or as it stood at a checkpoint.

    As text: ``kelp-42``, ``kelp-42:2`` (its timeline 2), ``kelp-42:c17`` (its checkpoint at position 17).
    """

    state_id: str
    timeline: int | None = None
    checkpoint: int | None = None

    def __str__(self) -> str:
        if self.checkpoint is not None:
            return f"{self.state_id}:c{self.checkpoint}"
        return self.state_id if self.timeline is None else f"{self.state_id}:{self.timeline}"


class EventChange(msgspec.Struct, frozen=True, kw_only=True):
    """An event that both have, and that went otherwise."""

    address: str
    before: EventRecord
    after: EventRecord
    differences: tuple[Difference, ...]
    """Of the result, the input, the status, the error and the version; the most telling ones where there are many."""

    @property
    def duration_change_s(self) -> float:
        return self.after.duration_s - self.before.duration_s

    def __str__(self) -> str:
        return "\n".join([f"~ {self.address}", *(f"    {difference}" for difference in self.differences)])


class StorageChange(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the storage that only one of the two has, or that differs."""

    key: str
    differences: tuple[Difference, ...]

    def __str__(self) -> str:
        return "\n".join(f"    {difference}" for difference in self.differences)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """What one of the two sums up to."""

    events: int = 0
    failures: int = 0
    retries: int = 0
    """How many outcomes were followed by another one at the same address."""
    duration_s: float = 0.0
    """The time of tools and models."""


class StateDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What became different from one to the other. True where anything did."""

    before: str
    after: str
    new_events: tuple[EventRecord, ...] = ()
    removed_events: tuple[EventRecord, ...] = ()
    changed_events: tuple[EventChange, ...] = ()
    changed_storage: dict[str, StorageChange] = {}
    """By key. What ``set_artifact`` has put into the storage is told under the artifacts."""
    new_artifacts: tuple[str, ...] = ()
    """The ids of those that only the one after has; one that was put at another key of the storage is new there."""
    removed_artifacts: tuple[str, ...] = ()
    totals_before: Totals = Totals()
    totals_after: Totals = Totals()
    artifact_keys: dict[str, str] = {}
    """The keys of those artifacts that ``set_artifact`` has put into the storage, by id."""

    def __bool__(self) -> bool:
        parts = (self.new_events, self.removed_events, self.changed_events, self.changed_storage)
        return any(parts) or bool(self.new_artifacts or self.removed_artifacts)

    def __str__(self) -> str:
        if not self:
            return f"{self.before} and {self.after} do not differ ({self.totals_after.events} events)."
        lines = [f"{self.before} -> {self.after}"]
        lines += _shown([str(change) for change in self.changed_events], "changed events")
        lines += _shown([f"- {_event(record)}" for record in self.removed_events], "removed events")
        lines += _shown([f"+ {_event(record)}" for record in self.new_events], "new events")
        lines += _shown([f"~ storage\n{change}" for change in self.changed_storage.values()], "changes of the storage")
        lines += _shown([f"- artifact {self._named(each)}" for each in self.removed_artifacts], "removed artifacts")
        lines += _shown([f"+ artifact {self._named(each)}" for each in self.new_artifacts], "new artifacts")
        return "\n".join([*lines, self.summary])

    def _named(self, artifact_id: str) -> str:
        key = self.artifact_keys.get(artifact_id)
        return artifact_id if key is None else f"{artifact_id} in storage[{key!r}]"

    @property
    def summary(self) -> str:
        """One line that counts."""
        before, after = self.totals_before, self.totals_after
        counts = Counter(changed=len(self.changed_events), removed=len(self.removed_events), new=len(self.new_events))
        told = ", ".join(f"{count} {what}" for what, count in counts.items())
        return (
            f"events: {before.events} -> {after.events} ({told}); retries: {before.retries} -> {after.retries}; "
            f"tools and models: {readable_time(before.duration_s)} -> {readable_time(after.duration_s)}"
        )


def _event(record: EventRecord) -> str:
    return record.address if record.status is ExecutionStatus.COMPLETED else f"{record.address} ({record.status})"


def _shown(lines: list[str], what: str) -> list[str]:
    left = len(lines) - _MOST_SHOWN
    return lines if left <= 0 else [*lines[:_MOST_SHOWN], f"  … and {left} more {what}"]
