"""The dtypes of polars in stored data, and the values that may stand in a column of each.

A description is the name of a simple dtype, or a list that begins with a name. The values of a column are written in a
*physical* dtype, in which Python has all of them exactly: moments as numbers, categories as text. Values from data are
checked here first: polars is given nothing that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

from limpet.codec.kinds import listed
from limpet.codec.python_types.zones import is_zone_key
from limpet.errors import ValueNotReadable

MAX_DEPTH: Final = 32
"""Deeper dtypes could use up the stack inside polars, which ends the process."""
MAX_HIDDEN: Final = 1 << 22
"""A null in a column of arrays takes the room of an array. This is how many items nulls may stand for."""

_INTEGERS: Final = {
    f"{sign}Int{bits}": range(0 if sign else -(1 << (bits - 1)), 1 << (bits if sign else bits - 1))
    for sign in ("", "U")
    for bits in (8, 16, 32, 64, 128)
}
_SIMPLE: Final[dict[str, type]] = {
    **dict.fromkeys(_INTEGERS, int),
    **dict.fromkeys(("Float16", "Float32", "Float64"), float),
    "Boolean": bool,
    "String": str,
    "Binary": bytes,
    "Null": type(None),
}
_UNITS: Final = frozenset({"ms", "us", "ns"})
_MOMENTS: Final = {"Date": _INTEGERS["Int32"], "Time": range(86_400_000_000_000)}
_CATEGORY_SIZES: Final = frozenset({"UInt8", "UInt16", "UInt32"})


def damaged(why: str) -> ValueNotReadable:
    """The error for parts that are not what is written of a value of polars."""
    return ValueNotReadable("polars", f"its bytes are damaged ({why})")


def description(polars: Any, dtype: Any, depth: int = 0) -> Any:
    """What a dtype is made of; None where it could not be built again from that."""
    name = type(dtype).__name__
    if depth > MAX_DEPTH or getattr(polars, name, None) is not type(dtype):
        return None
    match name:
        case "Datetime":
            return [name, dtype.time_unit, dtype.time_zone]
        case "Duration":
            return [name, dtype.time_unit]
        case "Decimal":
            return [name, dtype.precision, dtype.scale]
        case "Enum":
            return [name, dtype.categories.to_list()]
        case "Categorical":
            known = dtype.categories
            named = [known.name(), known.namespace(), type(known.physical()()).__name__]
            return [name, None if known.is_global() else named]
        case "List":
            inner = description(polars, dtype.inner, depth + 1)
            return None if inner is None else [name, inner]
        case "Array":
            inner = description(polars, dtype.inner, depth + 1)
            described = [name, inner, dtype.size]
            return None if inner is None or _items(described) > MAX_HIDDEN else described
        case "Struct":
            fields = [[field.name, description(polars, field.dtype, depth + 1)] for field in dtype.fields]
            return None if any(inner is None for _, inner in fields) else [name, fields]
        case _:
            return name if name in _SIMPLE or name in _MOMENTS else None


def build_dtype(polars: Any, written: Any, *, is_physical: bool, depth: int = 0) -> Any:
    """The dtype of a description, or the physical one that stands for it. Raises ValueNotReadable."""

    def build(inner: Any) -> Any:
        return build_dtype(polars, inner, is_physical=is_physical, depth=depth + 1)

    if depth > MAX_DEPTH:
        raise damaged("its dtype is nested too deeply")
    match written:
        case str() if written in _SIMPLE:
            return getattr(polars, written)()
        case ["List", inner]:
            return polars.List(build(inner))
        case ["Array", inner, int(width)] if type(width) is int and 0 <= width:
            if _items(written) > MAX_HIDDEN:
                raise damaged("its arrays are too wide")
            return polars.Array(build(inner), width)
        case ["Struct", fields]:
            return polars.Struct([polars.Field(_text(name), build(inner)) for name, inner in listed(fields)])
        case ["Decimal", int(precision), int(scale)] if 1 <= precision <= 38 and 0 <= scale <= precision:
            return polars.Decimal(precision, scale)
        case _:
            return _build_physical(polars, written) if is_physical else _build_logical(polars, written)


def _build_physical(polars: Any, written: Any) -> Any:
    match written:
        case "Date":
            return polars.Int32()
        case ["Enum" | "Categorical", _]:
            return polars.String()
        case _:
            return polars.Int64()


def _build_logical(polars: Any, written: Any) -> Any:
    match written:
        case "Date" | "Time":
            return getattr(polars, written)()
        case ["Datetime", str(unit), zone] if unit in _UNITS and (zone is None or is_zone_key(zone)):
            return polars.Datetime(unit, zone)
        case ["Duration", str(unit)] if unit in _UNITS:
            return polars.Duration(unit)
        case ["Enum", categories]:
            return polars.Enum([_text(category) for category in listed(categories)])
        case ["Categorical", None]:
            return polars.Categorical()
        case ["Categorical", [str(name), str(namespace), str(size)]] if size in _CATEGORY_SIZES:
            physical = getattr(polars, size)
            return polars.Categorical(polars.Categories(_text(name), _text(namespace), physical))
        case _:
            raise damaged("its dtype is not one that is written")


def _text(text: object) -> str:
    if type(text) is not str:
        raise damaged("a name in its dtype is no text")
    text.encode()  # Polars has no lone surrogates.
    return text


def _items(written: Any) -> int:
    """How many items an array of this dtype has room for, counted through arrays of arrays."""
    match written:
        case ["Array", inner, int(width)]:
            return max(width, 1) * _items(inner)
        case ["Struct", fields]:
            return max(1, sum(_items(inner) for _, inner in listed(fields)))
        case _:
            return 1


def are_fitting(values: list[Any], written: Any) -> bool:
    """Whether these values can stand in a column of that physical form, for a description that was built before."""
    return _Fit().holds(values, written)


class _Fit:
    """One check of a column; counts the items that nulls stand for."""

    def __init__(self) -> None:
        self._hidden = 0

    def holds(self, values: list[Any], written: Any) -> bool:
        present = [value for value in values if value is not None]
        match written:
            case str():
                return _are_simple(present, written)
            case ["List", inner]:
                return _are_all(present, list) and self.holds(_flat(present), inner)
            case ["Array", inner, width]:
                self._hidden += (len(values) - len(present)) * _items(written)
                return (
                    self._hidden <= MAX_HIDDEN
                    and _are_all(present, list)
                    and all(len(value) == width for value in present)
                    and self.holds(_flat(present), inner)
                )
            case ["Struct", fields]:
                return self._are_structures(values, present, fields)
            case ["Decimal", precision, scale]:
                return all(_is_decimal(value, precision, scale) for value in present)
            case ["Enum", categories]:
                return _are_all(present, str) and set(categories).issuperset(present)
            case ["Categorical", _]:
                return _are_simple(present, "String")
            case _:
                return _are_simple(present, "Int64")

    def _are_structures(self, values: list[Any], present: list[Any], fields: Any) -> bool:
        names = [name for name, _ in fields]
        if not _are_all(present, dict) or not all(list(value) == names for value in present):
            return False
        # Under a null each field has a null of its own.
        absent: list[None] = [None] * (len(values) - len(present))
        return all(self.holds([*(value[name] for value in present), *absent], inner) for name, inner in fields)


def _are_all(values: list[Any], cls: type) -> bool:
    return {cls}.issuperset(map(cast("Callable[[Any], type]", type), values))


def _flat(lists: list[list[Any]]) -> list[Any]:
    return [item for items in lists for item in items]


def _are_simple(values: list[Any], name: str) -> bool:
    if not _are_all(values, _SIMPLE.get(name, int)):
        return False
    if name == "String":
        try:
            "".join(values).encode()
        except UnicodeEncodeError:
            return False
    bounds = _INTEGERS.get(name) or _MOMENTS.get(name)
    return bounds is None or not values or (min(values) in bounds and max(values) in bounds)


def _is_decimal(value: object, precision: int, scale: int) -> bool:
    if type(value) is not Decimal or not value.is_finite():
        return False
    _, digits, exponent = value.as_tuple()
    return -scale <= cast(int, exponent) <= 0 and len(digits) <= precision
