"""Frozen data without behaviour: words, records, headers, leases, notices, timelines."""

from holdfast.model.artifacts import ArtifactInfo, ArtifactReference, Content, Pin, checked_artifact_id
from holdfast.model.budget import Budget
from holdfast.model.checkpoints import (
    CheckpointFrequency,
    CheckpointNote,
    CheckpointPolicy,
    CheckpointTrigger,
    OnSaveError,
)
from holdfast.model.diff import EventChange, StateDiff, StatePoint, StorageChange, Totals
from holdfast.model.difference import Difference, DifferenceKind
from holdfast.model.effects import CurrentEvent, DidNotHappen, Happened, Settled
from holdfast.model.header import FORMAT_VERSION, Base, End, StateHeader, checked_state_id
from holdfast.model.interrupts import InterruptReason, InterruptSignal
from holdfast.model.lease import Holder, Lease
from holdfast.model.letters import Letter, checked_letter_name, checked_note, checked_note_name, is_letter_name
from holdfast.model.metadata import StateMetadata
from holdfast.model.notice import EventNotice
from holdfast.model.plan import PlannedCalls, RerunPlan
from holdfast.model.progress import Progress, ProgressSource
from holdfast.model.records import (
    CheckpointRecord,
    DamagedRecord,
    Details,
    DroppedRecord,
    EventRecord,
    Failure,
    Part,
    Record,
    StorageRecord,
    TimelineRecord,
    fingerprint,
)
from holdfast.model.retention import Cleanup, Compacted, Removed, Retention
from holdfast.model.retry import BackoffStrategy, RetryConfig, RetryStatistics
from holdfast.model.room import DiskUse, Room, SharedRoom
from holdfast.model.schedule import CleanupRun, Schedule
from holdfast.model.timeline import Checkpoint, Lineage, Timeline
from holdfast.model.usage import LLMResult, ModelUsage, Usage, UsageTotals
from holdfast.model.validation import Finding, Mismatch, NotChecked, Outcome, RehearsalReport, Rehearsed
from holdfast.model.verification import Diagnosis, Migrated, Recovered, Verification
from holdfast.model.words import (
    Capture,
    DeterminismLevel,
    DropReason,
    EventType,
    ExecutionStatus,
    OnDrift,
    ReplayMode,
    StateStatus,
)

__all__ = [
    "FORMAT_VERSION",
    "ArtifactInfo",
    "ArtifactReference",
    "BackoffStrategy",
    "Base",
    "Budget",
    "Capture",
    "Checkpoint",
    "CheckpointFrequency",
    "CheckpointNote",
    "CheckpointPolicy",
    "CheckpointRecord",
    "CheckpointTrigger",
    "Cleanup",
    "CleanupRun",
    "Compacted",
    "Content",
    "CurrentEvent",
    "DamagedRecord",
    "Details",
    "DeterminismLevel",
    "Diagnosis",
    "DidNotHappen",
    "Difference",
    "DifferenceKind",
    "DiskUse",
    "DropReason",
    "DroppedRecord",
    "End",
    "EventChange",
    "EventNotice",
    "EventRecord",
    "EventType",
    "ExecutionStatus",
    "Failure",
    "Finding",
    "Happened",
    "Holder",
    "InterruptReason",
    "InterruptSignal",
    "LLMResult",
    "Lease",
    "Letter",
    "Lineage",
    "Migrated",
    "Mismatch",
    "ModelUsage",
    "NotChecked",
    "OnDrift",
    "OnSaveError",
    "Outcome",
    "Part",
    "Pin",
    "PlannedCalls",
    "Progress",
    "ProgressSource",
    "Record",
    "Recovered",
    "RehearsalReport",
    "Rehearsed",
    "Removed",
    "ReplayMode",
    "RerunPlan",
    "Retention",
    "RetryConfig",
    "RetryStatistics",
    "Room",
    "Schedule",
    "Settled",
    "SharedRoom",
    "StateDiff",
    "StateHeader",
    "StateMetadata",
    "StatePoint",
    "StateStatus",
    "StorageChange",
    "StorageRecord",
    "Timeline",
    "TimelineRecord",
    "Totals",
    "Usage",
    "UsageTotals",
    "Verification",
    "checked_artifact_id",
    "checked_letter_name",
    "checked_note",
    "checked_note_name",
    "checked_state_id",
    "fingerprint",
    "is_letter_name",
]
