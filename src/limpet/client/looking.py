"""The verbs that look at states and change nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from limpet.client.opened import OpenedStore
from limpet.engine.diff import Compared, Read, diff_of, point_from_text, stored_side
from limpet.engine.history_set import HistorySet
from limpet.engine.lineage import lineage_of
from limpet.engine.snapshot import StateSnapshot
from limpet.errors import UsageError
from limpet.escapes import one_line
from limpet.journal.new_timeline import point_of
from limpet.journal.progress import events_done, progress_of
from limpet.model import (
    Checkpoint,
    Lineage,
    Progress,
    ProgressSource,
    StateDiff,
    StateHeader,
    StatePoint,
    StateStatus,
    Timeline,
    checked_artifact_id,
)
from limpet.model.progress import TOTAL_EVENTS
from limpet.model.usage import counted

_EARLIER = 100
"""Among so many completed states an earlier run of the same pipeline is looked for."""


class StateView(msgspec.Struct, frozen=True):
    """One state as a person looks at it."""

    header: StateHeader
    history: HistorySet

    def __repr__(self) -> str:
        header, count = self.header, counted(len(self.history), "event")
        return f"<state {one_line(header.state_id)}: {header.status}, {count}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: what the state is, and its first events."""
        header = self.header
        said = (header.agent, header.metadata.pipeline_name, header.metadata.description, *header.metadata.tags)
        about = escape(one_line(", ".join(filter(None, said))))
        return f"<p>{escape(repr(self)[1:-1])}</p><p>{about}</p>{self.history._repr_html_()}"  # pyright: ignore[reportPrivateUsage]  # what notebooks call


class Looking(OpenedStore):
    """``list_states``, ``show``, ``history``, ``timelines``, ``checkpoints``, ``progress``, ``diff`` and more."""

    def list_states(
        self,
        *,
        tags: Sequence[str] | None = None,
        status: StateStatus | None = None,
        pipeline_name: str | None = None,
        parent_state_id: str | None = None,
        limit: int = 100,
    ) -> list[StateHeader]:
        """The states that have every tag, the status, the pipeline name and the parent asked for, the newest first."""
        return self.backend.list_states(
            tags=tags, status=status, pipeline_name=pipeline_name, parent_state_id=parent_state_id, limit=limit
        )

    def show(self, state_id: str, *, timeline: int | None = None) -> StateView:
        """One state: its header and its history, on its current timeline or the one named. Raises UnknownState."""
        return StateView(self._header(state_id), self.history(state_id, timeline=timeline))

    def history(self, state_id: str, *, timeline: int | None = None, checkpoint: int | None = None) -> HistorySet:
        """What a state has done, on its current timeline or the one named, or as it stood at a checkpoint.

        Raises UnknownState, UnknownTimeline, UnknownCheckpoint, StateCorrupted.
        """
        reader = self._reader(state_id)
        history, _ = reader.history()
        point = point_of(history, None, checkpoint, timeline)
        if point is None:
            return HistorySet(history, self._stored, reader.header.status)
        return HistorySet(history.on(point.parts), self._stored)

    def timelines(self, state_id: str) -> list[Timeline]:
        """The timelines of a state, in the order of their beginning. Raises UnknownState."""
        history, _ = self._reader(state_id).history()
        return history.listed_timelines()

    def checkpoints(self, state_id: str) -> list[Checkpoint]:
        """The checkpoints of a state, on all its timelines, in order. Raises UnknownState."""
        reader = self._reader(state_id)
        history, _ = reader.history()
        return history.checkpoints(reader.header.metadata)

    def progress(self, state_id: str) -> Progress:
        """How far a state is: by what its program says (``progress``), by the ``total_events`` of its agent, or by an
        earlier run of the same pipeline; that it is not known is said, too. Raises UnknownState.
        """
        reader = self._reader(state_id)
        history, _ = reader.history()
        header = reader.header
        declared: object = header.metadata.settings.get(TOTAL_EVENTS)
        total = declared if isinstance(declared, int) else None
        found = progress_of(history, header.status, total)
        if found.source is not ProgressSource.UNKNOWN:
            return found
        return progress_of(history, header.status, total, self._earlier_run(header))

    def _earlier_run(self, header: StateHeader) -> tuple[str, int] | None:
        """The newest other run of the same pipeline that has completed, and how many events it had."""
        name = header.metadata.pipeline_name
        for other in self.backend.list_states(status=StateStatus.COMPLETED, pipeline_name=name or None, limit=_EARLIER):
            if other.state_id == header.state_id or other.agent != header.agent or other.damage is not None:
                continue
            history, _ = self._reader(other.state_id).history()
            return other.state_id, events_done(history)
        return None

    def lineage(self, state_id: str) -> Lineage:
        """The whole family of a state as a tree: what it comes from, at the top, and all that was forked from that.

        Raises UnknownState.
        """
        return lineage_of(self.backend, self._stored, self._header(state_id))

    def diff(
        self,
        before: str | StatePoint | StateSnapshot,
        after: str | StatePoint | StateSnapshot | None = None,
    ) -> StateDiff:
        """What became different from one state, timeline, checkpoint or snapshot to another, event by event.

        Each is named by a state id, by a StatePoint or its text (``kelp-42:2`` is its timeline 2, ``kelp-42:c17`` its
        checkpoint at position 17), or is a snapshot. With one id alone, its current timeline is compared with what that
        was run on or forked from. Journals are read as streams, whatever their length. Raises UnknownState,
        UnknownTimeline, UnknownCheckpoint.
        """
        return self.diff_read_by(None, before, after)

    def diff_read_by(
        self,
        read: Read | None,
        before: str | StatePoint | StateSnapshot,
        after: str | StatePoint | StateSnapshot | None,
    ) -> StateDiff:
        """As ``diff``, with values read in another way: without the classes they are made of, for instance."""
        if after is None:
            before, after = self._origin_of(before), before
        return diff_of(self._compared(before, read), self._compared(after, read))

    def _compared(self, what: str | StatePoint | StateSnapshot, read: Read | None) -> Compared:
        if isinstance(what, StateSnapshot):
            return what.compared()
        point = point_from_text(what) if isinstance(what, str) else what
        return stored_side(self._reader(point.state_id), self._stored, point, read)

    def _origin_of(self, what: str | StatePoint | StateSnapshot) -> StatePoint:
        """What the current timeline of a state was run on from, or the state that it was forked from."""
        if not isinstance(what, str):
            raise UsageError("There is only one state to compare.", "Give two; or the id of one that has been run on.")
        timeline = self.timelines(what)[-1]
        if timeline.base is None:
            raise UsageError(
                f"State {what!r} has one timeline and is no fork, so there is nothing to compare it with.",
                "Give a second state.",
            )
        return StatePoint(timeline.forked_from or what, timeline.base)

    def open_artifact(self, artifact_id: str) -> Iterator[bytes]:
        """The content of an artifact in pieces, verified and decrypted. Raises ArtifactMissing, ArtifactCorrupted."""
        return self._stored.open_artifact(checked_artifact_id(artifact_id))
