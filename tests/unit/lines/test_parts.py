"""Parts of a JSON text are counted without decoding it, and never fewer than there are."""

from __future__ import annotations

import time

import pytest

from limpet.lines.parts import has_more_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[1,2,3]", 3),
        (b'{"a":{"b":[1,2]}}', 4),
        (b'"[[[[,,,,{{{{"', 0),
        (b'{"a,[{":"\\",[{"}', 1),
        (b'["\\\\",[]]', 3),
        (b'["never ends,,,,', 1),
        (b'["\\', 1),
        (b"[" * 1000, 1000),
        (b"", 0),
    ],
)
def test_lists_maps_and_items_are_counted_outside_of_texts(text: bytes, parts: int) -> None:
    assert not has_more_parts(text, parts)
    assert parts == 0 or has_more_parts(text, parts - 1)


@pytest.mark.parametrize("piece", [b'"', b'"\\', b'"\\"', b'\\"', b'",', b"["])
def test_counting_takes_time_that_grows_with_the_text_alone(piece: bytes) -> None:
    text = piece * 1_000_000
    began = time.process_time()
    has_more_parts(b"," * 1000 + text, 1000)
    assert time.process_time() - began < 3.0
