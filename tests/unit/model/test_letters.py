"""The rule for the names of letters."""

from __future__ import annotations

from typing import Any

import pytest

from limpet.errors import UsageError
from limpet.model import checked_letter_name, is_letter_name


@pytest.mark.parametrize(
    "name", ["x", " ", "x" * 200, "🌊" * 200, "a/b", "..", "question 1: größer?", "\u2028", "e\u0301"]
)
def test_text_is_a_name(name: str) -> None:
    assert name == checked_letter_name(name)
    assert is_letter_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        ("x" * 201, "it has 201 characters, and 200 is the most"),
        ("a\nb", r"it contains '\\n'"),
        ("\x00", r"it contains '\\x00'"),
        ("\x9f", r"it contains '\\x9f'"),
        ("\ud83c", r"it contains '\\ud83c'"),
        (b"x", "it is bytes, not text"),
        (7, "it is int, not text"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(name: Any, why: str) -> None:
    with pytest.raises(UsageError, match=f"cannot be the name of a letter: {why}. Use text of 1 to 200 characters"):
        checked_letter_name(name)
    assert not is_letter_name(name)


def test_a_long_name_is_shown_in_part() -> None:
    with pytest.raises(UsageError) as raised:
        checked_letter_name("x" * 10_000)
    assert len(str(raised.value)) < 500
