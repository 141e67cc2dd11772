"""Records of every kind, and the frames that they are stored in, made by hand as the format says."""

from __future__ import annotations

import zlib

import msgspec

from limpet.codec.values import encode
from limpet.model import (
    CheckpointNote,
    CheckpointRecord,
    Details,
    DroppedRecord,
    DropReason,
    EventRecord,
    ExecutionStatus,
    Failure,
    Part,
    ReadRecord,
    Record,
    StateStatus,
    StorageRecord,
    TimelineRecord,
    Usage,
)

OWNER = "kelp-42"
CHAIN = bytes.fromhex("1f2e3d4c")

RECORDS: dict[str, Record] = {
    "a start": EventRecord(1, "research::agent_call", ExecutionStatus.STARTED, 1763428929.0, input=encode(["kelp"])),
    "a result": EventRecord(
        3,
        "research::fetch::tool_call",
        ExecutionStatus.COMPLETED,
        1763428929.1,
        behind=1,
        duration_s=0.1,
        input=encode(["kelp/1"]),
        result=encode("what stands at kelp/1"),
    ),
    "a result that is None": EventRecord(4, "a::tool_call", ExecutionStatus.COMPLETED, 5.0, result=encode(None)),
    "a failure": EventRecord(
        6,
        "research::fetch[a%3A]#2::tool_call",
        ExecutionStatus.FAILED,
        3.0,
        attempt=3,
        version="2",
        fingerprint=bytes(range(16)),
        error=Failure("ValueError", "no", "Traceback …\n  line", encode(ValueError("no", (1, 2)))),
        causes=("a::tool_call", "b::tool_call"),
        artifacts=("sha256:" + "0" * 64,),
        beside=-4,
    ),
    "a failure without a value": EventRecord(
        7, "a::tool_call", ExecutionStatus.FAILED, 3.0, error=Failure("ValueError", "no", "")
    ),
    "an attempt that is followed by another": EventRecord(
        7,
        "a::tool_call",
        ExecutionStatus.RETRYING,
        3.0,
        attempt=2,
        error=Failure("TimeoutError", "no", ""),
        details=Details(due_at=5.5, delay_s=2.5, spent_s=3.0),
    ),
    "a model call": EventRecord(
        7,
        "ask::llm_call",
        ExecutionStatus.COMPLETED,
        3.0,
        result=encode("kelp"),
        details=Details(key="0f" * 16, undo="forget", usage=Usage(1200, 0.03, "laminaria-2")),
    ),
    "a call that somebody spoke of": EventRecord(
        7, "a::tool_call", ExecutionStatus.CANCELLED, 3.0, details=Details(key="00", settled="again", by="Ü")
    ),
    "a checkpoint": CheckpointRecord(8, StateStatus.PAUSED, 5.0, '{"tags":["x","ä"],"custom":{"score":0.5}}'),
    "a checkpoint with other JSON": CheckpointRecord(8, StateStatus.PAUSED, 5.0, '{"score": 1e400, "score": NaN}'),
    "a checkpoint of a policy": CheckpointRecord(
        8, StateStatus.RUNNING, 5.0, "", CheckpointNote("every_n_steps", "ä::tool_call", 12, 0.5, 4.0)
    ),
    "a value in the storage": StorageRecord(9, "k", 2.0, encode({"a": [1, 2]}), ("sha256:" + "1" * 64,), True, 4),
    "a value None in the storage": StorageRecord(9, "k", 2.0, encode(None), behind=1),
    "a deleted key": StorageRecord(10, "k", 4.0, None, behind=1),
    "a value that was set inside a call": StorageRecord(11, "k", 2.0, encode(3), (), False, 4, "run::ä", 2),
    "a key that was deleted inside a call": StorageRecord(12, "k", 2.0, None, place="run", number=1),
    "a read that is recorded": ReadRecord(13, 2.0, "run::task[a%3A]", "k", False, 3, 11, 7, 2),
    "a read of all keys": ReadRecord(14, 2.0, "run", "", True, 1, 11),
    "a timeline": TimelineRecord(11, 6.0, 2, 1, (Part(1, 4, 0), Part(6, 8, 3)), "a::tool_call", "other"),
    "a timeline without parts": TimelineRecord(12, 6.0, 1, 1),
    "one that was dropped": DroppedRecord(13, DropReason.SUPERSEDED, 11, 4),
    "a dropped model call": DroppedRecord(14, DropReason.INTERMEDIATE, usage=Usage(1200, 0.03, "laminaria-2")),
}


def framed(body: bytes, version: int = 3, owner: str = OWNER, chain: bytes = CHAIN) -> bytes:
    """A frame of any version around a body."""
    kept = bytes([version]) + body
    if version in (1, 2):
        return chain + kept
    return chain + kept[:1] + zlib.crc32(kept, zlib.crc32(owner.encode())).to_bytes(4, "big") + body


def frame_of_record(record: Record, version: int = 3, owner: str = OWNER) -> bytes:
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(record))
    is_short = (isinstance(record, EventRecord) and record.details is None) or (
        isinstance(record, CheckpointRecord) and record.note is None
    )
    if is_short:
        fields = fields[:-1]
    elif isinstance(record, StorageRecord) and not record.place:
        fields = fields[:-2]
    return framed(msgspec.msgpack.encode(fields), version, owner)


def frame_of_value(data: bytes) -> bytes:
    """The frame of an event that has these bytes as its input and its result."""
    return frame_of_record(EventRecord(1, "a::tool_call", ExecutionStatus.COMPLETED, 1.5, input=data, result=data))
