"""The kinds of Python's own types that msgpack does not have."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, Final
from uuid import UUID

import ormsgpack

from limpet.codec.kinds import Kind, Lower, Opaque, listed
from limpet.codec.python_types.containers import CONTAINER_KINDS
from limpet.codec.python_types.expressions import EXPRESSION
from limpet.codec.python_types.networks import NETWORK_KINDS
from limpet.codec.python_types.zones import build_zone, lower_zone
from limpet.codec.user_types.families import LEAVE_SCALARS, SCALARS

TAG_BIG_INT: Final = 5
OPTIONS: Final = ormsgpack.OPT_PASSTHROUGH_BIG_INT


def _parts(value: Iterable[Any], lower: Lower) -> list[Any]:
    if lower in LEAVE_SCALARS and SCALARS.issuperset(map(type, value)):
        return list(value)
    return [lower(item) for item in value]


def _sorted_parts(value: Iterable[Any], lower: Lower) -> list[Any]:
    # Sets have no order, and that of text differs from process to process: equal sets must have equal bytes.
    parts = [lower(item) for item in value]
    try:
        return sorted(parts, key=ormsgpack.packb)
    except TypeError:
        return sorted(parts, key=lambda part: ormsgpack.packb(part, lower_big_int, OPTIONS))


def _pairs(value: dict[Any, Any], lower: Lower) -> list[Any]:
    return [[lower(key), lower(item)] for key, item in value.items()]


def _as(convert: Callable[[Any], Any]) -> Callable[[Any, Lower], Any]:
    return lambda value, _lower: convert(value)


def _int_bytes(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def lower_big_int(value: Any) -> ormsgpack.Ext:
    """What stands for an integer of more than 64 bits, at which msgpack ends; ormsgpack asks for it."""
    return ormsgpack.Ext(TAG_BIG_INT, ormsgpack.packb(_int_bytes(value)))


def _lower_datetime(value: datetime, lower: Lower) -> Any:
    zone = value.tzinfo
    if zone is UTC:
        # By far the most common, and what is cut off is always "+00:00".
        return [value.isoformat()[:-6], value.fold, 0]
    return [value.replace(tzinfo=None).isoformat(), value.fold, lower_zone(zone, lower)]


def _build_datetime(parts: Any) -> datetime:
    text, fold, zone = parts
    if zone == 0 and not fold:
        return datetime.fromisoformat(text + "+00:00")
    return datetime.fromisoformat(text).replace(tzinfo=build_zone(zone), fold=fold)


def _lower_time(value: time, lower: Lower) -> Any:
    return [value.replace(tzinfo=None).isoformat(), value.fold, lower_zone(value.tzinfo, lower)]


def _build_time(parts: Any) -> time:
    text, fold, zone = parts
    return time.fromisoformat(text).replace(tzinfo=build_zone(zone), fold=fold)


def _build_big_int(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _build_dict(parts: Any) -> dict[Any, Any]:
    return dict(map(listed, listed(parts)))


def _build_fraction(parts: Any) -> Fraction:
    numerator, denominator = parts
    # It would take text and decimals too, and a short one may stand for a number that fills the memory.
    if type(numerator) is not int or type(denominator) is not int:
        raise TypeError("its parts are no integers")
    return Fraction(numerator, denominator)


_PATHS: Final[dict[str, type[PurePosixPath | PureWindowsPath]]] = {
    cls.__name__: cls for cls in (PosixPath, PurePosixPath, WindowsPath, PureWindowsPath)
}

_PATH = Kind(
    16,
    lambda value, lower: [type(value).__name__, lower(str(value))],
    lambda parts: _PATHS[parts[0]](parts[1]),
)

STANDARD_KINDS: Final[dict[type, Kind]] = {
    tuple: Kind(1, _parts, tuple),
    set: Kind(2, _sorted_parts, set),
    frozenset: Kind(3, _sorted_parts, frozenset),
    dict: Kind(4, _pairs, _build_dict),
    int: Kind(TAG_BIG_INT, _as(_int_bytes), _build_big_int),
    str: Kind(
        6,
        _as(lambda text: text.encode("utf-8", "surrogatepass")),
        lambda data: data.decode("utf-8", "surrogatepass"),
    ),
    bytearray: Kind(7, _as(bytes), lambda data: bytearray() + data),
    complex: Kind(
        8,
        _as(lambda value: struct.pack("<dd", value.real, value.imag)),
        lambda data: complex(*struct.unpack("<dd", data)),
    ),
    datetime: Kind(9, _lower_datetime, _build_datetime),
    date: Kind(10, _as(date.isoformat), date.fromisoformat),
    time: Kind(11, _lower_time, _build_time),
    timedelta: Kind(12, _as(lambda v: [v.days, v.seconds, v.microseconds]), lambda parts: timedelta(*parts)),
    Decimal: Kind(13, _as(str), Decimal),
    Fraction: Kind(14, lambda v, lower: [lower(v.numerator), lower(v.denominator)], _build_fraction),
    UUID: Kind(15, _as(lambda value: value.bytes), lambda data: UUID(bytes=data)),
    **dict.fromkeys(_PATHS.values(), _PATH),
    **CONTAINER_KINDS,
    re.Pattern: EXPRESSION,
    **NETWORK_KINDS,
    Opaque: Kind(30, _as(lambda value: value.type_name), Opaque),
}
"""By exact type. A subclass is another type, and would not come back as itself."""
