"""The page about the state format is true of values: what each tag holds, and how values are written in lines."""

from __future__ import annotations

import enum
import ipaddress
import json
import re
import struct
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy
import ormsgpack
import pandas
import polars
import pytest
from format_by_hand import lines, page
from pydantic import BaseModel
from versions import kept_actors

from limpet import ArtifactReference, MissingSecret, register_type
from limpet.codec import values
from limpet.codec.kinds import Opaque
from limpet.codec.left_out import LeftOut
from limpet.codec.user_types.http_parts import RecordedHeaders, RecordedRequest, RecordedResponse, RecordedUrl
from limpet.lines import TAG_NAMES, text_of_value


def test_every_tag_of_the_codec_is_on_the_page_with_its_name() -> None:
    known: set[int] = set(vars(values)["_kinds_by_tag"])
    assert known == set(page.tag_names())
    assert TAG_NAMES == page.tag_names()


def ext(tag: int, content: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(tag, ormsgpack.packb(content))


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


@dataclass
class Cave:
    name: str
    depth: int


class Point(NamedTuple):
    x: int


class Model(BaseModel):
    label: str
    more: int = 0


class Struct(msgspec.Struct):
    a: int


@attrs.define
class Attrs:
    a: int


def here(name: str) -> str:
    return f"{__name__}:{name}"


CONTENTS: list[tuple[Any, int, Any]] = [
    ((1, "a"), 1, [1, "a"]),
    ({3, 1, 2}, 2, [1, 2, 3]),
    (frozenset({"b", "a"}), 3, ["a", "b"]),
    ({1: "a", None: 2}, 4, [[1, "a"], [None, 2]]),
    (2**64, 5, bytes(8) + b"\x01"),
    (-(2**63) - 1, 5, b"\xff" * 7 + b"\x7f\xff"),
    ("a\ud800", 6, b"a\xed\xa0\x80"),
    (bytearray(b"kelp"), 7, b"kelp"),
    (1 + 2j, 8, struct.pack("<dd", 1, 2)),
    (datetime(2026, 5, 18, 6, 30), 9, ["2026-05-18T06:30:00", 0, None]),  # noqa: DTZ001
    (datetime(2026, 5, 18, tzinfo=UTC), 9, ["2026-05-18T00:00:00", 0, 0]),
    (datetime(2026, 5, 18, tzinfo=ZoneInfo("Europe/Oslo")), 9, ["2026-05-18T00:00:00", 0, "Europe/Oslo"]),
    (time(6, tzinfo=timezone(timedelta(hours=1))), 11, ["06:00:00", 0, [3_600_000_000, "UTC+01:00"]]),
    (date(2026, 5, 18), 10, "2026-05-18"),
    (timedelta(days=-1, microseconds=2), 12, [-1, 0, 2]),
    (Decimal("1.10"), 13, "1.10"),
    (Fraction(1, 3), 14, [1, 3]),
    (UUID(int=7), 15, bytes(15) + b"\x07"),
    (PurePosixPath("a/b"), 16, ["PurePosixPath", "a/b"]),
    (kept_actors.Depth.DEEP, 17, ["versions.kept_actors:Depth", "DEEP", None]),
    (Colour.RED | Colour.BLUE, 17, [here("Colour"), None, 3]),
    (Cave("blue", 30), 18, [here("Cave"), {"name": "blue", "depth": 30}]),
    (Point(1), 19, [here("Point"), {"x": 1}]),
    (Model(label="a", more=1), 20, [here("Model"), {"label": "a", "more": 1}]),
    (Model(label="a"), 20, [here("Model"), {"label": "a", "more": 0}, None, ["label"]]),
    (kept_actors.Storm("a", 1), 21, ["versions.kept_actors:Storm", ["a", 1], {}, {}]),
    (Struct(1), 22, [here("Struct"), {"a": 1}]),
    (Attrs(1), 23, [here("Attrs"), {"a": 1}]),
    (deque([1], maxlen=3), 24, [3, [1]]),
    (range(1, 9, 2), 25, [1, 9, 2]),
    (defaultdict(list, {"a": [1]}), 26, ["list", [["a", [1]]]]),
    (OrderedDict(a=1), 27, [["a", 1]]),
    (Counter("aa"), 28, [["a", 2]]),
    (re.compile("a+", re.IGNORECASE), 29, ["a+", 34]),
    (ipaddress.ip_network("10.0.0.0/8"), 31, ["IPv4Network", bytes([10, 0, 0, 0]), 8, None]),
    (ipaddress.ip_address("::1"), 31, ["IPv6Address", bytes(15) + b"\x01", None, None]),
    (numpy.array([[1, 2]], "<i4"), 32, ["<i4", [1, 2], "C", struct.pack("<ii", 1, 2)]),
    (numpy.float64(1.5), 33, ["<f8", struct.pack("<d", 1.5)]),
    (numpy.str_("a"), 33, ["text", "a"]),
    (pandas.RangeIndex(3), 34, ["range", 0, 3, 1, None]),
    (pandas.NA, 34, ["NA"]),
    (pandas.Timestamp("1970-01-02"), 34, ["timestamp", 86_400_000_000, "us", None, 0]),
    (polars.Series("a", [1], polars.Int8), 35, ["series", 1, "a", "Int8", [1]]),
    (polars.DataFrame({"a": ["x"]}), 35, ["frame", 1, [["a", "String", ["x"]]]]),
]
NOTES: list[tuple[Any, int, Any]] = [
    (Opaque("socket:socket"), 30, "socket:socket"),
    (ArtifactReference("sha256:" + "0" * 64, "text", 5, "kelp", ""), 37, ["sha256:" + "0" * 64, "text", 5, "kelp", ""]),
    (MissingSecret("token"), 38, ["token", b"limpet:secret"]),
    (LeftOut(Cave, "name"), 39, [here("Cave"), "name"]),
    (RecordedUrl("https://reef.example/1"), 41, ["url", "https://reef.example/1"]),
    (RecordedHeaders((("Age", "1"),)), 41, ["headers", [["Age", "1"]]]),
    (RecordedRequest({"method": "GET"}), 41, ["request", {"method": "GET"}]),
    (RecordedResponse({"status": 503, "more": 0}), 41, ["response", {"status": 503, "more": 0}]),
]


@pytest.mark.parametrize(
    ("value", "tag", "content"), CONTENTS + NOTES, ids=[f"tag {tag}" for _, tag, _ in CONTENTS + NOTES]
)
def test_the_content_of_a_tag_is_what_the_page_says(value: Any, tag: int, content: Any) -> None:
    encoded = values.encode(value)
    assert ormsgpack.packb(ext(tag, content)) == encoded
    assert encoded == lines.pack(text_of_value(encoded))


def test_what_a_type_is_registered_as_is_what_the_page_says() -> None:
    class Kept:
        def __init__(self, name: str) -> None:
            self.name = name

    register_type(
        Kept, name="hand.Kept", version=2, encode=lambda kept: kept.name, decode=Kept, upgrade=lambda kept, _: kept
    )
    assert ormsgpack.packb(ext(36, ["hand.Kept", 2, None, "kelp"])) == values.encode(Kept("kelp"))


class Lost(LookupError):
    pass


def test_what_is_recorded_of_an_exception_that_failed_an_event_is_what_the_page_says() -> None:
    error = Lost("kelp", threading.Lock())
    vars(error)["depth"] = 3
    message = str(error)
    args = ["kelp", ext(30, "_thread.lock")]
    names = [here("Lost"), *(f"builtins:{name}" for name in ("LookupError", "Exception", "BaseException"))]
    content = [names, message, args, {"depth": 3}, {}, True, None, False, None]
    encoded = values.encode_failure(error, message)
    assert ormsgpack.packb(ext(40, content)) == encoded
    assert encoded == lines.pack(text_of_value(encoded))


def test_there_is_an_example_of_every_tag() -> None:
    assert set(page.tag_names()) == {tag for _, tag, _ in CONTENTS + NOTES} | {36, 40}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, -1, 2**63, 1.5, "Tang – 海藻", b"\x00", True],
        {"a": {"$b": [b"", float("inf")]}, "c": ({"d": (1,)}, 2**200, UUID(int=1))},
        {"$encoded": "kelp"},
        [{"$tuple": 1}, float("nan"), float("-inf"), -0.0],
        {f"key {number}": [number] * 20 for number in range(20)},
    ],
)
def test_values_in_lines_are_what_the_page_says(value: Any) -> None:
    encoded = values.encode(value)
    assert encoded == lines.pack(json.loads(json.dumps(text_of_value(encoded), allow_nan=False)))
