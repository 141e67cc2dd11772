"""A value that cannot be stored is refused when it is written, with the place inside it named."""

from __future__ import annotations

import io
import struct
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, tzinfo
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from pydantic import BaseModel, SecretStr, ValidationError
from unit.codec import sample_types as types
from unit.codec.sample_types import Animal, Depth, Fish, Gear, Page, Point, Report, Tide

from limpet.codec.places import MAX_DEPTH
from limpet.codec.secrets import MissingSecret
from limpet.codec.values import encode
from limpet.errors import ValueNotStorable

NO_KIND = "is not a kind of value that can be stored"


def refused(value: object, place: str = "result") -> ValueNotStorable:
    with pytest.raises(ValueNotStorable) as caught:
        encode(value, place)
    return caught.value


def numbers() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (lambda: 0, "function"),
        (numbers(), "generator"),
        (object(), "object"),
        (int, "type"),
        (threading, "module"),
        (len, "builtin_function_or_method"),
        (memoryview(b"x"), "memoryview"),
        (iter([]), "list_iterator"),
        (..., "ellipsis"),
        (threading.Lock(), "_thread.lock"),
        (types.Text("x"), f"{types.__name__}.Text"),
        (types.Number(1), f"{types.__name__}.Number"),
        (types.Mapping(a=1), f"{types.__name__}.Mapping"),
        (types.Items([1]), f"{types.__name__}.Items"),
        (types.Outer(), f"{types.__name__}.Outer"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_is_not_data_is_refused(value: object, type_name: str) -> None:
    for nested, place in [(value, "result"), ([value], "result[0]"), ({"k": (value,)}, "result['k'][0]")]:
        error = refused(nested)
        assert (place, type_name, NO_KIND) == (error.place, error.type_name, error.why)


def test_an_open_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w") as file:
        assert ("result['log']", "_io.TextIOWrapper", NO_KIND) == refused({"log": file}).args


def test_the_text_says_what_where_why_and_what_to_do() -> None:
    error = refused(Report("t", [Page("a"), Page("b", [lambda: 0])]))  # pyright: ignore[reportArgumentType]
    assert (
        "result.pages[1].lines[0] cannot be stored: function is not a kind of value that can be stored. Return data "
        "instead (a dataclass, a pydantic model, plain values), tell how it is stored with `register_type`, or mark "
        "the field with `Annotated[…, NotStored]`."
    ) == str(error)


def with_attribute(value: Any, name: str, item: object) -> Any:
    setattr(value, name, item)
    return value


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("result.item[3].callback", types.Box([0, 0, 0, Report("t", callback=object())])),
        ("result[3]", [1, "\ud800", 2**80, object()]),
        ("result[1][0]", (0, (object(),))),
        ("result['a']['b']", {"a": {"b": object()}}),
        ("result[(1, 2)]", {(1, 2): object()}),
        ("result['\\ud800']", {"\ud800": object()}),
        ("the key Ellipsis of result", {...: 1}),
        ("(the key (1, Ellipsis) of result)[1]", {(1, ...): 1}),
        ("an element of result", {1, object()}),
        ("(an element of result)[1]", {1, (2, object())}),
        ("an element of result[0]", [frozenset({object()})]),
        ("result.name", types.Slotted(object())),  # pyright: ignore[reportArgumentType]
        ("result.inner.inner", types.Sealed(inner=types.Sealed(inner=object()))),
        ("result.extra", with_attribute(Page("a"), "extra", object())),
        ("result.weight", Fish("cod", object())),  # pyright: ignore[reportArgumentType]
        ("result.note", with_attribute(types.CountedFish("eel"), "note", object())),
        ("result.anything[0]", types.Loose(anything=[object()])),
        ("result.surprise", types.Open.model_validate({"surprise": object()})),
        ("result.star.name", types.Shelter.model_construct(star=Animal.model_construct(name=object()))),
        ("result.args[1]", ValueError("x", object())),
        ("result.response", with_attribute(ValueError("x"), "response", object())),
        ("result.args[1][0].args[0]", ExceptionGroup("several", [ValueError(object())])),
        ("result[4]", [Tide.LOW, Depth.DEEP, Gear.MASK | Gear.FINS, datetime(2024, 1, 1, tzinfo=UTC), object()]),
        ("result[3]", [Point(1, 2), Animal(name="a"), ValueError("x"), object()]),
        ("result.data[1].pages[0]", types.Slotted("s", deque([1, Report("t", [object()])]))),  # pyright: ignore[reportArgumentType]
        ("result['a']['b'][0]", OrderedDict(a=defaultdict(list, b=[object()]))),
        ("result['n']", Counter(n=object())),  # pyright: ignore[reportArgumentType]
        ("result[0].default_factory", [defaultdict(print)]),
        ("result[2]", [SecretStr("x"), MissingSecret("key"), object()]),
    ],
)
def test_the_place_is_named_exactly(place: str, value: object) -> None:
    assert place == refused(value).place


def test_places_are_counted_from_the_name_that_is_given() -> None:
    assert "storage['key'][0]" == refused([object()], "storage['key']").place


def test_the_place_is_value_where_no_name_is_given() -> None:
    with pytest.raises(ValueNotStorable, match=r"^value\[0\] cannot be stored"):
        encode([object()])


class TidalZone(tzinfo):
    def utcoffset(self, dt: datetime | None) -> timedelta:
        return timedelta(minutes=50)

    def tzname(self, dt: datetime | None) -> str:
        return "tidal"

    def dst(self, dt: datetime | None) -> timedelta:
        return timedelta(0)


