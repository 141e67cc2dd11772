"""Frames as lines of readable JSON, and back, byte for byte. Pure: no files, no clock."""

from limpet.lines.contents import content_of, frame_of
from limpet.lines.damage import LineDamaged
from limpet.lines.line import Line, from_line, to_line
from limpet.lines.tags import TAG_NAMES
from limpet.lines.values import text_of_value, value_of_text

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
