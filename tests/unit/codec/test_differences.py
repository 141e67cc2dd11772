"""How two values differ: the place, what stood there and what stands there now, in words for people."""

from __future__ import annotations

import copy
import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
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
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr, TypeAdapter, ValidationError
from unit.codec import sample_types as types
from unit.codec.sample_types import Animal, Depth, Fish, Gear, Open, Page, Point, Report, Tide

from limpet import NotStored, Secret, register_type
from limpet.codec import differences as module
from limpet.codec.comparison.findings import Pair, Place, changed
from limpet.codec.comparison.leaves import is_same_whole
from limpet.codec.comparison.walk import Walk, Whole
from limpet.codec.differences import differences
from limpet.codec.secrets import MissingSecret
from limpet.codec.values import decode, encode
from limpet.model.difference import Difference, DifferenceKind

THOROUGH = settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def told(before: object, after: object, **options: Any) -> list[str]:
    return [str(each) for each in differences(before, after, **options)]


def walked(before: object, after: object) -> list[str]:
    """What the walk itself tells, without the bytes being compared first."""
    walk = Walk(module._rule, Whole(is_same_whole, changed))
    return [str(each) for each in walk.differences(Pair(before, after, Place("result")))]


@attrs.define
class Buoy:
    colour: str
    depth: int = 0


class Knot(msgspec.Struct):
    turns: int
    inner: Any = None


@dataclass
class Login:
    user: str
    key: Annotated[str, Secret]
    cache: Annotated[dict[str, int], NotStored] = field(default_factory=dict)


class Account(BaseModel):
    name: str
    password: SecretStr
    token: SecretBytes = SecretBytes(b"t0ken")


class KeyError_(Exception):
    key: Annotated[str, Secret]

    def __init__(self, key: str, place: str) -> None:
        super().__init__(f"{key} does not open {place}")
        self.key = key
        self.place = place
        self.hint = [f"is {key} old?", (key, {key: key, "place": place})]


@dataclass
class Session:
    """Could not be stored: a field that is not stored must have a default."""

    user: str
    key: Annotated[str, Secret]
    lock: Annotated[object, NotStored]


class Safe:
    code: Annotated[str, Secret]

    def __init__(self, code: str) -> None:
        self.code = code

    def __repr__(self) -> str:
        return f"Safe({self.code})"


class Plain:
    """Of no family, so that it cannot be stored."""

    def __init__(self, content: object) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Plain) and self.content == other.content

    def __repr__(self) -> str:
        return f"Plain({self.content!r})"


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    def __hash__(self) -> int:
        return 7


@dataclass
class Trap:
    number: int

    @property
    def __dict__(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise RuntimeError("do not look")


# What a difference is.


def test_a_difference_is_a_line_for_people() -> None:
    assert "result.title: 'kelp' -> 'wrack'" == str(Difference("result.title", "'kelp'", "'wrack'"))
    assert "result['b']: added 2" == str(Difference(place="result['b']", after="2", kind=DifferenceKind.ADDED))
    assert "result['b']: removed 2" == str(Difference(place="result['b']", before="2", kind=DifferenceKind.REMOVED))


def test_a_difference_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Difference("result").place = "input"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_difference_says_what_stood_there_before_and_after() -> None:
    assert [
        Difference("input['a']", "1", "2"),
        Difference("input['b']", "3", "", DifferenceKind.REMOVED),
        Difference("input['c']", "", "4", DifferenceKind.ADDED),
    ] == differences({"a": 1, "b": 3}, {"a": 2, "c": 4}, "input")


# Scalars and types.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (1, 2, "result: 1 -> 2"),
        (1, "1", "result: int 1 -> str '1'"),
        (1, True, "result: int 1 -> bool True"),
        (1, 1.0, "result: int 1 -> float 1.0"),
        (None, 0, "result: None -> int 0"),
        (0.0, -0.0, "result: 0.0 -> -0.0"),
        (float("nan"), -float("nan"), "result: nan -> nan (of other bytes)"),
        (1j, 2j, "result: 1j -> 2j"),
        (Decimal("1.0"), Decimal("1.00"), "result: Decimal('1.0') -> Decimal('1.00')"),
        (range(3), range(4), "result: range(0, 3) -> range(0, 4)"),
        (re.compile("a"), re.compile("b"), "result: re.compile('a') -> re.compile('b')"),
        ([1], (1,), "result: list [1] -> tuple (1,)"),
        ({1}, frozenset({1}), "result: set {1} -> frozenset({1})"),
        ({}, OrderedDict(), "result: dict {} -> OrderedDict({})"),
        (Tide.LOW, Tide.HIGH, "result: Tide.LOW -> Tide.HIGH"),
        (Gear.MASK, Gear.MASK | Gear.FINS, "result: Gear.MASK -> Gear.MASK|FINS"),
        (Depth.DEEP, 2, "result: Depth.DEEP -> int 2"),
        (Point(1, 2), {"x": 1, "y": 2}, "result: Point(x=1, y=2) -> dict {'x': 1, 'y': 2}"),
        (np.float64(1), 1.0, "result: float64 np.float64(1.0) -> float 1.0"),
        (np.float64(1), np.float64(2), "result: np.float64(1.0) -> np.float64(2.0)"),
    ],
)
def test_scalars_and_types_are_told_apart(before: object, after: object, expected: str) -> None:
    assert [expected] == told(before, after)
    assert [expected.replace("result", "result[0]")] == told([before], [after])


