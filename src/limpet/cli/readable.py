"""Recorded values on one line, for people.

Nothing of the pipeline is imported here: an instance of one of its classes is shown as its name and its fields.
"""

from __future__ import annotations

from typing import cast

from limpet.codec.instances import plain, read
from limpet.codec.summaries import Instance
from limpet.escapes import one_line

__all__ = ["Instance", "call_preview", "cut", "plain", "preview", "read"]


def preview(value: object, width: int) -> str:
    """A value on one line that is not longer than the width."""
    return cut(repr(value), width)


def call_preview(data: bytes, width: int) -> str:
    """The recorded input of a call on one line, as its arguments would be written."""
    value: object = read(data)
    if not isinstance(value, dict):
        value = {"args": value, "kwargs": {}}
    args, kwargs = (cast("dict[str, object]", value).get(part) for part in ("args", "kwargs"))
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        return preview(cast(object, value), width)
    named = [f"{key}={item!r}" for key, item in cast("dict[str, object]", kwargs).items()]
    return cut(", ".join([*map(repr, cast("list[object]", args)), *named]), width)


def cut(text: str, width: int) -> str:
    """Text on one line that is not longer than the width, with escapes in place of what is not seen as it is."""
    line = one_line(" ".join(text.split()))
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
