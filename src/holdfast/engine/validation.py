"""What a validation found: every call executed again, its outcome compared with the recorded one."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.artifacts.stored_values import StoredValues
from holdfast.model import EventRecord, Failure


class Mismatch(msgspec.Struct, frozen=True):
    """An address at which executing again gave something else than is recorded."""

    address: str
    recorded: Any
    """The recorded result; a Failure if it was recorded as failed; None if nothing was recorded."""
    actual: Any
    """The result of executing again, or the Failure it ended in."""


class ValidationReport:
    """The outcome of a validation, address by address, in the order of execution."""

    def __init__(self, stored: StoredValues) -> None:
        self._stored = stored
        self.matched: list[str] = []
        self.mismatches: list[Mismatch] = []
        self.extra: list[str] = []
        """Executed now, and not in the journal."""

    @property
    def is_ok(self) -> bool:
        return not self.mismatches and not self.extra

    def compare_result(self, address: str, record: EventRecord | None, result: object) -> None:
        """Raises ValueNotStorable where the result of executing again could not be recorded."""
        encoded, _ = self._stored.encode(result, "result")
        if record is None:
            self.extra.append(address)
        elif record.result is not None and self._stored.is_same(record.result, encoded, result):
            self.matched.append(address)
        else:
            self.mismatches.append(Mismatch(address, self._recorded(record), result))

    def compare_failure(self, address: str, record: EventRecord | None, failure: Failure) -> None:
        if record is None:
            self.extra.append(address)
        elif record.error is not None and _kind(record.error) == _kind(failure):
            self.matched.append(address)
        else:
            self.mismatches.append(Mismatch(address, self._recorded(record), failure))

    def _recorded(self, record: EventRecord) -> Any:
        return record.error if record.result is None else self._stored.decode(record.result)


def _kind(failure: Failure) -> tuple[str, str]:
    return failure.type_name, failure.message
