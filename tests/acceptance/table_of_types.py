"""The table of types: every kind of value that comes back equal and of the same type, with its aspects.

Each call of ``rows`` builds the table anew, so that what came back is compared with what was never stored. The classes
stand at the top, as users declare them; two processes find them here.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from fractions import Fraction
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypedDict, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import numpy as np
import pandas as pd
import polars as pl
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, RootModel

T = TypeVar("T")

Row = dict[str, Any]
"""The values of one kind, by the aspect that each shows."""


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


class Planet(Enum):
    EARTH = (5.976e24, 6.37814e6)
    MARS = (6.421e23, 3.3972e6)

    def __init__(self, mass: float, radius: float) -> None:
        self.mass = mass
        self.radius = radius


@dataclass
class Page:
    url: str
    lines: list[str] = field(default_factory=list)


@dataclass
class Knotted:
    turns: int = 3


@dataclass
class Report:
    title: str
    pages: list[Page] = field(default_factory=list)

    @cached_property
    def loud(self) -> str:
        return self.title.upper()


@dataclass(frozen=True)
class Point:
    x: int
    y: int


@dataclass(slots=True)
class Slotted:
    name: str
    data: Any = None


@dataclass
class Box(Generic[T]):
    item: T


class Outer:
    @dataclass
    class Inner:
        value: int


class Fish(NamedTuple):
    name: str
    weight: float = 0.5


class Entry(TypedDict):
    name: str
    sizes: list[int]


class Animal(BaseModel):
    name: str
    legs: int = 4


class Dog(Animal):
    breed: str = "mixed"


class Shelter(BaseModel):
    star: Animal
    animals: list[Animal] = []
    by_place: dict[str, Dog | None] = {}


class Crate(BaseModel, Generic[T]):
    item: T


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Seal(BaseModel):
    kind: Literal["seal"] = "seal"
    depth: float = 0.0


class Owner(BaseModel):
    pet: Annotated[Cat | Seal, Field(discriminator="kind")]


class Secretive(BaseModel):
    shown: int
    _hidden: list[int] = PrivateAttr(default_factory=list)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    known: int = 0


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    value: tuple[int, ...]


class Numbers(RootModel[list[int]]):
    pass


class Knot(msgspec.Struct):
    name: str
    turns: list[int] = []


class FrozenKnot(msgspec.Struct, frozen=True, kw_only=True, tag="frozen", array_like=True):
    name: str
    inner: Any = None


class KnotOf(msgspec.Struct, Generic[T]):
    item: T


@attrs.define
class Anchor:
    weight: float
    marks: list[str] = attrs.field(factory=list)


@attrs.frozen
class Buoy:
    name: str
    _hidden: int = 0


@attrs.define(slots=False)
class AnchorOf(Generic[T]):
    item: T


class SeaError(Exception):
    """Takes other arguments than it passes on."""

    def __init__(self, place: str, depth: int) -> None:
        super().__init__(f"lost at {place}")
        self.place = place
        self.depth = depth


@dataclass
class CodedError(Exception):
    code: int


def plain_rows() -> dict[str, Row]:
    return {
        "None": {"alone": None, "inside": [None, {"key": None}]},
        "bool": {"true": True, "false": False, "beside numbers": [True, 1, False, 0, 1.0]},
        "int of any size": {
            "small": -1,
            "as far as msgpack goes": [2**63 - 1, 2**64 - 1, -(2**63)],
            "beyond": 2**64,
            "below": -(2**63) - 1,
            "huge": -(7**1000),
        },
        "float": {
            "nan": math.nan,
            "inf": math.inf,
            "-inf": -math.inf,
            "-0.0": -0.0,
            "extremes": [5e-324, 1.7976931348623157e308, 0.1],
        },
        "complex": {"plain": 1 + 2j, "with nan": complex(math.nan, -0.0), "with inf": complex(-0.0, math.inf)},
        "str with any code point": {
            "empty": "",
            "every plane": "\x00\x1f\x7f\x85\u2028\ufeff\uffff\U0010ffff🦑",
            "lone surrogates": "lone \ud800 surrogate \udfff",
            "as a key": {"\ud800": 1, "🦑": [{"\udfff": "\udc80"}]},
        },
        "bytes": {"empty": b"", "all": bytes(range(256))},
        "bytearray": {"empty": bytearray(), "all": bytearray(range(256)), "inside": [bytearray(b"x"), b"x"]},
    }


def container_rows() -> dict[str, Row]:
    return {
        "tuple": {"empty": (), "nested": (1, (2, (3, [4])))},
        "list": {"empty": [], "nested": [[], [[]], (), [1, (2, [3, {4}])]], "long": list(range(300))},
        "set": {"empty": set(), "mixed": {1, "one", 1.5, None, (1, 2), b"x", 2**70}},
        "frozenset": {"empty": frozenset(), "nested": frozenset({frozenset({1}), frozenset({2, 3})})},
        "deque": {"plain": deque([1, (2,)]), "with maxlen": deque([1, 2], maxlen=3), "of none": deque(maxlen=0)},
        "range": {"plain": range(5), "stepped": range(10, -10, -3), "huge": range(2**70, 2**80, 2**65)},
        "dict with any storable keys and in order": {
            "empty": {},
            "in order": {"b": 1, "a": 2, "c": 0},
            "any keys": {2: "int", "two": "str", (2,): "tuple", None: 0, 2.5: 1, b"2": 2, frozenset({2}): 3, True: 4},
            "keys of classes": {Point(1, 2): Tide.LOW, date(2020, 1, 1): UUID(int=5), Depth.DEEP: 2**80},
            "nested": {"deep": {"er": [{"still": (bytearray(b"x"),)}]}},
        },
        "defaultdict": {
            "of lists": defaultdict(list, {"a": [1], 2: []}),
            "of a class": defaultdict(Knotted, {1: Knotted()}),
            "of nothing": defaultdict(None, a=1),
        },
        "OrderedDict": {"in order": OrderedDict([("b", 1), (2, "a")]), "empty": OrderedDict()},
        "Counter": {"counted": Counter("kelp and kelp"), "with zero": Counter({"a": 0, ("b",): -2})},
    }


def moment_rows() -> dict[str, Row]:
    return {
        "datetime aware and naive with zoneinfo": {
            "naive": datetime(2024, 2, 29, 12, 30, 15, 123456),  # noqa: DTZ001 - naive on purpose
            "naive with fold": datetime(2024, 1, 1, fold=1),  # noqa: DTZ001 - naive on purpose
            "utc": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "zoneinfo": datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
            "zoneinfo with fold": datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
            "offset": datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30))),
            "named offset": datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3), "BRT")),
        },
        "date": {"first": date.min, "last": date.max},
        "time": {
            "midnight": time(0),
            "last, with fold": time(23, 59, 59, 999999, fold=1),
            "utc": time(12, tzinfo=UTC),
            "zoneinfo": time(12, tzinfo=ZoneInfo("UTC")),
        },
        "timedelta": {"none": timedelta(0), "extremes": [timedelta.max, timedelta.min, timedelta(microseconds=-1)]},
    }


def number_rows() -> dict[str, Row]:
    return {
        "Decimal": {
            "zero with digits": Decimal("-0.00"),
            "large": Decimal("1E+1000"),
            "long": Decimal("3.14159265358979323846264338327950288419716939937510"),
            "no number": [Decimal("NaN"), Decimal("sNaN12"), Decimal("-Infinity")],
        },
        "Fraction": {"third": Fraction(1, 3), "large": Fraction(-(2**100), 3**100)},
        "UUID": {"some": UUID("12345678-1234-5678-1234-567812345678"), "none": UUID(int=0)},
        "Path": {
            "absolute": Path("/var/log"),
            "empty": Path(),
            "with dots": Path("a/../b"),
            "not UTF-8": Path("name \udcff"),
            "pure": [PurePosixPath("/a"), PureWindowsPath("C:\\a\\b")],
        },
        "compiled regex": {
            "text": re.compile(r"(?P<word>\w+)\s+kelp", re.IGNORECASE | re.MULTILINE),
            "bytes": re.compile(rb"\x00+"),
            "beyond ASCII": re.compile("[äöü]+🦑"),
        },
        "ipaddress types": {
            "addresses": [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("::1")],
            "with a scope": ipaddress.IPv6Address("fe80::1%eth0"),
            "networks": [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("2001:db8::/32")],
            "interfaces": [ipaddress.ip_interface("10.0.0.1/8"), ipaddress.ip_interface("::1/64")],
        },
    }


def class_rows() -> dict[str, Row]:
    read = Report("tide", [Page("a")])
    assert "TIDE" == read.loud
    return {
        "Enum with its kinds": {
            "Enum": [Tide.LOW, Tide.HIGH, Tide.EBB],
            "IntEnum": Depth.DEEP,
            "StrEnum": Zone.REEF,
            "Flag": [Gear.MASK, Gear.MASK | Gear.TANK, Gear(0)],
            "IntFlag": [Right.READ | Right.WRITE, Right(1024)],
            "with values of its own": Planet.MARS,
            "as a key": {Zone.REEF: Gear.FINS},
        },
        "dataclass": {
            "plain": Page("a", ["x"]),
            "nested": Report("t", [Page("a"), Page("b", ["\ud800"])]),
            "frozen": Point(1, 2**70),
            "slotted": Slotted("n", (1, {2})),
            "generic": [Box(3), Box[list[int]]([1])],
            "inside a class": Outer.Inner(3),
            "with a cached property": read,
        },
        "NamedTuple": {"plain": Fish("cod"), "beside a tuple": (Fish("cod", math.inf), ("cod", 0.5))},
        "TypedDict": {"plain": Entry(name="a", sizes=[1, 2])},
        "msgspec Struct": {
            "plain": Knot("reef", [1, 2]),
            "frozen and tagged": FrozenKnot(name="a", inner=Knot("b")),
            "generic": KnotOf((1, {2})),
        },
        "attrs classes": {
            "plain": Anchor(1.5, ["x"]),
            "frozen": Buoy("b", 3),
            "generic, with a dict": AnchorOf(Anchor(-0.0)),
        },
    }


def model_rows() -> dict[str, Row]:
    secretive = Secretive(shown=1)
    secretive._hidden.append(2)
    return {
        "pydantic models": {
            "plain": Animal(name="a"),
            "with defaults given": Dog(name="d", legs=4),
            "nested": Shelter(star=Dog(name="d"), animals=[Animal(name="a")], by_place={"here": None}),
            "generic": [Crate[int](item=1), Crate[list[Dog | None]](item=[Dog(name="d"), None])],
            "discriminated union": [Owner(pet=Cat(lives=3)), Owner(pet=Seal(depth=2.5))],
            "private attributes excluded": secretive,
            "extra": Open.model_validate({"known": 1, "surprise": {"a": (1, 2)}}),
            "frozen": Frozen(value=(1, 2)),
            "root": Numbers([1, 2, 3]),
        },
    }


def raised(error: BaseException, cause: BaseException | None = None) -> BaseException:
    """The exception as it is after it was raised and caught."""
    try:
        raise error from cause
    except BaseException as caught:
        return caught


def noted(error: BaseException) -> BaseException:
    error.add_note("seen at the reef")
    error.add_note("and again")
    return error


def error_rows() -> dict[str, Row]:
    return {
        "exceptions": {
            "plain": ValueError("wrong", 3, (4,)),
            "of the user": SeaError("reef", 3),
            "a dataclass": CodedError(7),
            "of the system": FileNotFoundError(2, "No such file", "/kelp"),
            "of an import": ImportError("no", name="kelp", path="/kelp.py"),
            "with notes": noted(KeyError("missing")),
            "with a traceback": raised(SeaError("reef", 3)),
            "with a cause": raised(LookupError("outer"), raised(noted(SeaError("inner", 1)))),
            "group": ExceptionGroup("several", [SeaError("reef", 3), ExceptionGroup("inner", [ValueError(1)])]),
            "exit": SystemExit(2),
        },
    }


def numpy_rows() -> dict[str, Row]:
    with_unit = {"M": "M8[s]", "m": "m8[s]", "V": "V3"}
    letters = [char for char in np.typecodes["All"] if char != "O"]
    arrays = {f"dtype {char}": np.zeros(3, with_unit.get(char, char)) for char in letters}
    classes = sorted(set(np.sctypeDict.values()) - {np.object_}, key=lambda cls: cls.__name__)
    zeros = [np.zeros(1, with_unit.get(np.dtype(cls).char, cls))[0] for cls in classes]
    scalars = {f"scalar {type(zero).__name__}": zero for zero in zeros}
    structure = np.dtype([("a", ">i4"), ("b", "f8", (2, 2)), ("c", [("d", "U3")])])
    return {
        "numpy arrays": {
            **arrays,
            "two dimensions": np.arange(6).reshape(2, 3),
            "as Fortran has it": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
            "a view": np.arange(24.0).reshape(2, 3, 4)[:, ::-2],
            "no dimension": np.array(5),
            "empty": np.zeros((3, 0, 2), ">i4"),
            "special floats": np.array([np.nan, np.inf, -0.0, 5e-324]),
            "big endian": np.array([1, -1], ">m8[ns]"),
            "text": np.array(["a", "bcd\0x", "\U0010ffff"]),
            "bytes": np.array([b"a\0b", b"\xff"]),
            "moments": np.array(["2020-01-01", "NaT"], "M8[25us]"),
            "structure": np.zeros((2, 2), structure),
            "aligned": np.zeros(2, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
        },
        "numpy scalars": {
            **scalars,
            "nan": np.float32("nan"),
            "text that ends with NUL": np.str_("a\0"),
            "bytes that end with NUL": np.bytes_(b"a\0"),
            "a moment": np.datetime64("2024-01-01T12", "h"),
            "long double": np.longdouble(1) / 3,
            "of a structure": np.zeros(1, structure)[0],
        },
    }


def pandas_rows() -> dict[str, Row]:
    days = pd.date_range("2024-10-26", periods=3, tz="Europe/Berlin")
    columns: dict[str, Any] = {
        "int": [1, 2, 3],
        "float": [1.5, np.nan, -0.0],
        "str": ["x", None, "lone \ud800"],
        "string": pd.array(["a", None, "c"], dtype="string"),
        "object": pd.Series([Point(1, 2), (2, [3]), None], dtype=object),
        "zone": days,
        "seconds": pd.to_datetime(["2024-01-01", None, "2024-01-03"]).as_unit("s"),
        "timedelta": pd.to_timedelta([1, None, 3], unit="s"),
        "period": pd.PeriodIndex(["2024-01", None, "2024-03"], freq="M"),
        "interval": pd.interval_range(0, 3),
        "Int64": pd.array([1, None, 3], dtype="Int64"),
        "boolean": pd.array([True, None, False], dtype="boolean"),
        "category": pd.Categorical(["a", None, "b"], ["c", "b", "a"], ordered=True),
    }
    noted_frame = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="label"))
    noted_frame.attrs = {"source": ["reef", Tide.LOW]}
    levels = pd.MultiIndex.from_product([["a", "b"], [1, 2]], names=["letter", None])
    return {
        "pandas frames": {
            "of every kind of column": pd.DataFrame(columns, index=days),
            "empty": pd.DataFrame(),
            "without rows": pd.DataFrame({"a": pd.Series([], dtype="i1")}),
            "with names twice": pd.DataFrame([[1, "x"]], columns=["a", "a"]),
            "with levels": pd.DataFrame(np.arange(8.0).reshape(4, 2), index=levels),
            "with attrs": noted_frame,
        },
        "pandas series, indexes and scalars": {
            **{f"series {name}": pd.Series(column, name=name) for name, column in columns.items()},
            "indexes": [days, levels, pd.RangeIndex(1, 10, 3), pd.Index([1.5, np.nan]), pd.CategoricalIndex(["a"])],
            "scalars": [days[0], pd.Timestamp(1, unit="ns"), pd.Timedelta(1, "D"), pd.Period("2024-01", "M")],
            "more scalars": [pd.Interval(0, 1.5, "both"), pd.NaT, pd.NA],
        },
    }


def polars_rows() -> dict[str, Row]:
    moment = datetime(2024, 10, 27, 0, 30)  # noqa: DTZ001 - naive on purpose
    integers = [pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64]
    series = [
        *(pl.Series(str(dtype), [0, None, 127], dtype) for dtype in integers),
        *(pl.Series(str(dtype), [1.5, math.nan, -0.0], dtype) for dtype in (pl.Float32, pl.Float64)),
        pl.Series("bool", [True, None, False]),
        pl.Series("text", ["", "\x00🦑", None]),
        pl.Series("bytes", [b"", b"\xff", None]),
        pl.Series("null", [None, None, None]),
        pl.Series("date", [date(1, 1, 1), date(9999, 12, 31), None]),
        pl.Series("time", [time(0), time(23, 59, 59, 999999), None]),
        pl.Series("datetime", [moment, None, moment], dtype=pl.Datetime("ns", "Europe/Berlin")),
        pl.Series("duration", [timedelta(days=-1), None, timedelta(0)], dtype=pl.Duration("ms")),
        pl.Series("decimal", [Decimal("1.50"), Decimal("-0.01"), None], dtype=pl.Decimal(20, 2)),
        pl.Series("categorical", ["b", None, "a"], dtype=pl.Categorical),
        pl.Series("enum", ["b", None, "a"], dtype=pl.Enum(["b", "unused", "a"])),
        pl.Series("list", [[1, None], None, []]),
        pl.Series("array", [[1, 2], None, [None, 3]], dtype=pl.Array(pl.Int8, 2)),
        pl.Series("struct", [{"a": 1, "b": [moment]}, None, {"a": None, "b": None}]),
    ]
    return {
        "polars frames": {
            "of every kind of column": pl.DataFrame(series),
            "empty": pl.DataFrame(),
            "without columns": pl.DataFrame(height=3),
            "without rows": pl.DataFrame(schema={"a": pl.Int8, "b": pl.Datetime("ns", "UTC")}),
        },
        "polars series": {f"series {each.name}": each for each in series},
    }


PARTS: tuple[Callable[[], dict[str, Row]], ...] = (
    *(plain_rows, container_rows, moment_rows, number_rows, class_rows, model_rows, error_rows),
    *(numpy_rows, pandas_rows, polars_rows),
)


def rows() -> dict[str, Row]:
    """The whole table, made anew."""
    return {name: row for part in PARTS for name, row in part().items()}
