"""Generated nested values of all kinds: nothing is lost, equal values have equal bytes, and every reading is fresh."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
from acceptance import table_of_types as types
from acceptance.forms import form
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from limpet.codec.values import decode, encode

THOROUGH = settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
ZONES = st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-3), "BRT"), timezone.max])
DTYPES = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
    hnp.byte_string_dtypes(max_len=4),
    hnp.unicode_string_dtypes(max_len=4),
)
MEMBERS = st.sampled_from(
    [types.Tide.HIGH, types.Depth.DEEP, types.Zone.REEF, types.Gear.MASK | types.Gear.FINS, types.Right.READ]
)
NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.complex_numbers(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.fractions(),
)
MOMENTS = st.one_of(
    st.datetimes(timezones=ZONES), st.dates(), st.times(timezones=st.sampled_from([None, UTC])), st.timedeltas()
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    NUMBERS,
    TEXT,
    st.binary(max_size=12),
    MOMENTS,
    MEMBERS,
    st.uuids(),
    st.ip_addresses(),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.sampled_from([1, -2, 2**70])),
    st.builds(re.compile, st.sampled_from(["a+", r"(?i)\w", "[äöü]", "🦑"]), st.sampled_from([0, re.MULTILINE])),
    st.sampled_from([Path("/x"), Path("a/../b"), Path("\udcff")]),
    st.builds(types.Point, st.integers(), st.integers()),
    st.builds(types.Fish, TEXT, st.floats()),
    st.builds(types.Buoy, TEXT, st.integers()),
)
ARRAYS = st.one_of(
    DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))),
    DTYPES.flatmap(hnp.from_dtype).filter(lambda scalar: isinstance(scalar, np.generic)),
    st.builds(pl.Series, st.just("s"), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3)),
    st.builds(lambda items: pd.Series(items, dtype=object), st.lists(SCALARS, max_size=3)),
    st.builds(lambda items: pd.DataFrame({"a": items}), st.lists(st.floats(), max_size=3)),
)
ATOMS = st.one_of(SCALARS, SCALARS, SCALARS, ARRAYS)
KEYS = st.one_of(SCALARS, st.tuples(SCALARS, SCALARS), st.frozensets(SCALARS, max_size=3))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        st.builds(deque, lists, st.none() | st.integers(4, 9)),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.builds(OrderedDict, st.dictionaries(KEYS, inner, max_size=3)),
        st.builds(defaultdict, st.sampled_from([None, list, types.Knotted]), st.dictionaries(KEYS, inner, max_size=3)),
        st.builds(Counter, st.dictionaries(KEYS, st.integers(), max_size=3)),
        st.sets(KEYS, max_size=4),
        st.frozensets(KEYS, max_size=4),
        st.builds(bytearray, st.binary(max_size=12)),
        instances(inner),
    )


def instances(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.builds(types.Slotted, TEXT, inner),
        st.builds(types.Box, inner),
        st.builds(types.Report, TEXT, st.just([])),
        st.builds(lambda item: types.Crate[Any](item=item), inner),
        st.builds(lambda item: types.Open.model_validate({"known": 1, "more": item}), inner),
        st.builds(types.KnotOf, inner),
        st.builds(lambda name, item: types.FrozenKnot(name=name, inner=item), TEXT, inner),
        st.builds(types.AnchorOf, inner),
        st.builds(ValueError, inner),
        st.builds(lambda place: types.noted(types.SeaError(place, 3)), TEXT),
    )


VALUES = st.recursive(ATOMS, containers, max_leaves=20)


@THOROUGH
@given(VALUES)
def test_a_generated_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    before = form(value)
    assert before == form(decode(encode(value)))
    assert before == form(value), "encoding changed the value"


@THOROUGH
@given(VALUES)
def test_the_bytes_of_a_generated_value_are_always_the_same(value: Any) -> None:
    data = encode(value)
    assert data == encode(value)
    assert data == encode(decode(data))


@THOROUGH
@given(VALUES)
def test_every_reading_of_a_generated_value_is_a_value_of_its_own(value: Any) -> None:
    data = encode(value)
    first, second = decode(data), decode(data)
    assert form(first) == form(second)
    shared = mutable_parts(first) & mutable_parts(second)
    assert set() == shared


def mutable_parts(value: Any) -> set[int]:
    """The identities of what can be changed in a value."""
    found = set[int]()
    to_look_at = [value]
    while to_look_at:
        part = to_look_at.pop()
        match part:
            case list() | set() | deque() | bytearray() | np.ndarray() | pl.Series() | pd.Series() | pd.DataFrame():
                found.add(id(part))
                to_look_at += part if isinstance(part, list | deque) else ()
            case dict():
                found.add(id(part))
                to_look_at += part.values()
            case tuple():
                to_look_at += part
            case BaseException() | types.BaseModel():
                found.add(id(part))
                to_look_at += vars(part).values()
            case _:
                pass
    return found