def test_an_integer_that_python_does_not_write_out_is_shown_by_its_size() -> None:
    assert ["result: <int of 16610 bits> -> <int of 16613 bits>"] == told(10**5000, 10**5001)


def test_a_nan_is_itself() -> None:
    assert [] == differences(float("nan"), float("nan"))
    assert ["result[1]: 1 -> 2"] == told([float("nan"), 1], [float("nan"), 2])


def test_classes_of_one_name_are_told_apart_by_their_modules() -> None:
    one, other = (type("Same", (), {"__module__": name, "__repr__": lambda _: "same"}) for name in ("reef", "shore"))
    assert ["result: reef.Same Same same -> shore.Same Same same"] == told(one(), other())


def test_moments_differ_by_zone_and_fold() -> None:
    moment = datetime(2024, 10, 27, 2, 30, tzinfo=UTC)
    assert 1 == len(differences(moment, moment.replace(fold=1)))
    assert 1 == len(differences(moment, moment.replace(tzinfo=None)))


# Text and bytes.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("kelp", "wrack", "result: 'kelp' -> 'wrack'"),
        ("\ud800", "\ud801", "result: '\\ud800' -> '\\ud801'"),
        ("a\nb\nc", "a\nx\nc", "result (line 2): 'b' -> 'x'"),
        ("a", "a\nb", "result (line 2): added 'b'"),
        ("a\nb\nc", "a\nb", "result (line 3): removed 'c'"),
        ("a\nb", "a\nb\n", "result (line 3): added ''"),
        ("a\nb", "a!\nb", "result (line 1): 'a' -> 'a!'"),
        ("a\n\nb", "a\nb", "result (line 2): '' -> 'b'"),
        ("x" * 90 + "kelp", "x" * 90 + "wrack", f"result (position 90): …'{'x' * 20}kelp' -> …'{'x' * 20}wrack'"),
        (
            "a\n" + "x" * 90 + "kelp" + "y" * 90,
            "a\n" + "x" * 90 + "wrack",
            f"result (line 2, position 90): …'{'x' * 20}kelp{'y' * 36}'… -> …'{'x' * 20}wrack'",
        ),
        (b"kelp", b"wrack", "result: b'kelp' -> b'wrack'"),
        (b"0" * 50 + b"1", b"0" * 50 + b"2", "result (offset 50): …b'000001' -> …b'000002'"),
        (bytearray(b"0" * 50), bytearray(b"0" * 51), "result (offset 50): …b'00000' -> …b'000000'"),
        (bytearray(b"a"), bytearray(b"b"), "result: bytearray(b'a') -> bytearray(b'b')"),
    ],
)
def test_of_text_and_bytes_the_first_difference_is_shown(before: object, after: object, expected: str) -> None:
    assert [expected] == told(before, after)


@given(st.text("ab\n", max_size=30), st.text("ab\n", max_size=30))
def test_the_line_that_is_named_is_the_first_that_differs(before: str, after: str) -> None:
    found = differences(before, after)
    assert (before != after) == (len(found) == 1)
    if found and "line" in found[0].place:
        number = int(found[0].place.split("line ")[1][:-1])
        one, other = before.split("\n"), after.split("\n")
        assert one[: number - 1] == other[: number - 1]
        assert one[number - 1 : number] != other[number - 1 : number]


# Containers.


