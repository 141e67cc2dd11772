"""More classes as users declare them: attrs, msgspec, generic pydantic models, and the finer points of dataclasses."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from dataclasses import InitVar, dataclass, field
from enum import Enum, IntFlag
from functools import cached_property
from typing import Annotated, Any, ClassVar, Generic, Literal, TypedDict, TypeVar

import attrs
import msgspec
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, computed_field
from pydantic.dataclasses import dataclass as pydantic_dataclass

T = TypeVar("T")
U = TypeVar("U")

calls: list[str] = []
"""Which hooks of the classes were called."""


def noting(value: Any) -> Any:
    calls.append("converter")
    return value


def checking(_instance: object, _attribute: object, _value: object) -> None:
    calls.append("validator")


@attrs.define
class Anchor:
    weight: float
    marks: list[str] = attrs.field(factory=list)


@attrs.frozen
class Buoy:
    name: str
    _secret: int = 0
    given: int = attrs.field(default=3, converter=noting, validator=checking)
    later: list[int] = attrs.field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        calls.append("post_init")


@attrs.frozen(cache_hash=True)
class Hashed:
    name: str

    @cached_property
    def loud(self) -> str:
        return self.name.upper()


@attrs.frozen(cache_hash=True, slots=False)
class HashedWithDict:
    name: str


@attrs.define
class HeavyAnchor(Anchor):
    chain: int = 0


@attrs.define(slots=False)
class LooseAnchor(Anchor):
    chain: int = 0


class PlainAnchor(Anchor):
    """Not decorated: it has a ``__dict__`` besides the slots of its base."""


@attrs.define
class AnchorOf(Generic[T]):
    item: T


@attrs.define(frozen=True)
class AttrsError(Exception):
    code: int


class Knot(msgspec.Struct):
    name: str
    turns: list[int] = []


class FrozenKnot(msgspec.Struct, frozen=True, kw_only=True, tag="frozen", array_like=True, rename="camel"):
    long_name: str
    turns: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        calls.append("post_init")


class HeavyKnot(FrozenKnot, frozen=True, kw_only=True, cache_hash=True, weakref=True):
    weight: int


class OpenKnot(msgspec.Struct, dict=True):
    name: str

    @cached_property
    def loud(self) -> str:
        return self.name.upper()


class KnotOf(msgspec.Struct, Generic[T]):
    item: T


class Crate(BaseModel, Generic[T]):
    item: T


class Couple(BaseModel, Generic[T, U]):
    one: T
    other: U


class Lined(Crate[int]):
    note: str = ""


class OwnBrackets(BaseModel, Generic[T]):
    item: T

    @classmethod
    def __class_getitem__(cls, item: Any) -> Any:
        return super().__class_getitem__(item)


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Seal(BaseModel):
    kind: Literal["seal"] = "seal"
    depth: float = 0.0


class Owner(BaseModel):
    pet: Annotated[Cat | Seal, Field(discriminator="kind")]


class Aliased(BaseModel):
    model_config = ConfigDict(populate_by_name=True)
    shown: int = Field(alias="displayedAs")
    _cache: dict[str, int] = PrivateAttr(default_factory=dict)

    @computed_field
    @property
    def twice(self) -> int:
        return 2 * self.shown


@pydantic_dataclass
class Checked:
    number: int


@dataclass
class Launched:
    name: str
    seed: InitVar[int]
    fleet: ClassVar[str] = "north"
    number: int = field(init=False)
    _: dataclasses.KW_ONLY
    crew: int = 0

    def __post_init__(self, seed: int) -> None:
        self.number = seed + 1


@dataclass(frozen=True, slots=True)
class Boat(Generic[T]):
    cargo: T


@dataclass(slots=True)
class Ship:
    name: str


@dataclass(slots=True)
class Ferry(Ship):
    cars: int = 0


class Double:
    """A descriptor as the documentation of dataclasses has it."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = "_" + name

    def __get__(self, instance: Any, owner: type) -> int:
        return 5 if instance is None else getattr(instance, self.name)

    def __set__(self, instance: Any, value: int) -> None:
        calls.append("__set__")
        setattr(instance, self.name, value)


@dataclass
class Described:
    weight: Any = Double()


@dataclass(slots=True)
class SlottedError(Exception):
    code: int


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


Position = namedtuple("Position", ["x", "y"])


class Entry(TypedDict):
    name: str


class Planet(Enum):
    EARTH = (5.976e24, 6.37814e6)
    HOME = (5.976e24, 6.37814e6)  # noqa: PIE796 - an alias

    def __init__(self, mass: float, radius: float) -> None:
        self.mass = mass
        self.radius = radius


class Price(float, Enum):
    LOW = 0.5
    HIGH = 2.5


class Label(Enum):
    name_ = "name"
    _ignored = 0


class Permission(IntFlag):
    READ = 1
    WRITE = 2
    BOTH = 3
