"""What a function or an actor that undoes something is called, as it is recorded."""

from __future__ import annotations

from typing import Any


def name_of_undo(undo: Any) -> str:
    """What a function or an actor that undoes something is called; empty where there is none."""
    if undo is None:
        return ""
    return str(getattr(undo, "name", None) or getattr(undo, "__name__", None) or type(undo).__name__)
