"""How much is read of what may come from anybody. Pure.

One number is given: how many bytes all files together may have, unpacked. What is held in memory while it is read may
have a part of them, so that whoever allows more allows more of everything.
"""

from __future__ import annotations

from typing import Final

import msgspec

from limpet.errors import UsageError
from limpet.lines.parts import has_more_parts
from limpet.model.amounts import size_text
from limpet.model.defaults import IMPORT_MAX_BYTES

_ALWAYS: Final = 10**7
"""Where fewer bytes are allowed, parts are as large as if it were these: that does no harm."""


class Unreadable(ValueError):
    """It is no exported state, or a damaged one; the text says why."""


class TooLarge(Unreadable):
    """It is larger than is allowed; the text says what of it, and how large it may be."""


class Limits(msgspec.Struct, frozen=True):
    """What an import reads at most."""

    total: int = IMPORT_MAX_BYTES
    """Bytes of all files, unpacked."""

    @property
    def held(self) -> int:
        """Bytes of what is held in memory: the records of a state, its inbox, all snapshots of a folder."""
        return max(self.total, _ALWAYS) // 8

    @property
    def text(self) -> int:
        """Bytes of one JSON text: a manifest, a line, a snapshot."""
        return max(self.total, _ALWAYS) // 32

    @property
    def parts(self) -> int:
        """Lists, maps and their items in one JSON text."""
        return max(self.total, _ALWAYS) // 1_000

    @property
    def files(self) -> int:
        """Files, or letters."""
        return max(self.total, _ALWAYS) // 10_000

    def require_files(self, count: int, what: str) -> None:
        """Raises TooLarge for more files (or whatever they are) than are read."""
        if count > self.files:
            raise TooLarge(f"it has more than {self.files:,} {what}")

    def require_total(self, size: int) -> None:
        """Raises TooLarge for more bytes than all files may have."""
        if size > self.total:
            raise TooLarge(f"it has {size_text(size)} when it is unpacked")

    def require_held(self, size: int, what: str) -> None:
        """Raises TooLarge for more bytes than are held in memory."""
        if size > self.held:
            raise TooLarge(f"{what} has more than the {size_text(self.held)} that are held in memory")

    def require_parts(self, text: bytes, what: str) -> None:
        """Raises TooLarge for a JSON text that would take far more room in memory than it has bytes."""
        if has_more_parts(text, self.parts):
            raise TooLarge(f"{what} has more than {self.parts:,} lists, maps and items")


def limits_of(max_bytes: object) -> Limits:
    """The limits where that many bytes are allowed; None: what counts where nobody says it. Raises UsageError."""
    if max_bytes is None:
        return Limits()
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int) or max_bytes < 1:
        raise UsageError(f"max_bytes={max_bytes!r} is no number of bytes.", "Give a number, such as 10 * 10**9.")
    return Limits(max_bytes)
