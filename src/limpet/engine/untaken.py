"""The inbox of a run, as far as it was read: the letters that no wait has taken yet, by what waits for them.

Finding one and taking it costs the same however many there are. Reads no store.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf

import msgspec

from limpet.codec.encryption import Cipher
from limpet.codec.letters import LetterText, from_body
from limpet.errors import LimpetError
from limpet.journal.waits import is_in_time, letter_key
from limpet.model.letters import Letter


class Arrived(msgspec.Struct, frozen=True):
    """A letter that was read."""

    name: str
    at: float
    """When it was put into the inbox."""
    said: LetterText | LimpetError
    """What it says, or why that cannot be told."""

    @property
    def text(self) -> LetterText:
        """What it says. Raises StateCorrupted, UnsupportedVersion, WrongKey or NotEncrypted."""
        if isinstance(self.said, LimpetError):
            raise self.said
        return self.said


def read_letter(letter: Letter, cipher: Cipher | None) -> Arrived:
    """A letter of an inbox, opened."""
    try:
        text = from_body(letter.body, letter.state_id, letter.name, cipher)
    except LimpetError as error:
        return Arrived(letter.name, letter.at, error)
    return Arrived(letter.name, text.at or letter.at, text)


class _Pile:
    """The letters of one key, in the order of their coming."""

    __slots__ = ("earliest", "letters")

    def __init__(self) -> None:
        # Not a dict, in which finding the first one costs more with each that was taken before it.
        self.letters: OrderedDict[str, Arrived] = OrderedDict()
        self.earliest = inf
        """None of them came before this."""

    def first_in_time(self, due_at: float) -> Arrived | None:
        if due_at and self.earliest > due_at:
            return None
        for letter in self.letters.values():
            if is_in_time(due_at, letter.at):
                return letter
        self.earliest = min((letter.at for letter in self.letters.values()), default=inf)
        return None


class Untaken:
    """What has come for a run and was not taken."""

    def __init__(self) -> None:
        self._piles: dict[str, _Pile] = {}

    def add(self, letter: Arrived) -> str:
        """Keep a letter, and give the key of what waits for it."""
        key = letter_key(letter.name)
        pile = self._piles.get(key)
        if pile is None:
            pile = self._piles[key] = _Pile()
        pile.letters[letter.name] = letter
        pile.earliest = min(pile.earliest, letter.at)
        return key

    def first(self, key: str, due_at: float) -> Arrived | None:
        """The oldest letter of a key that came by then, at any time where ``due_at`` is 0."""
        pile = self._piles.get(key)
        return None if pile is None else pile.first_in_time(due_at)

    def take(self, name: str) -> None:
        """From now on a letter is spoken for."""
        key = letter_key(name)
        pile = self._piles.get(key)
        if pile is not None and pile.letters.pop(name, None) is not None and not pile.letters:
            del self._piles[key]