@pytest.mark.parametrize("make", [list, tuple, deque], ids=lambda make: make.__name__)
def test_sequences_are_compared_by_index(make: Callable[[list[int]], object]) -> None:
    assert ["result[1]: 2 -> 5", "result[2]: 3 -> 6"] == told(make([1, 2, 3]), make([1, 5, 6]))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1, 2, 3], [1, 9, 2, 3], ["result[1]: added 9"]),
        ([1, 9, 2, 3], [1, 2, 3], ["result[1]: removed 9"]),
        ([1, 2], [1, 2, 3, 4], ["result[2]: added 3", "result[3]: added 4"]),
        ([1, 2], [], ["result[0]: removed 1", "result[1]: removed 2"]),
        ([1, 1], [1], ["result[1]: removed 1"]),
        ([0, 1, 2, 9], [0, 5, 2, 3, 9], ["result[1]: 1 -> 5", "result[3]: added 3"]),
        ([True, 2], [1, True, 2], ["result[0]: added 1"]),
        ([[1], [2, 3]], [[1], [2]], ["result[1][1]: removed 3"]),
        ([[1, 2], [5]], [[1], [2], [5]], ["result[0][1]: removed 2", "result[1]: added [2]"]),
        ([Page("a"), Page("b")], [Page("n"), Page("a"), Page("b")], ["result[0]: added Page(url='n', lines=[])"]),
        ((1, 2), (2,), ["result[0]: removed 1"]),
        (deque([1, 2]), deque([2]), ["result[0]: removed 1"]),
    ],
)
def test_what_was_put_in_or_taken_out_does_not_shift_the_rest(
    before: object, after: object, expected: list[str]
) -> None:
    assert expected == told(before, after)


def test_the_bound_of_a_deque_and_the_factory_of_a_defaultdict_count() -> None:
    assert ["result.maxlen: 3 -> 4"] == told(deque([1], 3), deque([1], 4))
    assert ["result.default_factory: <class 'list'> -> <class 'int'>"] == told(defaultdict(list), defaultdict(int))


@pytest.mark.parametrize(
    "make",
    [dict, OrderedDict, Counter, lambda pairs: defaultdict(int, pairs)],
    ids=["dict", "OrderedDict", "Counter", "defaultdict"],
)
def test_mappings_are_compared_by_key_and_order(make: Callable[[dict[str, int]], object]) -> None:
    before = make({"a": 1, "b": 2, "c": 3})
    assert ["result['a']: 1 -> 9", "result['b']: removed 2", "result['d']: added 4"] == told(
        before, make({"a": 9, "c": 3, "d": 4})
    )
    assert ["result (order of keys): ['b', 'c'] -> ['c', 'b']"] == told(before, make({"a": 1, "c": 3, "b": 2}))


def test_keys_are_the_same_only_where_their_types_are() -> None:
    assert ["result[1]: removed 'a'", "result[True]: added 'a'"] == told({1: "a"}, {True: "a"})
    assert ["result[(1, 2)]: 0 -> 1"] == told({(1, 2): 0}, {(1, 2): 1})


def test_keys_that_cannot_be_stored_are_found_by_equality() -> None:
    assert ["result[<class 'int'>]: 1 -> 2"] == told({int: 1, str: 0}, {int: 2, str: 0})
    assert 2 == len(differences({Hostile(): 1}, {Hostile(): 1}))
    assert ["result[<class 'int'>]: removed 1", "result[Hostile]: added 1"] == [
        re.sub("<Hostile.*?>", "Hostile", each) for each in told({int: 1}, {Hostile(): 1})
    ]


def test_several_nan_may_be_keys() -> None:
    one, other = ({float("nan"): 1, float("nan"): each} for each in (2, 3))
    assert ["result[nan]: 2 -> 3"] == told(one, other)
    assert ["result: removed nan"] == told({float("nan"), float("nan")}, {float("nan")})


@pytest.mark.parametrize("make", [set, frozenset])
def test_sets_are_compared_by_elements(make: Callable[[set[object]], object]) -> None:
    assert ["result: removed 2", "result: added 'x'", "result: added 3"] == told(make({1, 2}), make({3, 1, "x"}))
    assert ["result: removed 1", "result: added True"] == told(make({1}), make({True}))


def test_the_place_leads_through_nested_values() -> None:
    before: Any = {"a": [Report("t", [Page("a"), Page("b", ["x"])]), {"k": (1, {2: "y"})}]}
    after = copy.deepcopy(before)
    after["a"][0].pages[1].lines[0] = "z"
    after["a"][1]["k"][1][2] = "w"
    assert ["result['a'][0].pages[1].lines[0]: 'x' -> 'z'", "result['a'][1]['k'][1][2]: 'y' -> 'w'"] == told(
        before, after
    )


# Instances.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (Page("a"), Page("b"), ["result.url: 'a' -> 'b'"]),
        (types.Slotted("a", [1]), types.Slotted("a", [2]), ["result.data[0]: 1 -> 2"]),
        (types.Sealed(inner=1), types.Sealed(inner="1"), ["result.inner: int 1 -> str '1'"]),
        (Fish("cod", 1.0), Fish("eel", 1.0), ["result.name: 'cod' -> 'eel'"]),
        (Buoy("red"), Buoy("red", 3), ["result.depth: 0 -> 3"]),
        (Knot(1, Knot(2)), Knot(1, Knot(3)), ["result.inner.turns: 2 -> 3"]),
        (Animal(name="a", legs=4), Animal(name="a", legs=3), ["result.legs: 4 -> 3"]),
        (Animal(name="a"), Animal(name="a", legs=4), ["result.model_fields_set: added 'legs'"]),
        (types.Numbers([1]), types.Numbers([2]), ["result.root[0]: 1 -> 2"]),
        (
            Animal(name="a"),
            types.Dog(name="a"),
            ["result: Animal(name='a', legs=4) -> Dog(name='a', legs=4, breed='mixed')"],
        ),
    ],
)
def test_instances_are_compared_by_field(before: object, after: object, expected: list[str]) -> None:
    assert expected == told(before, after)


