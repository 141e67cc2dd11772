"""Recorded values are compared field by field without the classes that they are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import ormsgpack
import pandas as pd
import pydantic
import pytest

from limpet.cli.comparable import read_comparable
from limpet.codec.differences import differences
from limpet.codec.values import encode


class Tide(Enum):
    LOW = "low"
    HIGH = "high"


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Page:
    title: str
    tide: Tide = Tide.LOW
    items: Any = None


@dataclass
class Book:
    pages: list[Page] = field(default_factory=list)


class Struct(msgspec.Struct):
    parts: int


@attrs.define
class Attrs:
    type_name: str


class Model(pydantic.BaseModel, extra="allow"):
    count: int = 0


def found(before: Any, after: Any) -> list[str]:
    return [str(each) for each in differences(read_comparable(encode(before)), read_comparable(encode(after)))]


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Book([Page("a")]), Book([Page("b")]), ["result.pages[0].title: 'a' -> 'b'"]),
        (
            Book([Page("a")]),
            Book([Page("a"), Page("b")]),
            ["result.pages[1]: added Page(title='b', tide=Tide.LOW, items=None)"],
        ),
        (Page("a"), Page("a", Tide.HIGH), ["result.tide: Tide.LOW -> Tide.HIGH"]),
        ({"a": Point(1, 2)}, {"a": Point(1, 3)}, ["result['a'].y: 2 -> 3"]),
        ({Point(1, 2): 1}, {Point(1, 2): 2}, ["result[Point(x=1, y=2)]: 1 -> 2"]),
        (Struct(1), Struct(2), ["result.parts: 1 -> 2"]),
        (Attrs("a"), Attrs("b"), ["result.type_name: 'a' -> 'b'"]),
        (Model(count=1), Model(count=2), ["result.count: 1 -> 2"]),
        (Model.model_validate({"a": 1}), Model.model_validate({"a": 2}), ["result.a: 1 -> 2"]),
        (Model(), Model(count=0), ["result.model_fields_set: added 'count'"]),
        (Page("a"), Book(), ["result: Page(title='a', tide=Tide.LOW, items=None) -> Book(pages=[])"]),
        (Tide.LOW, "low", ["result: Tide.LOW -> str 'low'"]),
        (Page("a", items=1), Page("a", items=True), ["result.items: int 1 -> bool True"]),
        (ValueError("a"), ValueError("b"), ["result: ValueError('a') -> ValueError('b')"]),
    ],
    ids=lambda each: repr(each)[:50],
)
def test_a_difference_is_told_at_its_field(before: Any, after: Any, expected: list[str]) -> None:
    assert expected == found(before, after)
    assert [] == found(before, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (np.zeros(2), np.ones(2)),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
    ],
    ids=["array", "frame"],
)
def test_values_that_are_described_alike_still_differ(before: Any, after: Any) -> None:
    (told,) = found(before, after)
    assert "(of other bytes)" in told
    assert [] == found(before, before)


def test_what_is_kept_elsewhere_or_not_at_all_is_compared_by_what_is_known_of_it() -> None:
    one, other = (written(37, ["sha256:" + digit * 64, "text", 5, "kelp", ""]) for digit in "ab")
    (told,) = differences(read_comparable(one), read_comparable(other))
    assert "artifact(id='sha256:aaaaaaaaaaaa', adapter='text', size=5, preview='kelp')" == told.before
    assert "artifact(id='sha256:bbbbbbbbbbbb', adapter='text', size=5, preview='kelp')" == told.after

    secret, changed = written(38, ["Page.key", b"m"]), ormsgpack.packb("x")
    assert [] == differences(read_comparable(secret), read_comparable(secret))
    (told,) = differences(read_comparable(secret), read_comparable(changed))
    assert ("<secret Page.key>", "str 'x'") == (told.before, told.after)


def test_a_class_that_lost_a_field_is_told_as_a_whole() -> None:
    old, new = (written(18, ["sea:Page", fields]) for fields in ({"url": "a", "text": "b"}, {"url": "a"}))
    (told,) = differences(read_comparable(old), read_comparable(new))
    assert "result: Page(url='a', text='b') -> Page(url='a')" == str(told)


def test_bytes_that_cannot_be_read_differ_where_they_do() -> None:
    (told,) = differences(read_comparable(b"\x92\x01"), read_comparable(b"\x92\x02"))
    assert "2 bytes that cannot be shown() (of other bytes)" == told.after
