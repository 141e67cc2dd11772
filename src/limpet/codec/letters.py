"""Letters to bytes and back: what other processes put into the inbox of a state.

    body     = checksum version content
    checksum = 4 bytes, big-endian: CRC-32 over version and content, begun with that of the id of the state and the name
    version  = 1 byte: 1 plain, 2 sealed
    content  = plain: msgpack map of the fields that differ from their default
               sealed: the same, as ``codec/encryption.py`` seals it for the place "letter", id of the state, a zero
               byte, name

So a letter that is damaged, or was moved to another state or name, is not taken for what it is not.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import msgspec

from limpet.codec.encryption import Cipher
from limpet.errors import NotEncrypted, StateCorrupted, UnsupportedVersion, WrongKey

_PLAIN: Final = 1
_SEALED: Final = 2
_number = struct.Struct(">I")


class LetterText(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a letter says."""

    value: bytes | None = None
    """An encoded value: an answer, or what a message brings."""
    ended: str = ""
    """How it ends what waits for it (``model.waits.Ended``)."""
    by: str = ""
    topic: str = ""
    at: float = 0.0
    """When it was put into the inbox, by the clock of who did that: in seconds since 1970 UTC. 0: only the store knows.
    It stands in here so that it is kept where the state is copied."""


def to_body(text: LetterText, state_id: str, name: str, cipher: Cipher | None) -> bytes:
    """A letter as it is stored; sealed with the cipher of the store, if there is one."""
    content = msgspec.msgpack.encode(text)
    if cipher is None:
        rest = bytes([_PLAIN]) + content
    else:
        rest = bytes([_SEALED]) + cipher.seal(content, _place(state_id, name))
    return _number.pack(_checksum(rest, state_id, name)) + rest


def from_body(body: bytes, state_id: str, name: str, cipher: Cipher | None) -> LetterText:
    """What a letter says. Raises StateCorrupted, UnsupportedVersion, WrongKey or NotEncrypted."""
    if len(body) <= _number.size or _number.unpack_from(body)[0] != _checksum(body[4:], state_id, name):
        raise StateCorrupted(state_id, 0, f"the letter {name!r} is damaged")
    what = f"The letter {name!r} of state {state_id!r}"
    version, content = body[4], body[5:]
    if version not in (_PLAIN, _SEALED):
        raise UnsupportedVersion(what, version, _SEALED)
    if version == _SEALED:
        if cipher is None:
            raise WrongKey(what, "it is encrypted, and no key is given")
        content = cipher.open(content, _place(state_id, name), what)
    elif cipher is not None and not cipher.accept_plain:
        raise NotEncrypted(what)
    try:
        return msgspec.msgpack.decode(content, type=LetterText)
    except msgspec.MsgspecError as error:
        raise StateCorrupted(state_id, 0, f"the letter {name!r} is damaged") from error


def _checksum(rest: bytes, state_id: str, name: str) -> int:
    return zlib.crc32(rest, zlib.crc32(f"{state_id}\n{name}".encode()))


def _place(state_id: str, name: str) -> bytes:
    return b"letter" + state_id.encode() + b"\0" + name.encode()
