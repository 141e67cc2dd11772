"""Records to the bytes that a backend stores, and back.

    frame    = checksum version record
    checksum = 4 bytes, big-endian: CRC-32 over version and record, begun with the checksum of the frame before;
               the first frame of a state begins with the CRC-32 of its id
    version  = 1 byte: the format version
    record   = msgpack array [tag, field, …] in the order of the fields in ``model/records.py``

So a frame that is damaged, missing, repeated, swapped or moved to another state does not fit its place in the chain.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.errors import StateCorrupted, UnsupportedVersion
from holdfast.model import FORMAT_VERSION, Record

_VERSION = bytes([FORMAT_VERSION])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_crc32 = zlib.crc32
_read_head = struct.Struct(">IB").unpack_from


def first_link(state_id: str) -> int:
    """What the checksum of a state's first frame begins with."""
    return _crc32(state_id.encode())


def to_frame(record: Record, link: int) -> tuple[bytes, int]:
    """The frame of a record that follows the frame with checksum ``link``, and its own checksum."""
    body = _VERSION + _encode(record)
    checksum = _crc32(body, link)
    return checksum.to_bytes(4, "big") + body, checksum


def link_of(frame: bytes) -> int:
    """The checksum of a frame, which the next one follows."""
    return int.from_bytes(frame[:4], "big")


def last_link(state_id: str, frames: list[tuple[int, bytes]]) -> int:
    """The checksum that the next frame of a journal follows."""
    return link_of(frames[-1][1]) if frames else first_link(state_id)


def from_frames(state_id: str, frames: Iterable[tuple[int, bytes]], link: int | None = None) -> Iterator[Record]:
    """The records of a state from their frames. Raises StateCorrupted or UnsupportedVersion, naming the first bad one.

    ``link`` is the checksum of the frame before the first one given; None where the frames begin with the first.
    """
    before = first_link(state_id) if link is None else link
    seq = 0
    try:
        for seq, frame in frames:
            checksum, version = _read_head(frame)
            if checksum != _crc32(frame[4:], before):
                raise StateCorrupted(state_id, seq, "its checksum does not fit its bytes and the record before it")
            if version != FORMAT_VERSION:
                raise UnsupportedVersion(f"Record {seq} of state {state_id!r}", version, FORMAT_VERSION)
            record = _decode(frame[5:])
            if record.seq != seq:
                raise StateCorrupted(state_id, seq, f"it says that it is record {record.seq}")
            before = checksum
            yield record
    except (msgspec.MsgspecError, struct.error, UnicodeDecodeError) as error:
        raise StateCorrupted(state_id, seq, f"it cannot be read ({error})") from error