def test_extra_fields_of_a_model_count_and_private_ones_do_not() -> None:
    assert ["result.more: 1 -> 2"] == told(Open(more=1), Open(more=2))  # pyright: ignore[reportCallIssue]
    one, other = types.Secretive(shown=1), types.Secretive(shown=1)
    one._hidden.append(1)
    assert [] == differences(one, other)


def test_what_an_instance_carries_besides_its_fields_counts() -> None:
    before, after = Report("t"), Report("t")
    assert after.loud
    assert ["result.loud: added 'T'"] == told(before, after)


def test_a_field_without_a_value_is_missing() -> None:
    before, after = types.Unfinished(1), types.Unfinished(1)
    after.later = 2
    assert ["result.later: added 2"] == told(before, after)


def test_classes_that_could_not_be_stored_are_looked_into_as_well() -> None:
    @dataclass
    class Local:
        name: str
        callback: object = None

    assert [] == differences(Local("a", len), Local("a", len))
    assert ["result.name: 'a' -> 'b'"] == told(Local("a", len), Local("b", len))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (ValueError("a", 1), ValueError("b", 1), ["result.args[0]: 'a' -> 'b'"]),
        (ValueError("a"), KeyError("a"), ["result: ValueError('a') -> KeyError('a')"]),
        (FileNotFoundError(2, "no", "a"), FileNotFoundError(2, "no", "b"), ["result.filename: 'a' -> 'b'"]),
        (ImportError("x", name="a"), ImportError("x", name="b"), ["result.name: 'a' -> 'b'"]),
        (
            ExceptionGroup("g", [ValueError(1)]),
            ExceptionGroup("g", [ValueError(2)]),
            ["result.args[1][0].args[0]: 1 -> 2"],
        ),
    ],
)
def test_exceptions_differ_by_type_and_arguments(before: object, after: object, expected: list[str]) -> None:
    assert expected == told(before, after)


def test_the_cause_and_the_attributes_of_an_exception_count() -> None:
    before, after = types.SeaError("reef", 3), types.SeaError("reef", 4)
    before.__cause__, after.__cause__ = ValueError(1), ValueError(2)
    assert ["result.__cause__.args[0]: 1 -> 2", "result.depth: 3 -> 4"] == told(before, after)


def test_where_an_exception_was_raised_does_not_count() -> None:
    def raised() -> Exception:
        try:
            raise ValueError("a")
        except ValueError as error:
            return error

    assert encode(raised()) != encode(ValueError("a"))
    assert [] == differences(raised(), ValueError("a"))
    assert [] == differences(decode(encode(raised())), ValueError("a"))


def test_an_exception_without_arguments_is_known_by_its_text() -> None:
    def refused(value: object) -> ValidationError:
        with pytest.raises(ValidationError) as caught:
            TypeAdapter(int).validate_python(value)
        return caught.value

    assert [] == differences(refused("a"), refused("a"))
    assert 1 == len(differences(refused("a"), refused("b")))


# Arrays and frames.


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (np.zeros((2, 3)), np.array([[0, 0, 0], [0, 1, 0.0]]), "result[1, 1]: 0.0 -> 1.0"),
        (np.zeros(5), np.arange(5.0), "result[1] (and 3 more elements): 0.0 -> 1.0"),
        (np.array(["a", "b"]), np.array(["c", "d"]), "result[0] (and 1 more element): 'a' -> 'c'"),
        (np.array(1), np.array(2), "result[()]: 1 -> 2"),
        (np.zeros(2), np.zeros(2, "f4"), "result.dtype: float64 -> float32"),
        (np.zeros(2, "l"), np.zeros(2, "q"), "result.dtype: int64 of the type 'l' of C -> int64 of the type 'q' of C"),
        (np.zeros(2), np.zeros((2, 1)), "result.shape: (2,) -> (2, 1)"),
        (np.zeros((2, 2)), np.zeros((2, 2), order="F"), "result (order in memory): C -> F"),
        (np.array([0.0]), np.array([-0.0]), "result[0]: 0.0 -> -0.0"),
        (np.array([float("nan")]), np.array([-float("nan")]), "result[0]: nan -> nan (of other bytes)"),
        (np.array(["2024"], "M8[D]"), np.array(["2025"], "M8[D]"), "result[0]: 2024-01-01 -> 2025-01-01"),
        (
            np.array([(1, 2.0)], "i4,f8"),
            np.array([(1, 3.0)], "i4,f8"),
            "result[0]: (1, 2.0) -> (1, 3.0)",
        ),
        (np.array([[1], "a"], object), np.array([[2], "a"], object), "result[0][0]: 1 -> 2"),
        (np.array([1, 2], object), np.array([3, 4], object), "result[0] (and 1 more element): 1 -> 3"),
    ],
)
def test_arrays_differ_by_dtype_shape_or_elements(before: object, after: object, expected: str) -> None:
    assert [expected] == told(before, after)


