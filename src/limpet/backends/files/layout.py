"""How things are named in a folder of artifacts, and what they begin with. Touches no file; ``artifacts.py`` does."""

from __future__ import annotations

import re
import struct

import msgspec

from limpet.backends.artifact_rules import checked_store_id, hex_of
from limpet.errors import UsageError
from limpet.model.artifacts import Pin
from limpet.model.header import checked_state_id

VERSION = 1
FORMAT = b"limpet artifacts %d\n" % VERSION
FORMAT_LINE = re.compile(rb"limpet artifacts ([0-9]{1,9})\n")

COMPRESSED = ".zst"
PREFIX = re.compile(r"[0-9a-f]{2}")
DIGITS = re.compile(r"[0-9a-f]{64}")
STORE_ID = re.compile(r"[0-9a-f]{32}")
STORED = re.compile(r"([0-9a-f]{62})(?:\.zst)?")

_MOST_FENCE = 10**19 - 1
_SECOND_NS = 10**9

# A frame that every reader of Zstandard skips: its mark, the length of what follows, then two lengths of ours.
_HEADER = struct.Struct("<IIQQ")
_SKIPPED_FRAME = 0x184D2A50
_SKIPPED_LENGTH = 16
HEADER_LENGTH = _HEADER.size


class Place(msgspec.Struct, frozen=True):
    """Where an artifact lies: its folder, and the name of its file without the ending."""

    folder: str
    rest: str

    @property
    def digits(self) -> str:
        return self.folder + self.rest


def place_of(artifact_id: str) -> Place:
    """The place of an id that was checked."""
    digits = hex_of(artifact_id)
    return Place(digits[:2], digits[2:])


def header_of_compressed(size: int, length: int) -> bytes:
    """What a compressed file begins with: the size of its content, and its own length."""
    return _HEADER.pack(_SKIPPED_FRAME, _SKIPPED_LENGTH, size, length)


def size_of_compressed(header: bytes, length: int) -> int | None:
    """The size that a header gives to the content; None if the file was damaged in a way that can be seen from here."""
    if len(header) != HEADER_LENGTH:
        return None
    mark, skipped, size, recorded_length = _HEADER.unpack(header)
    is_whole = (mark, skipped, recorded_length) == (_SKIPPED_FRAME, _SKIPPED_LENGTH, length)
    return size if is_whole else None


def folder_of_pin(pin: Pin) -> str:
    """The name of a pin's folder, of at most 255 bytes. Raises UsageError."""
    if not 0 <= pin.fence <= _MOST_FENCE:
        raise UsageError(
            f"{pin.fence} cannot be the fence of a lease.", "Give the pin the fence of the lease it names."
        )
    return f"{checked_store_id(pin.store_id)}.{checked_state_id(pin.state_id)}.{pin.fence}"


def pin_of_folder(name: str) -> Pin | None:
    """The pin that a folder stands for; None if its name is none that we give."""
    store_id, _, rest = name.partition(".")
    state_id, _, fence = rest.rpartition(".")
    if not fence.isascii() or not fence.isdigit():
        return None
    pin = Pin(store_id, state_id, int(fence))
    try:
        return pin if folder_of_pin(pin) == name else None
    except UsageError:
        return None


def seconds(nanoseconds: int) -> float:
    return nanoseconds / _SECOND_NS


def nanoseconds(seconds: float) -> int:
    """So that ``seconds`` gives the same again: the whole seconds apart, since a float has no room for both."""
    whole = int(seconds // 1)
    return whole * _SECOND_NS + round((seconds - whole) * _SECOND_NS)
