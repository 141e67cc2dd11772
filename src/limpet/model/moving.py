"""What a copy of states reports."""

from __future__ import annotations

import msgspec


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each state that was to be copied, by its id, and how much was written."""

    copied: list[str] = []
    """Those that are new in the target."""
    updated: list[str] = []
    """Those that were there, and have got what was missing."""
    unchanged: list[str] = []
    """Those that were there just so."""
    refused: dict[str, str] = {}
    """Those that were left out, with the reason: damaged, or another state has the id in the target, and so on."""
    records: int = 0
    """How many records were written."""
    artifacts: int = 0
    """How many artifacts were written; those that the target had already do not count."""
    bytes: int = 0
    """How many bytes these records and artifacts have."""

    @property
    def is_ok(self) -> bool:
        """Whether nothing was refused."""
        return not self.refused
