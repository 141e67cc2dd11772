"""Which states are kept, and what a cleanup reports."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import msgspec

from limpet.errors import UsageError
from limpet.model.room import DiskUse
from limpet.model.words import StateStatus

_TIMES = ("max_age", "compact_after", "prune_after")
_NUMBERS = ("max_per_pipeline", "max_total_size", "keep_latest")
_REMEDY = "Give a whole number from 0 on, or None for no such rule."


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """Which states may go. Whatever one of the three limits asks for goes; what is to be kept counts over them all.

    The rules are about the states of the ``statuses`` that have the ``tags``; all others stay and do not count. A state
    that is being run or is damaged is never deleted by a rule. The oldest is what was created first, as in a listing.

    Of what stays, records may go that are not needed any more (``compact_after``, ``prune_after``), whatever its
    status; ``tags`` and ``keep_tags`` count for that as well. Raises UsageError where a setting makes no sense.
    """

    max_age: timedelta | None = None
    """States go whose status or metadata did not change for longer than this."""
    max_per_pipeline: int | None = None
    """Of each pipeline so many may stay; the oldest go. States without a pipeline name are one pipeline."""
    max_total_size: int | None = None
    """How many bytes all states of the store may take together, also those that the rules are not about; the oldest go
    until it fits. Artifacts do not count."""
    compact_after: timedelta | None = None
    """Completed states whose status and metadata did not change for longer keep their results, and what running them on
    from any event needs. Attempts, waits, checkpoints and earlier timelines go."""
    prune_after: timedelta | None = None
    """Of states whose status and metadata did not change for longer, whatever their status, earlier timelines go. The
    current one stays as it is, and so does the newest checkpoint of a state that is not completed."""
    keep_latest: int = 0
    """Of each pipeline the newest so many stay, whatever the limits say."""
    statuses: Collection[str] = frozenset({StateStatus.COMPLETED})
    """Only states of these go. What is not completed can be resumed, and so goes only where its status is named."""
    tags: Collection[str] = frozenset()
    """Only states that have all of these go."""
    keep_tags: Collection[str] = frozenset()
    """States that have any of these stay."""

    def __post_init__(self) -> None:
        for field in _TIMES:
            value = getattr(self, field)
            if not _is_age(value):
                raise _senseless(field, value, "Give a timedelta that is not negative, or None for no such rule.")
        for field in _NUMBERS:
            value = getattr(self, field)
            is_missing = value is None and field != "keep_latest"
            if not is_missing and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
                raise _senseless(field, value, _REMEDY)
        # Lists and plain words are what people write, also in a configuration.
        msgspec.structs.force_setattr(self, "statuses", _statuses(self.statuses))
        for field in ("tags", "keep_tags"):
            msgspec.structs.force_setattr(self, field, _tags(field, getattr(self, field)))

    @property
    def is_empty(self) -> bool:
        """Whether there is no limit, and so nothing that could go."""
        return not self.deletes and self.compact_after is None and self.prune_after is None

    @property
    def deletes(self) -> bool:
        """Whether there is a limit by which states go."""
        return self.max_age is not None or self.max_per_pipeline is not None or self.max_total_size is not None


def _is_age(value: object) -> bool:
    return value is None or (isinstance(value, timedelta) and value >= timedelta(0))


def _statuses(given: Collection[str]) -> frozenset[StateStatus]:
    known = ", ".join(repr(str(status)) for status in StateStatus)
    remedy = f"Give some of {known}."
    if isinstance(given, str) or not given:
        raise _senseless("statuses", given, remedy)
    try:
        return frozenset(map(StateStatus, given))
    except ValueError as error:
        raise _senseless("statuses", given, remedy) from error


def _tags(field: str, given: Collection[str]) -> frozenset[str]:
    if isinstance(given, str):
        raise _senseless(field, given, "Give a list of tags.")
    return frozenset(given)


def _senseless(field: str, value: object, remedy: str) -> UsageError:
    return UsageError(f"A retention cannot have {field}={value!r}.", remedy)


class Removed(msgspec.Struct, frozen=True):
    """A state that a cleanup has deleted, or would delete."""

    state_id: str
    reason: str
    bytes: int
    """The room that its deletion frees, after that of those before it."""


class Compacted(msgspec.Struct, frozen=True):
    """A state of which a cleanup has dropped records, or would drop them."""

    state_id: str
    reason: str
    records: int
    """How many records went."""
    bytes: int
    """How many bytes its records have less than before, with what stands in the places of those that went."""


class Cleanup(msgspec.Struct, frozen=True, kw_only=True):
    """What a cleanup has done or, in a dry run, would do."""

    removed: list[Removed]
    """The states that go, the oldest first."""
    kept: dict[str, int]
    """How many states stay, by reason."""
    compacted: list[Compacted] = []
    """The states that stay and lose records, the oldest first."""
    left_whole: dict[str, int] = {}
    """Of the states that are old enough to lose records: how many keep all of them, by reason."""
    artifacts: int = 0
    """How many artifacts were collected after that: those that no state names any more."""
    artifact_bytes: int = 0
    artifacts_kept_because: str | None = None
    """Why no artifacts were collected; None where they were, or there are none."""
    disk_before: DiskUse | None = None
    """What the file of the store took before; None where a store is no file that keeps free room inside."""
    disk_after: DiskUse | None = None
    """The same afterwards; None in a dry run as well."""
    not_compacted_because: str | None = None
    """Why the free room in the file was not given back to the disk, where that was asked for."""
    duration_s: float
    is_dry_run: bool

    @property
    def freed(self) -> int:
        """How many bytes the removed states took, and those records that others have lost."""
        return sum(each.bytes for each in self.removed) + sum(each.bytes for each in self.compacted)
