"""What a recorded schema says of a value, and what it can be made to do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel, Field

from limpet.codec.answer_types import NotFitting, converted, schema_of
from limpet.codec.json_schema import schema_flaw


@dataclass
class Review:
    ok: bool
    notes: list[str]
    next: Review | None = None


class Verdict(BaseModel):
    score: Annotated[int, Field(ge=1, le=5)]
    why: str = ""


class Place(Enum):
    WEB = "web"
    PRINT = "print"


class Options(TypedDict):
    copies: int


GOOD: list[tuple[Any, Any]] = [
    (bool, True),
    (int, 3),
    (float, 3),
    (float, 1.5),
    (str, ""),
    (type(None), None),
    (int | None, None),
    (list[int], [1, 2]),
    (tuple[int, str], [1, "a"]),
    (dict[str, int], {"a": 1}),
    (Literal["a", "b"], "b"),
    (Place, "web"),
    (Review, {"ok": True, "notes": ["a"], "next": {"ok": False, "notes": []}}),
    (list[Verdict], [{"score": 5}]),
    (Options, {"copies": 2}),
    (datetime, "2026-11-18T10:00:00Z"),
    (Annotated[int, msgspec.Meta(ge=1)], 1),
]
BAD: list[tuple[Any, Any]] = [
    (bool, 1),
    (int, True),
    (int, "3"),
    (int, 1.5),
    (float, "x"),
    (str, 3),
    (int | None, "none"),
    (list[int], [1, "a"]),
    (list[int], 1),
    (tuple[int, str], ["a", 1]),
    (tuple[int, str], [1]),
    (dict[str, int], {"a": "b"}),
    (Literal["a", "b"], "c"),
    (Place, "radio"),
    (Review, {"ok": "perhaps", "notes": []}),
    (Review, {"notes": []}),
    (Review, {"ok": True, "notes": [], "next": {"ok": True, "notes": [3]}}),
    (Verdict, {"score": 6}),
    (Verdict, {}),
    (Options, {"copies": None}),
    (Annotated[int, msgspec.Meta(ge=1)], 0),
    (Annotated[str, msgspec.Meta(max_length=2)], "abc"),
]


@pytest.mark.parametrize(("wanted", "value"), GOOD)
def test_what_fits_a_type_fits_its_schema(wanted: Any, value: Any) -> None:
    assert schema_of(wanted) or wanted is Any
    converted(value, wanted)
    assert schema_flaw(value, schema_of(wanted)) is None


@pytest.mark.parametrize(("wanted", "value"), BAD)
def test_what_does_not_fit_a_type_is_told_by_its_schema(wanted: Any, value: Any) -> None:
    with pytest.raises(NotFitting):
        converted(value, wanted)
    assert schema_flaw(value, schema_of(wanted))


def test_the_place_of_a_flaw_is_told() -> None:
    schema = schema_of(Review)
    assert "Expected `bool`, got `str` - at `$.ok`" == schema_flaw({"ok": "perhaps", "notes": []}, schema)
    assert "Object missing required field `ok`" == schema_flaw({"notes": []}, schema)
    flaw = schema_flaw({"ok": True, "notes": ["a", 3]}, schema)
    assert "Expected `str`, got `int` - at `$.notes[1]`" == flaw


HOSTILE: list[Any] = [
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}},
    {"allOf": [{"allOf": [{}] * 100}] * 100},
    {"type": "string", "pattern": "(a+)+$"},
    {"type": ["nothing", 3, None]},
    {"type": {}},
    {"required": "ok", "properties": 3},
    {"minLength": "3", "minimum": "3", "enum": 3},
    {"$ref": "https://example.org/schema"},
    {"$ref": 3},
    3,
    None,
    [],
]


@pytest.mark.parametrize("schema", HOSTILE)
@pytest.mark.parametrize("value", ["a" * 30 + "!", {"ok": 1}, [1], 3])
def test_a_schema_that_somebody_forged_ends_and_raises_nothing(schema: Any, value: Any) -> None:
    schema_flaw(value, schema)


def test_a_date_is_text_as_json_has_it() -> None:
    assert schema_flaw(datetime(2026, 1, 1, tzinfo=UTC), schema_of(datetime)) is None
