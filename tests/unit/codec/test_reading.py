"""Stored values that cannot be built again are refused with the reason named, whatever their bytes are."""

from __future__ import annotations

import sys
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import ormsgpack
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from unit.codec import sample_types as types
from unit.codec.sample_types import Animal, Fish, Gear, Page, Point, Tide
from unit.codec.user_types import class_types

from limpet.codec import values
from limpet.codec.kinds import Kind
from limpet.codec.user_types import classes
from limpet.codec.values import decode, encode
from limpet.errors import ValueNotReadable

HERE = types.__name__
MORE = class_types.__name__
THOROUGH = settings(
    max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


def written(tag: int, parts: Any) -> bytes:
    return ormsgpack.packb(ormsgpack.Ext(tag, ormsgpack.packb(parts)))


def refused(data: bytes) -> ValueNotReadable:
    with pytest.raises(ValueNotReadable) as caught:
        decode(data)
    return caught.value


def recorded_as(value: object, name: str) -> bytes:
    """The bytes of a value, as if its class had had that (equally long) name."""
    own = type(value).__qualname__
    assert len(own) == len(name)
    return encode(value).replace(f"{HERE}:{own}".encode(), f"{HERE}:{name}".encode())


@pytest.mark.parametrize(
    ("data", "name", "recorded", "declared"),
    [
        (written(18, [f"{HERE}:Point", {"x": 1, "z": 2}, {}]), "Point", "x, z", "x, y"),
        (written(18, [f"{HERE}:Page", {"url": "a"}, {}]), "Page", "url", "lines, url"),
        (written(19, [f"{HERE}:Fish", {"name": "a", "size": 1}, {}]), "Fish", "name, size", "name, weight"),
        (written(20, [f"{HERE}:Animal", {"name": "a"}, None, [], {}]), "Animal", "name", "legs, name"),
    ],
)
def test_a_class_that_has_changed_is_refused_with_both_shapes_named(
    data: bytes, name: str, recorded: str, declared: str
) -> None:
    error = refused(data)
    assert f"{HERE}:{name}" == error.type_name
    assert (
        f"it was recorded with the fields {recorded} and now has {declared}; register it with `version=` and an "
        "`upgrade=` that turns the one into the other"
    ) == error.why


def test_a_changed_class_deep_inside_is_named_as_well() -> None:
    inner = ormsgpack.Ext(18, ormsgpack.packb([f"{HERE}:Point", {"x": 1}, {}]))
    outer = ormsgpack.Ext(1, ormsgpack.packb([1, ormsgpack.Ext(1, ormsgpack.packb([inner]))]))
    assert f"{HERE}:Point" == refused(ormsgpack.packb({"a": [outer]})).type_name


def test_a_removed_member_of_an_enum_is_named() -> None:
    assert (f"{HERE}:Tide", "it has no member 'NEAP' any more") == refused(
        written(17, [f"{HERE}:Tide", "NEAP", None])
    ).args


def test_a_removed_value_of_a_flag_is_named() -> None:
    assert (f"{HERE}:Gear", "it does not have the value 1024 any more") == refused(
        written(17, [f"{HERE}:Gear", None, 1024])
    ).args


def test_a_member_without_a_name_is_refused_where_the_enum_is_no_flag() -> None:
    assert "it has no member None any more" == refused(written(17, [f"{HERE}:Tide", None, 1])).why


def test_a_class_that_became_something_else_is_refused() -> None:
    assert (
        "it was recorded as a dataclass, and the class of that name is none now"
        == refused(recorded_as(Point(1, 2), "Depth")).why
    )


def test_an_exception_whose_arguments_no_longer_fit_is_refused() -> None:
    error = refused(written(21, ["builtins:UnicodeDecodeError", ["utf-8"], {}, {}]))
    assert "builtins:UnicodeDecodeError" == error.type_name
    assert error.why.startswith("it cannot be built from its arguments (")


def test_a_kind_that_is_not_known_is_named() -> None:
    assert ("with tag 99", "this version of Limpet does not know it") == refused(written(99, 1)).args


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x92\x01",
        b"\x81\x01\x01",
        b"\xa5ab",
        b"\xa1\xff",
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xd7\xff" + bytes(8),
        b"\x91" * 100_000,
        ormsgpack.packb(ormsgpack.Ext(1, b"")),
        written(1, 5),
        written(2, [[1]]),
        written(4, [[1]]),
        written(4, [[[], 1]]),
        written(4, 3),
        written(5, "text"),
        written(6, 5),
        written(6, b"\xff"),
        written(7, 10**12),
        written(7, "text"),
        written(8, b"short"),
        written(9, ["yesterday", 0, None]),
        written(9, ["2024-01-01T00:00:00", 2, None]),
        written(9, ["2024-01-01T00:00:00", 0, "Nowhere/City"]),
        written(9, ["2024-01-01T00:00:00", 0, "../../etc/passwd"]),
        written(9, ["2024-01-01T00:00:00", 0, "/etc/passwd"]),
        written(9, ["2024-01-01T00:00:00", 0, "Europe"]),
        written(9, ["2024-01-01T00:00:00", 0, [10**18, "far"]]),
        written(9, []),
        written(10, "2024-13-01"),
        written(11, ["25:00", 0, None]),
        written(12, [10**15, 0, 0]),
        written(13, "one"),
        written(14, [1, 0]),
        written(14, ["1", "3"]),
        written(14, [1]),
        written(15, "x" * 16),
        written(15, b"short"),
        written(16, ["Path", "x"]),
        written(16, ["WindowsPath", "x"]),
        written(16, ["PosixPath", 5]),
        written(17, []),
        written(18, [f"{HERE}:Point", 5, {}]),
        written(18, [f"{HERE}:Point", {"x": 1, "y": 2}, 5]),
        written(18, [f"{HERE}:Slotted", {"name": "a", "data": 1}, {"other": 1}]),
        written(19, [f"{HERE}:Fish", [], {}]),
        written(20, [f"{HERE}:Animal", {"name": "a", "legs": 1}, None, 5, {}, None]),
        written(21, ["builtins:ValueError", 5, {}, {}]),
        written(21, ["builtins:ValueError", [], 5, {}]),
        written(21, ["builtins:ExceptionGroup", ["several", [1]], {}, {}]),
        written(30, {})[:-1],
    ],
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    assert isinstance(refused(data), ValueNotReadable)


