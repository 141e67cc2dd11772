"""What is shown of characters that must not reach a terminal as they are."""

from __future__ import annotations

import json
import sys
import unicodedata

import pytest

from limpet.escapes import harmless, harmless_json, one_line

EVERY_CHARACTER = [chr(code) for code in range(sys.maxunicode + 1)]
SEEN_FORMATS = set(map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD)))
"""Signs of Arabic and others that are seen, although Unicode counts them as what is not."""


def is_kept(character: str) -> bool:
    return one_line(f"a{character}a") == f"a{character}a"


def test_no_control_or_format_character_is_shown_as_it_is() -> None:
    raw = [each for each in EVERY_CHARACTER if unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs")]
    assert SEEN_FORMATS & set(raw) == set(filter(is_kept, raw))


def test_letters_digits_signs_and_spaces_are_shown_as_they_are() -> None:
    invisible = set("\u115f\u1160\u3164\uffa0")
    seen = [each for each in EVERY_CHARACTER if unicodedata.category(each)[0] in "LNPSZ"]
    assert invisible | {"\u2028", "\u2029"} == {each for each in seen if not is_kept(each)}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb", r"a\u202eb"),
        ("\U000e0041", r"\U000e0041"),
        ("\ud800", r"\ud800"),
        ("a\r\nb\tc", r"a\r\nb\tc"),
        ("pay\u200dpal", r"pay\u200dpal"),
        ("é\u200d\u200dé", r"é\u200d\u200dé"),
        ("a\ufe0f", r"a\ufe0f"),
        ("❤\ufe0f\ufe0f", "❤\ufe0f\\ufe0f"),
        ("\u200c", r"\u200c"),
        ("", ""),
    ],
)
def test_what_is_not_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert shown == one_line(text)
    assert shown == one_line(shown)


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # a Persian word
        "क\u094d\u200dष",
        "👩\u200d👩\u200d👧",
        "❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3",
        "葛\U000e0100",
        "kelp – naïve “日本”",
    ],
)
def test_what_people_write_in_their_alphabets_is_shown_as_it_is(text: str) -> None:
    assert text == one_line(text) == harmless(text) == harmless_json(text)


def test_text_keeps_its_lines_and_tabs() -> None:
    assert "a\n\tb\\r\n" == harmless("a\n\tb\r\n")


def test_json_says_the_same_with_escapes() -> None:
    value = {each: each for each in EVERY_CHARACTER}
    shown = harmless_json(json.dumps(value, ensure_ascii=False, indent=1))
    assert value == json.loads(shown)
    assert not any(unicodedata.category(each) in ("Cf", "Zl", "Zp", "Cs") for each in set(shown) - SEEN_FORMATS)
    assert set(shown) & set(map(chr, range(0x7F, 0xA0))) == set()
