"""The loggers of Limpet. What they log is harmless to read, whatever names and messages are in it.

Handlers and formatters are the user's, so records are made harmless before these see them.
"""

from __future__ import annotations

import logging
from typing import Final

from limpet.escapes import harmless, one_line

_formatter: Final = logging.Formatter()


def logger(name: str) -> logging.Logger:
    """The logger of that name, whose records are one line each, and a traceback behind it where there is one."""
    found = logging.getLogger(name)
    found.addFilter(make_harmless)
    return found


def make_harmless(record: logging.LogRecord) -> bool:
    """A filter that lets every record pass. One with nothing harmful in it stays as it is."""
    try:
        message = record.getMessage()
    except Exception:
        return True  # Handlers say where the arguments of a record are wrong, and do not raise.
    shown = one_line(message)
    if shown != message:
        record.msg, record.args = shown, ()
    if record.exc_info and not record.exc_text:
        told = _formatter.formatException(record.exc_info)
        # Set only where it differs: otherwise it is left to a formatter that does it in its own way.
        if (shown := harmless(told)) != told:
            record.exc_text = shown
    return True