def test_what_lies_between_the_fields_of_an_array_does_not_count() -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["u1", "u4"], "offsets": [0, 4]})
    noisy = np.frombuffer(b"\1\2\3\4\0\0\0\0", dtype).copy()
    assert [] == walked(noisy, np.array([(1, 0)], dtype))
    assert [] == walked(np.zeros((0, 3)), np.zeros((0, 3)))
    assert [] == walked(np.zeros(3, "V0"), np.zeros(3, "V0"))


FRAME = {"a": [1, 2, 3], "b": ["x", "y", "z"]}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            {"a": [1, 5, 6], "b": ["x", "y", "w"]},
            ["result['a']{1} (and 1 more row): 2 -> 5", "result['b']{2}: 'z' -> 'w'"],
        ),
        (
            {"a": [1, 2, 3], "c": [0, 0, 0]},
            ["result['b']: removed Series of {text}, 3 rows", "result['c']: added Series of {int}, 3 rows"],
        ),
        ({"a": [1.0, 2, 3], "b": ["x", "y", "z"]}, ["result['a'].dtype: {int} -> {float}"]),
        ({"b": ["x", "y", "z"], "a": [1, 2, 3]}, ["result (order of columns): ['a', 'b'] -> ['b', 'a']"]),
        ({"a": [1, 2], "b": ["x", "y"]}, ["result (rows): 3 -> 2"]),
    ],
    ids=["rows", "columns", "dtype", "order", "height"],
)
@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_differ_by_columns_dtypes_and_rows(library: Any, after: Any, expected: list[str]) -> None:
    row = ".iloc[{}]" if library is pd else "[{}]"
    words = {"text": "str", "int": "int64", "float": "float64"}
    words = words if library is pd else {"text": "String", "int": "Int64", "float": "Float64"}
    lines = [each.format("", row.format(1), row.format(2), **words) for each in expected]
    assert lines == told(library.DataFrame(FRAME), library.DataFrame(after))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (pd.DataFrame({"a": [1]}, index=["x"]), pd.DataFrame({"a": [1]}, index=["y"]), ["result.index[0]: 'x' -> 'y'"]),
        (
            pd.DataFrame([[1, 2]], columns=["a", "a"]),
            pd.DataFrame([[1, 3]], columns=["a", "a"]),
            ["result[1].iloc[0]: 2 -> 3"],
        ),
        (pd.Series([1], name="a"), pd.Series([1], name="b"), ["result.name: 'a' -> 'b'"]),
        (pd.Series([1, 2]), pd.Series([1, 3]), ["result.iloc[1]: 2 -> 3"]),
        (
            pd.Series([1, None], dtype="Int64"),
            pd.Series([1, 2], dtype="Int64"),
            ["result.iloc[1]: <NA> -> 2"],
        ),
        (
            pd.Series(["a", "b"], dtype="category"),
            pd.Series(["a", "a"], dtype=pd.CategoricalDtype(["a", "b"])),
            ["result.iloc[1]: 'b' -> 'a'"],
        ),
        (pd.Series([{"k": 1}]), pd.Series([{"k": 2}]), ["result.iloc[0]['k']: 1 -> 2"]),
        (
            pd.RangeIndex(3),
            pd.RangeIndex(4),
            ["result: RangeIndex(start=0, stop=3, step=1) -> RangeIndex(start=0, stop=4, step=1)"],
        ),
        (
            pd.MultiIndex.from_tuples([(1, 2)]),
            pd.MultiIndex.from_tuples([(1, 3)]),
            ["result[0][1]: np.int64(2) -> np.int64(3)"],
        ),
        (pd.Index([1, 2], name="a"), pd.Index([1, 2], name="b"), ["result.names[0]: 'a' -> 'b'"]),
        (
            pd.Timestamp("2024"),
            pd.Timestamp("2025"),
            ["result: Timestamp('2024-01-01 00:00:00') -> Timestamp('2025-01-01 00:00:00')"],
        ),
        (pl.Series("a", [1]), pl.Series("b", [1]), ["result.name: 'a' -> 'b'"]),
        (pl.Series([[1, 2]]), pl.Series([[1, 3]]), ["result[0][1]: 2 -> 3"]),
        (pl.Series([1, None]), pl.Series([1, 2]), ["result[1]: None -> int 2"]),
    ],
)
def test_series_and_indexes_differ_by_rows_and_names(before: object, after: object, expected: list[str]) -> None:
    assert expected == told(before, after)


