"""Frames as lines of readable JSON, and back, byte for byte. Pure: no files, no clock."""

from holdfast.lines.contents import content_of, frame_of
from holdfast.lines.damage import LineDamaged
from holdfast.lines.line import Line, from_line, to_line
from holdfast.lines.tags import TAG_NAMES
from holdfast.lines.values import text_of_value, value_of_text

__all__ = [
    "TAG_NAMES",
    "Line",
    "LineDamaged",
    "content_of",
    "frame_of",
    "from_line",
    "text_of_value",
    "to_line",
    "value_of_text",
]
