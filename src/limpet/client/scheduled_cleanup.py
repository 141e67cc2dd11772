"""The cleanups that a supervisor makes by itself, when the configured schedule says so.

Asked once a second whether one is due, it reads the note of the store only then, and now and then: others can put the
next one off, and never bring it forward. It blocks, and is for a thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from limpet.backends.contract import StateBackend
from limpet.engine.cleanup_notes import CleanupNotes, Noted, Standing, begun, ended, failed
from limpet.engine.clock import SYSTEM_CLOCK
from limpet.engine.lease import mark_ended, mark_running, new_holder
from limpet.engine.progress import Told
from limpet.errors import UsageError
from limpet.journal.schedule import next_due
from limpet.logs import logger
from limpet.model import Cleanup, CleanupRun, Holder, Retention, Schedule
from limpet.model.header import utc

if TYPE_CHECKING:
    from limpet.config import Configuration
    from limpet.config.model import RetentionSettings

LOOK_AGAIN = timedelta(minutes=1)
"""How often the note is read while nothing is due."""
WAIT_FOR_OTHERS = timedelta(seconds=5)
"""How often it is read while another supervisor is in the middle of a cleanup."""
AFTER_FAILURE = timedelta(hours=1)
"""How long this supervisor lets pass before it tries again what has failed."""

WITHOUT_NOTES = timedelta(days=1)
"""How long until it is said again that a store keeps no notes."""

Clean = Callable[[Retention, bool, Told], Cleanup]
"""Cleans up by a retention, compacts the file if that is wanted, and tells of progress."""

log = logger("limpet.cleanup")


class _SupervisorEnded(Exception):
    """The cleanup ends with its supervisor."""


class ScheduledCleanup:
    """The cleanups of one store by one supervisor."""

    def __init__(self, backend: StateBackend, config: Configuration, clean: Clean) -> None:
        self._config = config
        self._clean = clean
        self._notes = CleanupNotes(backend)
        self._started_at = _now()
        self._is_owed = config.current().retention.schedule is Schedule.ON_START
        """Whether the one on start is still to be made. A schedule that is changed later does not start anything."""
        self._table: RetentionSettings | None = None
        """The settings that were last looked at."""
        self._look_at_s = 0.0
        """By the clock that never goes back: one that was put right must not hold up what is due."""
        self._is_ending = threading.Event()

    def end(self) -> None:
        """Let a cleanup that is under way stop after the next state."""
        self._is_ending.set()

    def look(self) -> CleanupRun | None:
        """Clean up if that is due and nobody else does it, and give what came of it. It may have failed.

        Raises what the store raises where the note cannot be read or written.
        """
        table, now = self._config.current().retention, _now()
        if table.schedule is Schedule.MANUAL or self._is_ending.is_set():
            return None
        is_new = table != self._table
        if not is_new and SYSTEM_CLOCK.elapsed() < self._look_at_s:
            return None
        self._table = table
        self._look_again_in(LOOK_AGAIN)
        retention = self._config.retention
        if retention is None:
            if is_new:
                log.warning("Cleanups are scheduled (%s), but [retention] sets no limit.", table.schedule)
            return None
        standing = self._notes.read()
        due = self._due(table.schedule, standing.noted, now)
        if due is None or due > now:
            self._look_again_in(LOOK_AGAIN if due is None else min(LOOK_AGAIN, due - now))
            return None
        self._look_again_in(WAIT_FOR_OTHERS)
        return self._take_turn(standing, retention, table) if standing.noted.is_free(now) else None

    def _due(self, schedule: Schedule, noted: Noted, now: datetime) -> datetime | None:
        last = noted.configured_at
        if schedule is Schedule.ON_START:
            if not self._is_owed:
                return None
            last = last if last is not None and last >= self._started_at else None
        return next_due(schedule, last, now)

    def _take_turn(self, standing: Standing, retention: Retention, table: RetentionSettings) -> CleanupRun | None:
        holder = new_holder()
        run = msgspec.structs.replace(begun(holder), schedule=table.schedule)
        mark_running(holder)
        try:
            if not self._has_claimed(standing, run, holder):
                return None
            self._is_owed = False
            done = self._cleaned(run, retention, compacts=table.compact_file)
            self._look_again_in(LOOK_AGAIN if done.error is None else AFTER_FAILURE)
            self._notes.finish(done, holder, is_configured=True)
        finally:
            mark_ended(holder)
        return done

    def _has_claimed(self, standing: Standing, run: CleanupRun, holder: Holder) -> bool:
        try:
            return self._notes.claim(standing, run, holder)
        except UsageError as error:
            # Without a note nobody could tell when the last one was: each look would make another one.
            log.warning("The store is not cleaned up by a schedule: %s", error)
            self._look_again_in(WITHOUT_NOTES)
            return False

    def _cleaned(self, run: CleanupRun, retention: Retention, *, compacts: bool) -> CleanupRun:
        try:
            return ended(run, self._clean(retention, compacts, self._require_going_on))
        except _SupervisorEnded as error:
            return failed(run, error)
        except Exception as error:
            log.error("The scheduled cleanup failed: %s: %s", type(error).__name__, error)
            return failed(run, error)

    def _look_again_in(self, wait: timedelta) -> None:
        self._look_at_s = SYSTEM_CLOCK.elapsed() + wait.total_seconds()

    def _require_going_on(self, *_: object) -> None:
        if self._is_ending.is_set():
            raise _SupervisorEnded("it was stopped in the middle, and is made again")


def _now() -> datetime:
    return utc(SYSTEM_CLOCK.now())
