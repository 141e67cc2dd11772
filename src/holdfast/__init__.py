"""Holdfast makes pipelines of agents, tools and model calls durable."""

from holdfast.artifacts.adapters import ArtifactAdapter, Source, register_adapter
from holdfast.artifacts.file import ArtifactFile
from holdfast.artifacts.stored_values import compute_artifact_id
from holdfast.backends.artifact_contract import ArtifactBackend
from holdfast.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate
from holdfast.backends.files import FileSystemArtifactBackend
from holdfast.backends.memory import MemoryStateBackend
from holdfast.backends.memory.artifacts import MemoryArtifactBackend
from holdfast.backends.sqlite import SQLiteStateBackend
from holdfast.client import Holdfast, StateView
from holdfast.codec.left_out import NotStored
from holdfast.codec.secrets import MissingSecret, Secret
from holdfast.codec.user_types.registered import register_type
from holdfast.declare import LLM, Agent, Tool, agent, llm, tool
from holdfast.engine.bus import EventBus
from holdfast.engine.collect import Collected
from holdfast.engine.event import ExecutionEvent, ExecutionResult
from holdfast.engine.history_set import HistorySet
from holdfast.engine.state import ExecutionState
from holdfast.engine.validation import Mismatch, ValidationReport
from holdfast.errors import (
    AgentNotFound,
    ArtifactCorrupted,
    ArtifactMissing,
    ArtifactsShared,
    BackendError,
    BackendUnavailable,
    ConditionFailed,
    ContentChanged,
    DriftWarning,
    EventFailed,
    HoldfastError,
    InvalidAddress,
    InvalidArtifactId,
    InvalidKey,
    InvalidMetadata,
    InvalidStateId,
    InvalidStoreUrl,
    LeaseHeld,
    LeaseLost,
    MissingDependency,
    NotAStore,
    NotEncrypted,
    NotRecorded,
    PositionTaken,
    ReplayError,
    SecretNeeded,
    StateCorrupted,
    StateMismatch,
    StoreDamaged,
    StoreFull,
    StoreNotWritable,
    UnknownAddress,
    UnknownState,
    UnknownStore,
    UnsupportedVersion,
    UsageError,
    ValueNotReadable,
    ValueNotStorable,
    WrongKey,
)
from holdfast.keys import Encryption, new_key
from holdfast.model import (
    ArtifactInfo,
    ArtifactReference,
    CheckpointRecord,
    Content,
    EventNotice,
    EventRecord,
    EventType,
    ExecutionStatus,
    Failure,
    Holder,
    Lease,
    Pin,
    Record,
    ReplayMode,
    StateHeader,
    StateMetadata,
    StateSnapshot,
    StateStatus,
    StorageRecord,
)
from holdfast.stores import open_store

__version__: str

__all__ = [
    "LLM",
    "Agent",
    "AgentNotFound",
    "Append",
    "ArtifactAdapter",
    "ArtifactBackend",
    "ArtifactCorrupted",
    "ArtifactFile",
    "ArtifactInfo",
    "ArtifactMissing",
    "ArtifactReference",
    "ArtifactsShared",
    "BackendError",
    "BackendUnavailable",
    "CheckpointRecord",
    "Claim",
    "Collected",
    "ConditionFailed",
    "Content",
    "ContentChanged",
    "DriftWarning",
    "Encryption",
    "EventBus",
    "EventFailed",
    "EventNotice",
    "EventRecord",
    "EventType",
    "ExecutionEvent",
    "ExecutionResult",
    "ExecutionState",
    "ExecutionStatus",
    "Failure",
    "FileSystemArtifactBackend",
    "Grant",
    "HistorySet",
    "Holder",
    "Holdfast",
    "HoldfastError",
    "InvalidAddress",
    "InvalidArtifactId",
    "InvalidKey",
    "InvalidMetadata",
    "InvalidStateId",
    "InvalidStoreUrl",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "MemoryArtifactBackend",
    "MemoryStateBackend",
    "Mismatch",
    "MissingDependency",
    "MissingSecret",
    "NotAStore",
    "NotEncrypted",
    "NotRecorded",
    "NotStored",
    "Pin",
    "PositionTaken",
    "Record",
    "ReplayError",
    "ReplayMode",
    "SQLiteStateBackend",
    "Secret",
    "SecretNeeded",
    "Source",
    "StateBackend",
    "StateCorrupted",
    "StateHeader",
    "StateMetadata",
    "StateMismatch",
    "StateSnapshot",
    "StateStatus",
    "StateUpdate",
    "StateView",
    "StorageRecord",
    "StoreDamaged",
    "StoreFull",
    "StoreNotWritable",
    "Tool",
    "UnknownAddress",
    "UnknownState",
    "UnknownStore",
    "UnsupportedVersion",
    "UsageError",
    "ValidationReport",
    "ValueNotReadable",
    "ValueNotStorable",
    "WrongKey",
    "agent",
    "compute_artifact_id",
    "llm",
    "new_key",
    "open_store",
    "register_adapter",
    "register_type",
    "tool",
]


def __getattr__(name: str) -> str:
    # Looked up when it is asked for: reading the metadata of packages would slow every import down.
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
