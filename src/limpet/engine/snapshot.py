"""A whole state as it stood at one moment, independent of any backend."""

from __future__ import annotations

from datetime import datetime

import msgspec

from limpet.artifacts.stored_values import StoredValues
from limpet.backends.memory import MemoryArtifactBackend
from limpet.engine.diff import Compared, diff_of, readable
from limpet.journal.timeline import TimelineIndex, belonging
from limpet.model import Record, StateDiff, StateHeader, StateMetadata, StateStatus, TimelineRecord
from limpet.model.artifacts import content_of


class StateSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The header, every record of every timeline, and the artifacts that the records name."""

    header: StateHeader
    records: tuple[Record, ...]
    artifacts: dict[str, bytes] = {}
    """By id: the contents as they are stored, so encrypted where the store is."""

    @staticmethod
    def diff(before: StateSnapshot, after: StateSnapshot) -> StateDiff:
        """What became different from one to the other, each on its current timeline."""
        return diff_of(before.compared(), after.compared())

    def compared(self) -> Compared:
        """This snapshot as one side of a diff."""
        index = TimelineIndex()
        for record in self.records:
            if type(record) is TimelineRecord:
                index.add(record)
        index.position = len(self.records)
        contents = MemoryArtifactBackend()
        for artifact_id, content in self.artifacts.items():
            contents.put(artifact_id, content_of(content))
        return Compared(
            self.state_id,
            lambda: belonging(self.records, index.parts(index.current)),
            readable(StoredValues(contents)),
        )

    @property
    def state_id(self) -> str:
        return self.header.state_id

    @property
    def status(self) -> StateStatus:
        return self.header.status

    @property
    def metadata(self) -> StateMetadata:
        return self.header.metadata

    @property
    def created_at(self) -> datetime:
        return self.header.created_at

    @property
    def updated_at(self) -> datetime:
        return self.header.updated_at

    @property
    def version(self) -> int:
        return self.header.version
