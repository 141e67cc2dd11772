"""JSON becomes a value of the type that was recorded, or says where it does not fit."""

from __future__ import annotations

import json
import re
from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from limpet.cli.from_json import NotFitting, value_like
from limpet.cli.readable import plain, read
from limpet.codec.secrets import MissingSecret
from limpet.codec.values import decode, encode


class Tide(Enum):
    LOW = "low"
    HIGH = "high"


class Point(NamedTuple):
    x: int
    y: int


ORIGIN = Point(0, 0)


@dataclass
class Page:
    url: str
    tide: Tide = Tide.LOW
    at: Point = ORIGIN
    next: Page | None = None
    size: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if not self.url:
            raise ValueError("no url")


class Frozen(msgspec.Struct, frozen=True, rename="camel"):
    first_part: date
    rest: tuple[int, ...] = ()


@attrs.define
class Private:
    _hidden: int
    shown: Decimal = Decimal(1)


class Model(pydantic.BaseModel):
    day: date
    pages: list[int] = []


class Strict(pydantic.BaseModel, strict=True):
    day: date


@dataclass
class Bare:
    pages: list
    model: Model


class Unresolved(NamedTuple):
    what: "Absent"  # noqa: F821, UP037  # pyright: ignore[reportUndefinedVariable]  # as under TYPE_CHECKING


VALUES: list[Any] = [
    3,
    2.5,
    True,
    "kelp",
    None,
    [1, "a", None],
    {"a": 1, "b": [2]},
    {3: "x"},
    (1, "x"),
    {1, 2},
    frozenset({1}),
    deque([1, 2], 5),
    OrderedDict(b=1, a=2),
    Counter("aab"),
    defaultdict(list, {"a": [1]}),
    b"kelp",
    date(2026, 1, 2),
    datetime(2026, 1, 2, tzinfo=UTC),
    Decimal("1.50"),
    Fraction(1, 3),
    complex(1, 2),
    Path("a/b"),
    Tide.HIGH,
    Point(1, 2),
    Page("a", Tide.HIGH, Point(3, 4), Page("b")),
    [Page("a"), Page("b")],
    {"page": Page("a"), "count": 2},
    (Page("a"), 1),
    Frozen(date(2026, 1, 2), (1, 2)),
    Private(1, Decimal("2.5")),
    Model(day=date(2026, 1, 2)),
    Strict(day=date(2026, 1, 2)),
    Bare([Page("a")], Model(day=date(2026, 1, 2))),
    [Page("a"), Point(1, 2), 3],
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_what_show_says_of_a_value_makes_it_again(value: Any) -> None:
    said = json.loads(json.dumps(plain(read(encode(value)))))
    made = value_like(decode(encode(value)), said)
    assert (type(value), value) == (type(made), made)


def test_another_value_is_of_the_recorded_type() -> None:
    assert Page("z", Tide.HIGH) == value_like(Page("a"), {"url": "z", "tide": "high"})
    assert 3.0 == value_like(2.5, 3)
    assert float is type(value_like(2.5, 3))
    assert [Page("a"), Page("b"), Page("c")] == value_like([Page("x")], [{"url": "a"}, {"url": "b"}, {"url": "c"}])
    assert {"new": Page("a")} == value_like({"old": Page("x")}, {"new": {"url": "a"}})
    assert [{"a": 1}, {"a": 2}] == value_like([{"a": 0}], [{"a": 1}, {"a": 2}])


def test_a_field_may_be_what_its_annotation_says() -> None:
    assert Page("a") == value_like(Page("a", next=Page("b")), {"url": "a", "next": None})
    assert Page("a", next=Page("b")) == value_like(Page("a"), {"url": "a", "next": {"url": "b"}})


def test_an_annotation_tells_what_the_recorded_value_does_not() -> None:
    assert [Page("a")] == value_like([], [{"url": "a"}], list[Page])
    assert Page("a") == value_like(None, {"url": "a"}, Page)
    assert {"url": "a"} == value_like(None, {"url": "a"})
    assert Model(day=date(2026, 1, 2)) == value_like(None, {"day": "2026-01-02"}, Model)
    assert Unresolved("x") == value_like(Unresolved("y"), {"what": "x"})


def test_a_secret_stays_what_it_is() -> None:
    @dataclass
    class Account:
        name: str
        key: Any

    secret = MissingSecret("Account.key")
    assert Account("b", secret) == value_like(Account("a", secret), {"name": "b"})
    assert Account("b", secret) == value_like(Account("a", secret), {"name": "b", "key": "typed"})


@pytest.mark.parametrize(
    ("example", "given", "why"),
    [
        (3, "x", "result: Expected `int`, got `str`"),
        (3, None, "result: Expected `int`, got `null`"),
        (3, True, "result: Expected `int`, got `bool`"),
        ("kelp", 3, "result: Expected `str`, got `int`"),
        ([1], {"a": 1}, "result: an array is expected, not an object"),
        ({"a": 1}, [1], "result: an object is expected, not an array"),
        ([], {"a": 1}, "result: an object cannot be read as list"),
        ([1, 2], [1, "x"], "result[1]: Expected `int`, got `str`"),
        ({"a": [Page("x")]}, {"a": [{"url": 3}]}, "result['a'][0].url: Expected `str`, got `int`"),
        (Page("a"), "x", "result: an object is expected, not text"),
        (Page("a"), {"ulr": "x"}, "result: Page has no field 'ulr'; it has: url, tide, at, next, size"),
        (Page("a"), {"url": ""}, "result: Page cannot be made of these values (no url)"),
        (Page("a"), {}, "missing 1 required positional argument: 'url'"),
        (Page("a"), {"url": "a", "tide": "ebb"}, "result.tide: Invalid enum value 'ebb'"),
        (Page("a"), {"url": "a", "next": {"url": 3}}, "result.next.url: Expected `str`, got `int`"),
        (date(2026, 1, 2), "today", "result: Invalid RFC3339 encoded date"),
        (Model(day=date(2026, 1, 2)), {"day": "today"}, "result: an object cannot be read as"),
        (re.compile("a"), "b", "result: text cannot be read as re.Pattern"),
        (np.zeros(2), [0, 1], "result: JSON has no way to say numpy.ndarray"),
    ],
    ids=lambda each: repr(each)[:40],
)
def test_what_does_not_fit_says_where_and_why(example: Any, given: Any, why: str) -> None:
    with pytest.raises(NotFitting) as refused:
        value_like(example, given)
    assert why in str(refused.value)
