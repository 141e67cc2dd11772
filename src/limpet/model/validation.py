"""What holding stored runs against the code as it is now has found."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any

import msgspec

from limpet.escapes import one_line
from limpet.model.difference import Difference
from limpet.model.notebooks import is_cell

_MOST_SHOWN = 20


class Outcome(StrEnum):
    """What executing a call again has shown."""

    MATCHED = "matched"
    MISMATCHED = "mismatched"
    MISSING = "missing"
    """Recorded, and not executed now."""
    EXTRA = "extra"
    """Executed now, and not recorded."""
    REUSED = "reused"
    """Declared ``once``, or a recorded time, id or random number: given as it is recorded, not executed again."""


class Mismatch(msgspec.Struct, frozen=True):
    """An address at which executing again gave something else than is recorded."""

    address: str
    recorded: Any
    """The recorded result; a Failure if it was recorded as failed; None if nothing was recorded."""
    actual: Any
    """The result of executing again, or the Failure it ended in."""
    differences: tuple[Difference, ...] = ()
    """Where the two differ."""
    state_id: str = ""

    def __str__(self) -> str:
        return "\n".join([f"≠ {self.address}", *(f"    {difference}" for difference in self.differences)])


class Finding(StrEnum):
    """What a rehearsal has found of a call."""

    REUSED = "reused"
    INPUT_DRIFTED = "input drifted"
    VERSION_CHANGED = "version changed"
    MISSING = "missing"
    """The code makes the call, and nothing is recorded at its address."""
    UNREACHED = "unreached"
    """It is recorded, and the code did not make it."""
    MOVED = "moved"
    """The code makes it at another place in the order of calls than it was recorded at."""


class Rehearsed(msgspec.Struct, frozen=True, gc=False):
    """A call, as a rehearsal found it."""

    address: str
    finding: Finding
    detail: str = ""
    file: str = ""
    """The user's file in which the call is made, or should have been; empty where that is not known."""
    line: int = 0

    @property
    def place(self) -> str:
        if is_cell(self.file):
            return f"notebook cell, line {self.line}"
        return f"{self.file}:{self.line}" if self.file else ""

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        detail = f" ({self.detail})" if self.detail else ""
        return f"{place}{self.address} {self.finding}{detail}"


def first_lines(lines: list[str]) -> list[str]:
    """As many lines of a report as a person reads, and how many more there are."""
    left = len(lines) - _MOST_SHOWN
    return lines if left <= 0 else [*lines[:_MOST_SHOWN], f"    … and {left} more lines"]


class RehearsalReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a rehearsal has found: call by call, in the order in which the code made them, then what it did not make."""

    state_id: str
    calls: tuple[Rehearsed, ...]
    divergences: tuple[Rehearsed, ...]
    """Where the code no longer fits the record, the first one first."""
    goes_on_at: Rehearsed | None = None
    """The first call that has no recorded outcome and would be executed; the rehearsal ended there."""
    error: str | None = None
    """What the code failed of, where it failed and the recorded run had not."""

    @property
    def is_ok(self) -> bool:
        """Whether the run would go through as it is recorded."""
        return not self.divergences and self.error is None

    @property
    def first_divergence(self) -> Rehearsed | None:
        return self.divergences[0] if self.divergences else None

    def found(self, finding: Finding) -> list[str]:
        """The addresses of which this was found."""
        return [call.address for call in (*self.calls, *self.divergences) if call.finding is finding]

    def __str__(self) -> str:
        counts = Counter(call.finding for call in self.calls)
        told = ", ".join(f"{count} {finding}" for finding, count in counts.items()) or "no calls"
        lines = [f"{'✓' if self.is_ok else '✗'} {self.state_id}: {told}"]
        lines += first_lines([f"    {each}" for each in self.divergences])
        if self.error is not None:
            lines.append(f"    failed: {one_line(self.error)}")
        if self.is_ok and self.goes_on_at is not None:
            lines.append(f"    would go on at {self.goes_on_at.address}")
        return "\n".join(lines)


class NotChecked(msgspec.Struct, frozen=True):
    """A state that could not be held against the code, and why."""

    state_id: str
    why: str

    @property
    def is_ok(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"? {self.state_id}: {one_line(self.why)}"
