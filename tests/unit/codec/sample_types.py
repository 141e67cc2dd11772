"""Classes as users declare them: at the top of a module, so that they can be found again by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from functools import cached_property
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel

T = TypeVar("T")


class Tide(Enum):
    LOW = 1
    HIGH = "high"
    EBB = LOW


class Depth(IntEnum):
    SHALLOW = 1
    DEEP = 2


class Zone(StrEnum):
    SHORE = "shore"
    REEF = "reef"


class Gear(Flag):
    MASK = auto()
    FINS = auto()
    TANK = auto()


class Right(IntFlag):
    READ = 4
    WRITE = 2


@dataclass
class Page:
    url: str
    lines: list[str] = field(default_factory=list)
    seen: ClassVar[int] = 0


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(slots=True)
class Slotted:
    name: str
    data: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    inner: Any


@dataclass
class Report:
    title: str
    pages: list[Page] = field(default_factory=list)
    callback: Any = None

    def __post_init__(self) -> None:
        self.length = len(self.pages)

    @cached_property
    def loud(self) -> str:
        return self.title.upper()


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Guarded:
    """Was it made through its initialiser, it would complain."""

    value: int

    def __new__(cls, *args: object) -> Guarded:
        assert args, "made without a value"
        return super().__new__(cls)

    def __post_init__(self) -> None:
        calls.append("Guarded")


@dataclass
class Unfinished:
    ready: int
    later: int = field(init=False)


@dataclass
class Defaulted:
    fixed: int = field(init=False, default=7)


@dataclass
class TaggedList(list[int]):
    tag: str = ""


@dataclass
class HiddenSlot:
    __slots__ = ("hidden", "shown")
    shown: int


class Fish(NamedTuple):
    name: str
    weight: float = 0.5


class CountedFish(Fish):
    @cached_property
    def double(self) -> float:
        return 2 * self.weight


class OddTuple(tuple[int, ...]):
    _fields = ("only",)


class Animal(BaseModel):
    name: str
    legs: int = 4


class Dog(Animal):
    breed: str = "mixed"


class Shelter(BaseModel):
    star: Animal
    animals: list[Animal] = []
    by_place: dict[str, Dog | None] = {}


class Secretive(BaseModel):
    shown: int
    _hidden: list[int] = PrivateAttr(default_factory=list)
    _unset: int = PrivateAttr()


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 0


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    value: tuple[int, ...]


class Cached(BaseModel):
    base: int

    @cached_property
    def double(self) -> int:
        return 2 * self.base


class Numbers(RootModel[list[int]]):
    pass


class Loose(BaseModel):
    anything: Any = None


class Validated(BaseModel):
    value: int = Field(ge=0)

    def model_post_init(self, context: object, /) -> None:
        calls.append("Validated")


class SlottedModel(BaseModel):
    __slots__ = ("stray",)
    value: int = 0


class SeaError(Exception):
    """Takes other arguments than it passes on."""

    def __init__(self, place: str, depth: int) -> None:
        super().__init__(f"lost at {place}")
        self.place = place
        self.depth = depth
        calls.append("SeaError")


class PickyError(Exception):
    def __new__(cls, *args: object, needed: int = 0) -> PickyError:
        assert needed, "made without what is needed"
        return super().__new__(cls, *args)

    def __init__(self, *args: object, needed: int = 0) -> None:
        super().__init__(*args)
        self.needed = needed


class HarbourError(OSError):
    def __init__(self, number: int, text: str, berth: str) -> None:
        super().__init__(number, text)
        self.berth = berth


@dataclass
class CodedError(Exception):
    code: int


class SlottedError(Exception):
    __slots__ = ("code",)


class UntrueDecodeError(UnicodeDecodeError):
    def __init__(self, text: str) -> None:
        self.text = text


class SeaErrors(ExceptionGroup[SeaError]):
    def derive(self, excs: Sequence[Any], /) -> SeaErrors:
        return SeaErrors(self.message, excs)


class Outer:
    @dataclass
    class Inner:
        value: int


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Mapping(dict[str, int]):
    pass


class Items(list[int]):
    pass


calls: list[str] = []
"""Which initialisers and hooks were called."""
