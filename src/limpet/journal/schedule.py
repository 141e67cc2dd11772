"""When the next cleanup is due. Pure: it is told what time it is."""

from __future__ import annotations

from calendar import monthrange
from datetime import datetime, timedelta

from limpet.model import Schedule

_TOO_FAR_AHEAD = timedelta(days=1)
"""Clocks of several machines differ, but not by so much: a last time that lies so far ahead was never."""


def next_due(schedule: Schedule, last: datetime | None, now: datetime) -> datetime | None:
    """When a cleanup is due after the last one; None where none is. What was never done is due now.

    A schedule on start is for one supervisor: ``last`` is then the last one since it has started.
    """
    if last is not None and last - now > _TOO_FAR_AHEAD:
        last = None
    match schedule:
        case Schedule.MANUAL:
            return None
        case Schedule.ON_START:
            return now if last is None else None
        case Schedule.DAILY:
            return now if last is None else last + timedelta(days=1)
        case Schedule.WEEKLY:
            return now if last is None else last + timedelta(weeks=1)
        case Schedule.MONTHLY:
            return now if last is None else _a_month_after(last)


def _a_month_after(last: datetime) -> datetime:
    """The same time on the same day of the next month, or on its last day where it has no such day."""
    year, month = (last.year + 1, 1) if last.month == 12 else (last.year, last.month + 1)
    return last.replace(year=year, month=month, day=min(last.day, monthrange(year, month)[1]))
