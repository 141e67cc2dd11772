"""What people are told of settings that are not right. Pure."""

from __future__ import annotations

import difflib
import re
import reprlib
from collections.abc import Iterable
from typing import Final

from limpet.config.model import SETTINGS, TABLES, Described

_shown = reprlib.Repr()
_shown.maxstring = _shown.maxother = 80

_CLOSE: Final = 0.6
_IN_URL: Final = re.compile(r"://[^/\s]*@")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like this one."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=_CLOSE)), None)


def known_keys() -> list[str]:
    return [*SETTINGS, *TABLES]


def unknown_key(key: str) -> str:
    """That no setting has this key, with the nearest that there is: in the same table, or anywhere."""
    table, _, name = key.rpartition(".")
    beside = {each.rpartition(".")[2]: each for each in known_keys() if each.rpartition(".")[0] == table}
    near = nearest(name, beside)
    meant = beside[near] if near is not None else nearest(key, known_keys())
    if meant is None and not table:
        return f"{key!r} is no setting."
    if meant is None:
        return (
            f"{key!r} is no setting. The settings there are {', '.join(beside)}."
            if beside
            else f"{key!r} is no setting."
        )
    return f"{key!r} is no setting. Nearest: {meant!r}."


def wrong_value(setting: Described, value: object, why: str = "") -> str:
    """That a setting cannot have a value, and what is allowed."""
    reason = f": {why}" if why else ""
    return f"{setting.key} cannot be {_text(value)}{reason}. Allowed is {setting.kind.allowed}."


def no_table(key: str, value: object) -> str:
    return f"{key} is a table, and cannot be {_text(value)}. Write it as [{key}], with its settings below."


def without_secrets(text: str) -> str:
    """A text in which nobody reads the password of a URL."""
    return _IN_URL.sub("://***@", text)


def _text(value: object) -> str:
    try:
        # Masked before it is cut, which could take away what shows where a password ends.
        return _shown.repr(without_secrets(value) if isinstance(value, str) else value)
    except ValueError:
        # Python makes no text of a number with many thousand digits.
        return f"a huge {type(value).__name__}"
