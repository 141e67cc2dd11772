"""What goes in comes out equal and of the same type."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.codec import sample_types as types
from unit.codec.sample_types import Animal, Depth, Dog, Fish, Gear, Page, Point, Right, Tide, Zone

from limpet.codec.kinds import Opaque
from limpet.codec.user_types.not_kept import NotKept
from limpet.codec.values import decode, encode, encode_arguments, encode_leniently
from limpet.errors import ValueNotStorable

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def form(value: Any) -> Any:
    """A value with every type in it written out, so that forms are equal only where values and types are."""
    kind = type(value)
    if kind in (list, tuple):
        return kind, [form(item) for item in value]
    if kind in (set, frozenset):
        return kind, sorted((form(item) for item in value), key=repr)
    if kind is dict:
        return kind, [(form(key), form(item)) for key, item in value.items()]
    if kind is datetime or kind is time:
        return kind, repr(value), value.fold
    if isinstance(value, BaseException):
        return kind, form(value.args), form(vars(value))
    if kind.__module__ == types.__name__ and not isinstance(value, Enum):
        return kind, form(attributes(value)), list(map(form, value)) if isinstance(value, tuple) else None
    return kind, repr(value)


def attributes(value: Any) -> dict[str, Any]:
    """All that an instance carries."""
    found = {each.name: getattr(value, each.name) for each in fields(value)} if is_dataclass(value) else {}
    found |= getattr(value, "__dict__", {})
    for more in ("__pydantic_extra__", "__pydantic_private__"):
        found[more] = getattr(value, more, None)
    return found


def again(value: Any) -> Any:
    return decode(encode(value))


PLAIN: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    -(2**63) - 1,
    7**1000,
    -(7**1000),
    0.0,
    -0.0,
    1.5,
    5e-324,
    1.7976931348623157e308,
    math.inf,
    -math.inf,
    math.nan,
    1 + 2j,
    complex(-0.0, math.inf),
    complex(math.nan, -0.0),
    "",
    "kelp",
    "\x00\x1f\x7f\x85\u2028\ufeff\uffff\U0010ffff🦑",
    "lone \ud800 surrogate \udfff",
    b"",
    b"\x00\xff",
    bytearray(),
    bytearray(b"\x00\xff"),
]
CONTAINERS: list[Any] = [
    (),
    (1, (2, (3,))),
    [],
    [[], [[]], ()],
    [1, (2, [3, {4, frozenset({5})}])],
    set(),
    {1, "one", 1.5, None, (1, 2), b"x"},
    {2**70, -(2**70), 1},
    {"lone \udc80", "other"},
    frozenset(),
    frozenset({frozenset({1}), frozenset({2, 3})}),
    {frozenset({2**100})},
    {},
    {"b": 1, "a": 2},
    {2: "int", "two": "str", (2,): "tuple", None: 0, 2.5: 1, b"2": 2, frozenset({2}): 3, True: 4},
    {"\ud800": 1, "a": {"\udfff": [2]}},
    {2**80: 2**81},
    {Point(1, 2): Tide.LOW, date(2020, 1, 1): UUID(int=5)},
    [bytearray(b"a"), (bytearray(b"b"), {"c": bytearray(b"c"), 4: [bytearray(b"d")]})],
    {"deep": {"er": [{"still": (bytearray(b"x"),)}]}},
]
STANDARD: list[Any] = [
    datetime(2024, 2, 29, 12, 30, 15, 123456),  # noqa: DTZ001 - naive on purpose
    datetime(1, 1, 1),  # noqa: DTZ001 - naive on purpose
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    datetime(2024, 1, 1, fold=1),  # noqa: DTZ001 - naive on purpose
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3), "BRT")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(seconds=1, microseconds=1))),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(0), "Zulu")),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=1), "lone \ud800")),
    date(1, 1, 1),
    date(9999, 12, 31),
    time(0),
    time(23, 59, 59, 999999, fold=1),
    time(12, tzinfo=UTC),
    time(12, tzinfo=ZoneInfo("UTC")),
    timedelta(0),
    timedelta.max,
    timedelta.min,
    timedelta(microseconds=-1),
    Decimal("0"),
    Decimal("-0.00"),
    Decimal("1E+1000"),
    Decimal("3.14159265358979323846264338327950288419716939937510"),
    Decimal("NaN"),
    Decimal("sNaN12"),
    Decimal("-Infinity"),
    Fraction(1, 3),
    Fraction(-(2**100), 3**100),
    UUID("12345678-1234-5678-1234-567812345678"),
    Path("/var/log"),
    Path(),
    Path("a/../b"),
    Path("name \udcff that is not UTF-8"),
    PurePosixPath("/a"),
    PureWindowsPath("C:\\a\\b"),
]
ENUMS: list[Any] = [
    Tide.LOW,
    Tide.HIGH,
    Tide.EBB,
    Depth.DEEP,
    Zone.REEF,
    Gear.MASK,
    Gear.MASK | Gear.TANK,
    Gear(0),
    Right.READ,
    Right.READ | Right.WRITE,
    Right(1024),
    [Tide.LOW, (Depth.DEEP, {Zone.REEF: Gear.FINS})],
]
CLASSES: list[Any] = [
    Page("a", ["x"]),
    Point(1, 2),
    types.Slotted("n", (1, {2})),
    types.Sealed(inner=types.Sealed(inner=Point(2**70, 0))),
    types.Report("t", [Page("a"), Page("b", ["\ud800"])]),
    types.Defaulted(),
    types.Outer.Inner(3),
    Fish("cod"),
    Fish("cod", math.inf),
    (Fish("cod"), ("cod", 0.5)),
    types.CountedFish("eel", 2.0),
]


@pytest.mark.parametrize("value", PLAIN + CONTAINERS + STANDARD + ENUMS + CLASSES)
def test_a_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    assert form(value) == form(again(value))


@pytest.mark.parametrize("value", PLAIN + CONTAINERS + STANDARD + ENUMS + CLASSES)
def test_a_value_comes_back_from_any_depth(value: Any) -> None:
    nested = [(value, {"k": value, 1: [value]}), Page("p", [value]), types.Loose(anything=[value])]
    assert form(nested) == form(again(nested))


@pytest.mark.parametrize("value", ENUMS[:11], ids=str)
def test_a_member_of_an_enum_comes_back_as_itself(value: Any) -> None:
    assert value is again(value)


def test_utc_comes_back_as_utc() -> None:
    assert UTC is again(datetime(2024, 1, 1, tzinfo=UTC)).tzinfo


@pytest.mark.parametrize("name", [None, "Holiday"])
def test_a_fixed_offset_keeps_its_name(name: str | None) -> None:
    shift = timedelta(hours=2)
    zone = timezone(shift) if name is None else timezone(shift, name)
    found = again(datetime(2024, 1, 1, tzinfo=zone)).tzinfo
    assert (repr(zone), zone.tzname(None)) == (repr(found), found.tzname(None))


def test_attributes_besides_the_fields_come_back() -> None:
    report = types.Report("tide", [Page("a")])
    report.callback = None
    assert "TIDE" == report.loud
    copy = again(report)
    assert (1, "TIDE") == (copy.length, vars(copy)["loud"])
    assert report == copy


def test_a_cached_property_of_a_named_tuple_comes_back() -> None:
    fish = types.CountedFish("eel", 2.0)
    assert 4.0 == fish.double
    assert {"double": 4.0} == vars(again(fish))


def test_a_generic_dataclass_comes_back_however_it_was_made() -> None:
    assert types.Box(3) == again(types.Box[int](3))


def test_a_frozen_dataclass_comes_back_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        again(Point(1, 2)).x = 3


def test_reading_calls_no_initialiser() -> None:
    data = [encode(types.Guarded(1)), encode(types.Validated(value=1)), encode(types.SeaError("reef", 3))]
    types.calls.clear()
    assert [types.Guarded, types.Validated, types.SeaError] == [type(decode(each)) for each in data]
    assert [] == types.calls


MODELS = [
    Animal(name="a"),
    Dog(name="d", legs=3),
    types.Shelter(star=Dog(name="d"), animals=[Animal(name="a"), Dog(name="b", breed="x")], by_place={"here": None}),
    types.Secretive(shown=1),
    types.Open.model_validate({"known": 1, "surprise": {"a": (1, 2)}}),
    types.Frozen(value=(1, 2)),
    types.Cached(base=2),
    types.Numbers([1, 2, 3]),
    types.Loose(anything={Animal(name="x").name: [Tide.LOW, Dog(name="y")]}),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_comes_back_equal(model: Any) -> None:
    copy = again(model)
    assert type(model) is type(copy)
    assert model == copy
    assert model.model_fields_set == copy.model_fields_set
    assert form(vars(model)) == form(vars(copy))


def test_a_model_in_a_field_of_its_base_keeps_its_class() -> None:
    copy = again(types.Shelter(star=Dog(name="d"), animals=[Dog(name="e")]))
    assert [Dog, Dog] == [type(copy.star), type(copy.animals[0])]


def test_private_attributes_of_a_model_are_no_part_of_its_value() -> None:
    model = types.Secretive(shown=1)
    assert model == again(model)
    model._hidden.append(5)
    model._unset = cast(Any, object())
    copy = again(model)
    assert (1, []) == (copy.shown, copy._hidden)
    assert not hasattr(copy, "_unset")


def test_extra_fields_of_a_model_come_back() -> None:
    copy = again(types.Open.model_validate({"known": 1, "surprise": 2, "Überraschung": (3,)}))
    assert {"surprise": 2, "Überraschung": (3,)} == copy.model_extra


def test_a_cached_property_of_a_model_does_not_hinder_it() -> None:
    model = types.Cached(base=2)
    assert 4 == model.double
    assert model == again(model)
    assert 4 == again(model).double


ERRORS: list[BaseException] = [
    ValueError(),
    ValueError("wrong", 3, (4,)),
    KeyError("missing"),
    ZeroDivisionError("division by zero"),
    StopIteration(5),
    SystemExit(2),
    KeyboardInterrupt(),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    SyntaxError("bad", ("file.py", 3, 4, "text")),
    FileNotFoundError(2, "No such file", "/tmp/x"),
    OSError("just text"),
    BlockingIOError(11, "busy", 5),
    types.SeaError("reef", 3),
    types.HarbourError(13, "full", "B2"),
    types.CodedError(7),
    json.JSONDecodeError("bad", "{}", 1),
    subprocess.CalledProcessError(1, ["ls", "x"], b"out"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_exception_comes_back_with_its_arguments_and_attributes(error: BaseException) -> None:
    copy = again(error)
    assert form(error) == form(copy)
    assert str(error) == str(copy)
    assert error is not copy


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (FileNotFoundError(2, "No such file", "/tmp/x"), ("errno", "strerror", "filename", "filename2")),
        (OSError(18, "Cross-device link", "/a", None, "/b"), ("errno", "strerror", "filename", "filename2")),
        (types.HarbourError(13, "full", "B2"), ("errno", "strerror", "filename", "berth")),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ("encoding", "object", "start", "end", "reason")),
        (ImportError("no", name="kelp", path="/kelp.py"), ("msg", "name", "path")),
        (AttributeError("no", name="leaf"), ("name",)),
        (NameError("no", name="leaf"), ("name",)),
        (StopIteration(5), ("value",)),
        (SystemExit(2), ("code",)),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_a_built_in_exception_knows_comes_back(error: BaseException, names: tuple[str, ...]) -> None:
    copy = again(error)
    assert [getattr(error, name) for name in names] == [getattr(copy, name) for name in names]
    assert str(error) == str(copy)


def test_an_exception_with_a_constructor_of_its_own_comes_back() -> None:
    copy = again(types.PickyError("x", needed=1))
    assert (types.PickyError, ("x",), 1) == (type(copy), copy.args, copy.needed)


def test_notes_on_an_exception_come_back() -> None:
    error = ValueError("wrong")
    error.add_note("seen at the reef")
    error.colour = "red"  # pyright: ignore[reportAttributeAccessIssue] - users do this
    assert ["seen at the reef"] == again(error).__notes__
    assert "red" == again(error).colour


@pytest.mark.parametrize("group", [ExceptionGroup, BaseExceptionGroup, types.SeaErrors])
def test_a_group_of_exceptions_comes_back(group: Any) -> None:
    error = group("several", [types.SeaError("reef", 3), ExceptionGroup("inner", (ValueError(1),))])
    copy = again(error)
    assert type(error) is type(copy)
    assert (error.message, len(error.exceptions)) == (copy.message, len(copy.exceptions))
    assert [form(each) for each in error.exceptions[:1]] == [form(each) for each in copy.exceptions[:1]]
    assert form(error.exceptions[1].exceptions[0]) == form(copy.exceptions[1].exceptions[0])


def test_every_reading_gives_a_fresh_copy() -> None:
    data = encode({"list": [1], "page": Page("a", ["x"])})
    first, second = decode(data), decode(data)
    first["list"].append(2)
    first["page"].lines.append("y")
    assert {"list": [1], "page": Page("a", ["x"])} == second == decode(data)


def test_encoding_leaves_the_value_as_it_was() -> None:
    value: dict[str, Any] = {"a": [1, (2, {3})], "b": Page("x", ["\ud800"])}
    before = repr(value)
    encode(value)
    assert before == repr(value)


def test_plain_values_are_msgpack_as_any_tool_reads_it() -> None:
    assert b"\x82\xa1a\x01\xa1b\x93\xc0\xc3\xa1x" == encode({"a": 1, "b": [None, True, "x"]})


@pytest.mark.parametrize("value", [[], [1, "a", None], ["\ud800"], [2**80], [(1, 2), {3}], {"args": [1], "kwargs": {}}])
def test_arguments_have_the_bytes_of_any_value(value: Any) -> None:
    assert encode(value) == encode_arguments(value)


def test_arguments_that_cannot_be_stored_are_noted() -> None:
    assert [1, Opaque("builtins.object")] == decode(encode_arguments([1, object()]))


BYTES_OF_SETS = """
from limpet.codec.values import encode
words = {f"word {number}" for number in range(50)}
print(encode([words, {frozenset(words): {(word, frozenset({word, "x"})) for word in words}}]).hex())
"""


def test_equal_sets_have_equal_bytes_in_every_process() -> None:
    written = set[str]()
    for seed in ("0", "1", "4711"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        command = [sys.executable, "-c", BYTES_OF_SETS]
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        assert "" == answer.stderr
        written.add(answer.stdout)
    assert 1 == len(written)


@RELAXED
@given(st.lists(st.one_of(st.integers(), st.text(), st.tuples(st.integers(), st.text())), unique=True), st.randoms())
def test_the_bytes_of_a_set_do_not_depend_on_its_order(items: list[Any], random: Any) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    assert encode(set(items)) == encode(set(shuffled))
    assert encode(frozenset(items)) == encode(frozenset(shuffled))


TEXT = st.text(st.characters(exclude_categories=()))
ZONES = st.sampled_from([None, UTC, ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-3)), timezone.max])
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-(2**200), 2**200),
    st.floats(),
    st.complex_numbers(),
    TEXT,
    st.binary(),
    st.datetimes(timezones=ZONES),
    st.dates(),
    st.times(),
    st.timedeltas(),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.fractions(),
    st.uuids(),
    st.sampled_from([Tide.HIGH, Depth.DEEP, Zone.REEF, Gear.MASK | Gear.FINS, Right.READ, Path("/x")]),
    st.builds(Point, st.integers(), st.integers()),
    st.builds(Fish, TEXT, st.floats()),
)
KEYS = st.one_of(ATOMS, st.tuples(ATOMS, ATOMS), st.frozensets(ATOMS, max_size=3))


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(TEXT, inner, max_size=4),
        st.dictionaries(KEYS, inner, max_size=4),
        st.sets(KEYS, max_size=4),
        st.builds(bytearray, st.binary()),
        st.builds(types.Slotted, TEXT, inner),
        st.builds(types.Sealed, inner=inner),
        st.builds(types.Report, TEXT, st.just([]), inner),
        st.builds(lambda each: types.Loose(anything=each), inner),
        st.builds(lambda each: ValueError(each), inner),
    )


@settings(RELAXED, max_examples=600)
@given(st.recursive(ATOMS, containers, max_leaves=25))
def test_any_nested_value_comes_back_equal_and_of_the_same_type(value: Any) -> None:
    data = encode(value)
    assert form(value) == form(decode(data))
    assert data == encode_leniently(value)


@pytest.mark.parametrize(
    ("expected", "value"),
    [
        (Opaque("builtins.function"), lambda: 0),
        ([1, Opaque("builtins.object")], [1, object()]),
        ({"a": (Opaque("builtins.generator"), 2)}, {"a": ((n for n in ()), 2)}),
        ({Opaque("builtins.object"): 1, 2: Opaque("builtins.object")}, {object(): 1, 2: object()}),
        ({1, Opaque("builtins.object")}, {1, object()}),
        (Page("p", [Opaque("builtins.type")]), Page("p", [int])),  # pyright: ignore[reportArgumentType]
        (Animal.model_construct(name=Opaque("builtins.object"), legs=1), Animal.model_construct(name=object(), legs=1)),
        (["lone \ud800", Opaque("builtins.object")], ["lone \ud800", object()]),
        ({"\ud800": Opaque("builtins.object")}, {"\ud800": object()}),
        (Opaque(f"{types.__name__}.Unfinished"), types.Unfinished(1)),
        ([Opaque(f"{types.__name__}.OddTuple")], [types.OddTuple((1, 2))]),
        ([Opaque(f"{types.__name__}.Text"), 2], [types.Text("x"), 2]),
    ],
)
def test_a_note_stands_where_something_cannot_be_stored(expected: Any, value: Any) -> None:
    assert expected == decode(encode_leniently(value))


def test_notes_are_put_into_an_exception_as_well() -> None:
    error = ValueError("wrong", object())
    error.extra = [object()]  # pyright: ignore[reportAttributeAccessIssue] - users do this
    copy = decode(encode_leniently(error))
    assert ("wrong", NotKept("args", "builtins.ValueError", "builtins.object")) == copy.args
    assert [NotKept("extra", "builtins.ValueError", "builtins.object")] == copy.extra


def test_a_note_comes_back_as_a_note() -> None:
    assert [Opaque("a.B")] == again([Opaque("a.B")])


def test_a_value_that_contains_itself_cannot_be_noted_either() -> None:
    value: list[Any] = [1]
    value.append(value)
    with pytest.raises(ValueNotStorable, match=r"^input\[1\] cannot be stored: list contains itself\."):
        encode_leniently(value, "input")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: [value],
        lambda value: (value,),
        lambda value: {"a": value},
        lambda value: {1: value},
        lambda value: types.Slotted("s", value),
        lambda value: types.Loose(anything=value),
        lambda value: ValueError(value),
    ],
    ids=["list", "tuple", "dict", "dict of any keys", "dataclass", "model", "exception"],
)
def test_a_hundred_levels_are_written_and_read(wrap: Callable[[Any], Any]) -> None:
    value: Any = "bottom"
    for _ in range(100):
        value = wrap(value)
    assert encode(value) == encode(again(value))
