"""How much of its budget a run has used, and whether a call may still be made.

The rule: a call is its address. It counts as an event from the moment it is made, and goes on counting by its outcome.
One that is given up has no outcome and is given back. Trying again at the same address is no new event and no repeat.
Of a model it is one more call: every attempt that has ended counts there, and one for each call that is under way, so
that calls side by side do not all take the last place. Tokens and cost are known only of attempts that have ended.

Whoever makes calls asks ``exceeded_by`` before each attempt and says ``took`` right after, with nothing in between.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from limpet.journal.address import SEPARATOR, is_top_level, unescape
from limpet.journal.usage import MODEL_CALL, recorded_usage
from limpet.model import (
    CheckpointRecord,
    DroppedRecord,
    EventRecord,
    ExecutionStatus,
    Record,
    StateStatus,
    fingerprint,
)
from limpet.model.budget import Budget
from limpet.model.usage import counted, readable_cost

_STARTED = ExecutionStatus.STARTED
_COMPLETED = ExecutionStatus.COMPLETED
_FAILED = ExecutionStatus.FAILED
_RETRYING = ExecutionStatus.RETRYING

_SAME_COST = 1e-9
"""Sums of costs that differ by less, as a part of the limit, are equal: 0.1 is not a number that a computer has."""

_Same = tuple[str, str, bytes]
"""What calls have in common that are made with the same input: the name in their addresses, the kind, the input."""


class Tally:
    """What a run has used of its budget: by what was recorded when it was taken up, and by what it does since.

    The time is not counted here: ``running_s`` tells what is recorded of it.
    """

    __slots__ = ("_calls", "_made", "_models_under_way", "_under_way", "budget", "cost", "model_calls", "tokens")

    def __init__(self, budget: Budget, records: Iterable[Record] = ()) -> None:
        """``records``: those of the current timeline."""
        self.budget = budget
        self.model_calls = 0
        """The attempts of model calls that have ended."""
        self.tokens = 0
        self.cost = 0.0
        self._calls: dict[str, _Same | None] = {}
        """By address: the calls that have an outcome or are under way, and what tells repeats if those are limited."""
        self._under_way: dict[str, bool] = {}
        """By address: whether the call counts only because it is under way. One that is tried again had an outcome."""
        self._models_under_way = 0
        self._made: dict[_Same, int] = {}
        for record in records:
            self.note(record)

    @property
    def events(self) -> int:
        """The calls that have an outcome."""
        return len(self._calls) - sum(self._under_way.values())

    def exceeded_by(self, address: str, encoded: bytes) -> str | None:
        """Why this call, or another attempt of it, must not be made: part of a sentence about the run. None: it may be.

        ``encoded`` is its input, as it is recorded. Nothing is counted by asking.
        """
        is_new = address not in self._calls
        if is_new and self.budget.events is not None and len(self._calls) >= self.budget.events:
            return f"its budget of {counted(self.budget.events, 'event')} is used up"
        is_model_call = address.endswith(MODEL_CALL)
        used_up = self._models_exceeded(address) if is_model_call else None
        used_up = used_up or self._usage_exceeded(is_model_call)
        return self._repeats_exceeded(address, encoded) if is_new and used_up is None else used_up

    def took(self, address: str, encoded: bytes) -> None:
        """The call is being made. It may be said of every attempt."""
        if address in self._under_way:
            return
        is_new = self._under_way[address] = address not in self._calls
        if is_new:
            self._count(address, None if self.budget.repeats is None else fingerprint(encoded))
        if address.endswith(MODEL_CALL):
            self._models_under_way += 1

    def gave_up(self, address: str) -> None:
        """The call has ended without an outcome: it was cancelled, or interrupted. Unknown ones are no error."""
        if self._leave(address):
            same = self._calls.pop(address)
            if same is not None:
                self._made[same] -= 1

    def note(self, record: Record) -> None:
        """A record was written. Each may be noted once."""
        if type(record) is not EventRecord or record.status is _STARTED:
            return
        address, status = record.address, record.status
        has_outcome = status is _COMPLETED or status is _FAILED
        if address.endswith(MODEL_CALL):
            usage = recorded_usage(record)
            if has_outcome or status is _RETRYING:
                self.model_calls += 1
            if usage is not None:
                self.tokens += usage.tokens
                self.cost += usage.cost
        if has_outcome:
            if address not in self._calls:
                self._count(address, None if self.budget.repeats is None else record.input_fingerprint)
            self._leave(address)
        elif status is ExecutionStatus.INTERRUPTED or status is ExecutionStatus.CANCELLED:
            self.gave_up(address)

    def _count(self, address: str, what: bytes | None) -> None:
        same = self._calls[address] = None if what is None else _same(address, what)
        if same is not None:
            self._made[same] = self._made.get(same, 0) + 1

    def _leave(self, address: str) -> bool:
        """Take a call out of those under way. Whether it counted only by being one of them."""
        counted_so = self._under_way.pop(address, None)
        if counted_so is not None and address.endswith(MODEL_CALL):
            self._models_under_way -= 1
        return counted_so is True

    def _models_exceeded(self, address: str) -> str | None:
        limit = self.budget.model_calls
        others = self._models_under_way - (address in self._under_way)
        if limit is None or self.model_calls + others < limit:
            return None
        return f"its budget of {counted(limit, 'model call')} is used up"

    def _usage_exceeded(self, is_model_call: bool) -> str | None:
        """A model call needs something left; whatever else is called only must not find the limit overshot."""
        tokens, cost = self.budget.tokens, self.budget.cost
        if tokens is not None and (self.tokens > tokens or (is_model_call and self.tokens == tokens)):
            return f"it has used {counted(self.tokens, 'token')} of the {tokens:,} in its budget"
        if cost is not None:
            is_all_used = math.isclose(self.cost, cost, rel_tol=_SAME_COST)
            if (is_model_call and is_all_used) or (self.cost > cost and not is_all_used):
                return f"its cost is {readable_cost(self.cost)}, and its budget allows {readable_cost(cost)}"
        return None

    def _repeats_exceeded(self, address: str, encoded: bytes) -> str | None:
        limit = self.budget.repeats
        if limit is None:
            return None
        same = _same(address, fingerprint(encoded))
        made = self._made.get(same, 0)
        if made < limit:
            return None
        return (
            f"{unescape(same[0])} was called {counted(made, 'time')} with the same input, and its budget allows {limit}"
        )


def _same(address: str, what: bytes) -> _Same:
    path, _, event_type = address.rpartition(SEPARATOR)
    segment = path.rpartition(SEPARATOR)[2]
    return segment.partition("[")[0].partition("#")[0], event_type, what


def running_s(records: Iterable[Record]) -> float:
    """How long a run has been going on by what is recorded on its timeline, without the time in which it was stopped.

    It was stopped behind a checkpoint that says so and behind the failure of a call at the top, and it had left off
    where the timeline goes on from an earlier one. A crash is not marked in the journal, nor is a stop without a
    checkpoint: the time until the run is taken up again counts then.
    """
    total = began = ended = 0.0
    before: Record | None = None
    for record in records:
        if isinstance(record, DroppedRecord):
            continue
        if before is None or record.seq != before.seq + 1 or _stops(before):
            total += max(0.0, ended - began)
            took = record.duration_s if type(record) is EventRecord else 0.0
            # What was under way across a cut has been counted up to there.
            began = max(record.at - took, ended)
        ended = record.at
        before = record
    return total + max(0.0, ended - began)


def _stops(record: Record) -> bool:
    if type(record) is EventRecord:
        return record.status is _FAILED and is_top_level(record.address)
    return type(record) is CheckpointRecord and record.status is not StateStatus.RUNNING
