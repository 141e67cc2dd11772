"""Warnings that name the line of the user's code which they are about."""

from __future__ import annotations

import asyncio
import sys
import warnings

from limpet.escapes import one_line


def warn_at_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that awaits a call, or has made a task of it."""
    message = one_line(message)
    file, line = _site()
    if file:
        warnings.warn_explicit(message, category, file, line)
    else:
        warnings.warn(message, category, stacklevel=2)


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
    return getattr(task, "site", None) or ("", 0)
