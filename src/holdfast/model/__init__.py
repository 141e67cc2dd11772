"""Frozen data without behaviour: words, records, headers, leases, notices, snapshots."""

from holdfast.model.artifacts import ArtifactInfo, ArtifactReference, Content, Pin, checked_artifact_id
from holdfast.model.header import FORMAT_VERSION, Base, StateHeader, checked_state_id
from holdfast.model.lease import Holder, Lease
from holdfast.model.metadata import StateMetadata
from holdfast.model.notice import EventNotice
from holdfast.model.records import CheckpointRecord, EventRecord, Failure, Record, StorageRecord, fingerprint
from holdfast.model.snapshot import StateSnapshot
from holdfast.model.words import EventType, ExecutionStatus, ReplayMode, StateStatus

__all__ = [
    "FORMAT_VERSION",
    "ArtifactInfo",
    "ArtifactReference",
    "Base",
    "CheckpointRecord",
    "Content",
    "EventNotice",
    "EventRecord",
    "EventType",
    "ExecutionStatus",
    "Failure",
    "Holder",
    "Lease",
    "Pin",
    "Record",
    "ReplayMode",
    "StateHeader",
    "StateMetadata",
    "StateSnapshot",
    "StateStatus",
    "StorageRecord",
    "checked_artifact_id",
    "checked_state_id",
    "fingerprint",
]