def test_the_reason_is_kept_as_the_cause() -> None:
    assert isinstance(refused(written(14, [1, 0])).__cause__, ZeroDivisionError)
    assert "its bytes are damaged (Fraction(1, 0))" == refused(written(14, [1, 0])).why


def test_a_refusal_leaves_nothing_behind_for_the_next_reading() -> None:
    refused(written(14, [1, 0]))
    assert (1, 2) == decode(encode((1, 2)))
    assert "unexpected end of file" in refused(b"\x92\x01").why


def test_an_interrupt_while_reading_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_parts: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setitem(values._kinds_by_tag, 99, Kind(99, lambda value, _lower: value, interrupted))
    with pytest.raises(KeyboardInterrupt):
        decode(written(1, [ormsgpack.Ext(99, b"\x01")]))


def test_reading_names_no_module_to_import() -> None:
    before = set(sys.modules)
    refused(written(18, ["antigravity:Thing", {}, {}]))
    assert before == set(sys.modules)


def test_without_pydantic_no_class_is_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pydantic")
    assert classes.family_of(Animal) is None
    assert "a dataclass" == classes.family_of(Page)


SAMPLES: list[Any] = [
    {"a": [1, 2.5, None, True, "text", b"bytes"], "b": (1, {2, 3}, frozenset({4}))},
    [2**100, 1j, bytearray(b"x"), "\ud800", {1: 2}],
    [datetime(2024, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), datetime(2024, 1, 1, tzinfo=UTC), date(2024, 1, 1)],
    [Decimal("1.5"), Fraction(1, 3), UUID(int=1), Path("/x")],
    [Tide.LOW, Gear.MASK | Gear.FINS, Page("a", ["b"]), Fish("cod"), types.Slotted("a", Point(1, 2))],
    types.Shelter(star=Animal(name="a"), animals=[types.Dog(name="b")]),
    [types.SeaError("reef", 3), FileNotFoundError(2, "no", "x"), ExceptionGroup("g", [ValueError(1), KeyError(2)])],
    [class_types.Anchor(1.5), class_types.Knot("reef", [1]), class_types.Crate[list[int] | None](item=[1])],
]
ENCODED = [encode(sample) for sample in SAMPLES]


def read_or_refuse(data: bytes) -> None:
    """Anything else that is raised fails the test."""
    before = set(sys.modules)
    with suppress(ValueNotReadable):
        decode(data)
    assert set() == {name for name in set(sys.modules) - before if not name.startswith("tzdata")}


@THOROUGH
@given(st.binary(max_size=60))
@example(b"\xc7\x00\x01")
def test_random_bytes_are_read_or_refused(data: bytes) -> None:
    read_or_refuse(data)


@THOROUGH
@given(st.integers(0, 127), st.binary(max_size=40))
def test_random_bytes_under_any_tag_are_read_or_refused(tag: int, data: bytes) -> None:
    read_or_refuse(ormsgpack.packb(ormsgpack.Ext(tag, data)))


PARTS = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(),
        st.text(max_size=8),
        st.binary(max_size=16),
        st.sampled_from([f"{HERE}:{name}" for name in ("Tide", "Gear", "Page", "Fish", "Animal", "SeaError")]),
        st.sampled_from([f"{MORE}:{name}" for name in ("Anchor", "Knot", "Crate", "Aliased", "AttrsError")]),
        st.sampled_from(["class", "of", "or", "model", "literal", "variable", "none", "builtins:list", "pickle"]),
        st.sampled_from(["builtins:ValueError", "builtins:OSError", "builtins:ExceptionGroup", "UTC", "2024-01-01"]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=6),
        st.dictionaries(st.sampled_from(["url", "lines", "name", "weight", "legs", "x"]), inner, max_size=3),
        st.builds(lambda tag, parts: ormsgpack.Ext(tag, ormsgpack.packb(parts)), st.integers(1, 39), inner),
    ),
    max_leaves=12,
)


@settings(THOROUGH, max_examples=1000)
@given(st.integers(1, 39), PARTS)
def test_any_parts_under_any_tag_are_read_or_refused(tag: int, parts: Any) -> None:
    read_or_refuse(written(tag, parts))


@THOROUGH
@given(st.sampled_from(ENCODED), st.data())
def test_changed_encodings_are_read_or_refused(data: bytes, drawn: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(drawn.draw(st.integers(1, 3))):
        place = drawn.draw(st.integers(0, len(changed) - 1))
        match drawn.draw(st.sampled_from(["set", "cut", "insert", "remove"])):
            case "set":
                changed[place] = drawn.draw(st.integers(0, 255))
            case "cut":
                changed = changed[: place + 1]
            case "insert":
                changed[place:place] = drawn.draw(st.binary(min_size=1, max_size=4))
            case _:
                changed[place : place + 1] = b"" if len(changed) > 1 else b"\xc1"
    read_or_refuse(bytes(changed))


@pytest.mark.parametrize("number", range(len(ENCODED)))
def test_every_truncation_is_refused(number: int) -> None:
    for length in range(len(ENCODED[number])):
        refused(ENCODED[number][:length])
