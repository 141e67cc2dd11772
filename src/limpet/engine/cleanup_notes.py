"""What a store remembers of its cleanups, and whose turn the next one is: its note ``cleanup``.

Supervisors claim the turn before they clean up, and of several that find it free one gets it. Whoever cleans up by hand
claims nothing: two cleanups at once do each other no harm. All of them note how they ended.

A claim alone is no cleanup: until one has come to its end, the next is due as before. So whatever dies in the middle is
made up for by the next who finds the turn free.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from limpet.backends.contract import StateBackend
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import is_dead
from limpet.errors import LimpetError, UsageError
from limpet.logs import logger
from limpet.model import Cleanup, CleanupRun, Holder
from limpet.model.header import utc
from limpet.model.schedule import Moment

NAME = "cleanup"

ABANDONED = timedelta(hours=1)
"""After so long a claim counts for nothing: its process may have died where nobody here can tell."""

_TRIES = 100
_LONGEST_ERROR = 1000

log = logger("limpet.cleanup")


class _Turn(msgspec.Struct, frozen=True):
    """A cleanup that a supervisor is in the middle of."""

    run: CleanupRun
    holder: Holder


class Noted(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the note."""

    last: CleanupRun | None = None
    """The one that ended last."""
    claim: _Turn | None = None
    configured_at: Moment | None = None
    """When the last one began that went by the configured retention and came to its end."""

    def is_free(self, now: datetime) -> bool:
        """Whether nobody is known to be in the middle of one."""
        if self.claim is None or is_dead(self.claim.holder):
            return True
        return abs(now - self.claim.run.began_at) > ABANDONED


class Standing(NamedTuple):
    """The note as it was read."""

    text: str | None
    noted: Noted


class CleanupNotes:
    """The note about the cleanups of one store."""

    def __init__(self, backend: StateBackend) -> None:
        self._backend = backend

    def read(self) -> Standing:
        """The note as it stands. One that cannot be read says nothing."""
        text = self._backend.note(NAME)
        try:
            return Standing(text, Noted() if text is None else msgspec.json.decode(text, type=Noted))
        except msgspec.MsgspecError:
            log.warning("What the store %s has noted of its cleanups cannot be read.", self._backend.name)
            return Standing(text, Noted())

    def newest(self) -> CleanupRun | None:
        """The cleanup that began last, also one that is under way; None if there was none."""
        noted = self.read().noted
        runs = [noted.last, None if noted.claim is None else noted.claim.run]
        return max((run for run in runs if run is not None), key=lambda run: run.began_at, default=None)

    def claim(self, standing: Standing, run: CleanupRun, holder: Holder) -> bool:
        """Take the turn that was found free; False if the note has changed since. Raises UsageError."""
        claimed = msgspec.structs.replace(standing.noted, claim=_Turn(run, holder))
        return self._backend.swap_note(NAME, standing.text, _written(claimed))

    def finish(self, run: CleanupRun, holder: Holder | None, *, is_configured: bool) -> None:
        """Note how a cleanup ended, and give back the turn that its holder had claimed. Raises UsageError."""
        for _ in range(_TRIES):
            text, noted = self.read()
            is_ours = noted.claim is not None and noted.claim.holder == holder
            counts = is_configured and run.error is None
            after = Noted(
                last=run,
                claim=None if is_ours else noted.claim,
                configured_at=run.began_at if counts else noted.configured_at,
            )
            if self._backend.swap_note(NAME, text, _written(after)):
                return
        log.warning("How a cleanup of %s ended was not noted: others note theirs all the time.", self._backend.name)

    def note(self, run: CleanupRun, *, is_configured: bool) -> None:
        """Note how a cleanup ended that nobody has claimed. What hinders that hurts nobody."""
        try:
            self.finish(run, None, is_configured=is_configured)
        except UsageError:
            pass  # The store keeps no notes.
        except LimpetError as error:
            log.warning("How a cleanup of %s ended was not noted: %s", self._backend.name, error)


def begun(holder: Holder) -> CleanupRun:
    """A cleanup that begins now."""
    return CleanupRun(began_at=utc(SYSTEM_CLOCK.now()), by=str(holder))


def ended(run: CleanupRun, report: Cleanup) -> CleanupRun:
    """A cleanup that has come to its end now."""
    now = utc(SYSTEM_CLOCK.now())
    return msgspec.structs.replace(run, finished_at=now, removed=len(report.removed), freed=report.freed)


def failed(run: CleanupRun, error: BaseException) -> CleanupRun:
    """A cleanup that has failed now."""
    # What others say may have halves of characters in it, which no store keeps.
    text = f"{type(error).__name__.lstrip('_')}: {error}".encode(errors="replace").decode()
    return msgspec.structs.replace(run, finished_at=utc(SYSTEM_CLOCK.now()), error=text[:_LONGEST_ERROR])


def _written(noted: Noted) -> str:
    return msgspec.json.encode(noted).decode()
