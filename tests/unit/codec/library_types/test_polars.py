"""Frames and series of polars come back with every dtype, null and name, or are refused."""

from __future__ import annotations

import itertools
import math
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import ormsgpack
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.codec.kinds import Opaque
from limpet.codec.library_types import polars_kinds
from limpet.codec.library_types.polars_dtypes import MAX_DEPTH, MAX_HIDDEN
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable


def again(value: Any) -> Any:
    return decode(encode(value))


def written(*parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(35, ormsgpack.packb(list(parts))))


def refused(data: bytes) -> str:
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    return caught.value.why


def nested(inner: Any, depth: int) -> Any:
    for _ in range(depth):
        inner = pl.List(inner)
    return inner


INTEGERS = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64, pl.UInt128]
MOMENT = datetime(2024, 10, 27, 0, 30)  # noqa: DTZ001 - naive on purpose
SERIES: list[Any] = [
    *(pl.Series("n", [0, 1, None, 127], dtype) for dtype in INTEGERS),
    pl.Series([-(2**127), 2**127 - 1], dtype=pl.Int128),
    pl.Series([2**128 - 1, None], dtype=pl.UInt128),
    pl.Series([2**64 - 1], dtype=pl.UInt64),
    *(pl.Series([1.5, math.nan, math.inf, -0.0, None], dtype=dtype) for dtype in (pl.Float16, pl.Float32, pl.Float64)),
    pl.Series([True, None, False]),
    pl.Series("name \0 🦑", ["", "\x00", "🦑", None]),
    pl.Series([b"", b"\xff", None]),
    pl.Series([None, None]),
    pl.Series([date(1, 1, 1), date(9999, 12, 31), None]),
    pl.Series([time(0), time(23, 59, 59, 999999), None]),
    pl.Series([86_399_999_999_999]).cast(pl.Time),
    *(pl.Series([MOMENT, None], dtype=pl.Datetime(unit)) for unit in ("ms", "us", "ns")),
    pl.Series([1, -1, None]).cast(pl.Datetime("ns", "Europe/Berlin")),
    pl.Series([MOMENT], dtype=pl.Datetime("us", "UTC")),
    *(pl.Series([timedelta(days=-1), None], dtype=pl.Duration(unit)) for unit in ("ms", "us", "ns")),
    pl.Series([1, None]).cast(pl.Duration("ns")),
    pl.Series([Decimal("1.50"), Decimal("-0.01"), None], dtype=pl.Decimal(20, 2)),
    pl.Series([Decimal(10**38 - 1), None], dtype=pl.Decimal(38, 0)),
    pl.Series([Decimal("0." + "9" * 38)], dtype=pl.Decimal(38, 38)),
    pl.Series(["b", None, "a", "b"], dtype=pl.Categorical),
    pl.Series(["b"], dtype=pl.Categorical(pl.Categories("tides", "sea", pl.UInt8))),
    pl.Series(["b", None, "a"], dtype=pl.Enum(["b", "unused", "a"])),
    pl.Series([], dtype=pl.Enum([])),
    pl.Series([[1, None], None, []]),
    pl.Series([[[1], None], [[]]], dtype=nested(pl.Int8, 2)),
    pl.Series([[1, 2], None, [None, 3]], dtype=pl.Array(pl.Int8, 2)),
    pl.Series([[[1, 2], [3, None]], None], dtype=pl.Array(pl.Int8, (2, 2))),
    pl.Series([[], None], dtype=pl.Array(pl.Int8, 0)),
    pl.Series([{"a": 1, "b": None}, None, {"a": None, "b": "x"}]),
    pl.Series([{"a": None}, None], dtype=pl.Struct({"a": pl.Int8})),
    pl.Series([{}, None], dtype=pl.Struct([])),
    pl.Series([{"a": [{"b": MOMENT, "c": "x", "d": time(1)}, None]}, {"a": None}]),
    pl.Series(
        [[{"k": "a", "t": MOMENT, "d": Decimal(1)}], [None], None],
        dtype=pl.List(pl.Struct({"k": pl.Categorical, "t": pl.Datetime("ns", "UTC"), "d": pl.Decimal(5, 1)})),
    ),
    pl.Series([None], dtype=pl.Struct({"a": pl.Array(pl.Enum(["x"]), 3)})),
    pl.Series([], dtype=pl.List(pl.Struct({"a": pl.Date}))),
]
FRAMES: list[Any] = [
    pl.DataFrame(),
    pl.DataFrame(height=3),
    pl.DataFrame({"a": [1, None], "b": ["x", None], "": [1.5, math.nan]}),
    pl.DataFrame(schema={"a": pl.Int8, "b": pl.Datetime("ns", "UTC")}),
    pl.DataFrame([series.alias(f"{number}").head(0) for number, series in enumerate(SERIES)]),
]


