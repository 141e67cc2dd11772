"""What a validation found: every call executed again, its outcome compared with the recorded one."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.codec import values
from holdfast.model import EventRecord, ExecutionStatus, Failure


class Mismatch(msgspec.Struct, frozen=True):
    """An address at which executing again gave something else than is recorded."""

    address: str
    recorded: Any
    """The recorded result; a Failure if it was recorded as failed; None if nothing was recorded."""
    actual: Any
    """The result of executing again, or the Failure it ended in."""


class ValidationReport:
    """The outcome of a validation, address by address, in the order of execution."""

    def __init__(self) -> None:
        self.matched: list[str] = []
        self.mismatches: list[Mismatch] = []
        self.extra: list[str] = []
        """Executed now, and not in the journal."""

    @property
    def is_ok(self) -> bool:
        return not self.mismatches and not self.extra

    def compare_result(self, address: str, record: EventRecord | None, result: bytes) -> None:
        if record is None:
            self.extra.append(address)
        elif record.status is ExecutionStatus.COMPLETED and record.result == result:
            self.matched.append(address)
        else:
            self.mismatches.append(Mismatch(address, _recorded(record), values.decode(result)))

    def compare_failure(self, address: str, record: EventRecord | None, failure: Failure) -> None:
        if record is None:
            self.extra.append(address)
        elif record.error is not None and _kind(record.error) == _kind(failure):
            self.matched.append(address)
        else:
            self.mismatches.append(Mismatch(address, _recorded(record), failure))


def _kind(failure: Failure) -> tuple[str, str]:
    return failure.type_name, failure.message


def _recorded(record: EventRecord) -> Any:
    return record.error if record.result is None else values.decode(record.result)
