"""Makes hostile bytes out of honest ones: changed as bytes, and changed as the tree of parts that they stand for.

Bytes that are changed blindly mostly fail at the first length that is wrong. A tree that is changed and packed again is
well-formed msgpack, so that what is wrong with it is found only by what builds the value.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import ormsgpack

NAMES = (
    *("os:system", "posix:system", "subprocess:Popen", "builtins:eval", "builtins:exec", "builtins:open"),
    *("builtins:__import__", "builtins:type", "builtins:object", "builtins:SystemExit", "builtins:BaseExceptionGroup"),
    *("builtins:UnicodeDecodeError", "builtins:OSError", "sys:modules", "importlib:import_module", "antigravity:x"),
    *("threading:Thread", "logging:FileHandler", "tempfile:TemporaryDirectory", "socket:socket", "ctypes:CDLL"),
    *("enum:Enum", "enum:Flag", "typing:Generic", "pydantic:BaseModel", "msgspec:Struct", "pickle:Unpickler"),
    *("limpet.client:Limpet", "limpet.errors.usage:ValueNotStorable", "limpet.model.records:EventRecord"),
    *("__main__:X", "", ":", "a:b:c", "os:system.__call__", "\ud800".encode("utf-8", "replace").decode(), "x" * 5000),
)
NUMBERS = (0, 1, -1, 2, 127, 128, 255, 65536, 2**31 - 1, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
HEADERS = tuple(
    bytes([head]) + b"\xff" * width for head, width in ((0xDD, 4), (0xDF, 4), (0xC6, 4), (0xC9, 4), (0xDB, 4))
)
TAGS = 40
"""Tags up to this one are tried; a few more than there are."""


class Node(msgspec.Struct, frozen=True):
    """An extension: its tag and its parts."""

    tag: int
    parts: Any


def parse(data: bytes) -> Any:
    """The tree of parts that an encoded value stands for."""
    return ormsgpack.unpackb(data, ext_hook=lambda tag, inner: Node(tag, parse(inner)))


def pack(tree: Any) -> bytes:
    """The bytes of a tree. Raises what ormsgpack raises for a tree that has none."""
    return ormsgpack.packb(_packable(tree))


def _packable(tree: Any) -> Any:
    match tree:
        case Node():
            return ormsgpack.Ext(tree.tag, pack(tree.parts))
        case list():
            return [_packable(each) for each in tree]
        case dict():
            return {key: _packable(each) for key, each in tree.items()}
        case _:
            return tree


class Fuzzer:
    """An endless supply of changed inputs, the same for the same seed.

    ``samples`` are encoded values in groups; each group is taken equally often, however many it has.
    """

    def __init__(self, samples: list[list[bytes]], seed: int) -> None:
        self._random = random.Random(seed)
        self._samples = samples
        self._trees = [[parse(data) for data in group] for group in samples]
        self._ways: tuple[Callable[[bytes], bytes], ...] = (
            *(self._flip, self._set, self._cut, self._insert, self._remove),
            *(self._duplicate, self._splice, self._lengthen),
        )

    def reseed(self, seed: str) -> None:
        """Go on as another seed would."""
        self._random.seed(seed)

    def next(self) -> bytes:
        """The next input."""
        group = self._random.randrange(len(self._samples))
        number = self._random.randrange(len(self._samples[group]))
        if self._random.random() < 0.5:
            return self.changed_bytes(self._samples[group][number])
        tree = self._trees[group][number]
        for _ in range(self._random.randint(1, 3)):
            tree = self.changed(tree)
        try:
            return pack(tree)
        except (TypeError, ValueError):
            return self.changed_bytes(self._samples[group][number])

    def changed_bytes(self, data: bytes) -> bytes:
        """The bytes with one to three changes."""
        for _ in range(self._random.randint(1, 3)):
            data = self._random.choice(self._ways)(data) or b"\xc1"
        return data

    def _place(self, data: bytes) -> int:
        return self._random.randrange(len(data))

    def _flip(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + bytes([data[place] ^ 1 << self._random.randrange(8)]) + data[place + 1 :]

    def _set(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + bytes([self._random.randrange(256)]) + data[place + 1 :]

    def _cut(self, data: bytes) -> bytes:
        return data[: self._place(data)]

    def _insert(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + self._random.randbytes(self._random.randint(1, 8)) + data[place:]

    def _remove(self, data: bytes) -> bytes:
        place = self._place(data)
        return data[:place] + data[place + self._random.randint(1, 8) :]

    def _duplicate(self, data: bytes) -> bytes:
        start, end = sorted((self._place(data), self._place(data) + 1))
        return data[:end] + data[start:end] * self._random.randint(1, 3) + data[end:]

    def _splice(self, data: bytes) -> bytes:
        other = self._random.choice(self._random.choice(self._samples))
        return data[: self._place(data)] + other[self._place(other) :]

    def _lengthen(self, data: bytes) -> bytes:
        place = self._place(data)
        header = self._random.choice(HEADERS)
        return data[:place] + header + data[place + len(header) :]

    def changed(self, tree: Any) -> Any:
        """The tree with a part somewhere in it changed."""
        if self._random.random() < 0.85:
            match tree:
                case Node():
                    return Node(tree.tag, self.changed(tree.parts))
                case list() if tree:
                    place = self._random.randrange(len(tree))
                    return [*tree[:place], self.changed(tree[place]), *tree[place + 1 :]]
                case dict() if tree:
                    key = self._random.choice(list(tree))
                    return {**tree, key: self.changed(tree[key])}
                case _:
                    pass
        return self._other(tree) if self._random.random() < 0.6 else self._anything()

    def _other(self, part: Any) -> Any:
        """A part of the same kind as this one, and yet another."""
        chance = self._random
        match part:
            case Node():
                tag = chance.randint(0, TAGS)
                return chance.choice((Node(tag, part.parts), part.parts, Node(part.tag, part), Node(tag, part)))
            case list() if part:
                place = chance.randrange(len(part))
                return chance.choice((part[:place], part[place:], [*part, part[place]], part[::-1], [part], part * 3))
            case dict() if part:
                key = chance.choice(list(part))
                return chance.choice(({k: v for k, v in part.items() if k != key}, {**part, "other": part[key]}, {}))
            case str():
                return chance.choice((chance.choice(NAMES), part[:-1], part * 2, part.swapcase()))
            case bytes():
                return chance.choice((part[:-1], part + b"\0", b"", chance.randbytes(len(part)), part[::-1]))
            case int():
                return chance.choice((chance.choice(NUMBERS), part ^ 1, -1))
            case _:
                return self._anything()

    def _anything(self) -> Any:
        """A part of another input, or something that stands in no honest one."""
        chance = self._random
        match chance.randrange(6):
            case 0:
                return chance.choice(NUMBERS)
            case 1:
                return chance.choice(NAMES)
            case 2:
                return chance.choice((None, True, 1.5, float("nan"), [], {}, b"", [[]], {"a": []}))
            case 3:
                return Node(25, [0, chance.choice(NUMBERS), 1])  # A range, which has no end to speak of.
            case _:
                tree = chance.choice(chance.choice(self._trees))
                while chance.random() < 0.6 and isinstance(tree, list | Node):
                    inner = tree.parts if isinstance(tree, Node) else tree
                    tree = chance.choice(inner) if isinstance(inner, list) and inner else inner
                return tree
