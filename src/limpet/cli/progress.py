"""One line on stderr for each event of a run that goes on, and what was found recorded when it began."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from limpet.cli.options import Telling
from limpet.cli.output import dim, duration, styled, tell, width
from limpet.cli.readable import cut
from limpet.engine.actors import Actor
from limpet.model import EventNotice, ExecutionStatus
from limpet.processes import new_lock

COMPLETED_SIGN = "✓"
FAILED_SIGN = "✗"
RECORDED_SIGN = "↺"
RETRIED_SIGN = "↻"
UNFINISHED_SIGN = "…"
UNKNOWN_SIGN = "?"


class Progress:
    """Tells people how a run goes on. Its ``notice`` is a subscriber of the run's bus.

    ``recorded`` are the addresses whose outcome was recorded before; None for a state that is new. An announcement is
    told instead of them. Nothing is told before the run has really begun: what is refused has one line, and that is the
    error.
    """

    def __init__(
        self, state_id: str, recorded: list[str] | None, telling: Telling, announcement: Sequence[str] = ()
    ) -> None:
        self._state_id = state_id
        self._recorded = recorded
        self._announcement = announcement
        self._tells = not telling.is_quiet
        self._tells_recorded = telling.is_verbose
        self._tells_events = telling.is_verbose or sys.stderr.isatty()
        self._has_begun = False
        self._beginning = new_lock()

    def announced(self, actor: Actor[..., Any]) -> Actor[..., Any]:
        """The agent, saying that it begins before any of its own code runs: the bus would say it at about that time."""
        return actor.options(preconditions=(lambda *_, **__: self._begin(), *actor.preconditions))

    def notice(self, notice: EventNotice) -> None:
        """Say what happened to an event."""
        if not self._tells:
            return
        self._begin()
        # A failure that is tried again is told with that, in one line.
        is_told_later = notice.status is ExecutionStatus.FAILED and notice.retry_delay is not None
        if notice.drift is not None:
            tell(styled(f"! {notice.address}: {notice.drift}", fg="yellow"))
        elif self._tells_events and not is_told_later and (line := _line(notice)) is not None:
            tell(line)

    def end(self) -> None:
        """Say that nothing was executed, if nothing was: the result of the whole run is recorded."""
        if self._tells and not self._has_begun:
            tell(f"Already completed: {self._state_id}")

    def _begin(self) -> None:
        with self._beginning:
            if self._tells and not self._has_begun:
                self._tell_beginning()
            self._has_begun = True

    def _tell_beginning(self) -> None:
        """Say which state this is, and what of it is recorded already."""
        if self._announcement:
            for line in self._announcement:
                tell(line)
            return
        verb = "Running" if self._recorded is None else "Going on with"
        tell(f"{verb} {styled(self._state_id, bold=True)}")
        recorded = self._recorded or []
        if self._tells_recorded:
            for address in recorded:
                tell(dim(f"{RECORDED_SIGN} {address} recorded"))
        if recorded:
            results = "1 recorded result" if len(recorded) == 1 else f"{len(recorded)} recorded results"
            tell(dim(f"{RECORDED_SIGN} {results} reused"))


def _line(notice: EventNotice) -> str | None:
    took = duration(notice.execution_time)
    match notice.status:
        case ExecutionStatus.COMPLETED:
            return f"{styled(COMPLETED_SIGN, fg='green')} {notice.address} {dim(took)}"
        case ExecutionStatus.FAILED:
            error = cut(notice.original_error or "", max(20, width() - len(notice.address) - len(took) - 4))
            return f"{styled(FAILED_SIGN, fg='red')} {notice.address} {dim(took)} {error}"
        case ExecutionStatus.RETRYING:
            told = f"attempt {notice.attempt} failed: ", f"; again in {notice.retry_delay or 0.0:.1f} s"
            error = cut(notice.original_error or "", max(20, width() - len(notice.address) - sum(map(len, told)) - 3))
            return f"{styled(RETRIED_SIGN, fg='yellow')} {notice.address} {error.join(told)}"
        case ExecutionStatus.CANCELLED | ExecutionStatus.INTERRUPTED:
            return f"{styled(UNFINISHED_SIGN, fg='yellow')} {notice.address} {dim(took)} {notice.status}"
        case _:
            return None
