"""What a validation found: every call executed again, its outcome compared with the recorded one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from limpet.artifacts.stored_values import StoredValues
from limpet.engine.comparing import differences, shape_differences
from limpet.engine.replacement import NOTHING
from limpet.errors import ValueNotReadable
from limpet.journal.history import History
from limpet.model import (
    DeterminismLevel,
    Difference,
    EventRecord,
    ExecutionStatus,
    Failure,
    Mismatch,
    Outcome,
)
from limpet.model.validation import first_lines

if TYPE_CHECKING:
    from limpet.engine.actors import Actor

MOST = 10
"""So many differences of one result are told."""


class ValidationReport:
    """The outcome of a validation, address by address, in the order of execution.

    A result that is allowed to vary changes what is made of it, too. So once one has, what gets another input than was
    recorded, and every agent, is held only to the type and the shape of its result.
    """

    def __init__(self, stored: StoredValues, history: History) -> None:
        self.state_id = history.state_id
        self._stored = stored
        self._recorded_events = dict(history.latest)
        self._has_varied = False
        self.entries: list[tuple[str, Outcome]] = []
        """Every call that was executed, in order, with what came of it."""
        self.mismatches: list[Mismatch] = []

    @property
    def matched(self) -> list[str]:
        return self._with(Outcome.MATCHED)

    @property
    def extra(self) -> list[str]:
        """Executed now, and not in the journal."""
        return self._with(Outcome.EXTRA)

    @property
    def reused(self) -> list[str]:
        """Declared ``once``, and so not executed again."""
        return self._with(Outcome.REUSED)

    @property
    def missing(self) -> list[str]:
        """In the journal with an outcome, and not executed (yet)."""
        executed = {address for address, _ in self.entries}
        return [
            address
            for address, record in self._recorded_events.items()
            if address not in executed and record.status in _SETTLED
        ]

    @property
    def is_ok(self) -> bool:
        return not self.mismatches and not self.extra and not self.missing

    @property
    def exit_code(self) -> int:
        """0 if all went as recorded, else 1."""
        return 0 if self.is_ok else 1

    def __str__(self) -> str:
        counts = {
            "matched": len(self.matched),
            "mismatched": len(self.mismatches),
            "missing": len(self.missing),
            "extra": len(self.extra),
            "reused": len(self.reused),
        }
        told = ", ".join(f"{count} {what}" for what, count in counts.items() if count or what == "matched")
        lines = [f"{'✓' if self.is_ok else '✗'} {self.state_id}: {told}"]
        lines += first_lines(
            [
                *(f"    {line}" for mismatch in self.mismatches for line in str(mismatch).split("\n")),
                *(f"    - {address} was not executed" for address in self.missing),
                *(f"    + {address} is not recorded" for address in self.extra),
            ]
        )
        return "\n".join(lines)

    def compare_result(
        self,
        address: str,
        actor: Actor[..., Any],
        record: EventRecord | None,
        result: object,
        other_input: object = NOTHING,
    ) -> None:
        """``other_input`` is what the call was given, where that is not what is recorded.

        Raises ValueNotStorable where the result of executing again could not be recorded.
        """
        encoded, _ = self._stored.encode(result, "result")
        if not self._is_recorded(address, record):
            return
        assert record is not None
        is_same = record.result is not None and self._stored.is_same(record.result, encoded, result)
        recorded = result if is_same else self._recorded(record)
        found = list(self._input_differences(record, other_input))
        if not is_same:
            level = self._level(actor, other_input is not NOTHING)
            found += self._differences(actor, level, record, recorded, result)
            self._has_varied = self._has_varied or (level is not DeterminismLevel.STRICT and not found)
        self._settle(address, recorded, result, found)

    def compare_failure(
        self, address: str, actor: Actor[..., Any], record: EventRecord | None, failure: Failure
    ) -> None:
        if not self._is_recorded(address, record):
            return
        assert record is not None
        found: list[Difference] = []
        if record.error is None:
            found = [Difference("outcome", "a result", f"{failure.type_name}: {failure.message}")]
        elif record.error.type_name != failure.type_name:
            found = [Difference("error", record.error.type_name, failure.type_name)]
        elif record.error.message != failure.message and self._level(actor, False) is DeterminismLevel.STRICT:
            found = [Difference("error", record.error.message, failure.message)]
        self._settle(address, self._recorded(record), failure, found)

    def note_reused(self, address: str) -> None:
        """A call was given as it is recorded, since it must not be executed again."""
        self.entries.append((address, Outcome.REUSED))

    def note_extra(self, address: str) -> None:
        """A call was made that is not recorded."""
        self.entries.append((address, Outcome.EXTRA))

    def _is_recorded(self, address: str, record: EventRecord | None) -> bool:
        """Whether there is an outcome to compare with; a start alone is none."""
        if record is None:
            self.entries.append((address, Outcome.EXTRA))
        return record is not None and record.status in _SETTLED

    def _settle(self, address: str, recorded: Any, actual: Any, found: list[Difference]) -> None:
        if found:
            self.mismatches.append(Mismatch(address, recorded, actual, tuple(found), self.state_id))
        self.entries.append((address, Outcome.MISMATCHED if found else Outcome.MATCHED))

    def _level(self, actor: Actor[..., Any], has_other_input: bool) -> DeterminismLevel:
        if actor.determinism is not None:
            return actor.determinism
        is_affected = self._has_varied and (has_other_input or actor.is_agent)
        return DeterminismLevel.NON_DETERMINISTIC if is_affected else DeterminismLevel.STRICT

    def _input_differences(self, record: EventRecord, other_input: object) -> list[Difference]:
        if other_input is NOTHING or self._has_varied:
            return []
        if record.input is None:
            return [Difference("input", "what is recorded", "another one")]
        return differences(self._read(record.input), other_input, "input", most=MOST)

    def _differences(
        self, actor: Actor[..., Any], level: DeterminismLevel, record: EventRecord, recorded: Any, result: object
    ) -> list[Difference]:
        if record.error is not None:
            return [Difference("outcome", f"{record.error.type_name}: {record.error.message}", "a result")]
        match level:
            case DeterminismLevel.STRICT:
                return differences(recorded, result, "result", most=MOST)
            case DeterminismLevel.APPROXIMATE if actor.compare is not None:
                is_accepted = bool(actor.compare(recorded, result))
                return [] if is_accepted else differences(recorded, result, "result", most=MOST)
            case DeterminismLevel.APPROXIMATE:
                return differences(recorded, result, "result", most=MOST, tolerance=actor.tolerance)
            case DeterminismLevel.NON_DETERMINISTIC:
                return shape_differences(recorded, result, "result", most=MOST)

    def _recorded(self, record: EventRecord) -> Any:
        return record.error if record.result is None else self._read(record.result)

    def _read(self, data: bytes) -> Any:
        try:
            return self._stored.decode(data)
        except ValueNotReadable as error:
            return error

    def _with(self, outcome: Outcome) -> list[str]:
        return [address for address, each in self.entries if each is outcome]


_SETTLED = (ExecutionStatus.COMPLETED, ExecutionStatus.FAILED)
