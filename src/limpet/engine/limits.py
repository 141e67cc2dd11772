"""What a run is held to, as it was asked for: how calls are retried, what may stop it, how it waits and is saved."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Any, cast

import msgspec

from limpet.engine.live import PATIENCE_S, LiveState
from limpet.engine.retry_levels import RetryLevels
from limpet.engine.signals import handling_signals
from limpet.engine.watching import Checker
from limpet.errors import UsageError
from limpet.journal.tally import Tally, running_s
from limpet.model import Budget, CheckpointPolicy, OnSaveError
from limpet.model.waits import Question


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How calls are retried, what may stop a run, how it waits, and when it is saved."""

    retry: RetryLevels = RetryLevels()
    timeout_s: float | None = None
    deadline: datetime | None = None
    budget: Budget | None = None
    checker: Any = None
    handles_signals: bool = False
    on_first_signal: Callable[[], None] | None = None
    """Called when the first signal has come, and what is being executed is finished."""
    on_question: Callable[[Question], Any] | None = None
    """Is asked first what the run asks."""
    patience_s: float = PATIENCE_S
    """How near a time must be for a run that can only wait to stay in memory for it."""
    policy: CheckpointPolicy = CheckpointPolicy()
    on_save_error: OnSaveError = OnSaveError.FAIL
    follow: Callable[[], tuple[CheckpointPolicy, OnSaveError]] | None = None
    """Says how it is to be saved by now, where that may change while it goes on."""

    def __post_init__(self) -> None:
        check_seconds(self.timeout_s)
        if self.deadline is not None and not _is_aware(self.deadline):
            raise UsageError(
                f"{self.deadline!r} is no deadline of a run.",
                "Give a datetime with a time zone: `datetime.now(UTC) + …`.",
            )
        if self.budget is not None and not isinstance(cast(object, self.budget), Budget):
            raise UsageError(f"{self.budget!r} is no budget of a run.", "Give a Budget.")
        if self.checker is not None and not callable(self.checker):
            raise UsageError(f"{self.checker!r} cannot be asked whether to stop.", "Give a function.")
        if self.on_question is not None and not callable(cast(object, self.on_question)):
            raise UsageError(f"{self.on_question!r} cannot be asked anything.", "Give a function.")
        if not isinstance(cast(object, self.patience_s), int | float) or not self.patience_s >= 0:
            raise UsageError(f"A run cannot have the patience {self.patience_s!r}.", "Give seconds, 0 or more.")

    def apply_to(self, live: LiveState) -> None:
        """Hold a run that is about to go on to these limits."""
        live.on_first_signal = self.on_first_signal
        live.on_question = self.on_question
        live.patience_s = self.patience_s
        if not live.reads_only:
            live.set_saving(self.policy, self.on_save_error)
            live.follow = self.follow
        records = live.history.records
        left_s = [] if self.timeout_s is None else [self.timeout_s]
        if self.deadline is not None:
            left_s.append(self.deadline.timestamp() - live.clock.now())
        if self.budget is not None and not self.budget.is_empty:
            live.tally = Tally(self.budget, records)
            live.is_guarded = True
            if self.budget.wall_time_s is not None:
                live.watch.set_wall_time(self.budget.wall_time_s, running_s(records))
        if left_s:
            live.watch.set_timeout(max(0.0, min(left_s)))
        if self.checker is not None:
            live.watch.set_checker(cast("Checker", self.checker))

    def signals(self, live: LiveState) -> AbstractContextManager[None]:
        """While this lasts, SIGINT and SIGTERM stop the run, if that was asked for."""
        return handling_signals(live) if self.handles_signals else nullcontext()


def check_seconds(value: object) -> None:
    """Raises UsageError for what is neither None nor a time that something may take."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is not None and not (is_number and 0 < cast(float, value) < math.inf):
        raise UsageError(f"A run cannot be given {value!r} seconds.", "Give a number, more than 0.")


def _is_aware(deadline: object) -> bool:
    return isinstance(deadline, datetime) and deadline.tzinfo is not None
