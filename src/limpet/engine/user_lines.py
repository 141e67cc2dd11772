"""Warnings that name the line of the user's code which they are about."""

from __future__ import annotations

import asyncio
import sys
import warnings
from types import CodeType

from limpet.escapes import one_line

Site = tuple[CodeType, int]
"""A place in code: the code, and the offset of the instruction. Finding its line takes longer than an event."""


def warn_at_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that awaits a call, or has made a task of it."""
    message = one_line(message)
    file, line = _site()
    if file:
        warnings.warn_explicit(message, category, file, line)
    else:
        warnings.warn(message, category, stacklevel=2)


def _line_of(site: Site) -> tuple[str, int]:
    code, place = site
    lines = (line for begin, end, line in code.co_lines() if begin <= place < end)
    return code.co_filename, next(lines, None) or code.co_firstlineno


def _site() -> tuple[str, int]:
    """The line of the user's that awaits the call, or has made a task of it."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]  # what `warnings` itself does
    while frame is not None:
        name = frame.f_globals.get("__name__", "").partition(".")[0]
        if name == "asyncio":
            break
        if name != "limpet":
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    site: Site | None = getattr(task, "site", None)
    return ("", 0) if site is None else _line_of(site)
