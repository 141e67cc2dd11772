"""Frozen data without behaviour: words, records, headers, leases, notices, timelines."""

from limpet.model.artifacts import ArtifactInfo, ArtifactReference, Content, Pin, checked_artifact_id
from limpet.model.budget import Budget
from limpet.model.checkpoints import (
    CheckpointFrequency,
    CheckpointNote,
    CheckpointPolicy,
    CheckpointTrigger,
    OnSaveError,
)
from limpet.model.diff import EventChange, StateDiff, StatePoint, StorageChange, Totals
from limpet.model.difference import Difference, DifferenceKind
from limpet.model.effects import CurrentEvent, DidNotHappen, Happened, Settled
from limpet.model.header import FORMAT_VERSION, Base, End, StateHeader, checked_state_id
from limpet.model.interrupts import InterruptReason, InterruptSignal
from limpet.model.lease import Holder, Lease
from limpet.model.letters import Letter, checked_letter_name, checked_note, checked_note_name, is_letter_name
from limpet.model.metadata import StateMetadata
from limpet.model.notice import EventNotice
from limpet.model.plan import PlannedCalls, RerunPlan
from limpet.model.progress import Progress, ProgressSource
from limpet.model.records import (
    CheckpointRecord,
    DamagedRecord,
    Details,
    DroppedRecord,
    EventRecord,
    Failure,
    Part,
    ReadRecord,
    Record,
    StorageRecord,
    TimelineRecord,
    TimerRecord,
    fingerprint,
)
from limpet.model.retention import Cleanup, Compacted, Removed, Retention
from limpet.model.retry import BackoffStrategy, RetryConfig, RetryStatistics
from limpet.model.room import DiskUse, Room, SharedRoom
from limpet.model.schedule import CleanupRun, Schedule
from limpet.model.timeline import Checkpoint, Lineage, Timeline
from limpet.model.usage import LLMResult, ModelUsage, Usage, UsageTotals
from limpet.model.validation import Finding, Mismatch, NotChecked, Outcome, RehearsalReport, Rehearsed
from limpet.model.verification import Diagnosis, Migrated, Recovered, Verification
from limpet.model.words import (
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
    "ReadRecord",
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
    "TimerRecord",
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