def test_the_notes_of_a_frame_count() -> None:
    before, after = pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]})
    after.attrs["unit"] = "m"
    after.flags.allows_duplicate_labels = False
    assert ["result.attrs['unit']: added 'm'", "result.flags.allows_duplicate_labels: True -> False"] == told(
        before, after
    )


def test_the_frequency_of_an_index_and_levels_that_are_not_used_count() -> None:
    index = pd.date_range("2024", periods=3)
    assert 1 == len(differences(index, pd.DatetimeIndex(list(index))))
    levels = pd.MultiIndex.from_tuples([(1, 2), (3, 4)])
    assert 1 == len(differences(levels[:1], pd.MultiIndex.from_tuples([(1, 2)])))


# Tolerance.


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1.0, 1.0 + 1e-9),
        (1e300, 1e300 * (1 + 1e-9)),
        (0.0, 1e-9),
        (0.0, -0.0),
        (float("nan"), -float("nan")),
        (10**12, 10**12 + 1),
        (10**400, 10**400 + 1),
        (1 + 1j, 1 + 1.000000001j),
        (Decimal("1"), Decimal("1.000000001")),
        (Decimal("NaN"), Decimal("-NaN")),
        (Fraction(1, 3), Fraction(333333333, 10**9)),
        (np.float32(1), np.float32(1.0000001)),
        (np.array([1.0, np.nan, np.inf]), np.array([1.000000001, -np.nan, np.inf])),
        (np.array([2**63], "u8"), np.array([2**63 + 1], "u8")),
        (np.array([1 + 1j]), np.array([1.000000001 + 1j])),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [1.000000001]})),
        (pd.Series([1.0], dtype="Float64"), pd.Series([1.000000001], dtype="Float64")),
        (pl.DataFrame({"a": [1.0, None]}), pl.DataFrame({"a": [1.000000001, None]})),
        (pl.DataFrame({"a": [[1.0]]}), pl.DataFrame({"a": [[1.000000001]]})),
    ],
)
def test_numbers_within_the_tolerance_are_the_same(before: object, after: object) -> None:
    assert 1 == len(differences(before, after))
    assert [] == differences(before, after, tolerance=1e-6)
    assert [] == differences({"a": [before]}, {"a": [after]}, tolerance=1e-6)
    assert ["result[0]: added 'x'"] == told([before], ["x", after], tolerance=1e-6)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1.0, 1.1),
        (1.0, 1),
        (1, True),
        (1.0, float("nan")),
        (float("inf"), -float("inf")),
        (float("inf"), 1e308),
        (Decimal("Infinity"), Decimal("-Infinity")),
        (Decimal("NaN"), Decimal("1")),
        (Decimal("9e999999"), Decimal("-9e999999")),
        ("1.0", "1.000000001"),
        (np.array([1.0]), np.array([1.1])),
        (np.array([np.inf]), np.array([1.0])),
        (np.array([0], "u1"), np.array([255], "u1")),
        (np.array([1.0]), np.array([1.0], "f4")),
        (np.float64(1), np.float64(2)),
        (np.array([True]), np.array([False])),
        (pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": [1.1]})),
        (pl.DataFrame({"a": [1.0]}), pl.DataFrame({"a": [None]}, schema={"a": pl.Float64})),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ],
)
def test_everything_else_stays_strict_under_a_tolerance(before: object, after: object) -> None:
    assert 1 == len(differences(before, after, tolerance=1e-6))


# Bounds.


def test_no_more_are_told_than_asked_for() -> None:
    before, after = list(range(1000)), [each + 1 for each in range(1000)]
    assert 20 == len(differences(before, after))
    assert ["result[0]: 0 -> 1", "result[1]: 1 -> 2"] == told(before, after, most=2)


def test_the_walk_stops_when_enough_is_found() -> None:
    looked: list[int] = []

    class Counted:
        def __init__(self, number: int) -> None:
            self.number = number

        def __eq__(self, other: object) -> bool:
            looked.append(self.number)
            return False

    differences([Counted(each) for each in range(100)], [Counted(each) for each in range(100)], most=3)
    assert 3 == len(set(looked))


def test_texts_are_short_whatever_the_values_are() -> None:
    nested: Any = "x"
    for _ in range(50):
        nested = [{"k" * 1000: nested}, "y" * 1000]
    for value in (nested, "z" * 10**6, [0] * 10**6, {"k" * 500: 1}, Page("u" * 500), Plain("multi\nline\x1b" * 99)):
        for found in differences({"a": None, "k": 1}, {"a": value, "q" * 500: 1}):
            assert max(len(found.before), len(found.after)) <= 100
            assert len(found.place) <= 301
            assert str(found).isprintable()


