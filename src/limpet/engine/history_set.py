"""A history as users see it: records, and results as values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.notebook_tables import history_table
from limpet.errors import UnknownAddress
from limpet.escapes import one_line
from limpet.journal.address import nearest
from limpet.journal.history import History
from limpet.journal.retry_statistics import statistics_of
from limpet.journal.tracebacks import whole_traceback
from limpet.model import EventRecord, ExecutionStatus, Record, RetryStatistics, StateStatus
from limpet.model.usage import counted


class HistorySet:
    """The journal of a state read as a whole. Iterating gives its records in order, each start before its outcome.

    In that order a failure that went up through calls has, for each of them, the part of the traceback that the calls
    inside it have not recorded. The record at an address has the whole text.
    """

    def __init__(self, history: History, stored: StoredValues, status: StateStatus | None = None) -> None:
        self._history = history
        self._stored = stored
        self._status = status
        """How its state stands, where that is its current timeline."""

    def __repr__(self) -> str:
        status = "" if self._status is None else f" {self._status},"
        return f"<history of {one_line(self._history.state_id)}:{status} {counted(len(self), 'event')}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: the first events, and how many more there are."""
        return history_table(repr(self)[1:-1], self._history)

    def __iter__(self) -> Iterator[Record]:
        return self._history.life()

    def __len__(self) -> int:
        """How many addresses have a record."""
        return len(self._history.latest)

    def __contains__(self, address: object) -> bool:
        return address in self._history.latest

    def __getitem__(self, address: str) -> EventRecord:
        """The newest record at an address, of a failure with the whole text of its traceback.

        Raises UnknownAddress that names the nearest ones.
        """
        record = self._history.latest.get(address)
        if record is None:
            raise UnknownAddress(address, self._history.state_id, nearest(address, self._history.latest))
        if record.error is None or record.details is None or not record.details.blocks:
            return record
        error = replace(record.error, traceback=whole_traceback(record, self._history.failure))
        return replace(record, error=error, details=replace(record.details, blocks=()))

    def addresses(self) -> list[str]:
        """Every address that has a record, in the order of their first ones."""
        return list(self._history.latest)

    def has_completed_event(self, address: str) -> bool:
        record = self._history.latest.get(address)
        return record is not None and record.status is ExecutionStatus.COMPLETED

    def get_event_result(self, address: str) -> Any:
        """A fresh copy of the recorded result at an address; None where no completed event stands there."""
        record = self._history.latest.get(address)
        if record is None or record.result is None:
            return None
        return self._stored.decode(record.result)

    def retry_statistics(self) -> RetryStatistics:
        """How often events were tried again, how long that took, and what they failed of."""
        return statistics_of(self._history.records)

    def get_event_list(self) -> list[EventRecord]:
        """The records of events in order, every attempt with its start."""
        return [record for record in self._history.life() if isinstance(record, EventRecord)]
