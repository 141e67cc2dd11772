"""Holdfast makes pipelines of agents, tools and model calls durable."""

from holdfast.backends.contract import Append, Claim, Grant, StateBackend, StateUpdate
from holdfast.backends.memory import MemoryStateBackend
from holdfast.backends.sqlite import SQLiteStateBackend
from holdfast.client import Holdfast, StateView
from holdfast.declare import LLM, Agent, Tool, agent, llm, tool
from holdfast.engine.bus import EventBus
from holdfast.engine.event import ExecutionEvent, ExecutionResult
from holdfast.engine.history_set import HistorySet
from holdfast.engine.state import ExecutionState
from holdfast.engine.validation import Mismatch, ValidationReport
from holdfast.errors import (
    AgentNotFound,
    BackendError,
    BackendUnavailable,
    ConditionFailed,
    DriftWarning,
    EventFailed,
    HoldfastError,
    InvalidAddress,
    InvalidMetadata,
    InvalidStateId,
    InvalidStoreUrl,
    LeaseHeld,
    LeaseLost,
    NotAStore,
    NotRecorded,
    PositionTaken,
    ReplayError,
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
)
from holdfast.model import (
    CheckpointRecord,
    EventNotice,
    EventRecord,
    EventType,
    ExecutionStatus,
    Failure,
    Holder,
    Lease,
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
    "BackendError",
    "BackendUnavailable",
    "CheckpointRecord",
    "Claim",
    "ConditionFailed",
    "DriftWarning",
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
    "Grant",
    "HistorySet",
    "Holder",
    "Holdfast",
    "HoldfastError",
    "InvalidAddress",
    "InvalidMetadata",
    "InvalidStateId",
    "InvalidStoreUrl",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "MemoryStateBackend",
    "Mismatch",
    "NotAStore",
    "NotRecorded",
    "PositionTaken",
    "Record",
    "ReplayError",
    "ReplayMode",
    "SQLiteStateBackend",
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
    "agent",
    "llm",
    "open_store",
    "tool",
]


def __getattr__(name: str) -> str:
    # Looked up when it is asked for: reading the metadata of packages would slow every import down.
    if name == "__version__":
        from importlib.metadata import version

        return version("holdfast")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