@pytest.mark.parametrize("value", SERIES, ids=lambda value: str(value.dtype))
def test_a_series_comes_back(value: Any) -> None:
    copy = again({"k": [value]})["k"][0]
    assert pl.Series is type(copy)
    assert (value.name, value.dtype) == (copy.name, copy.dtype)
    assert repr(value.to_list()) == repr(copy.to_list())
    assert value.equals(copy, check_dtypes=True, check_names=True)
    assert encode(value) == encode(copy)


@pytest.mark.parametrize("value", FRAMES, ids=lambda value: str(value.shape))
def test_a_frame_comes_back(value: Any) -> None:
    copy = again((value,))[0]
    assert pl.DataFrame is type(copy)
    assert (value.shape, value.schema) == (copy.shape, copy.schema)
    assert value.equals(copy)
    assert encode(value) == encode(copy)


class OwnFrame(pl.DataFrame):
    pass


EXACT = "is not one of polars' values that can be rebuilt exactly"


@pytest.mark.parametrize(
    ("place", "why", "value"),
    [
        ("result", "is a plan and not data; `collect()` it first", pl.LazyFrame({"a": [1]})),
        ("result", EXACT, pl.col("a")),
        ("result", EXACT, OwnFrame()),
        ("result", EXACT, pl.Int8()),
        ("result", "has the dtype Object, which could not be rebuilt exactly", pl.Series([object()], dtype=pl.Object)),
        (
            "result['b']",
            "has the dtype Object, which could not be rebuilt exactly",
            pl.DataFrame({"a": [1], "b": [object()]}),
        ),
        (
            "result",
            f"has the dtype {nested(pl.Int8(), MAX_DEPTH + 1)}, which could not be rebuilt exactly",
            pl.Series([], dtype=nested(pl.Int8, MAX_DEPTH + 1)),
        ),
        (
            "result",
            f"has values of the dtype Array(Int8, shape=({MAX_HIDDEN},)) that could not be rebuilt",
            pl.Series([None, None], dtype=pl.Array(pl.Int8, MAX_HIDDEN)),
        ),
        (
            "result",
            f"has the dtype Array(Int8, shape=({MAX_HIDDEN + 1},)), which could not be rebuilt exactly",
            pl.Series([], dtype=pl.Array(pl.Int8, MAX_HIDDEN + 1)),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_could_not_be_rebuilt_is_refused(place: str, why: str, value: Any) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode(value, "result")
    assert (place, why) == (caught.value.place, caught.value.why)


def test_a_note_stands_for_what_could_not_be_rebuilt() -> None:
    frame = pl.LazyFrame()
    name = f"{type(frame).__module__}.LazyFrame"
    assert [Opaque(name), 1] == decode(encode_leniently([frame, 1]))


def struct(*fields: Any) -> Any:
    return ["Struct", list(fields)]


def lists(depth: int) -> Any:
    dtype: Any = "Int8"
    for _ in range(depth):
        dtype = ["List", dtype]
    return dtype


SURROGATE = ormsgpack.Ext(6, ormsgpack.packb(b"\xed\xa0\x80"))


def decimal(text: str) -> ormsgpack.Ext:
    return ormsgpack.Ext(13, ormsgpack.packb(text))


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Int8", [128]),
        ("Int8", [True]),
        ("Int8", ["1"]),
        ("UInt8", [-1]),
        ("Int128", [ormsgpack.Ext(5, ormsgpack.packb(b"\x00" * 16 + b"\x01"))]),
        ("Float64", [1]),
        ("Boolean", [1]),
        ("String", [b"x"]),
        ("String", [SURROGATE]),
        ("Binary", ["x"]),
        ("Null", [1]),
        ("Object", [1]),
        ("Unknown", [1]),
        ("LazyFrame", [1]),
        ("Date", [2**31]),
        ("Time", [-1]),
        ("Time", [86_400_000_000_000]),
        ("Date", ["2024-01-01"]),
        (["Datetime", "s", None], [1]),
        (["Datetime", "ns", "Nowhere/City"], [1]),
        (["Datetime", "ns", "../../etc/passwd"], [1]),
        (["Datetime", "ns", 5], [1]),
        (["Datetime", "ns", None], [2**63]),
        (["Duration", "ns"], [1.5]),
        (["Duration", 5], [1]),
        (["Decimal", 39, 0], [decimal("1")]),
        (["Decimal", 5, 6], [decimal("1")]),
        (["Decimal", 5, 0], [decimal("1E+1000000")]),
        (["Decimal", 5, 2], [decimal("0.001")]),
        (["Decimal", 5, 2], [decimal("NaN")]),
        (["Decimal", 5, 2], ["1"]),
        (["Decimal", 38, 38], [decimal("9" * 38)]),
        (["Enum", ["a", "a"]], ["a"]),
        (["Enum", ["a"]], ["b"]),
        (["Enum", [5]], []),
        (["Enum", [SURROGATE]], []),
        (["Categorical", None], [5]),
        (["Categorical", ["tides", "sea", "Int64"]], ["a"]),
        (["Categorical", [SURROGATE, "sea", "UInt8"]], ["a"]),
        (["Categorical", ["few", "sea", "UInt8"]], [str(number) for number in range(300)]),
        (["List", "Int8"], [1]),
        (["List", "Int8"], [["a"]]),
        (lists(MAX_DEPTH + 1), []),
        (["Array", "Int8", 2], [[1]]),
        (["Array", "Int8", -1], []),
        (["Array", "Int8", True], [[1]]),
        (["Array", "Int8", 2**40], [None]),
        (["Array", ["Array", "Int8", 2**20], 2**20], []),
        (["Array", "Int8", 2**20], [None] * 5),
        (struct(["a", ["Array", "Int8", 2**22]]), [None] * 2),
        (["Array", struct(["a", ["Array", "Int8", 2**20]]), 2**20], []),
        (struct(["a", "Int8"]), [{"b": 1}]),
        (struct(["a", "Int8"]), [[1]]),
        (struct(["a", "Int8"], ["a", "Int8"]), [{"a": 1}]),
        (struct([5, "Int8"]), []),
        (struct(["a"]), []),
        (5, [1]),
        ([], [1]),
    ],
    ids=itertools.count(),
)
def test_damaged_columns_are_refused(dtype: Any, values: list[Any]) -> None:
    assert refused(written("series", len(values), "a", dtype, values))


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [5],
        ["frame"],
        ["frame", -1, []],
        ["frame", 2**40, []],
        ["frame", 1, [["a", "Int8", [1, 2]]]],
        ["frame", 1, [["a", "Int8", 5]]],
        ["frame", 1, [["a", "Int8", [1]], ["a", "Int8", [1]]]],
        ["frame", 1, [["a", "Int8"]]],
        ["series", 2, "a", "Int8", [1]],
        ["series", 1, 5, "Int8", [1]],
        ["series", 1, SURROGATE, "Int8", [1]],
    ],
    ids=itertools.count(),
)
def test_damaged_values_are_refused(parts: Any) -> None:
    assert refused(written(*parts))


