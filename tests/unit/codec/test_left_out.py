"""Fields that are marked as not stored come back with their defaults."""

from __future__ import annotations

import dataclasses
import threading
from typing import Annotated, Any, NamedTuple

import attrs
import msgspec
import ormsgpack
import pydantic
import pytest

from limpet import ExecutionState, NotStored, ValueNotReadable, ValueNotStorable
from limpet.codec.values import decode, encode

Lock = Annotated[Any, NotStored]


@dataclasses.dataclass
class Crawl:
    pages: list[str]
    lock: Lock = None
    seen: Annotated[set[str], NotStored] = dataclasses.field(default_factory=set[str])


@attrs.define
class Tide:
    height: float
    lock: Lock = None
    marks: Annotated[list[int], NotStored] = attrs.field(factory=list[int])


class Reef(msgspec.Struct):
    name: str
    lock: Lock = None
    fish: Annotated[list[str], NotStored()] = msgspec.field(default_factory=list[str])


class Model(pydantic.BaseModel):
    name: str
    lock: Lock = None
    cache: Annotated[dict[str, int], NotStored] = pydantic.Field(default_factory=dict[str, int])


class Pair(NamedTuple):
    name: str
    lock: Lock = 0


@dataclasses.dataclass
class Bare:
    lock: Lock


LOCK = threading.Lock()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Crawl(["a"], LOCK, {"b"}), Crawl(["a"])),
        (Tide(1.5, LOCK, [1]), Tide(1.5)),
        (Reef("r", LOCK, ["cod"]), Reef("r")),
        (Model(name="m", lock=LOCK, cache={"a": 1}), Model(name="m")),
        (Pair("p", LOCK), Pair("p")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_field_that_is_not_stored_comes_back_with_its_default(value: Any, expected: Any) -> None:
    assert expected == decode(encode(value))
    assert [expected] * 2 == decode(encode([value, value]))


def test_the_value_itself_is_left_as_it_is() -> None:
    crawl = Crawl(["a"], LOCK, {"b"})
    ExecutionState().storage.set("crawl", crawl)
    assert (LOCK, {"b"}) == (crawl.lock, crawl.seen)


def test_a_field_that_is_not_stored_must_have_a_default() -> None:
    with pytest.raises(ValueNotStorable, match="'lock', which is marked as not stored and has no default"):
        encode(Bare(LOCK))


def test_a_field_that_is_left_out_is_not_blamed() -> None:
    with pytest.raises(ValueNotStorable) as refusal:
        encode(Crawl([print], LOCK))  # pyright: ignore[reportArgumentType]  # on purpose
    assert "value.pages[0]" == refusal.value.place


def test_an_error_tells_how_to_leave_a_field_out() -> None:
    with pytest.raises(ValueNotStorable, match="NotStored"):
        encode({"lock": LOCK})


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ([f"{__name__}:Crawl", "pages"], "not marked so any more"),
        ([f"{__name__}:Crawl", "gone"], "not marked so any more"),
        ([f"{__name__}:Bare", "lock"], "has no default"),
        (["os:system", "x"], "no such class"),
        (5, "damaged"),
    ],
)
def test_only_a_marked_field_with_a_default_comes_back(parts: Any, why: str) -> None:
    with pytest.raises(ValueNotReadable, match=why):
        decode(ormsgpack.packb(ormsgpack.Ext(39, ormsgpack.packb(parts))))
