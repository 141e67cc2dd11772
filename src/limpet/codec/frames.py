"""Records to the bytes that a backend stores, and back.

    frame    = chain version own body         in format 2, version 3 or 4
             = chain version body             in format 1, version 1 or 2
    chain    = 4 bytes, big-endian: CRC-32 over own (in format 1 over version and body), begun with the chain of the
               frame before; the first frame of a state begins with the CRC-32 of its id; the first frame that a fork
               has of its own with the CRC-32 of the fork's id, begun with the chain of the last frame that it shares
    version  = 1 byte: the format and whether the record is sealed: 1 and 3 are plain, 2 and 4 sealed
    own      = 4 bytes, big-endian: CRC-32 over version and body, begun with the CRC-32 of the id of the state that
               wrote the frame
    body     = plain: record
               sealed: key id (4 bytes) nonce (12 bytes) ciphertext of record (as long as it) tag (16 bytes), as
                       ``codec/encryption.py`` seals it for the place "record", id of the state, number (8 bytes,
                       big-endian)
    record   = msgpack array [tag, field, …] in the order of the fields in ``model/records.py``; the details of an
               event and the note of a checkpoint, which are their last fields, are left out where there are none, and
               so are the place and the number of a change of the storage that was made outside of every call

So a frame that is damaged, missing, repeated, swapped or moved to another state does not fit its place in the chain;
and each frame can be judged by itself, so that one that is damaged or missing takes no other with it. All of that is
checked without a key. It guards against accidents: anybody can compute it. Against forgery there is the seal, which
only those can make who have the key.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from limpet.codec.encryption import RecordCipher
from limpet.codec.versions import from_older
from limpet.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey
from limpet.model import FORMAT_VERSION, CheckpointRecord, DamagedRecord, EventRecord, Record, StorageRecord

PLAIN_VERSION = 2 * FORMAT_VERSION - 1
"""The version of a frame of the newest format whose record is in clear."""

SEALED_VERSION = 2 * FORMAT_VERSION
"""The version of a frame of the newest format whose record is sealed."""

_OLDEST = 1
_OWN_SINCE = 3
"""From this version on a frame has a checksum of its own."""
_OLD_HEAD = 5
_HEAD = 9
_MOST_MISSING = 100_000
"""Of more records in a row that are missing, nothing is told one by one."""

_PLAIN = bytes([PLAIN_VERSION])
_SEALED = bytes([SEALED_VERSION])
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Record).decode
_decode_all = msgspec.msgpack.Decoder(list[Record]).decode
_ARRAY = b"\xdd"
_crc32 = zlib.crc32
_read_head = struct.Struct(">IBI").unpack_from
_write_number = struct.Struct(">I").pack

_UNREADABLE = (msgspec.MsgspecError, struct.error, UnicodeDecodeError, RecursionError)


_WITHOUT_DETAILS = bytes([0xDC, 0, len(EventRecord.__struct_fields__)])
_WITHOUT_NOTE = bytes([0x90 + len(CheckpointRecord.__struct_fields__)])
_WITHOUT_PLACE = bytes([0x90 + len(StorageRecord.__struct_fields__) - 1])


def first_link(state_id: str) -> int:
    """What the chain of a state begins with, and the own checksums of all that it writes."""
    return _crc32(state_id.encode())


def forked_link(state_id: str, link: int) -> int:
    """What the chain goes on with in the first frame of a fork: its id, behind the last frame that it shares."""
    return _crc32(state_id.encode(), link)


def to_frame(record: Record, link: int, owner: int, cipher: RecordCipher | None = None) -> tuple[bytes, int]:
    """The frame of a record that follows the frame with chain ``link``, and its own chain.

    ``owner`` is the first link of the state that writes it. With the cipher of its state the record is sealed.
    """
    body, version = _encode(record), _PLAIN
    if type(record) is EventRecord and record.details is None:
        # Nearly all events: their array is one shorter, without the nil at its end.
        body = _WITHOUT_DETAILS + body[3:-1]
    elif type(record) is CheckpointRecord and record.note is None:
        body = _WITHOUT_NOTE + body[1:-1]
    elif type(record) is StorageRecord and not record.place:
        # Without the empty text and the 0 at its end.
        body = _WITHOUT_PLACE + body[1:-2]
    if cipher is not None:
        body, version = cipher.seal(body, record.seq), _SEALED
    own = _write_number(_crc32(body, _crc32(version, owner)))
    chain = _crc32(own, link)
    return _write_number(chain) + version + own + body, chain


def relinked(frame: bytes, link: int) -> tuple[bytes, int]:
    """An intact frame as it follows the frame with chain ``link``, and its own chain. What is in it stays as it is."""
    chain = _crc32(frame[4:] if frame[4] < _OWN_SINCE else frame[5:_HEAD], link)
    return _write_number(chain) + frame[4:], chain


def link_of(frame: bytes) -> int:
    """The chain of a frame, which the next one follows."""
    return int.from_bytes(frame[:4], "big")


def is_sealed(frame: bytes) -> bool:
    """Whether the record in an intact frame is sealed."""
    return frame[4] % 2 == 0


def is_newest(frame: bytes) -> bool:
    """Whether an intact frame is of the format that is written today."""
    return frame[4] in (PLAIN_VERSION, SEALED_VERSION)


def is_intact(owner: str, frame: bytes) -> bool:
    """Whether a frame is what that state wrote, by itself. Of format 1 that cannot be told, and True is given."""
    version = frame[4] if len(frame) >= _HEAD else 0
    return _OLDEST <= version < _OWN_SINCE or (
        _OWN_SINCE <= version <= SEALED_VERSION and _is_own(owner, frame, version)
    )


def from_frames(
    state_id: str,
    frames: Iterable[tuple[int, bytes]],
    link: int | None = None,
    cipher: RecordCipher | None = None,
    first: int = 1,
) -> Iterator[Record | DamagedRecord]:
    """The records of a state from their frames, in order. What is damaged or missing comes as a DamagedRecord.

    ``first`` is the number of the first frame that is to be there, and ``link`` the chain of the one before it; None
    where that is the first of the state. ``cipher`` is that of the state; with None only plain records are read.

    Raises UnsupportedVersion, WrongKey or NotEncrypted.
    """
    return FrameReader(first_link(state_id) if link is None else link, first).read(state_id, frames, cipher)


def joined(frames: Sequence[tuple[int, bytes]]) -> bytes | None:
    """The records of frames as one array, whether or not they are intact; None where not all are of the newest format
    in clear."""
    if any(frame[4:5] != _PLAIN for _, frame in frames):
        return None
    return b"".join([_ARRAY + _write_number(len(frames)), *[frame[_HEAD:] for _, frame in frames]])


def from_joined(array: bytes) -> list[Record]:
    """The records of an array that intact frames were joined to."""
    return _decode_all(array)


class FrameReader:
    """Reads the frames of a journal in order, across the states that wrote them.

    A frame behind a damaged one is judged by itself: it need not fit a chain that is broken there.
    """

    def __init__(self, link: int, first: int = 1) -> None:
        self._link = link
        self.expected = first
        """The number of the frame that is to come next."""
        self._is_whole = True
        """Whether the frame before was intact, so that the next one has to follow it in the chain."""
        self._before = (b"", link)

    def pass_to(self, state_id: str) -> None:
        """What follows was written by a fork."""
        self._link = forked_link(state_id, self._link)

    def read(
        self, state_id: str, frames: Iterable[tuple[int, bytes]], cipher: RecordCipher | None = None
    ) -> Iterator[Record | DamagedRecord]:
        """The records of frames that one state wrote. Raises UnsupportedVersion, WrongKey or NotEncrypted."""
        plain = _crc32(_PLAIN, first_link(state_id))
        for seq, frame in frames:
            # What every record of every replay takes: the newest format, in clear, in its place, intact.
            if self._is_whole and cipher is None and seq == self.expected and len(frame) > _HEAD:
                chain, version, own = _read_head(frame)
                body = frame[_HEAD:]
                if version == PLAIN_VERSION and own == _crc32(body, plain) and chain == _crc32(frame[5:9], self._link):
                    try:
                        record = _decode(body)
                    except _UNREADABLE:
                        pass
                    else:
                        if record.seq == seq:
                            self._link = chain
                            self.expected = seq + 1
                            yield record
                            continue
            yield from self.missing(state_id, seq)
            yield self._examined(state_id, seq, frame, cipher)

    def check(self, state_id: str, frames: Iterable[tuple[int, bytes]]) -> Iterator[DamagedRecord]:
        """What is damaged or missing among frames that one state wrote, as far as that is told without a key."""
        for seq, frame in frames:
            yield from self.missing(state_id, seq)
            why = self._flaw(state_id, seq, frame)
            if why is None and not is_sealed(frame):
                why = _flaw_of_record(seq, frame)
            self._go_on(seq, frame, is_whole=why is None)
            if why is not None:
                yield DamagedRecord(state_id, seq, why)

    def missing(self, state_id: str, seq: int) -> Iterator[DamagedRecord]:
        """What should have come before that number, and did not."""
        if not 0 <= seq - self.expected <= _MOST_MISSING:
            raise StateCorrupted(state_id, self.expected, f"it is missing, and record {seq} comes next")
        for number in range(self.expected, seq):
            self._is_whole = False
            yield DamagedRecord(state_id, number, "it is missing")
        self.expected = seq

    def _examined(self, state_id: str, seq: int, frame: bytes, cipher: RecordCipher | None) -> Record | DamagedRecord:
        why = self._flaw(state_id, seq, frame)
        record = None
        if why is None:
            try:
                record = _record_in(f"Record {seq} of state {state_id!r}", seq, frame, cipher)
                why = None if record.seq == seq else f"it says that it is record {record.seq}"
            except _UNREADABLE as error:
                why = f"it cannot be read ({error})"
            except WrongKey:
                # Behind a damaged record it is one that was moved here.
                if self._is_whole:
                    raise
                why = "it is sealed for another place"
        self._go_on(seq, frame, is_whole=why is None)
        return DamagedRecord(state_id, seq, why or "it cannot be read") if why or record is None else record

    def _go_on(self, seq: int, frame: bytes, *, is_whole: bool) -> None:
        self._before = (frame, self._link)
        self._link = link_of(frame)
        self._is_whole = is_whole
        self.expected = seq + 1

    def _flaw(self, state_id: str, seq: int, frame: bytes) -> str | None:
        """What the checksums say against a frame."""
        if not frame:
            return "its bytes cannot be read"
        if len(frame) < _HEAD:
            return f"it is cut off: {len(frame)} bytes are left"
        version = frame[4]
        if _OLDEST <= version < _OWN_SINCE:
            return self._flaw_of_old(frame)
        if not _OLDEST <= version <= SEALED_VERSION:
            if any(_is_own(state_id, frame, known) for known in (PLAIN_VERSION, SEALED_VERSION)):
                return f"its version was changed to {version}"
            raise UnsupportedVersion(f"Record {seq} of state {state_id!r}", version, SEALED_VERSION)
        if not _is_own(state_id, frame, version):
            return "its checksum does not fit its bytes"
        if self._is_whole and _crc32(frame[5:9], self._link) != link_of(frame):
            return "it does not follow the record before it"
        return None

    def _flaw_of_old(self, frame: bytes) -> str | None:
        """In format 1 there is the chain alone. Behind a damaged frame either its chain or its bytes may be right."""
        if link_of(frame) == _crc32(frame[4:], self._link):
            return None
        before, link = self._before
        if not self._is_whole and link_of(frame) == _crc32(frame[4:], _crc32(before[4:], link)):
            return None
        return "its checksum does not fit its bytes and the record before it"


def _is_own(state_id: str, frame: bytes, version: int) -> bool:
    seed = _crc32(bytes([version]), first_link(state_id))
    return frame[5:9] == _write_number(_crc32(frame[_HEAD:], seed))


def _body_of(frame: bytes) -> bytes:
    return frame[_OLD_HEAD if frame[4] < _OWN_SINCE else _HEAD :]


def _flaw_of_record(seq: int, frame: bytes) -> str | None:
    """What is wrong with the record in a plain frame whose checksums fit."""
    try:
        found = _decoded(frame, _body_of(frame)).seq
    except _UNREADABLE as error:
        return f"it cannot be read ({error})"
    return None if found == seq else f"it says that it is record {found}"


def _record_in(what: str, seq: int, frame: bytes, cipher: RecordCipher | None) -> Record:
    body = _body_of(frame)
    if is_sealed(frame):
        if cipher is None:
            raise WrongKey(what, "it is encrypted, and no key is given")
        body = cipher.open(body, seq)
    elif cipher is not None and not cipher.accept_plain:
        raise NotEncrypted(what)
    return _decoded(frame, body)


def _decoded(frame: bytes, body: bytes) -> Record:
    version = frame[4]
    return _decode(body) if version >= PLAIN_VERSION else from_older(body, (version + 1) // 2)
