"""On which line each key of a TOML file stands. Pure.

``tomllib`` says it of nothing but errors, so this goes through a text that it has read already: table headers, keys,
and values just as far as it takes to find where they end. A place is the names that lead to it, and the numbers of the
elements of arrays. Where something is not found, the line of what encloses it is given.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

Place = tuple[str | int, ...]

_BARE_ENDS: Final = frozenset(",]}#\n")
_ESCAPES: Final = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}


def line_numbers(text: str) -> dict[Place, int]:
    """The line of every key, table and element in a text that is valid TOML; of a damaged one, up to the damage."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    with suppress(IndexError, ValueError):
        scanner.scan()
    return scanner.found


def line_of(place: Place, lines: Mapping[Place, int]) -> int:
    """The line of a place, or of the nearest that encloses it; 1 where there is none."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 1)


class _Scanner:
    def __init__(self, text: str) -> None:
        # With an end that no value can be beyond, so that running out of text is an IndexError at most.
        self._text = text + "\n"
        self._at = 0
        self.found: dict[Place, int] = {}
        self._counts: dict[Place, int] = {}
        """How many tables each array of tables has so far."""

    def scan(self) -> None:
        table: Place = ()
        while self._skip():
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)

    @property
    def _line(self) -> int:
        return self._text.count("\n", 0, self._at) + 1

    def _note(self, place: Place) -> None:
        for length in range(1, len(place) + 1):
            self.found.setdefault(place[:length], self._line)

    def _skip(self, blanks: str = " \t\n") -> bool:
        """Go past white space and comments; whether anything is left."""
        while self._at < len(self._text):
            if self._text[self._at] == "#" and "\n" in blanks:
                self._at = self._text.index("\n", self._at)
            elif self._text[self._at] not in blanks:
                return True
            else:
                self._at += 1
        return False

    def _header(self) -> Place:
        is_array = self._text.startswith("[[", self._at)
        self._at += 2 if is_array else 1
        place: Place = ()
        *names, last = self._key()
        for name in names:
            place = self._newest((*place, name))
        place = (*place, last)
        if is_array:
            self._note(place)
            self._counts[place] = self._counts.get(place, 0) + 1
            place = self._newest(place)
        self._note(place)
        # What a dotted key or the header of a table inside has noted before is no longer the nearest.
        self.found[place] = self._line
        self._at = self._text.index("]", self._at) + (2 if is_array else 1)
        return place

    def _newest(self, place: Place) -> Place:
        """Of an array of tables the last one, which is what a header means."""
        return (*place, self._counts[place] - 1) if place in self._counts else place

    def _key(self) -> list[str]:
        names: list[str] = []
        while True:
            self._skip(" \t")
            names.append(self._string() if self._text[self._at] in "\"'" else self._bare_key())
            self._skip(" \t")
            if self._text[self._at] != ".":
                return names
            self._at += 1

    def _bare_key(self) -> str:
        start = self._at
        while self._text[self._at].isalnum() or self._text[self._at] in "-_":
            self._at += 1
        if start == self._at:
            raise ValueError
        return self._text[start : self._at]

    def _pair(self, table: Place) -> None:
        start = self._at
        place = (*table, *self._key())
        behind, self._at = self._at, start
        self._note(place)
        self._at = self._text.index("=", behind) + 1
        self._value(place)

    def _value(self, place: Place) -> None:
        self._skip(" \t")
        match self._text[self._at]:
            case "[":
                self._array(place)
            case "{":
                self._inline_table(place)
            case '"' | "'":
                self._string()
            case _:
                while self._text[self._at] not in _BARE_ENDS:
                    self._at += 1

    def _array(self, place: Place) -> None:
        self._at += 1
        number = 0
        while self._skip() and self._text[self._at] != "]":
            self._note((*place, number))
            self._value((*place, number))
            number += 1
            if self._skip() and self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _inline_table(self, place: Place) -> None:
        self._at += 1
        while self._skip() and self._text[self._at] != "}":
            self._pair(place)
            if self._skip() and self._text[self._at] == ",":
                self._at += 1
        self._at += 1

    def _string(self) -> str:
        """Go past a string, and give it; what is escaped in it only as far as names need it."""
        quote = self._text[self._at]
        is_long = self._text.startswith(quote * 3, self._at)
        end = quote * 3 if is_long else quote
        self._at += len(end)
        said: list[str] = []
        while not self._text.startswith(end, self._at):
            if self._text[self._at] == "\\" and quote == '"':
                said.append(self._escaped())
            else:
                said.append(self._text[self._at])
                self._at += 1
        self._at += len(end)
        if is_long:
            # Up to two quotes may stand directly before the end.
            while self._text[self._at] == quote:
                self._at += 1
        return "".join(said)

    def _escaped(self) -> str:
        letter = self._text[self._at + 1]
        digits = {"x": 2, "u": 4, "U": 8}.get(letter, 0)
        self._at += 2 + digits
        if digits:
            return chr(int(self._text[self._at - digits : self._at], 16))
        return _ESCAPES.get(letter, "")
