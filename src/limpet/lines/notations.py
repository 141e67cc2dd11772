"""Kinds whose content is bytes that people know in another notation: a UUID by its digits, a large int as a number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

import msgspec

_MOST_BYTES: Final = 256
"""Of an int that is written as a number. Python takes ever longer for larger ones, and at some length refuses."""
_MOST_DIGITS: Final = 620


class Notation(msgspec.Struct, frozen=True):
    """How the bytes of a kind are written, and read again."""

    write: Callable[[bytes], str | None]
    """None for bytes that this notation has nothing for."""
    read: Callable[[str], bytes]
    """Raises ValueError for what ``write`` does not give."""


def _write_uuid(data: bytes) -> str | None:
    return str(UUID(bytes=data)) if len(data) == 16 else None


def _read_uuid(text: str) -> bytes:
    uuid = UUID(text)
    if str(uuid) != text:
        raise ValueError("it is no UUID that is written here")
    return uuid.bytes


def _write_int(data: bytes) -> str | None:
    return str(int.from_bytes(data, "little", signed=True)) if len(data) <= _MOST_BYTES else None


def _read_int(text: str) -> bytes:
    if len(text) > _MOST_DIGITS:
        raise ValueError("it is a larger number than is written here")
    number = int(text)
    if str(number) != text:
        raise ValueError("it is no number that is written here")
    return number.to_bytes(number.bit_length() // 8 + 1, "little", signed=True)


NOTATIONS: Final = {5: Notation(_write_int, _read_int), 15: Notation(_write_uuid, _read_uuid)}
"""By tag."""