class PanicException(BaseException):
    """As that of the Rust library, which cannot be caught as an Exception."""


def panic(*_: Any, **__: Any) -> Any:
    raise PanicException("index out of bounds")


def test_a_panic_while_reading_is_a_value_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(pl.Series([1]))
    monkeypatch.setattr(polars_kinds, "_build_column", panic)
    assert "its bytes are damaged (polars cannot build it: index out of bounds)" == refused(data)


def test_a_panic_while_writing_is_a_value_that_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pl.Series, "cast", panic)
    with pytest.raises(ValueNotStorable, match=r"cannot be read \(index out of bounds\)"):
        encode(pl.Series([1]))


def test_an_error_of_polars_while_writing_is_a_value_that_cannot_be_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise pl.exceptions.ComputeError("no")

    monkeypatch.setattr(pl.Series, "cast", fail)
    with pytest.raises(ValueNotStorable, match=r"cannot be read \(no\)"):
        encode(pl.Series([1]))


def test_an_interrupt_while_reading_is_not_taken_for_a_panic(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    data = encode(pl.Series([1]))
    monkeypatch.setattr(polars_kinds, "_build_column", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode(data)


ENCODED = [encode(value) for value in (*SERIES, *FRAMES)]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ENCODED), st.data())
def test_changed_encodings_are_read_or_refused(data: bytes, drawn: st.DataObject) -> None:
    changed = bytearray(data)
    changed[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    with suppress(ValueNotReadable):
        decode(bytes(changed))


LEAVES = st.sampled_from(
    [
        (pl.Int64(), st.integers(-(2**63), 2**63 - 1)),
        (pl.Float64(), st.floats()),
        (pl.String(), st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
        (pl.Binary(), st.binary(max_size=4)),
        (pl.Boolean(), st.booleans()),
        (pl.Date(), st.dates()),
        (pl.Enum(["a", "b"]), st.sampled_from(["a", "b"])),
    ]
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda each: (pl.List(each[0]), st.lists(st.none() | each[1], max_size=3))),
        inner.map(lambda each: (pl.Array(each[0], 2), st.lists(st.none() | each[1], min_size=2, max_size=2))),
        st.tuples(inner, inner).map(
            lambda both: (
                pl.Struct({"x": both[0][0], "y": both[1][0]}),
                st.fixed_dictionaries({"x": st.none() | both[0][1], "y": st.none() | both[1][1]}),
            )
        ),
    )


@settings(max_examples=100, deadline=None)
@given(st.recursive(LEAVES, around, max_leaves=4), st.data())
def test_any_nested_series_comes_back(kind: Any, drawn: st.DataObject) -> None:
    dtype, values = kind
    series = pl.Series("s", drawn.draw(st.lists(st.none() | values, max_size=4)), dtype=dtype)
    copy = again(series)
    assert dtype == copy.dtype
    assert repr(series.to_list()) == repr(copy.to_list())
    assert encode(series) == encode(copy)
