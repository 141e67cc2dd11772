"""What a state has been, and what it comes from: its timelines, its checkpoints, its family."""

from __future__ import annotations

from datetime import datetime

import msgspec

from limpet.model.metadata import StateMetadata
from limpet.model.progress import Progress
from limpet.model.words import StateStatus


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """A branch of a state's journal. Running on from an earlier address begins a new one and keeps the old."""

    number: int
    """1 for the first; each new one has the next number."""
    base: int | None
    """The number of the timeline that it goes on from; None for the first. Of a fork: in the state that was forked."""
    forked_from: str | None
    """The state that was forked, for the first timeline of a fork."""
    address: str | None
    """Where it was run on from, or what was replaced; None where it goes on from a checkpoint or from the end."""
    began_at: datetime | None
    """None for the first one, which begins with the state."""
    first: int
    """The number of its first record that no other timeline has."""
    last: int
    is_current: bool


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A marked point of a journal."""

    position: int
    """The number of its record: what names it, in ``load_from_state_id``, ``fork`` and ``diff``."""
    status: StateStatus
    metadata: StateMetadata
    saved_at: datetime
    timeline: int
    """The number of the timeline that it stands on."""
    trigger: str = ""
    """Why it was made: a ``CheckpointTrigger``; empty in checkpoints from before this was noted."""
    address: str = ""
    """The event that was recorded last."""
    events: int = 0
    """How many events had an outcome, on its timeline."""
    progress: Progress | None = None
    """How far the program had said to be; None where it had said nothing."""
    error: str = ""
    """Of a ``save_failed``: why the store took no records."""


class Lineage(msgspec.Struct, frozen=True, kw_only=True):
    """A state, its timelines, and what was forked from it."""

    state_id: str
    status: StateStatus | None
    """None for a state that was deleted, or is in another store, and is known only by name."""
    timelines: tuple[Timeline, ...]
    children: tuple[Lineage, ...]
    parent_state_id: str | None

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def find(self, state_id: str) -> Lineage | None:
        """The branch that begins with this state, if it is in the tree."""
        if state_id == self.state_id:
            return self
        return next((found for child in self.children if (found := child.find(state_id)) is not None), None)

    def _lines(self) -> list[str]:
        lines = [f"{self.state_id}  {self.status or 'not in this store'}"]
        for timeline in self.timelines if len(self.timelines) > 1 else ():
            at = "" if timeline.address is None else f" at {timeline.address}"
            base = "" if timeline.base is None else f" from timeline {timeline.base}{at}"
            lines.append(f"   timeline {timeline.number}{base}{'  (current)' if timeline.is_current else ''}")
        for number, child in enumerate(self.children, 1):
            is_last = number == len(self.children)
            first, *rest = child._lines()
            lines.append(f"{'└─' if is_last else '├─'} {first}")
            lines += [f"{'   ' if is_last else '│  '}{line}" for line in rest]
        return lines
