"""What any process may leave for a state, whoever holds it, and the rule for the names of letters and notes."""

from __future__ import annotations

import re

import msgspec

from limpet.errors import UsageError

MAX_LETTER_NAME = 200
# Control characters, and halves of characters, which are no text by themselves.
_NOT_TEXT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_HALVES = re.compile("[\ud800-\udfff]")


class Letter(msgspec.Struct, frozen=True):
    """What lies in the inbox of a state until the holder discards it."""

    number: int
    """From 1 on, through the whole store: a later letter has a greater one, and none is used twice."""
    state_id: str
    name: str
    """What tells it from the other letters of its state."""
    body: bytes
    at: float
    """When it was delivered, by the clock of the store: seconds since 1970 UTC."""


def checked_letter_name(name: object) -> str:
    """The name, if a letter can have it. Raises UsageError that says what is wrong with it."""
    return _checked(name, "letter")


def checked_note_name(name: object) -> str:
    """The name, if a note of a store can have it. Raises UsageError that says what is wrong with it."""
    return _checked(name, "note")


def checked_note(text: object) -> str:
    """The text, if a note can have it: every store gives it back as it is. Raises UsageError."""
    if isinstance(text, str) and not _HALVES.search(text):
        return text
    what = "text with halves of characters in it" if isinstance(text, str) else type(text).__name__
    raise UsageError(f"A note is text, and cannot be {what}.", "Make text of it first.")


def _checked(name: object, of: str) -> str:
    why = _what_is_wrong_with(name)
    if why is None:
        return str(name)
    shown = repr(name) if len(repr(name)) <= MAX_LETTER_NAME else f"{repr(name)[:MAX_LETTER_NAME]}…"
    raise UsageError(
        f"{shown} cannot be the name of a {of}: {why}.",
        f"Use text of 1 to {MAX_LETTER_NAME} characters without control characters.",
    )


def is_letter_name(name: object) -> bool:
    """Whether a letter can have this name."""
    return _what_is_wrong_with(name) is None


def _what_is_wrong_with(name: object) -> str | None:
    if not isinstance(name, str):
        return f"it is {type(name).__name__}, not text"
    if not name:
        return "it is empty"
    if len(name) > MAX_LETTER_NAME:
        return f"it has {len(name)} characters, and {MAX_LETTER_NAME} is the most"
    found = _NOT_TEXT.search(name)
    return None if found is None else f"it contains {found[0]!r}"
