"""Journals whose frames are changed, plain and sealed, and what reading them gives: the honest records, or an error.

A journal travels as one text of bytes: which kind it is, and then the number, the length and the bytes of each frame.
"""

from __future__ import annotations

import random
import struct
import zlib
from typing import Any

from hostile.fuzzing import Fuzzer

from limpet import Encryption, EventRecord, ExecutionStatus, Failure, StateStatus, StorageRecord
from limpet.artifacts.stored_values import StoredValues
from limpet.codec.frames import first_link, from_frames, to_frame
from limpet.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey
from limpet.journal.history import History
from limpet.model import CheckpointRecord, DamagedRecord, Part, Record, TimelineRecord

STATE_ID = "hostile"
KEY = StoredValues(None, cipher=Encryption("11" * 32)).record_cipher(STATE_ID)
OTHER_KEY = StoredValues(None, cipher=Encryption("22" * 32)).record_cipher(STATE_ID)

PLAIN, MENDED, SEALED, SEALED_AND_MENDED = range(4)
"""A journal whose checksums are mended after the change reaches what reads the records."""

_head = struct.Struct(">qI")
Frames = list[tuple[int, bytes]]


def honest_records(values: list[bytes]) -> list[Record]:
    """A record of every kind, with real values in them."""
    failure = Failure("ValueError", "wrong", "Traceback …", values[2])
    return [
        EventRecord(1, "a::agent_call", ExecutionStatus.STARTED, 1.5, input=values[0]),
        EventRecord(2, "a::b::tool_call", ExecutionStatus.COMPLETED, 2.5, 0, 1, 0.5, "2", b"", values[0], values[1]),
        StorageRecord(3, "key", 3.5, values[1], ("sha256:" + "0" * 64,), True),
        CheckpointRecord(4, StateStatus.RUNNING, 4.5, '{"name": "x"}'),
        EventRecord(5, "a::agent_call", ExecutionStatus.FAILED, 5.5, error=failure, causes=("a::b::tool_call",)),
        TimelineRecord(6, 6.5, 2, 1, (Part(1, 3, 2), Part(4, 5)), "a::b::tool_call"),
        EventRecord(7, "a::b::tool_call", ExecutionStatus.COMPLETED, 7.5, 1, beside=0),
    ]


RECORDS = honest_records([b"\x93\x01\x02\x03", b"\xa4kelp", b"\xc0"])


def framed(cipher: Any) -> Frames:
    frames: Frames = []
    link = first_link(STATE_ID)
    for record in RECORDS:
        frame, link = to_frame(record, link, first_link(STATE_ID), cipher)
        frames.append((record.seq, frame))
    return frames


def mended(frames: Frames) -> Frames:
    """The frames with the checksums that fit them, as anybody can compute them."""
    link = first_link(STATE_ID)
    found: Frames = []
    for seq, frame in frames:
        version, checked = frame[4:5], frame[4:]
        if version in (b"\3", b"\4"):
            own = zlib.crc32(version + frame[9:], first_link(STATE_ID)).to_bytes(4, "big")
            frame, checked = frame[:4] + version + own + frame[9:], own
        link = zlib.crc32(checked, link)
        found.append((seq, link.to_bytes(4, "big") + frame[4:]))
    return found


class ChangedJournals:
    """An endless supply of changed journals, the same for the same seed."""

    def __init__(self, samples: list[list[bytes]], seed: int) -> None:
        self._random = random.Random(seed)
        self._fuzzer = Fuzzer(samples, seed)
        self._honest = {PLAIN: framed(None), SEALED: framed(KEY)}

    def next(self) -> bytes:
        kind = self._random.randrange(4)
        frames = self._changed(list(self._honest[PLAIN if kind in (PLAIN, MENDED) else SEALED]))
        return packed(kind, mended(frames) if kind in (MENDED, SEALED_AND_MENDED) else frames)

    def _changed(self, frames: Frames) -> Frames:
        chance = self._random
        place = chance.randrange(len(frames))
        seq, frame = frames[place]
        match chance.randrange(10):
            case 0:
                return frames[:place] + frames[place + 1 :]
            case 1:
                return [*frames[: place + 1], *frames[place:]]
            case 2:
                shuffled = chance.sample(frames, len(frames))
                return [(seq, frame) for (seq, _), (_, frame) in zip(frames, shuffled, strict=True)]
            case 3:
                frames[place] = (chance.choice((0, -1, seq + 1, 2**62)), frame)
            case 4:
                frames[place] = (seq, frame[:4] + bytes([chance.randrange(256)]) + frame[5:])
            case 5:
                frames[place] = (seq, frame[: chance.choice((5, 9))] + self._fuzzer.next())
            case 6:
                frames[place] = (seq, framed(OTHER_KEY if chance.random() < 0.5 else None)[place][1])
            case _:
                # Behind the checksums and the version stands what was sealed, or the record itself.
                keep = chance.choice((0, 4, 5, 9))
                frames[place] = (seq, frame[:keep] + self._fuzzer.changed_bytes(frame[keep:]))
        return frames


def packed(kind: int, frames: Frames) -> bytes:
    return bytes([kind]) + b"".join(_head.pack(seq, len(frame)) + frame for seq, frame in frames)


def unpacked(data: bytes) -> tuple[int, Frames]:
    frames: Frames = []
    place = 1
    while place < len(data):
        seq, length = _head.unpack_from(data, place)
        place += _head.size
        frames.append((seq, data[place : place + length]))
        place += length
    return data[0], frames


def read_journal(data: bytes) -> str:
    """The outcome of reading a changed journal."""
    kind, frames = unpacked(data)
    cipher = KEY if kind in (SEALED, SEALED_AND_MENDED) else None
    found: list[Any] = []
    outcome = "a value"
    try:
        for record in from_frames(STATE_ID, frames, cipher=cipher):
            found.append(record)
            if isinstance(record, DamagedRecord):
                outcome = "StateCorrupted"
    except (StateCorrupted, UnsupportedVersion, WrongKey, NotEncrypted) as error:
        outcome = type(error).__name__
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    try:
        History(STATE_ID, found)
    except StateCorrupted:
        outcome = "StateCorrupted"
    except BaseException as error:
        return f"{type(error).__name__}: {error} in the history of {found}"
    # Checksums show every change, and a seal every change of a record; that none is missing is seen by its history.
    intact = [record for record in found if not isinstance(record, DamagedRecord)]
    if kind != MENDED and intact != [RECORDS[record.seq - 1] for record in intact]:
        return f"read other records: {found}"
    if kind in (PLAIN, SEALED) and [record.seq for record in found] != [*range(1, len(found) + 1)]:
        return f"read records out of order: {found}"
    return outcome
