"""What is raised for a line that nobody wrote so, and base64 that is read as strictly."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Any


class LineDamaged(ValueError):
    """A line, or the content of one, is not what is written here. Its text says what is wrong with it.

    It is no error for users: whoever read the line knows the state, the file and the number, and says those as well.
    """


def to_base64(data: bytes) -> str:
    """The bytes in base64, on one line."""
    return b2a_base64(data, newline=False).decode()


def from_base64(text: Any) -> bytes:
    """The bytes that base64 stands for. Raises ValueError or TypeError for all but what ``to_base64`` gives."""
    data = a2b_base64(text, strict_mode=True)
    # Several texts stand for the same bytes, since the last character may have bits that say nothing.
    if to_base64(data) != text:
        raise ValueError("it is no base64 that is written here")
    return data
