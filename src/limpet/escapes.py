"""Characters that must not reach a terminal or a log as they are, and how they are shown instead. Pure.

Escaped are control characters, what changes the direction of text, what ends a line in some programs, and what cannot
be seen: ``\\x1b``, ``\\u202e``, ``\\U000e0041``. What joins letters or chooses the form of one stays behind what it can
do that to, since Persian, Hindi and emoji are written with it.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPED: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_LAYOUT: Final = "\n\t"
_JOINERS: Final = "\u200c\u200d"
_FORMS: Final = re.compile("[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")
_HAVE_FORMS: Final = "0123456789#*"
_SHORT: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def harmless(text: str) -> str:
    """Text of several lines, with escapes in place of all that is not seen as it is but tabs and ends of lines."""
    return _ESCAPED.sub(_shown_in_text, text)


def one_line(text: str) -> str:
    """The same as one line: tabs and ends of lines are escaped as well, so that nothing begins a line of its own."""
    return _ESCAPED.sub(_shown, text)


def harmless_json(text: str) -> str:
    """JSON that says the same, with its own escapes for what ``harmless`` escapes."""
    return _ESCAPED.sub(_shown_in_json, text)


def _shown_in_text(match: re.Match[str]) -> str:
    return match[0] if match[0] in _LAYOUT else _shown(match)


def _shown(match: re.Match[str]) -> str:
    found = match[0]
    if found in _SHORT:
        return _SHORT[found]
    if _is_kept(match):
        return found
    code = ord(found)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _shown_in_json(match: re.Match[str]) -> str:
    if match[0] in _LAYOUT or _is_kept(match):
        return match[0]
    written = match[0].encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{written[at : at + 4]}" for at in range(0, len(written), 4))


def _is_kept(match: re.Match[str]) -> bool:
    """Whether a character joins what stands around it, or chooses the form of what stands before it."""
    text, at, found = match.string, match.start(), match[0]
    before = text[at - 1 : at]
    if found in _JOINERS:
        # An emoji may have its form chosen before it is joined to the next one.
        before = text[at - 2 : at - 1] if _FORMS.fullmatch(before) else before
        return _is_seen(before) and _is_seen(text[at + 1 : at + 2])
    return _FORMS.fullmatch(found) is not None and (_is_seen(before) or (before != "" and before in _HAVE_FORMS))


def _is_seen(character: str) -> bool:
    """Whether it is a character outside of ASCII that is seen by itself."""
    return character > "\x9f" and _ESCAPED.match(character) is None
