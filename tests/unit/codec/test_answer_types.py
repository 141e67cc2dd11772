from __future__ import annotations

import types
from collections.abc import Callable
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict

import msgspec
import pytest

from limpet import ValueNotReadable
from limpet.codec.answer_types import NotFitting, converted, from_plain, schema_of, to_plain, type_name


class Colour(Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int


class Row(TypedDict):
    number: int


Name = NewType("Name", str)

TYPES: list[tuple[Any, str]] = [
    (bool, "bool"),
    (None, "None"),
    (type(None), "None"),
    (Any, "Any"),
    (Colour, f"{__name__}:Colour"),
    (Point, f"{__name__}:Point"),
    (Row, f"{__name__}:Row"),
    (date, "datetime:date"),
    (list[int], "list[int]"),
    (tuple[int, ...], "tuple[int, ...]"),
    (dict[str, list[Point]], f"dict[str, list[{__name__}:Point]]"),
    (int | None, "int | None"),
    (Optional[Point], f"{__name__}:Point | None"),  # noqa: UP045 - both ways to write it
    (Literal["a", 1], "'a' | 1"),
    (Name, "str"),
    (Annotated[int, msgspec.Meta(ge=0)], "int"),
]


@pytest.mark.parametrize(("wanted", "name"), TYPES)
def test_a_type_is_noted_as_plain_data_and_found_again(wanted: Any, name: str) -> None:
    noted = msgspec.json.decode(msgspec.json.encode(to_plain(wanted)))
    assert name == type_name(noted)
    assert name == type_name(to_plain(from_plain(noted)))


@pytest.mark.parametrize("wanted", [3, "bool", Callable[[], int], types.GenericAlias(Point, (int,)), lambda: None])
def test_what_is_no_type_is_refused(wanted: Any) -> None:
    with pytest.raises(TypeError, match="is no type"):
        to_plain(wanted)


def test_a_class_that_is_not_imported_is_named() -> None:
    with pytest.raises(ValueNotReadable, match="shop"):
        from_plain({"class": "shop:Review"})


def test_a_value_is_converted_or_refused() -> None:
    assert Point(1) == converted({"x": 1}, Point)
    assert [Point(1), Point(2)] == converted([{"x": 1}, Point(2)], list[Point])
    with pytest.raises(NotFitting, match="Expected `int`"):
        converted({"x": "1"}, Point)
    with pytest.raises(NotFitting, match="Expected `Plain`"):
        converted({}, Plain)
    plain = Plain()
    assert [plain] == converted([plain], list[Plain])


class Plain:
    pass


def test_a_type_has_a_schema_where_json_has_one() -> None:
    assert {"type": "boolean"} == schema_of(bool)
    assert {} == schema_of(Plain)
    assert {} == schema_of(Callable[[], int])
