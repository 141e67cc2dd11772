"""Frames, series, indexes and scalars of pandas come back with every dtype, index, name and flag, or are refused."""

from __future__ import annotations

import itertools
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import ormsgpack
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.codec.sample_types import Page, Point

from limpet.codec.kinds import Opaque
from limpet.codec.library_types.pandas_arrays import MAX_UNUSED
from limpet.codec.values import decode, encode, encode_leniently
from limpet.errors import ValueNotReadable, ValueNotStorable

DAYS = pd.date_range("2024-10-26", periods=3, freq="D", tz="Europe/Berlin")
testing: Any = pd.testing  # Its annotations leave out some of what it takes.


def again(value: Any) -> Any:
    return decode(encode(value))


def ext(tag: int, parts: Any) -> ormsgpack.Ext:
    return ormsgpack.Ext(tag, ormsgpack.packb(parts))


def written(*parts: Any) -> bytes:
    return ormsgpack.packb(ext(34, list(parts)))


def same_frame(expected: Any, actual: Any) -> None:
    testing.assert_frame_equal(
        *(expected, actual),
        check_exact=True,
        check_freq=True,
        check_flags=True,
        check_index_type="exact",
        check_column_type="exact",
    )
    assert list(expected.dtypes) == list(actual.dtypes)
    assert expected.attrs == actual.attrs
    assert encode(expected) == encode(actual)


def same_series(expected: Any, actual: Any) -> None:
    testing.assert_series_equal(
        *(expected, actual), check_exact=True, check_freq=True, check_flags=True, check_index_type="exact"
    )
    assert (expected.dtype, type(expected.array)) == (actual.dtype, type(actual.array))
    assert encode(expected) == encode(actual)


def same_index(expected: Any, actual: Any) -> None:
    pd.testing.assert_index_equal(expected, actual, exact=True, check_exact=True)
    assert (type(expected), expected.dtype) == (type(actual), actual.dtype)
    assert getattr(expected, "freq", None) == getattr(actual, "freq", None)
    assert encode(expected) == encode(actual)


