"""The stores that programs are stopped on: each kind opened again and again, as new processes would."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from limpet import FileSystemStateBackend, MemoryStateBackend, SQLiteStateBackend, StateBackend

Open = Callable[[], StateBackend]

KINDS = ["memory", "normal", "full", "files", "files full", "files packed"]
"""``encrypted`` is ``normal`` with a key."""


def opener(kind: str, path: Path) -> Open:
    """Opens the same store each time it is called. Nothing else has that path."""
    if kind == "memory":
        backend = MemoryStateBackend()
        return lambda: backend
    synchronous: Literal["full", "normal"] = "full" if kind.endswith("full") else "normal"
    if kind == "files packed":
        # So small that every few records begin a new segment.
        return lambda: FileSystemStateBackend(path, synchronous, compression="zstd", segment_size=1000)
    if kind.startswith("files"):
        return lambda: FileSystemStateBackend(path, synchronous)
    return lambda: SQLiteStateBackend(path, synchronous)
