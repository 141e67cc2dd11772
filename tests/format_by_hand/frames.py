"""Frames by hand: their checksums, and the records in them as lists of all their fields."""

from __future__ import annotations

import hashlib
import hmac
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import ormsgpack
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from format_by_hand.page import REQUIRED, kinds

KINDS = kinds()
SEALED = (2, 4)


class Base(NamedTuple):
    """Whose records a journal begins with, and up to which number."""

    state_id: str
    last: int


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def make_frame(body: bytes, state_id: str, chain: int, version: int = 3) -> tuple[bytes, int]:
    """A frame of format 2 behind the frame with that chain, and its own chain."""
    own = number(zlib.crc32(bytes([version]) + body, zlib.crc32(state_id.encode())))
    chain = zlib.crc32(own, chain)
    return number(chain) + bytes([version]) + own + body, chain


def read_journal(
    state_id: str, frames: Sequence[bytes], bases: Sequence[Base] = (), key: bytes | None = None
) -> list[list[Any]]:
    """The records of a state. Fails where a checksum does not fit."""
    records: list[list[Any]] = []
    owner, chain = "", 0
    for seq, frame in enumerate(frames, 1):
        writer = next((base.state_id for base in bases if seq <= base.last), state_id)
        if writer != owner:
            owner, chain = writer, zlib.crc32(writer.encode(), chain)
        body, chain = _body_and_chain(frame, owner, chain)
        if frame[4] in SEALED:
            assert key is not None, "it is sealed"
            body = _opened(body, key, owner, seq)
        records.append(whole(ormsgpack.unpackb(body), is_old=frame[4] < 3))
        assert seq == records[-1][1]
    return records


def whole(record: list[Any], *, is_old: bool = False) -> list[Any]:
    """A record with all its fields: those that it does not have have their defaults."""
    fields = KINDS[record[0]].fields
    missing = [field.default for field in fields[len(record) - 1 :]]
    assert REQUIRED not in missing
    record = [*record, *missing]
    if is_old and record[0] == 3 and record[-1] is None:
        record[-1] = 0
    return record


def _body_and_chain(frame: bytes, owner: str, before: int) -> tuple[bytes, int]:
    version = frame[4]
    assert version in (1, 2, 3, 4)
    if version < 3:
        chain = zlib.crc32(frame[4:], before)
        assert frame[:4] == number(chain)
        return frame[5:], chain
    assert frame[5:9] == number(zlib.crc32(frame[9:], zlib.crc32(frame[4:5], zlib.crc32(owner.encode()))))
    chain = zlib.crc32(frame[5:9], before)
    assert frame[:4] == number(chain)
    return frame[9:], chain


def _opened(body: bytes, master: bytes, owner: str, seq: int) -> bytes:
    def derived(label: bytes) -> bytes:
        return hmac.digest(master, label, hashlib.sha256)

    key_id, nonce, rest = body[:4], body[4:16], body[16:]
    assert key_id == derived(b"limpet key id")[:4]
    place = b"record" + owner.encode() + seq.to_bytes(8, "big")
    plain = AESGCM(derived(b"limpet encryption key")).decrypt(nonce, rest, place)
    made = hmac.digest(derived(b"limpet nonce key"), len(place).to_bytes(8, "big") + place + plain, hashlib.sha256)
    assert nonce == made[:12]
    return plain