def test_a_value_of_any_depth_is_walked() -> None:
    before: Any = [1]
    after: Any = [2]
    same: Any = [1]
    for _ in range(20_000):
        before, after, same = [before], [after], [same]
    assert [] == differences(before, same)
    found = differences(before, after)
    assert 1 == len(found)
    assert ("1", "2") == (found[0].before, found[0].after)
    assert 1 == len(differences([before], [before, after]))


def cyclic(first: int) -> Any:
    value: Any = [first]
    value.append(value)
    value.append({"me": value, "page": Page("a", value)})
    return value


def test_values_that_contain_themselves_come_to_an_end() -> None:
    assert [] == differences(cyclic(1), cyclic(1))
    assert ["result[0]: 1 -> 2"] == told(cyclic(1), cyclic(2))
    assert ["result[0]: added 0"] == told([cyclic(1)], [0, cyclic(1)])
    array, other = np.empty(1, object), np.empty(1, object)
    array[0], other[0] = array, other
    assert [] == differences(array, other)


def test_a_mesh_of_references_is_not_walked_over_every_path() -> None:
    def mesh(last: int) -> Any:
        nodes: list[Any] = [[number] for number in range(60)]
        for node in nodes:
            node += nodes
        nodes[-1].append(last)
        return nodes[0]

    assert [] == differences(mesh(1), mesh(1))
    assert differences(mesh(1), mesh(2))


def test_a_part_that_occurs_twice_is_told_at_both_places() -> None:
    before, after = Point(1, 2), Point(1, 3)
    assert ["result[0].y: 2 -> 3", "result[1]: Point(x=1, y=2) -> Point(x=1, y=3)"] == told([before] * 2, [after] * 2)


# What cannot be stored, and what raises.


def test_what_cannot_be_stored_is_compared_by_equality() -> None:
    assert [] == differences([Plain(1), len], [Plain(1), len])
    assert ["result[0]: Plain(1) -> Plain(2)"] == told([Plain(1)], [Plain(2)])
    assert ["result: <class 'int'> -> <class 'str'>"] == told(int, str)
    assert ["result: [1] -> [2]"] == told(types.Items([1]), types.Items([2]))


def test_an_object_that_raises_for_everything_is_only_itself() -> None:
    hostile = Hostile()
    assert [] == differences(hostile, hostile)
    assert [] == differences([hostile, float("nan")], [hostile, float("nan")])
    text = "<Hostile, whose text cannot be made (RuntimeError)>"
    assert [f"result['a']: {text} -> {text} (of other bytes)"] == told({"a": hostile}, {"a": Hostile()})
    assert [f"result: added {text}"] == told(set(), {hostile})


def test_an_instance_that_cannot_be_looked_into_is_compared_as_a_whole() -> None:
    assert [] == walked(Trap(1), Trap(1))
    assert ["result: Trap(number=1) -> Trap(number=2)"] == told(Trap(1), Trap(2))


def test_a_named_tuple_of_another_length_is_compared_as_a_whole() -> None:
    assert [] == walked(types.OddTuple((1, 2)), types.OddTuple((1, 2)))
    assert 1 == len(differences(types.OddTuple((1, 2)), types.OddTuple((1, 3))))


def test_an_interrupt_is_not_swallowed() -> None:
    class Interrupting:
        def __eq__(self, other: object) -> bool:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        differences([Interrupting()], [Interrupting()])


class Rope:
    def __init__(self, length: float, note: str) -> None:
        self.length = length
        self.note = note

    def __repr__(self) -> str:
        return f"Rope({self.length})"


register_type(Rope, encode=lambda rope: rope.length, decode=lambda length: Rope(length, "read"))


def test_a_registered_type_is_compared_by_what_is_stored_of_it() -> None:
    assert [] == differences([Rope(1.0, "a"), len], [Rope(1.0, "b"), len])
    assert ["result[0]: Rope(1.0) -> Rope(2.0)"] == told([Rope(1.0, "a")], [Rope(2.0, "a")])


# Secrets.

