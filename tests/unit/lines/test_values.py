"""The readable form of a value: JSON that people can read, and from which the very bytes come back."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import ormsgpack
import pytest
from acceptance.table_of_types import rows
from hypothesis import example, given, settings
from hypothesis import strategies as st
from unit.codec.sample_types import Page, Point, Tide

from limpet.codec.values import _kinds_by_tag, encode
from limpet.lines import TAG_NAMES, LineDamaged, text_of_value, value_of_text
from limpet.lines.values import MOST_LEVELS

QUICK = settings(max_examples=60, deadline=None)
THOROUGH = settings(max_examples=120, deadline=None)

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(),
    st.text(),
    st.sampled_from(["$", "$map", "$bytes", "costs $5", "nan", "\ud7ff\u2028", "\x00\x7f"]),
)
KEYS = st.one_of(st.text(max_size=5), st.sampled_from(["$", "$map", "$tuple", "$encoded", "a$"]))
PARTS = st.recursive(
    SCALARS | st.binary(max_size=20),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(KEYS, inner, max_size=5),
        st.tuples(inner, inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=20,
)


def nested(levels: int, innermost: Any = 1) -> Any:
    value = innermost
    for _ in range(levels):
        value = [value]
    return value


def packed_pairs(*pairs: tuple[bytes, bytes]) -> bytes:
    return bytes([0x80 | len(pairs)]) + b"".join(key + value for key, value in pairs)


def through_json(text: Any) -> Any:
    """What comes out of a file, and a proof that it is the JSON that all tools read."""
    data = msgspec.json.encode(text)
    assert msgspec.json.decode(data) == json.loads(data)
    return msgspec.json.decode(data)


def assert_exact(data: bytes) -> Any:
    text = text_of_value(data)
    assert data == value_of_text(text)
    assert data == value_of_text(through_json(text))
    return text


def base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "value",
    [None, True, 0, -1, 2**64 - 1, -(2**63), 1.5, -0.0, 1e308, 5e-324, "", "kelp ä 海 😀\n", [], {}, [1, [2.5, "x"]]],
    ids=repr,
)
def test_plain_values_are_their_own_form(value: Any) -> None:
    text = assert_exact(encode(value))
    assert value == text
    assert repr(value) == repr(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"\x00\xff", {"$bytes": "AP8="}),
        ([b""], [{"$bytes": ""}]),
        (math.nan, {"$float": "nan"}),
        ([math.inf, 1.0], [{"$float": "inf"}, 1.0]),
        ({"a": -math.inf}, {"a": {"$float": "-inf"}}),
        ({"$a": 1, "b": [b""]}, {"$map": [["$a", 1], ["b", [{"$bytes": ""}]]]}),
        ({"a$": "$b"}, {"a$": "$b"}),
        (["$map"], ["$map"]),
        ((1, "x"), {"$tuple": [1, "x"]}),
        ({1: 2}, {"$dict": [[1, 2]]}),
        ({"a", "b"}, {"$set": ["a", "b"]}),
        (datetime(2025, 1, 2, 3, 4, 5, tzinfo=UTC), {"$datetime": ["2025-01-02T03:04:05", 0, 0]}),
        (Decimal("1.50"), {"$decimal": "1.50"}),
        (UUID(int=1), {"$uuid": "00000000-0000-0000-0000-000000000001"}),
        (2**64, {"$int": "18446744073709551616"}),
        (-(2**2039), {"$int": str(-(2**2039))}),
        (2**2047, {"$int": {"$bytes": base64_of((2**2047).to_bytes(257, "little"))}}),
        (Tide.HIGH, {"$enum": ["unit.codec.sample_types:Tide", "HIGH", None]}),
    ],
    # Not of the value: the order of a set differs from process to process.
    ids=lambda part: str(part) if isinstance(part, dict) and len(part) == 1 else type(part).__name__,
)
def test_other_values_are_readable(value: Any, expected: Any) -> None:
    assert expected == assert_exact(encode(value))


def test_classes_are_readable_with_the_parts_inside_them() -> None:
    text = assert_exact(encode([Page("kelp", [b"x", "y"])]))  # type: ignore[list-item]
    assert "unit.codec.sample_types:Page" in json.dumps(text)
    assert [{"$bytes": "eA=="}, "y"] == text[0]["$dataclass"][1]["lines"]


@pytest.mark.parametrize("kind", rows())
def test_every_kind_of_value_comes_back_exactly_and_is_readable(kind: str) -> None:
    for value in rows()[kind].values():
        text = assert_exact(encode(value))
        assert "$encoded" not in json.dumps(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xcf\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\xd0\x01",
        b"\xd9\x01a",
        b"\xc5\x00\x01a",
        b"\xdc\x00\x01\x01",
        b"\xca\x3f\xc0\x00\x00",
        b"\x01\x02",
        b"\xa1\xff",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        packed_pairs((b"\xa1a", b"\x01"), (b"\xa1a", b"\x02")),
        packed_pairs((b"\x01", b"\x02")),
        packed_pairs((b"\xc4\x01a", b"\x02")),
        b"\xcb" + struct.pack(">Q", 0x7FF8000000000001),
        b"\xcb" + struct.pack(">Q", 0xFFF8000000000000),
        b"\x91\xcb" + struct.pack(">Q", 0x7FF0000000000001),
        b"\xc7\x01\x07\x01",
        b"\xd4\xff\x00",
        b"\xd7\xff" + bytes(8),
        ormsgpack.packb(ormsgpack.Ext(1, b"\xd0\x01")),
        ormsgpack.packb(ormsgpack.Ext(1, b"\x90\x90")),
        ormsgpack.packb(ormsgpack.Ext(15, ormsgpack.packb("00000000-0000-0000-0000-000000000001"))),
        ormsgpack.packb(ormsgpack.Ext(5, ormsgpack.packb(b"\x01\x00\x00"))),
        ormsgpack.packb(ormsgpack.Ext(5, ormsgpack.packb("7"))),
        b"\x91" * 5000 + b"\xc0",
        b"\x81\xa1a" * 300 + b"\xc0",
        ormsgpack.packb(nested(MOST_LEVELS + 1)),
    ],
    ids=lambda data: data[:12].hex(),
)
def test_what_msgpack_would_write_otherwise_is_kept_as_bytes(data: bytes) -> None:
    assert {"$encoded": base64_of(data)} == assert_exact(data)


def test_values_are_readable_up_to_the_deepest_level() -> None:
    for value in (nested(MOST_LEVELS), nested(MOST_LEVELS - 1, b"x"), nested(MOST_LEVELS - 2, (1,))):
        assert "$encoded" not in json.dumps(assert_exact(encode(value)))


def test_what_lies_too_deep_in_an_extension_is_bytes_there() -> None:
    text = assert_exact(encode((1, nested(MOST_LEVELS))))
    assert {"$encoded"} == text["$tuple"].keys()


def test_an_extension_in_an_extension_many_times_takes_no_long_time() -> None:
    data = b"\xc0"
    for _ in range(2000):
        data = ormsgpack.packb(ormsgpack.Ext(1, data))
    assert "$encoded" in json.dumps(assert_exact(data))


def test_an_unknown_tag_goes_by_its_number() -> None:
    data = ormsgpack.packb([ormsgpack.Ext(77, ormsgpack.packb([1])), ormsgpack.Ext(127, b"")])
    assert [{"$tag 77": [1]}, {"$tag 127": {"$encoded": ""}}] == assert_exact(data)


def test_a_tag_is_read_by_its_number_although_it_has_a_name() -> None:
    assert encode((1,)) == value_of_text({"$tag 1": [1]})


def test_content_of_an_extension_that_is_no_msgpack_is_bytes_inside_it() -> None:
    data = ormsgpack.packb({"a": ormsgpack.Ext(1, b"\xc1"), "b": 2})
    assert {"a": {"$tuple": {"$encoded": "wQ=="}}, "b": 2} == assert_exact(data)


def test_every_tag_that_the_codec_writes_has_a_name_of_its_own() -> None:
    assert set(_kinds_by_tag) == set(TAG_NAMES)
    assert len(TAG_NAMES) == len(set(TAG_NAMES.values()))
    assert {"bytes", "float", "map", "encoded"}.isdisjoint(TAG_NAMES.values())
    assert [] == [name for name in TAG_NAMES.values() if not re.fullmatch("[a-z_]+", name)]


@THOROUGH
@given(PARTS)
def test_generated_values_come_back_exactly(value: Any) -> None:
    assert_exact(encode(value))


@THOROUGH
@given(st.binary(max_size=60))
@example(b"\xc7\x00\x01")
def test_arbitrary_bytes_come_back_exactly(data: bytes) -> None:
    assert_exact(data)


@THOROUGH
@given(PARTS, st.data())
def test_values_of_which_a_byte_is_changed_come_back_exactly(value: Any, data: st.DataObject) -> None:
    changed = bytearray(encode(value))
    changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    assert_exact(bytes(changed))


@QUICK
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_every_finite_float_comes_back_to_the_bit(numbers: list[float]) -> None:
    assert list(map(float.hex, numbers)) == list(map(float.hex, through_json(text_of_value(encode(numbers)))))


@pytest.mark.parametrize(
    "text",
    [
        {"$bytes": "AP8"},
        {"$bytes": "AP8=\n"},
        {"$bytes": "AP9="},
        {"$bytes": "ä"},
        {"$bytes": 5},
        {"$bytes": None},
        {"$bytes": "", "b": 1},
        {"b": 1, "$bytes": ""},
        {"$float": "1.5"},
        {"$float": []},
        {"$float": 1.5},
        {"$map": {}},
        {"$map": []},
        {"$map": [["a", 1]]},
        {"$map": [["$a", 1], ["$a", 2]]},
        {"$map": [["$a"]]},
        {"$map": [["$a", 1, 2]]},
        {"$map": [[["$a"], 1]]},
        {"$map": [[1, 1]]},
        {"$map": ["$a"]},
        {"$map": "$a"},
        [{"$encoded": "wA=="}],
        {"$encoded": "wA"},
        {"$encoded": [1]},
        {"$nobody": 1},
        {"$": 1},
        {"$tag 128": 1},
        {"$tag 01": 1},
        {"$tag -1": 1},
        {"$uuid": "x"},
        {"$uuid": "{00000000-0000-0000-0000-000000000001}"},
        {"$int": "1_0"},
        {"$int": "9" * 100_000},
        {"$int": ""},
        2**64,
        -(2**63) - 1,
        {"$tuple": [2**64]},
        "\ud800",
        {"\ud800": 1},
        {"$tuple": "\ud800"},
        {1: 2},
        {1: "$"},
        (1, 2),
        ("$",),
        ["$", b"x"],
        {"$tuple": (1, 2)},
        {"$tuple": object()},
        object(),
        datetime(2025, 1, 1, tzinfo=UTC),
        UUID(int=1),
        Tide.HIGH,
        Point(1, 2),
    ],
)
def test_forged_text_is_damaged_and_nothing_else(text: Any) -> None:
    with pytest.raises(LineDamaged, match="a value that nobody wrote so"):
        value_of_text(text)


def test_text_that_is_nested_too_deep_is_damaged() -> None:
    for text in (nested(100_000), nested(MOST_LEVELS + 1, "$"), nested(MOST_LEVELS, {"$tuple": []})):
        with pytest.raises(LineDamaged):
            value_of_text(text)


def test_a_notation_does_not_hide_content_of_another_type() -> None:
    data = ormsgpack.packb(ormsgpack.Ext(15, ormsgpack.packb([1])))
    assert {"$uuid": [1]} == assert_exact(data)
    assert {"$uuid": {"$bytes": "AA=="}} == assert_exact(ormsgpack.packb(ormsgpack.Ext(15, ormsgpack.packb(b"\0"))))