@pytest.mark.parametrize("moment", [datetime(2024, 1, 1, tzinfo=TidalZone()), time(1, tzinfo=TidalZone())])
def test_a_time_zone_of_the_users_own_is_refused(moment: object) -> None:
    error = refused([UTC.utcoffset(None), {"at": moment}])
    assert ("result[1]['at'].tzinfo", f"{__name__}.TidalZone") == (error.place, error.type_name)


# The format of zone files: one kind of local time (3600 s, no summer time, its name at 0), and the name.
ONE_HOUR_EAST = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lBB", 3600, 0, 0) + b"EAST"


def test_a_time_zone_without_a_name_is_refused() -> None:
    zone = ZoneInfo.from_file(io.BytesIO(ONE_HOUR_EAST))
    error = refused([1, datetime(2024, 1, 1, tzinfo=zone)])
    assert ("result[1]", "zoneinfo.ZoneInfo", "is a time zone that cannot be named") == error.args


@pytest.mark.parametrize("key", ["Not/In/The/Database", "../../etc/passwd", "Europe", "/etc/localtime"])
def test_a_time_zone_that_the_database_does_not_have_is_refused(key: str) -> None:
    zone = ZoneInfo.from_file(io.BytesIO(ONE_HOUR_EAST), key=key)
    assert "is a time zone that cannot be named" == refused(datetime(2024, 1, 1, tzinfo=zone)).why


def local_classes() -> list[object]:
    @dataclass
    class Local:
        value: int

    class LocalEnum(Enum):
        A = 1

    class LocalTuple(NamedTuple):
        value: int

    class LocalModel(BaseModel):
        value: int

    class LocalError(Exception):
        pass

    return [Local(1), LocalEnum.A, LocalTuple(1), LocalModel(value=1), LocalError("x")]


@pytest.mark.parametrize("number", range(5))
def test_an_instance_of_a_local_class_is_refused(number: int) -> None:
    error = refused([local_classes()[number]])
    assert "result[0]" == error.place
    assert "cannot be found again by its name; declare it at the top of a module" == error.why
    assert "local_classes.<locals>.Local" in error.type_name


def test_a_class_that_another_one_hides_is_refused() -> None:
    hidden = type("Page", (Page,), {"__module__": types.__name__, "__qualname__": "Page"})
    assert refused(hidden("a")).why.startswith("cannot be found again by its name")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (types.TaggedList("x"), "is also a list, and has content that is not in its fields"),
        (types.HiddenSlot(1), "has the slot 'hidden', which is not one of its fields"),
        (types.SlottedModel(), "has the slot 'stray', which is not one of its fields"),
        (types.SlottedError(), "has the slot 'code', which is not one of its fields"),
        (Animal.model_construct(legs=3), "has no value for name"),
    ],
)
def test_what_would_lose_a_part_is_refused(value: object, why: str) -> None:
    error = refused({"a": [value]})
    assert ("result['a'][0]", f"{types.__name__}.{type(value).__name__}", why) == error.args


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (types.Unfinished(1), "cannot be packed ('Unfinished' object has no attribute 'later')"),
        (types.OddTuple((1, 2)), "cannot be packed ('OddTuple' object has no attribute 'only')"),
        (types.UntrueDecodeError("x"), "cannot be built again from its arguments"),
    ],
)
def test_what_is_not_whole_is_refused(value: object, why: str) -> None:
    error = refused([1, (value,)])
    assert ("result[1][0]", f"{types.__name__}.{type(value).__name__}") == (error.place, error.type_name)
    assert error.why.startswith(why)


def test_an_exception_that_could_not_be_built_again_is_refused() -> None:
    with pytest.raises(ValidationError) as caught:
        Animal.model_validate({})
    error = refused([caught.value])
    assert "result[0]" == error.place
    assert error.why.startswith("cannot be built again from its arguments")


def inside(value: Any, outer: Callable[[Any], Any], put: Callable[[Any, Any], object]) -> Any:
    whole = outer(value)
    put(value, whole)
    return whole


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("result[0]", inside([], lambda _: _, lambda part, whole: part.append(whole))),
        ("result['self']", inside({}, lambda _: _, lambda part, whole: part.update(self=whole))),
        ("result[0][0]", inside([], lambda part: (part,), lambda part, whole: part.append(whole))),
        ("result.lines[0]", inside([], lambda part: Page("a", part), lambda part, whole: part.append(whole))),
        ("result.anything", inside(types.Loose(), lambda _: _, lambda part, whole: setattr(part, "anything", whole))),
        ("result.itself", inside(ValueError(), lambda _: _, lambda part, whole: setattr(part, "itself", whole))),
    ],
    ids=["list", "dict", "tuple", "dataclass", "model", "exception"],
)
def test_a_value_that_contains_itself_is_refused(place: str, value: object) -> None:
    error = refused(value)
    assert (place, "contains itself") == (error.place, error.why)


def test_a_part_that_occurs_twice_is_not_taken_for_a_circle() -> None:
    part = [1]
    assert "result[2]" == refused([part, part, object()]).place


@pytest.mark.parametrize(
    ("wrap", "step"),
    [
        (lambda value: [value], "[0]"),
        (lambda value: (value,), "[0]"),
        (lambda value: {"a": value}, "['a']"),
        (lambda value: {1: value}, "[1]"),
        (lambda value: types.Slotted("x", value), ".data"),
    ],
    ids=["list", "tuple", "dict", "dict of any keys", "dataclass"],
)
def test_nesting_without_end_is_refused(wrap: Callable[[Any], Any], step: str) -> None:
    value: Any = 1
    for _ in range(5000):
        value = wrap(value)
    error = refused(value)
    assert ("result" + step * (MAX_DEPTH + 1), f"is nested deeper than {MAX_DEPTH} levels") == (error.place, error.why)
