"""Metadata is plain JSON: refused with the place named where it is not, and the same after a round trip where it is."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from limpet.errors import InvalidMetadata
from limpet.model import StateMetadata


def test_metadata_is_empty_at_first() -> None:
    metadata = StateMetadata()
    assert ([], "", "", None, {}, {}) == (
        metadata.tags,
        metadata.description,
        metadata.pipeline_name,
        metadata.parent_state_id,
        metadata.custom_data,
        metadata.environment,
    )


def test_two_of_them_share_nothing() -> None:
    StateMetadata().tags.append("x")
    StateMetadata().custom_data["x"] = 1
    assert StateMetadata() == StateMetadata(tags=[], custom_data={})


def test_metadata_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        StateMetadata().description = "new"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("place", "why", "bad"),
    [
        ("tags", "is not a list", {"tags": "demo"}),
        ("tags", "is not a list", {"tags": {"demo"}}),
        ("tags", "is not a list", {"tags": None}),
        ("tags[1]", "is int, not text", {"tags": ["a", 5]}),
        ("tags[0]", "is NoneType, not text", {"tags": [None]}),
        ("custom_data['x']", "is of type object", {"custom_data": {"x": object()}}),
        ("custom_data['x']", "is of type bytes", {"custom_data": {"x": b"x"}}),
        ("custom_data['x']", "is of type set", {"custom_data": {"x": {1}}}),
        ("custom_data['x'][1]['y']", "is of type type", {"custom_data": {"x": [1, {"y": int}]}}),
        ("custom_data['x']", "is nan, which JSON does not have", {"custom_data": {"x": math.nan}}),
        ("custom_data['x'][0]", "is inf, which JSON does not have", {"custom_data": {"x": (math.inf,)}}),
        ("custom_data['x']", "is -inf, which JSON does not have", {"custom_data": {"x": -math.inf}}),
        ("custom_data['x']", "is a number too large for JSON", {"custom_data": {"x": 2**64}}),
        ("custom_data['x']", "is a number too large for JSON", {"custom_data": {"x": -(2**63) - 1}}),
        ("custom_data", "has the key 1, which is not text", {"custom_data": {1: 2}}),
        ("custom_data['x']", "has the key None, which is not text", {"custom_data": {"x": {None: 2}}}),
        ("environment['host']", "is of type complex", {"environment": {"host": 1j}}),
    ],
)
def test_what_is_not_plain_is_refused_with_the_place_named(place: str, why: str, bad: dict[str, Any]) -> None:
    with pytest.raises(InvalidMetadata) as caught:
        StateMetadata(**bad)
    assert (place, why) == caught.value.args
    assert str(caught.value).startswith(f"The metadata cannot be stored: {place} {why}.")


@pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 0, True, 1.5, -0.0])
def test_numbers_that_json_has_are_kept(number: float) -> None:
    metadata = StateMetadata(custom_data={"number": number})
    found = StateMetadata.from_json(metadata.to_json()).custom_data["number"]
    assert (number, type(number)) == (found, type(found))


FULL = StateMetadata(
    tags=["demo", "kelp 🦑"],
    description="A run\nof two lines",
    pipeline_name="research",
    parent_state_id="kelp-41",
    custom_data={"a": [1, 2.5, None, True, {"b": "c"}]},
    environment={"python": "3.11"},
)


def test_metadata_comes_back_from_json_as_it_was() -> None:
    assert FULL == StateMetadata.from_json(FULL.to_json())
    assert StateMetadata() == StateMetadata.from_json(StateMetadata().to_json())


def test_any_tool_reads_the_json() -> None:
    assert {
        "tags": ["demo", "kelp 🦑"],
        "description": "A run\nof two lines",
        "pipeline_name": "research",
        "parent_state_id": "kelp-41",
        "custom_data": {"a": [1, 2.5, None, True, {"b": "c"}]},
        "environment": {"python": "3.11"},
    } == json.loads(FULL.to_json())


def test_fields_that_are_missing_in_the_json_are_empty() -> None:
    assert StateMetadata() == StateMetadata.from_json("{}")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tags": 5}', '{"tags": [5]}', '{"custom_data": []}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(msgspec.MsgspecError):
        StateMetadata.from_json(text)


class Settings(Mapping[str, int]):
    """A mapping that is not a dict."""

    def __getitem__(self, key: str) -> int:
        return {"a": 1}[key]

    def __iter__(self) -> Any:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def test_any_mapping_of_plain_values_is_looked_into() -> None:
    assert StateMetadata(custom_data={"settings": Settings()}).custom_data


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner),
    max_leaves=10,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), PLAIN))
def test_any_plain_data_comes_back_as_it_was(data: dict[str, Any]) -> None:
    metadata = StateMetadata(custom_data=data)
    assert metadata == StateMetadata.from_json(metadata.to_json())


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"custom_data": None}, "custom_data is not a dict"),
        ({"environment": []}, "environment is not a dict"),
        ({"description": 5}, "description is not text"),
        ({"pipeline_name": None}, "pipeline_name is not text"),
        ({"tags": ["\ud800"]}, r"tags\[0\] has a lone surrogate"),
        ({"description": "\ud800"}, "description has a lone surrogate"),
        ({"custom_data": {"a": ["\ud800"]}}, r"custom_data\['a'\]\[0\] has a lone surrogate"),
        ({"parent_state_id": "\ud800"}, "parent_state_id has a lone surrogate"),
    ],
)
def test_what_could_not_be_written_is_refused_when_it_is_given(fields: dict[str, Any], place: str) -> None:
    with pytest.raises(InvalidMetadata, match=place):
        StateMetadata(**fields)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_metadata_is_nested_no_deeper_than_readers_of_json_can_follow() -> None:
    assert nested(98) == StateMetadata(custom_data={"x": nested(98)}).custom_data["x"]
    for levels in (100, 101, 5000):
        with pytest.raises(InvalidMetadata, match="is nested deeper than 100 levels"):
            StateMetadata(custom_data={"x": nested(levels)})


def test_metadata_has_no_more_items_than_fit_into_memory() -> None:
    with pytest.raises(InvalidMetadata, match="has more than 1,000,000 items"):
        StateMetadata(custom_data={"x": [None] * 1_000_000})


def test_looking_through_metadata_takes_no_longer_under_a_long_key() -> None:
    began = time.process_time()
    StateMetadata(custom_data={"k" * 1_000_000: [1] * 100_000})
    assert time.process_time() - began < 2.0