SECRETS = ("hunter2", "t0ken", "pa55")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (SecretStr("hunter2"), "x"),
        ({"a": SecretStr("hunter2")}, {"b": SecretBytes(b"t0ken")}),
        (Login("a", "hunter2"), Login("b", "pa55")),
        ([Login("a", "hunter2")], []),
        ({Login: 1}, {Login: Login("a", "hunter2")}),
        (Account(name="a", password=SecretStr("hunter2")), Account(name="b", password=SecretStr("pa55"))),
        ([], [Account(name="a", password=SecretStr("hunter2"))]),
        (Login("a", "hunter2"), 1),
        (KeyError_("hunter2", "a"), KeyError_("pa55", "b")),
        ([KeyError_("hunter2", "a")], []),
        (Session("a", "hunter2", None), Session("b", "pa55", None)),
        ([Session("a", "hunter2", None)], []),
        (Safe("hunter2"), Safe("pa55")),
        (Plain(Login("a", "hunter2")), Plain(Login("b", "pa55"))),
        (Plain(SecretStr("hunter2")), Plain(SecretStr("pa55"))),
        (types.Items([Login("a", "hunter2")]), types.Items()),  # pyright: ignore[reportArgumentType]
        (types.Box(Login("a", "hunter2")), types.Box(1)),
        ({Point(1, 2): Login("a", "pa55")}, {Point(1, 2): 1}),
        (pd.Series([Login("a", "hunter2")], dtype=object), pd.Series([1], dtype=object)),
        (np.array([Login("a", "hunter2"), 1], object), np.array([1, Login("a", "pa55")], object)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_secret_is_never_shown(before: object, after: object) -> None:
    found = differences(before, after)
    assert found
    for text in map(str, found):
        assert not any(secret in text for secret in SECRETS), text


def test_secrets_do_not_make_a_difference_and_neither_does_what_stands_for_them() -> None:
    login, account = Login("a", "hunter2", {"x": 1}), Account(name="a", password=SecretStr("hunter2"))
    assert [] == differences(login, Login("a", "pa55"))
    for value in (login, account):
        assert [] == walked([value, len], [decode(encode(value)), len])
    assert [] == walked([SecretStr("x"), len], [MissingSecret("of type SecretStr"), len])


def test_a_secret_in_place_of_something_else_is_a_difference() -> None:
    assert ["result: SecretStr('**********') -> str 'x'"] == told(SecretStr("hunter2"), "x")
    assert ["result: <secret a, not stored> -> <secret b, not stored>"] == told(MissingSecret("a"), MissingSecret("b"))


# The rule: the same if and only if the bytes are.


@THOROUGH
@given(VALUES)
def test_a_value_that_was_read_back_has_no_difference(value: Any) -> None:
    assert [] == differences(value, decode(encode(value)))
    assert [] == walked(value, decode(encode(value)))


@THOROUGH
@given(VALUES, VALUES)
def test_values_differ_if_and_only_if_their_bytes_do(before: Any, after: Any) -> None:
    assert (encode(before) == encode(after)) == (walked(before, after) == [])


NEARLY_EQUAL = st.recursive(
    st.sampled_from(
        (
            *(0, 0.0, -0.0, False, 1, True, 1.0, float("nan"), "", "a", "\udcff", b"", b"a", None),
            *(Decimal(1), Decimal("1.0"), Tide.LOW, Depth.SHALLOW, Point(1, 2), Point(1, True), Fish("a", 1)),
        )
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.lists(inner, max_size=3).map(deque),
        st.dictionaries(st.sampled_from(["a", "b", 1, True, 1.0, None]), inner, max_size=3),
        st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(OrderedDict),
        st.sets(st.sampled_from([0, -0.0, False, 1, True, "a", float("nan")]), max_size=3),
        st.builds(types.Box, inner),
        st.builds(types.Loose, anything=inner),
        st.builds(Knot, st.integers(0, 1), inner),
        st.builds(ValueError, inner),
    ),
    max_leaves=4,
)


@settings(THOROUGH, max_examples=1500)
@given(NEARLY_EQUAL, NEARLY_EQUAL)
def test_values_that_are_nearly_equal_differ_if_and_only_if_their_bytes_do(before: Any, after: Any) -> None:
    assert (encode(before) == encode(after)) == (walked(before, after) == [])
    walk = Walk(module._rule, Whole(is_same_whole, changed))
    assert (encode(before) == encode(after)) == walk.is_same(before, after)


def test_all_kinds_of_values_differ_if_and_only_if_their_bytes_do() -> None:
    def rows() -> list[tuple[Any, bytes]]:
        return [(value, encode(value)) for row in table_of_types.rows().values() for value in row.values()]

    wrong = [
        (before, after)
        for before, data in rows()
        for after, other in rows()
        if (data == other) != (walked(before, after) == [])
    ]
    assert [] == wrong


def test_no_library_is_imported_to_compare() -> None:
    program = (
        "import sys\n"
        "from limpet.codec.differences import differences\n"
        "from limpet.codec.shapes import shape_differences\n"
        "differences([1, {2}], [object(), {3}]); shape_differences([1], ['a'])\n"
        "print(sorted({'numpy', 'pandas', 'polars', 'pydantic', 'attrs'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "[]" == done.stdout.strip()
