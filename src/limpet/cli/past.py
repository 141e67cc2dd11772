"""What a state has been, as ``limpet show`` tells it: which of its timelines is shown, and its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from limpet.cli.lineage import timeline_for_programs
from limpet.cli.output import dim
from limpet.client import Limpet, StateView
from limpet.model import Checkpoint, CheckpointRecord, Timeline

_MOST_SHOWN = 10


class Past(msgspec.Struct, frozen=True):
    """The timelines and the checkpoints of a state."""

    shown: int
    """The number of the timeline that is shown."""
    timelines: list[Timeline]
    checkpoints: list[Checkpoint]

    @property
    def is_current(self) -> bool:
        return self.shown == len(self.timelines)

    @property
    def described(self) -> str:
        """Which timeline is shown, and how it began; empty where there is only one."""
        count = len(self.timelines)
        if count < 2:
            return ""
        timeline = self.timelines[self.shown - 1]
        at = "" if timeline.address is None else f" at {timeline.address}"
        base = "" if timeline.base is None or timeline.forked_from else f", run on from timeline {timeline.base}{at}"
        current = "" if timeline.is_current else f"; the current one is {count}"
        return f"{self.shown} of {count}{base}{current}"


def past_of(client: Limpet, view: StateView, timeline: int | None) -> Past:
    """The past of a state. A journal of one timeline without checkpoints is not read once more."""
    state_id = view.header.state_id
    timelines = client.timelines(state_id) if view.header.timeline else [_only_one(view.header.position)]
    has_checkpoints = len(timelines) > 1 or any(isinstance(record, CheckpointRecord) for record in view.history)
    checkpoints = client.checkpoints(state_id) if has_checkpoints else []
    # A fork shares the journal of its parent, and with it checkpoints that stand on none of its own timelines.
    return Past(timeline or len(timelines), timelines, [each for each in checkpoints if each.timeline])


def _only_one(last: int) -> Timeline:
    return Timeline(
        number=1, base=None, forked_from=None, address=None, began_at=None, first=1, last=last, is_current=True
    )


def checkpoint_lines(past: Past) -> Iterator[str]:
    """The newest checkpoints, each with its position, status, time, what it says of the moment, and tags."""
    checkpoints = past.checkpoints[-_MOST_SHOWN:]
    if not checkpoints:
        return
    yield "Checkpoints"
    earlier = len(past.checkpoints) - len(checkpoints)
    if earlier:
        yield dim(f"  … {earlier} earlier; `--json` has them all")
    place = max(len(str(each.position)) for each in checkpoints)
    status = max(len(each.status) for each in checkpoints)
    for each in checkpoints:
        on = f"timeline {each.timeline}  " if len(past.timelines) > 1 else ""
        said = "  ".join(filter(None, (_moment(each), ", ".join(each.metadata.tags))))
        saved = f"{each.saved_at:%Y-%m-%d %H:%M:%S} UTC"
        yield f"  {each.position:>{place}}  {each.status:<{status}}  {saved}  {dim(on)}{said}".rstrip()
    yield ""


def _moment(checkpoint: Checkpoint) -> str:
    """Why it was made, after how many events, and how far the program was."""
    if not checkpoint.trigger:
        return ""
    events = f"{checkpoint.events} event{'' if checkpoint.events == 1 else 's'}"
    progress = "" if checkpoint.progress is None else f", {checkpoint.progress}"
    error = f": {checkpoint.error}" if checkpoint.error else ""
    return f"{checkpoint.trigger}, {events}{progress}{error}"


def past_for_programs(past: Past) -> dict[str, Any]:
    """The timelines and checkpoints as JSON says them."""
    return {
        "timeline": past.shown,
        "timelines": [timeline_for_programs(each) for each in past.timelines],
        "checkpoints": [
            {
                "position": each.position,
                "status": each.status,
                "saved_at": each.saved_at,
                "timeline": each.timeline,
                "tags": each.metadata.tags,
                "trigger": each.trigger,
                "address": each.address,
                "events": each.events,
                "progress": None if each.progress is None else each.progress.fraction,
                "error": each.error or None,
            }
            for each in past.checkpoints
        ],
    }
