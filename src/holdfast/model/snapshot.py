"""A whole state as it stood at one moment, independent of any backend."""

from __future__ import annotations

from datetime import datetime

import msgspec

from holdfast.model.header import StateHeader
from holdfast.model.metadata import StateMetadata
from holdfast.model.records import Record
from holdfast.model.words import StateStatus


class StateSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The header and every record of a state."""

    header: StateHeader
    records: tuple[Record, ...]

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
