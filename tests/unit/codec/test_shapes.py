"""How the shapes of two values differ: types and what they are made of, whatever they say."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any

import attrs
import msgspec
import numpy as np
import pandas as pd
import polars as pl
import pytest
from acceptance import table_of_types
from acceptance.test_generated_values import VALUES
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel, SecretStr
from unit.codec import sample_types as types
from unit.codec.sample_types import Animal, Depth, Dog, Fish, Open, Page, Point, Report, Shelter, Tide

from limpet import Secret
from limpet.codec.secrets import MissingSecret
from limpet.codec.shapes import shape_differences
from limpet.codec.values import decode, encode
from limpet.model.difference import Difference, DifferenceKind


@attrs.define
class Buoy:
    colour: str
    depth: int | None = None


class Knot(msgspec.Struct):
    turns: int
    inner: Any = None


@dataclass
class Login:
    user: str
    key: Annotated[str, Secret]


class Account(BaseModel):
    name: str
    password: SecretStr


@dataclass
class Trap:
    number: int

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError("do not look")


def told(before: object, after: object, **options: Any) -> list[str]:
    return [str(each) for each in shape_differences(before, after, **options)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, 2),
        ("kelp", "wrack\n" * 100),
        (b"a", b"bb"),
        (True, False),
        (0.5, float("nan")),
        (Decimal(1), Decimal(2)),
        (datetime(2024, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)),
        (Tide.LOW, Tide.HIGH),
        ([1, 2, 3], [4]),
        ([1, "a"], ["b", 2, 3]),
        ([], [1, "a"]),
        ([None, 1], [2, None]),
        ({1}, {2, 3}),
        (frozenset({"a"}), frozenset[str]()),
        (deque([1]), deque([2, 3], 5)),
        ((1, "a"), (2, "b")),
        ({"a": 1, "b": "x"}, {"b": "y", "a": 2}),
        ({1: "a"}, {2: "b", 3: "c"}),
        ({}, {1: 2}),
        (Counter(a=1), Counter(a=2)),
        (defaultdict(list, a=[1]), defaultdict(list, a=[])),
        (Page("a", ["x"]), Page("b")),
        (Report("t", callback=None), Report("u", callback=3)),
        (Report("t", callback="x"), Report("u")),
        (Buoy("red", 3), Buoy("blue")),
        (Knot(1, Knot(2)), Knot(3, Knot(4))),
        (Fish("cod", 1.0), Fish("eel", 2.0)),
        (Animal(name="a"), Animal(name="b", legs=3)),
        (Shelter(star=Animal(name="a")), Shelter(star=Animal(name="b"), animals=[Dog(name="c")])),
        (ValueError("a"), ValueError("b", 2)),
        (np.zeros(3), np.ones(3)),
        (np.float64(1), np.float64(2)),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2, 3]})),
        (pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2, 3]})),
        (pd.Series([1]), pd.Series([2, 3])),
        (pl.Series([1]), pl.Series([2, 3])),
        (len, print),
    ],
)
def test_content_makes_no_difference(before: object, after: object) -> None:
    assert [] == shape_differences(before, after)
    assert [] == shape_differences([before], [after])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (1, "1", ["result: int -> str"]),
        (1, True, ["result: int -> bool"]),
        (1, 1.0, ["result: int -> float"]),
        (None, 1, ["result: None -> int"]),
        ("a", b"a", ["result: str -> bytes"]),
        (Tide.LOW, Depth.SHALLOW, ["result: Tide -> Depth"]),
        (Depth.SHALLOW, 1, ["result: Depth -> int"]),
        ([1], (1,), ["result: list -> tuple"]),
        ([1], [1, "a"], ["result (elements): int -> int, str"]),
        ([1, True], [1], ["result (elements): bool, int -> int"]),
        ({1}, {"a"}, ["result (elements): int -> str"]),
        (deque([1]), deque(["a"]), ["result (elements): int -> str"]),
        ([{"a": 1}], [{"a": 2}, {"b": 3}], []),
        ([{"a": 1}], [{"a": "x"}], ["result[0]['a']: int -> str"]),
        ([Page("a", ["x"])], [Page("b", [1])], ["result[0].lines (elements): str -> int"]),  # pyright: ignore[reportArgumentType]
        ((1, 2), (1, 2, 3), ["result (length): 2 -> 3"]),
        ((1, "a"), (1, 2), ["result[1]: str -> int"]),
        ({"a": 1, "b": 2}, {"a": 1, "c": "x"}, ["result['b']: removed int", "result['c']: added str"]),
        ({"a": {"b": 1}}, {"a": {"b": None}}, ["result['a']['b']: int -> None"]),
        ({}, {"a": 1}, ["result['a']: added int"]),
        ({1: "a"}, {"x": "a"}, ["result (keys): int -> str"]),
        ({1: "a"}, {2: 3}, ["result (values): str -> int"]),
        (OrderedDict(a=1), {"a": 1}, ["result: OrderedDict -> dict"]),
        (Page("a"), Point(1, 2), ["result: Page -> Point"]),
        (types.Box(1), types.Box("a"), ["result.item: int -> str"]),
        (Buoy("red", 3), Buoy("red", "deep"), ["result.depth: int -> str"]),  # pyright: ignore[reportArgumentType]
        (Knot(1, Knot(2)), Knot(1, Knot("a")), ["result.inner.turns: int -> str"]),  # pyright: ignore[reportArgumentType]
        (Fish("a", 1.0), Fish("a", 1), ["result.weight: float -> int"]),
        (Shelter(star=Animal(name="a")), Shelter(star=Dog(name="a")), ["result.star: Animal -> Dog"]),
        (Open(more=1), Open(more="a"), ["result.more: int -> str"]),  # pyright: ignore[reportCallIssue]
        (Open(more=1), Open(other=1), ["result.more: removed int", "result.other: added int"]),  # pyright: ignore[reportCallIssue]
        (ValueError("a"), KeyError("a"), ["result: ValueError -> KeyError"]),
        (np.zeros(3), np.zeros(4, "f4"), ["result.dtype: float64 -> float32", "result.shape: (3,) -> (4,)"]),
        (np.float64(1), np.float32(1), ["result: float64 -> float32"]),
        (pd.Series([1]), pd.Series([1.0]), ["result.dtype: int64 -> float64"]),
        (pl.Series([1]), pl.Series([1.0]), ["result.dtype: Int64 -> Float64"]),
        (pd.DataFrame(), pl.DataFrame(), ["result: pandas.DataFrame -> polars.dataframe.frame.DataFrame"]),
    ],
)
def test_another_type_or_shape_is_a_difference(before: object, after: object, expected: list[str]) -> None:
    assert expected == told(before, after)


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_differ_by_columns_and_dtypes(library: Any) -> None:
    before, after = library.DataFrame({"a": [1], "b": [1]}), library.DataFrame({"a": [1.5, 2], "c": [1, 2]})
    names = ("int64", "float64") if library is pd else ("Int64", "Float64")
    assert [
        "result['a'].dtype: {} -> {}".format(*names),
        "result['b']: removed Series",
        "result['c']: added Series",
    ] == told(before, after)


def test_columns_of_one_name_are_told_by_their_numbers() -> None:
    before, after = (pd.DataFrame([[1, second]], columns=["a", "a"]) for second in (1, 1.5))
    assert ["result[1].dtype: int64 -> float64"] == told(before, after)


def test_a_difference_says_what_kind_it_is() -> None:
    assert [
        Difference("answer['a']", "int", "", DifferenceKind.REMOVED),
        Difference("answer['b']", "", "str", DifferenceKind.ADDED),
    ] == shape_differences({"a": 1}, {"b": "x"}, "answer")


def test_only_as_many_are_told_as_asked_for() -> None:
    before, after = {str(each): each for each in range(50)}, {str(each): "" for each in range(50)}
    assert 20 == len(shape_differences(before, after))
    assert ["result['0']: int -> str"] == told(before, after, most=1)


def test_classes_of_one_name_are_told_apart_by_their_modules() -> None:
    one, other = (type("Same", (), {"__module__": name}) for name in ("reef", "shore"))
    assert ["result: reef.Same -> shore.Same"] == told(one(), other())
    assert ["result (elements): reef.Same -> shore.Same"] == told([one()], [other()])


def test_no_content_is_shown() -> None:
    before, after = Page("kelp", ["wrack"]), Page("dulse", [1])  # pyright: ignore[reportArgumentType]
    assert [
        "result[0].lines (elements): str -> int",
        "result[1]: Page -> Page (of another shape)",
    ] == told((before, before), (after, after))


def test_secrets_have_one_shape_whatever_stands_for_them() -> None:
    login, account = Login("a", "hunter2"), Account(name="a", password=SecretStr("hunter2"))
    assert [] == shape_differences([login, account], decode(encode([login, account])))
    assert [] == shape_differences(SecretStr("hunter2"), MissingSecret("key"))
    assert ["result: SecretStr -> str"] == told(SecretStr("hunter2"), "hunter2")


def test_values_that_contain_themselves_or_are_deep_come_to_an_end() -> None:
    def cyclic() -> Any:
        value: dict[str, Any] = {"a": 1}
        value["me"] = value
        return value

    before: Any = 1
    after: Any = "a"
    for _ in range(20_000):
        before, after = (before,), (after,)
    assert [] == shape_differences(cyclic(), cyclic())
    assert 1 == len(shape_differences(before, after))


def test_of_an_instance_that_raises_only_the_type_counts() -> None:
    assert [] == shape_differences(Trap(1), Trap(2))
    assert ["result: Trap -> int"] == told(Trap(1), 1)


@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(VALUES)
def test_a_value_that_was_read_back_has_the_same_shape(value: Any) -> None:
    assert [] == shape_differences(value, decode(encode(value)))


def test_values_of_all_kinds_can_be_compared_with_each_other() -> None:
    rows = [value for row in table_of_types.rows().values() for value in row.values()]
    for before in rows:
        for after in rows:
            found = shape_differences(before, after)
            assert found or type(before) is type(after)