COLUMNS: dict[str, Any] = {
    "int": [1, 2, 3],
    "small": np.array([1, 2, 3], "u1"),
    "big endian": np.array([1, 2, 3], ">i4"),
    "float": [1.5, np.nan, -0.0],
    "half": np.array([1, 2, 3], "f2"),
    "complex": [1j, 2, 3],
    "bool": [True, False, True],
    "str": ["x", None, "lone \ud800"],
    "string": pd.array(["a", None, "c"], dtype="string"),
    "object": pd.Series(["a", 1, (2, [3])], dtype=object),
    "objects of text": pd.Series(["a", "b", None], dtype=object),
    "lists": pd.Series([[1, 2], [3, 4], [5, 6]], dtype=object),
    "values": pd.Series([Point(1, 2), np.arange(3), pd.NaT], dtype=object),
    "missing": pd.Series([None, np.nan, pd.NA], dtype=object),
    "datetime": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
    "seconds": pd.to_datetime(["2024-01-01", None, "2024-01-03"]).as_unit("s"),
    "nanoseconds": pd.to_datetime([1, None, 3]),
    "zone": DAYS,
    "utc": DAYS.tz_convert("UTC"),
    "offset": DAYS.tz_convert(timezone(timedelta(hours=5, minutes=30))),
    "ambiguous": pd.to_datetime(["2024-10-27 00:30", "2024-10-27 01:30", None], utc=True).tz_convert("Europe/Berlin"),
    "timedelta": pd.to_timedelta([1, None, 3], unit="s"),
    "period": pd.PeriodIndex(["2024-01", None, "2024-03"], freq="M"),
    "quarter": pd.period_range("2024", periods=3, freq="Q-NOV"),
    "interval": pd.interval_range(0, 3),
    "interval of floats": pd.arrays.IntervalArray.from_tuples([(0, 1.5), None, (2, 3)], closed="both"),
    "interval of days": pd.IntervalIndex.from_breaks(
        pd.date_range("2024", periods=4, tz="Europe/Berlin"), closed="left"
    ),
    "Int64": pd.array([1, None, 3], dtype="Int64"),
    "UInt8": pd.array([1, None, 3], dtype="UInt8"),
    "Float32": pd.array([1.5, None, 3], dtype="Float32"),
    "boolean": pd.array([True, None, False], dtype="boolean"),
    "category": pd.Categorical(["a", None, "b"], ["c", "b", "a"], ordered=True),
    "category of numbers": pd.Categorical([1.5, 2, None]),
    "category of days": pd.Categorical(DAYS),
    "category of objects": pd.Categorical.from_codes([0, 1, -1], pd.Index([Point(1, 2), "a"], dtype=object)),
    "category of a range": pd.Categorical.from_codes([0, 1, -1], pd.RangeIndex(5)),
}
LABELS: dict[str, Any] = {
    "numbers": pd.Index([3, 1, 2], name="n"),
    "range": pd.RangeIndex(1, 10, 3, name=("a", 1)),
    "empty range": pd.RangeIndex(0),
    "floats": pd.Index([1.5, np.nan, 2]),
    "bools": pd.Index([True, False, True]),
    "text": pd.Index(["a", None, "c"]),
    "objects": pd.Index(["a", 1, None], dtype=object),
    "objects of text": pd.Index(["a", "b", "c"], dtype=object),
    "tuples": pd.Index([(1, 2), (3, 4), (5, 6)], tupleize_cols=False),
    "days": DAYS,
    "days without a zone": DAYS.tz_localize(None),
    "days without a frequency": pd.DatetimeIndex(["2024-01-01", "2024-01-01", "2023-01-01"]),
    "no days": DAYS[:0],
    "weeks": pd.date_range("2024", periods=3, freq="2W-TUE"),
    "business days": pd.date_range("2024", periods=3, freq="B"),
    "quarters": pd.date_range("2024", periods=3, freq="QS-FEB"),
    "backwards": pd.date_range("2024", periods=3, freq="-3h"),
    "durations": pd.timedelta_range("1D", periods=3, freq="90min"),
    "periods": pd.period_range("2020", periods=3, freq="D"),
    "intervals": pd.interval_range(pd.Timestamp("2020"), periods=3),
    "categories": pd.CategoricalIndex(["a", "b", "a"], name="c"),
    "nullable": pd.Index([1, None, 3], dtype="Int8"),
    "levels": pd.MultiIndex.from_product([["a"], [1, 2, 3]], names=["x", None]),
    "levels of days": pd.MultiIndex.from_arrays([DAYS, [1, np.nan, 1]]),
    "unused levels": pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]])[:3],
    "sorted levels": pd.MultiIndex(levels=[[1, 2]], codes=[[0, 1, 1]], sortorder=1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_series_comes_back(name: str) -> None:
    series = pd.Series(COLUMNS[name], name=name)
    assert series.dtype == again(series).dtype
    same_series(series, again([series])[0])


@pytest.mark.parametrize("name", LABELS)
def test_an_index_comes_back(name: str) -> None:
    same_index(LABELS[name], again((LABELS[name],))[0])


@pytest.mark.parametrize("name", LABELS)
def test_a_frame_comes_back_with_any_index(name: str) -> None:
    labels = LABELS[name]
    same_frame(frame := pd.DataFrame({"a": range(len(labels))}, index=labels), again(frame))
    same_frame(frame := pd.DataFrame([range(len(labels))], columns=labels), again(frame))
    same_series(series := pd.Series(range(len(labels)), index=labels), again(series))


def noted(**attrs: Any) -> Any:
    frame: Any = pd.DataFrame({"a": [1]})
    frame.attrs = attrs
    return frame


FRAMES: dict[str, Any] = {
    "every dtype": pd.DataFrame(COLUMNS, index=DAYS),
    "nothing": pd.DataFrame(),
    "rows only": pd.DataFrame(index=[1, 2]),
    "columns only": pd.DataFrame(columns=["a", "b"]),
    "no columns of a kind": pd.DataFrame(index=DAYS, columns=pd.MultiIndex.from_arrays([[], []], names=["a", "b"])),
    "equal names": pd.DataFrame([[1, "a", 2.5], [2, "b", 3.5]], columns=["x", "x", "y"]),
    "equal labels": pd.DataFrame({"a": [1, 2]}, index=["same", "same"]),
    "odd names": pd.DataFrame([[1, 2, 3]], columns=[(1, 2), None, 1.5]),
    "attrs": noted(source={"reef": (1, Page("p"))}),
    "flags": pd.DataFrame({"a": [1]}).set_flags(allows_duplicate_labels=False),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_comes_back(name: str) -> None:
    same_frame(FRAMES[name], again({"frame": FRAMES[name]})["frame"])


def test_a_frame_that_was_read_can_be_changed() -> None:
    data = encode(FRAMES["every dtype"])
    first = decode(data)
    first.loc[first.index[0], "int"] = 5
    first["new"] = 1
    same_frame(FRAMES["every dtype"], decode(data))


def test_what_stands_under_a_mask_is_no_part_of_a_series() -> None:
    one, other = (pd.arrays.IntegerArray(np.array([1, n]), np.array([False, True])) for n in (5, 6))
    assert encode(pd.Series(one)) == encode(pd.Series(other))


def test_attrs_and_flags_of_a_series_come_back() -> None:
    series = pd.Series([1], name=("a", 1)).set_flags(allows_duplicate_labels=False)
    series.attrs["unit"] = ["m"]
    copy = again(series)
    same_series(series, copy)
    assert {"unit": ["m"]} == copy.attrs


NAMES_OF_ARRAYS = [
    "category",
    "Int64",
    "boolean",
    "Float32",
    "string",
    "zone",
    "datetime",
    "timedelta",
    "period",
    "interval",
]


@pytest.mark.parametrize("name", NAMES_OF_ARRAYS)
def test_an_array_comes_back(name: str) -> None:
    array = pd.Series(COLUMNS[name]).array
    copy = again(array)
    assert type(array) is type(copy)
    pd.testing.assert_extension_array_equal(array, copy, check_exact=True)
    assert encode(array) == encode(copy)


SCALARS: list[Any] = [
    pd.Timestamp("2024-01-01"),
    pd.Timestamp(1),
    pd.Timestamp("2024-01-01").as_unit("s"),
    pd.Timestamp("2024-01-01", tz="UTC"),
    pd.Timestamp(datetime(2024, 1, 1, tzinfo=UTC)),
    pd.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"),
    pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert(ZoneInfo("Europe/Berlin")),
    pd.Timestamp("2024-01-01", tz=timezone(timedelta(hours=2))),
    pd.Timestamp("2024-01-01").replace(fold=1),
    pd.Timestamp.min,
    pd.Timestamp.max,
    pd.Timedelta(1, "ns"),
    pd.Timedelta(-5, "s").as_unit("s"),
    pd.Timedelta.max,
    pd.NaT,
    pd.NA,
    pd.Period("2024-01", "M"),
    pd.Period("2024Q3", "Q-NOV"),
    pd.Interval(1, 2.5, "neither"),
    pd.Interval(*DAYS[:2]),
]


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_a_scalar_comes_back(value: Any) -> None:
    copy = again([value])[0]
    assert (type(value), repr(value)) == (type(copy), repr(copy))
    for name in ("unit", "fold", "tzinfo", "freq", "value", "ordinal"):
        assert getattr(value, name, None) == getattr(copy, name, None)
    assert encode(value) == encode(copy)


def test_what_is_missing_comes_back_as_itself() -> None:
    assert pd.NaT is again(pd.NaT)
    assert pd.NA is again(pd.NA)


class OwnFrame(pd.DataFrame):
    pass


class TidalZone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(minutes=50)

    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)


NO_ZONE = "is a time zone that cannot be named"
EXACT = "which could not be rebuilt exactly"
NO_KIND = "is not a kind of value that can be stored"


@pytest.mark.parametrize(
    ("place", "why", "value"),
    [
        ("result['a']", f"has the dtype Sparse[int64, 0], {EXACT}", pd.DataFrame({"a": pd.arrays.SparseArray([1])})),
        ("result['price'][1]", NO_KIND, pd.DataFrame({"ok": [1, 2], "price": [1, object()]})),
        ("result.index[0]", NO_KIND, pd.DataFrame({"a": [1]}, index=[object()])),
        ("result.columns[0]", NO_KIND, pd.DataFrame([[1]], columns=[object()])),
        ("result.index.levels[1][0]", NO_KIND, pd.Series([1], index=pd.MultiIndex.from_arrays([[1], [print]]))),
        ("result.index.names[0]", NO_KIND, pd.Series([1], index=pd.MultiIndex.from_arrays([[1]], names=[print]))),
        ("result.name", NO_KIND, pd.Series([1], name=print)),
        ("result[2]", NO_KIND, pd.Series([1, "a", object()])),
        ("result['c'].cat.categories[0]", NO_KIND, pd.DataFrame({"c": pd.Categorical([print])})),
        ("result.categories[0]", NO_KIND, pd.CategoricalIndex([print])),
        ("result.attrs['x']", NO_KIND, noted(x=object())),
        ("result[0]", NO_ZONE, [pd.Timestamp("2024", tz=TidalZone())]),
        ("result.left", NO_ZONE, pd.Interval(*pd.to_datetime(["2024", "2025"]).tz_localize(TidalZone()))),
        ("result['a']", NO_ZONE, pd.DataFrame({"a": pd.to_datetime(["2024", "2025"]).tz_localize(TidalZone())})),
        ("result", "is not one of the kinds of pandas' values that can be rebuilt exactly", OwnFrame()),
        ("result", "is not one of the kinds of pandas' values that can be rebuilt exactly", pd.offsets.Day()),
        (
            "result",
            "is a frequency that its name 'C' does not stand for",
            pd.date_range("2020", periods=2, freq=pd.offsets.CustomBusinessDay(holidays=["2020-01-02"])),
        ),
        (
            "result",
            "is a frequency that its name '<DateOffset: days=1, hours=2>' does not stand for",
            pd.date_range("2020", periods=2, freq=pd.DateOffset(days=1, hours=2)),
        ),
        (
            "result",
            f"is a range of more than {MAX_UNUSED} categories or levels, and most are not used",
            pd.Categorical.from_codes([0], pd.RangeIndex(MAX_UNUSED + 1)),
        ),
        (
            "result",
            f"is a range of more than {MAX_UNUSED} categories or levels, and most are not used",
            pd.MultiIndex(levels=[pd.RangeIndex(MAX_UNUSED + 1)], codes=[[0]]),
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_could_not_be_rebuilt_is_refused_with_its_place(place: str, why: str, value: Any) -> None:
    with pytest.raises(ValueNotStorable) as caught:
        encode(value, "result")
    assert (place, why) == (caught.value.place, caught.value.why)


def test_a_note_stands_for_an_object_inside_a_frame() -> None:
    copy = decode(encode_leniently(pd.DataFrame({"a": [1, object()]})))
    assert [1, Opaque("builtins.object")] == copy["a"].tolist()
    assert Opaque("pandas.DataFrame") == decode(encode_leniently(pd.DataFrame({"a": pd.arrays.SparseArray([1])})))


def numbers(count: int, dtype: str = "<i8") -> ormsgpack.Ext:
    return ext(32, [dtype, [count], "C", bytes(count * np.dtype(dtype).itemsize)])


def span(stop: int) -> ormsgpack.Ext:
    return ext(34, ["range", 0, stop, 1, None])


COLUMN = ["numpy", numbers(1)]


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [5],
        ["unknown"],
        ["frame"],
        ["frame", 1, span(1), span(1), [], {}, True],
        ["frame", 2, span(1), span(2), [COLUMN], {}, True],
        ["frame", 1, span(1), [0], [COLUMN], {}, True],
        ["frame", True, span(1), span(1), [COLUMN], {}, True],
        ["frame", 1, span(1), span(1), [COLUMN], 5, True],
        ["frame", 1, span(1), span(1), [COLUMN], {}, 5],
        ["frame", 1, span(1), span(1), [["numpy", numbers(1, "<M8[D]")]], {}, True],
        ["frame", 1, span(1), span(1), [["numpy", ext(32, ["<i8", [1, 1], "C", bytes(8)])]], {}, True],
        ["frame", 1, span(1), span(1), [["numpy", ext(32, ["<U1", [1], "C", bytes(4)])]], {}, True],
        ["frame", 1, span(1), span(1), [["numpy", [1]]], {}, True],
        ["series", 1, COLUMN, span(2), None, {}, True],
        ["series", 2, COLUMN, span(2), None, {}, True],
        ["series", 1, COLUMN, span(1), [], {}, True],
        ["index", 1, ["strings", "python", "other", ["a"]], None, None],
        ["index", 1, ["strings", "pyarrow", "nan", ["a"]], None, None],
        ["index", 1, ["strings", "elsewhere", "nan", ["a"]], None, None],
        ["index", 1, ["strings", "python", "nan", [5]], None, None],
        ["index", 1, ["objects", 5], None, None],
        ["index", 2, COLUMN, None, None],
        ["index", 1, ["numpy", numbers(1, "<M8[D]")], None, None],
        ["index", 1, COLUMN, [], None],
        ["index", 1, ["datetimes", numbers(1, "<M8[ns]"), "../../etc/passwd"], None, None],
        ["index", 1, ["datetimes", numbers(1), None], None, None],
        ["index", 2, ["datetimes", numbers(2, "<M8[ns]"), None], None, "999999999YE"],
        ["index", 2, ["datetimes", numbers(2, "<M8[ns]"), None], None, "(D)"],
        ["index", 2, ["datetimes", numbers(2, "<M8[ns]"), None], None, 5],
        ["range", 0, 2**63, 1, None],
        ["range", 0, 1, 0, None],
        ["range", 0.0, 1, 1, None],
        ["levels", 1, [span(2**31)], [numbers(1)], [None], None],
        ["levels", 1, [[1]], [numbers(1)], [None], None],
        ["levels", 1, [span(1)], [[0]], [None], None],
        ["levels", 2, [span(1)], [numbers(1)], [None], None],
        ["levels", 1, [span(1)], [numbers(1)], [None], 5],
        ["levels", 0, [], [], [], None],
        ["array", 1, ["categories", numbers(1), span(2**31), False]],
        ["array", 1, ["categories", numbers(1), span(0), False]],
        ["array", 1, ["categories", numbers(1), [1], False]],
        ["array", 1, ["masked", numbers(1), numbers(1)]],
        ["array", 1, ["masked", numbers(1), numbers(2, "|b1")]],
        ["array", 1, ["masked", numbers(1, "<f2"), numbers(1, "|b1")]],
        ["array", 1, ["masked", numbers(1, ">i8"), numbers(1, "|b1")]],
        ["array", 1, ["intervals", span(2**31), span(2**31), "right"]],
        ["array", 1, ["intervals", COLUMN, COLUMN, "elsewhere"]],
        ["array", 1, ["periods", numbers(1), "nonsense"]],
        ["array", 2, ["timedeltas", numbers(1, "<m8[ns]")]],
        ["array", 1, COLUMN],
        ["timestamp", -(2**63), "ns", None, 0],
        ["timestamp", 2**62, "s", "Europe/Berlin", 0],
        ["timestamp", 1, "fortnight", None, 0],
        ["timestamp", "1", "s", None, 0],
        ["timestamp", 1, "s", None, 5],
        ["timedelta", -(2**63), "ns"],
        ["timedelta", 1.5, "ns"],
        ["period", -(2**63), "D"],
        ["period", "1", "D"],
        ["interval", 2, 1, "right"],
        ["interval", 1, 2, "sideways"],
    ],
    ids=itertools.count(),
)
def test_damaged_values_are_refused(parts: Any) -> None:
    with pytest.raises(ValueNotReadable):
        decode(written(*parts))


def test_a_long_range_allocates_nothing() -> None:
    assert 2**62 == len(decode(written("range", 0, 2**62, 1, None)))
    assert (2**40, 0) == decode(written("frame", 2**40, span(0), span(2**40), [], {}, True)).shape


ENCODED = [encode(value) for value in (*LABELS.values(), *FRAMES.values(), *SCALARS)]


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(ENCODED), st.data())
def test_changed_encodings_are_read_or_refused(data: bytes, drawn: st.DataObject) -> None:
    changed = bytearray(data)
    changed[drawn.draw(st.integers(0, len(data) - 1))] = drawn.draw(st.integers(0, 255))
    with suppress(ValueNotReadable):
        decode(bytes(changed))


CELLS = st.one_of(st.none(), st.integers(), st.floats(), st.text(max_size=4), st.tuples(st.integers()), st.binary())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.lists(CELLS, min_size=3, max_size=3), st.booleans()), max_size=3),
    st.lists(st.integers() | st.text(max_size=3), min_size=3, max_size=3),
)
def test_any_frame_of_values_comes_back(columns: Any, labels: list[Any]) -> None:
    series = [pd.Series(cells, dtype=object if is_object else None) for cells, is_object in columns]
    frame = pd.DataFrame(dict(enumerate(series)), index=None if not series else range(3))
    if series:
        frame.index = pd.Index(labels)
    same_frame(frame, again(frame))
