"""A value that an option gives as JSON: on the command line itself, or in the file that it names as ``@FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from limpet.cli.arguments import read_json
from limpet.errors import UsageError

_HOW = "Text has quotes of its own ('\"kelp\"'), and @FILE names a file that has the JSON."


def given_json(option: str, text: str) -> Any:
    """The value of an option. Raises UsageError where it is no JSON, or the file cannot be read."""
    source = _file(text[1:]) if text.startswith("@") else text
    where = f"{text[1:]} has" if text.startswith("@") else f"{option} is"
    try:
        return read_json(source)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} no JSON: {' '.join(str(error).split())}.", _HOW) from error


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise UsageError(f"{name!r} cannot be read: {why}.", _HOW) from error
