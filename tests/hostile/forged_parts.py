"""Hostile parts for JSON, records and bytes: paths, references to code, escapes, huge numbers, endless nesting."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hostile.fuzzing import NAMES, NUMBERS, Fuzzer

CODE = ("canary.py:run", "canary:run", "./canary.py:run", "{outside}/canary.py:run", "canary", "{outside}/canary.py")
PATHS = (
    *("../../outside/x", "{outside}/x", "..", ".", "/", "/dev/zero", "C:\\outside\\x", "\\\\host\\x", "-rf", "~"),
    *("file://{outside}/x", "sqlite:///{outside}/x.db", "artifacts/../../outside/x", "sha256:../../outside/x"),
    *("sha256:" + "0" * 64, "a\0b", "x" * 256, "CON", "x/y", "X", "%2e%2e%2f"),
)
TEXTS = (
    *("\x1b]0;title\x07", "\x1b[2J\x1b[1;1H", "\u202eevil", "\x9b31m", "\r\noverwritten", "\u2028", "\ufeff", "\x00"),
    *("", "nan", "1e999", "9" * 5000, "NULL", "$tuple", "$encoded", "sum", "after", "left", "owner", "{}" * 300),
    *("research::fetch::tool_call", "::", "a::b", "2024-05-01T10:00:00", "9999-12-31T23:59:59-23:59", "k" * 70_000),
)
WORDS = (*NAMES, *CODE, *PATHS, *TEXTS)
WORDS_IN_JSON = (0, -1, 1, 10**30, -(10**30), 1e308, 0.1, True, None, [], {}, [[]], {"$tuple": [1]}, {"a": {}}, 2**62)
# Not JSON that is made of values: what stands for it is replaced in the text.
RAW = {
    "@deep lists@": b"[" * 5000 + b"]" * 5000,
    "@deep maps@": b'{"a":' * 5000 + b"1" + b"}" * 5000,
    "@fairly deep@": b"[" * 120 + b"]" * 120,
    "@digits@": b"9" * 20_000,
    "@more than a float@": b"1e999",
    "@fraction@": b"0." + b"1" * 20_000,
    "@many@": b"[" + b"[]," * 20_000 + b"1]",
    "@twice@": b'{"a":1,"a":2}',
    "@nan@": b"NaN",
    "@half a pair@": b'"\\ud800"',
}


class Chance:
    """Changes of one example, the same for the same seed."""

    def __init__(self, seed: str, outside: str, fuzzer: Fuzzer) -> None:
        self.random = random.Random(seed)
        self._outside = outside
        self.fuzzer = fuzzer
        fuzzer.reseed(seed)

    def is_so(self, probability: float) -> bool:
        return self.random.random() < probability

    def one_of(self, *things: Any) -> Any:
        return self.random.choice(things)

    def word(self) -> str:
        return self.random.choice(WORDS).replace("{outside}", self._outside)

    def number(self) -> int:
        return self.random.choice(NUMBERS)

    def part(self) -> Any:
        """Anything that a JSON text can have, also what JSON has not."""
        match self.random.randrange(4):
            case 0:
                return self.random.choice(tuple(RAW))
            case 1:
                return self.random.choice(WORDS_IN_JSON)
            case 2:
                return self.number()
            case _:
                return self.word()

    def changed(self, tree: Any) -> Any:
        """A JSON tree with a part somewhere in it changed."""
        if isinstance(tree, (list, dict)) and tree and self.is_so(0.85):
            return self._with_change_inside(tree)
        match tree:
            case list() | dict() if tree and self.is_so(0.5):
                return self._reordered(tree)
            case str() if self.is_so(0.3):
                return self.one_of(tree * 2, tree[:-1], tree.swapcase(), tree + self.word())
            case bool():
                return not tree
            case int() | float() if self.is_so(0.5):
                return self.one_of(tree + 1, tree - 1, -tree, tree * 2, self.number())
            case _:
                return self.part()

    def _with_change_inside(self, tree: Any) -> Any:
        if isinstance(tree, list):
            at = self.random.randrange(len(tree))
            return [*tree[:at], self.changed(tree[at]), *tree[at + 1 :]]
        key = self.random.choice(list(tree))
        if self.is_so(0.1):
            return {(self.word() if each == key else each): value for each, value in tree.items()}
        return {**tree, key: self.changed(tree[key])}

    def _reordered(self, tree: Any) -> Any:
        if isinstance(tree, list):
            return self.one_of(tree[::-1], tree * 2, tree[1:], [*tree, tree[0]], [tree], tree[:1] * 50)
        key = self.random.choice(list(tree))
        return self.one_of({k: v for k, v in tree.items() if k != key}, {**tree, self.word(): tree[key]}, {})

    def bytes(self, data: bytes) -> bytes:
        """Bytes of which some are changed."""
        return self.fuzzer.changed_bytes(data)


def json_text(tree: Any) -> bytes:
    """A tree as JSON, with what no JSON library would write."""
    text = msgspec.json.encode(_sound(tree))
    for word, raw in RAW.items():
        text = text.replace(b'"%b"' % word.encode(), raw)
    return text


def _sound(tree: Any) -> Any:
    """Without numbers that the library refuses to write."""
    match tree:
        case dict():
            return {str(key): _sound(value) for key, value in tree.items()}
        case list():
            return [_sound(each) for each in tree]
        case int() if not isinstance(tree, bool) and not -(2**63) <= tree < 2**64:
            return "@digits@"
        case _:
            return tree
