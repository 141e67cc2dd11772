"""Records to the bytes that a backend stores, and back.

    frame    = checksum version body
    checksum = 4 bytes, big-endian: CRC-32 over version and body, begun with the checksum of the frame before;
               the first frame of a state begins with the CRC-32 of its id; the first frame that a fork has of its own
               with the CRC-32 of the fork's id, begun with the checksum of the last frame that it shares
    version  = 1 byte: 1 a plain record, 2 a sealed one
    body     = 1: record
               2: key id (4 bytes) nonce (12 bytes) ciphertext of record (as long as it) tag (16 bytes), as
                  ``codec/encryption.py`` seals it for the place "record", id of the state, number (8 bytes, big-endian)
    record   = msgpack array [tag, field, …] in the order of the fields in ``model/records.py``

So a frame that is damaged, missing, repeated, swapped or moved to another state does not fit its place in the chain.
The chain runs over the bytes as they are stored, so it is checked without a key. It guards against accidents: anybody
can compute it. Against forgery there is the seal, which only those can make who have the key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator

import msgspec

from holdfast.codec.encryption import RecordCipher
from holdfast.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey
from holdfast.model import FORMAT_VERSION, Record

SEALED_VERSION = 2
"""The version of a frame whose record is sealed."""

_PLAIN = bytes([FORMAT_VERSION])
_SEALED = bytes([SEALED_VERSION])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_crc32 = zlib.crc32
_read_head = struct.Struct(">IB").unpack_from


def first_link(state_id: str) -> int:
    """What the checksum of a state's first frame begins with."""
    return _crc32(state_id.encode())


def forked_link(state_id: str, link: int) -> int:
    """What the checksum of the first frame of a fork begins with: its id, behind the last frame that it shares."""
    return _crc32(state_id.encode(), link)


def to_frame(record: Record, link: int, cipher: RecordCipher | None = None) -> tuple[bytes, int]:
    """The frame of a record that follows the frame with checksum ``link``, and its own checksum.

    With the cipher of its state the record is sealed.
    """
    body = _PLAIN + _encode(record) if cipher is None else _SEALED + cipher.seal(_encode(record), record.seq)
    checksum = _crc32(body, link)
    return checksum.to_bytes(4, "big") + body, checksum


def link_of(frame: bytes) -> int:
    """The checksum of a frame, which the next one follows."""
    return int.from_bytes(frame[:4], "big")


def from_frames(
    state_id: str, frames: Iterable[tuple[int, bytes]], link: int | None = None, cipher: RecordCipher | None = None
) -> Iterator[Record]:
    """The records of a state from their frames, in order. The first bad one is named, and ends it.

    ``link`` is the checksum of the frame before the first one given; None where the frames begin with the first.
    ``cipher`` is that of the state; with None only plain records are read.

    Raises StateCorrupted, UnsupportedVersion, WrongKey or NotEncrypted.
    """
    before = first_link(state_id) if link is None else link
    seq = 0
    try:
        for seq, frame in frames:
            checksum, version = _read_head(frame)
            if checksum != _crc32(frame[4:], before):
                raise StateCorrupted(state_id, seq, "its checksum does not fit its bytes and the record before it")
            is_plain = version == FORMAT_VERSION and cipher is None
            record = _decode(frame[5:] if is_plain else _opened(state_id, seq, frame, cipher))
            if record.seq != seq:
                raise StateCorrupted(state_id, seq, f"it says that it is record {record.seq}")
            before = checksum
            yield record
    except (msgspec.MsgspecError, struct.error, UnicodeDecodeError, RecursionError) as error:
        raise StateCorrupted(state_id, seq, f"it cannot be read ({error})") from error


def _opened(state_id: str, seq: int, frame: bytes, cipher: RecordCipher | None) -> bytes:
    """The encoded record in a frame that is sealed, or should be."""
    version, body = frame[4], frame[5:]
    if version == SEALED_VERSION and cipher is not None:
        return cipher.open(body, seq)
    what = f"Record {seq} of state {state_id!r}"
    if version not in (FORMAT_VERSION, SEALED_VERSION):
        raise UnsupportedVersion(what, version, SEALED_VERSION)
    if cipher is None:
        raise WrongKey(what, "it is encrypted, and no key is given")
    if not cipher.accept_plain:
        raise NotEncrypted(what)
    return body
