"""Recorded values are shown without importing anything of the pipeline or of a library."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, datetime
from ipaddress import ip_network
from typing import Any

import numpy as np
import ormsgpack
import pandas as pd
import polars as pl
import pytest
from unit.codec.sample_types import Page, Point, Tide

from limpet.cli.readable import Instance, plain, preview, read
from limpet.codec.kinds import Opaque
from limpet.codec.values import encode


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


@pytest.mark.parametrize(
    "value",
    [
        deque([1, 2], 5),
        range(1, 9, 2),
        OrderedDict(b=1, a=2),
        Counter("kelp"),
        defaultdict(list, {"a": [1]}),
        re.compile("kelp", re.IGNORECASE),
        ip_network("10.0.0.0/8"),
        datetime(2024, 1, 1, tzinfo=UTC),
        {1, 2},
    ],
    ids=repr,
)
def test_values_of_python_are_shown_as_themselves(value: Any) -> None:
    assert repr(value) == repr(read(encode(value)))


NOTHING = pd.DataFrame()
DAYS = pd.date_range("2024", periods=2)


@pytest.mark.parametrize(
    ("shown", "value"),
    [
        ("ndarray(dtype='<f8', shape=(2, 3))", np.zeros((2, 3))),
        ("ndarray(dtype='<i8', shape=())", np.array(1, np.longlong)),
        ("ndarray(dtype='{a: <i4, b: <f8}', shape=(1,))", np.zeros(1, [("a", "i4"), ("b", "f8", 2)])),
        ("float64(1.5)", np.float64(1.5)),
        ("float16(0.5)", np.float16(0.5)),
        ("int8(-3)", np.int8(-3)),
        ("uint16(300)", np.uint16(300)),
        ("int64(5)", np.longlong(5)),
        ("bool(True)", np.bool_(True)),
        ("str_('a')", np.str_("a")),
        ("bytes_(b'a')", np.bytes_(b"a")),
        ("generic(dtype='<M8[D]')", np.datetime64("2024-01-01")),
        ("generic(dtype='<f16')", np.longdouble(1)),
        ("generic(dtype='<c16')", np.complex128(1j)),
        ("DataFrame(shape=(2, 1), columns=Index(labels=['a'], length=1, name=None))", pd.DataFrame({"a": [1, 2]})),
        ("DataFrame(shape=(0, 0), columns=RangeIndex(0, 0, 1))", NOTHING),
        ("Series(name='s', length=2, dtype='<i8')", pd.Series([1, 2], name="s")),
        ("Series(name=None, length=1, dtype='strings')", pd.Series(["a"])),
        ("Series(name=None, length=1, dtype='<i8')", pd.Series([1], dtype="Int64")),
        ("Index(labels='<M8[us]', length=2, name=None)", DAYS.as_unit("us")),
        ("MultiIndex(names=[None, 'b'], length=1)", pd.MultiIndex.from_arrays([[1], [2]], names=[None, "b"])),
        ("array(length=1, dtype='categories')", pd.Categorical(["a"])),
        ("Timestamp(5, 'ns', None, 0)", pd.Timestamp(5)),
        ("Timedelta(5, 'ns')", pd.Timedelta(5)),
        ("Interval(1, 2, 'right')", pd.Interval(1, 2)),
        ("NaT()", pd.NaT),
        ("DataFrame(shape=(2, 2), columns=['a', 'b'])", pl.DataFrame({"a": [1, 2], "b": ["x", "y"]})),
        ("Series(name='s', length=1, dtype='Int64')", pl.Series("s", [1])),
        ("Series(name='', length=1, dtype='List')", pl.Series([[1]])),
        ("Page(url='a', lines=[])", Page("a")),
        ("Tide.LOW", Tide.LOW),
        ("open.File()", Opaque("open.File")),
        ("dict([Point(x=1, y=2), 'here'])", {Point(1, 2): "here"}),
        ("set(Point(x=1, y=2))", {Point(1, 2)}),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_other_values_are_described(shown: str, value: Any) -> None:
    assert shown == repr(read(encode(value)))
    assert f"[{shown}]" == preview(read(encode([value])), 200)


def test_a_defaultdict_is_shown_without_its_class() -> None:
    assert "defaultdict('gone:Page', [['a', 1]])" == repr(read(written(26, ["gone:Page", [["a", 1]]])))


ARTIFACT = ["sha256:" + "ab" * 32, "npy", 800, "float64, 100 items", ""]


@pytest.mark.parametrize(
    ("shown", "tag", "parts"),
    [
        ("artifact(id='sha256:abababababab', adapter='npy', size=800, preview='float64, 100 items')", 37, ARTIFACT),
        ("<secret api_key>", 38, ["api_key", b"mark"]),
        ("sea.Page(url='a')", 36, ["sea.Page", 2, 18, ["module:Page", {"url": "a"}]]),
        ("Tide.LOW", 36, ["Tide", 1, 17, ["module:Tide", "LOW", None]]),
        ("Money([5, 'EUR'])", 36, ["Money", 1, None, [5, "EUR"]]),
        ("Money(amount=5)", 36, ["Money", 1, None, {"amount": 5}]),
        ("Money('5 EUR')", 36, ["Money", 1, None, "5 EUR"]),
        ("Odd(pickle='3 bytes')", 36, ["Odd", 1, "pickle", b"abc"]),
        ("value with tag 99(1, 2)", 99, [1, 2]),
        ("value with tag 99('text')", 99, "text"),
        ("value with tag 32(5)", 32, 5),
        ("value with tag 34(5)", 34, 5),
        ("value with tag 35('frame')", 35, ["frame"]),
        ("value with tag 38()", 38, []),
        ("deque(-1, [])", 24, [-1, []]),
    ],
)
def test_what_is_not_known_or_not_at_hand_does_not_break_a_listing(shown: str, tag: int, parts: Any) -> None:
    assert shown == repr(read(written(tag, parts)))
    inner = ormsgpack.Ext(tag, ormsgpack.packb(parts))
    assert f"[1, {shown}]" == repr(read(ormsgpack.packb([1, inner])))


def test_damaged_bytes_are_shown_as_such() -> None:
    assert "2 bytes that cannot be shown()" == repr(read(b"\x92\x01"))


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        ([1, [2]], deque([1, deque([2])])),
        ("range(0, 3)", range(3)),
        ({"a": 1}, Counter("a")),
        ({"1": [2]}, defaultdict(list, {1: [2]})),
        ("10.0.0.0/8", ip_network("10.0.0.0/8")),
        ({"dtype": "<f8", "shape": [2]}, np.zeros(2)),
        ([1.5], np.float64(1.5)),
    ],
)
def test_values_can_be_said_in_json(expected: Any, value: Any) -> None:
    assert expected == plain(read(encode(value)))


def test_a_secret_is_a_name_in_json() -> None:
    assert ["<secret api_key>"] == plain([read(written(38, ["api_key", b"mark"]))])
    assert {"x": 1} == plain(Instance("a:B", {"x": 1}))
