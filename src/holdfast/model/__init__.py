"""Frozen data without behaviour: words, records, headers, leases, notices, timelines."""

from holdfast.model.artifacts import ArtifactInfo, ArtifactReference, Content, Pin, checked_artifact_id
from holdfast.model.diff import EventChange, StateDiff, StatePoint, StorageChange, Totals
from holdfast.model.difference import Difference, DifferenceKind
from holdfast.model.header import FORMAT_VERSION, Base, StateHeader, checked_state_id
from holdfast.model.lease import Holder, Lease
from holdfast.model.metadata import StateMetadata
from holdfast.model.notice import EventNotice
from holdfast.model.plan import PlannedCalls, RerunPlan
from holdfast.model.records import (
    CheckpointRecord,
    EventRecord,
    Failure,
    Part,
    Record,
    StorageRecord,
    TimelineRecord,
    fingerprint,
)
from holdfast.model.timeline import Checkpoint, Lineage, Timeline
from holdfast.model.validation import Finding, Mismatch, NotChecked, Outcome, RehearsalReport, Rehearsed
from holdfast.model.words import DeterminismLevel, EventType, ExecutionStatus, OnDrift, ReplayMode, StateStatus

__all__ = [
    "FORMAT_VERSION",
    "ArtifactInfo",
    "ArtifactReference",
    "Base",
    "Checkpoint",
    "CheckpointRecord",
    "Content",
    "DeterminismLevel",
    "Difference",
    "DifferenceKind",
    "EventChange",
    "EventNotice",
    "EventRecord",
    "EventType",
    "ExecutionStatus",
    "Failure",
    "Finding",
    "Holder",
    "Lease",
    "Lineage",
    "Mismatch",
    "NotChecked",
    "OnDrift",
    "Outcome",
    "Part",
    "Pin",
    "PlannedCalls",
    "Record",
    "RehearsalReport",
    "Rehearsed",
    "ReplayMode",
    "RerunPlan",
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
    "checked_artifact_id",
    "checked_state_id",
    "fingerprint",
]
