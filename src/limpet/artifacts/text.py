"""Adapters for text, bytes, and every value that has no adapter of its own."""

from __future__ import annotations

from typing import Any, cast

from limpet.artifacts.adapters import ArtifactAdapter, Source
from limpet.codec import values
from limpet.model.artifacts import Content, content_of

_LONGEST = 160


class TextAdapter(ArtifactAdapter):
    """Text as UTF-8."""

    name = "text"
    type_names = ("builtins:str",)

    def accepts(self, value: str) -> bool:
        try:
            value.encode()
        except UnicodeEncodeError:
            return False
        return True

    def size(self, value: str) -> int:
        return len(value)

    def content(self, value: str) -> Content:
        return content_of(value.encode())

    def read(self, source: Source) -> str:
        return source.read().decode()

    def preview(self, value: str) -> str:
        start = " ".join(value[:_LONGEST].split())
        return f"{len(value):,} characters: {start}…"


class BytesAdapter(ArtifactAdapter):
    """Bytes as they are."""

    name = "bytes"
    type_names = ("builtins:bytes",)

    def size(self, value: bytes) -> int:
        return len(value)

    def content(self, value: bytes) -> Content:
        return content_of(value)

    def read(self, source: Source) -> bytes:
        return source.read()

    def preview(self, value: bytes) -> str:
        return f"{len(value):,} bytes: {value[:16].hex(' ')}…"


class ValueAdapter(ArtifactAdapter):
    """Any storable value in the codec's own form: msgpack with tags. Given the encoded bytes, not the value."""

    name = "value"

    def size(self, value: bytes) -> int:
        return len(value)

    def content(self, value: bytes) -> Content:
        return content_of(value)

    def read(self, source: Source) -> Any:
        return values.decode(source.read())

    def preview(self, value: Any) -> str:
        # Not its repr: that is the user's code, and may show what was marked as secret.
        kind = type(value).__name__
        if isinstance(value, dict):
            entries = cast("dict[object, object]", value)
            names = ", ".join(repr(key) for key in list(entries)[:5] if type(key) is str)
            return f"{kind} of {len(entries):,}: {names}"[:_LONGEST]
        if isinstance(value, (list, tuple, set, frozenset)):
            return f"{kind} of {len(cast('list[object]', value)):,}"
        return kind


TEXT, BYTES, VALUE = TextAdapter(), BytesAdapter(), ValueAdapter()
