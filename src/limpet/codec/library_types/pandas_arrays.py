"""The columns of pandas, taken apart into numpy arrays and lists and put together again. Imports no library.

The parts of a column begin with a word for what it is. A column whose array is not listed here, such as a sparse one or
one of somebody's own, could not be rebuilt exactly and is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from limpet.codec.kinds import Lower, NotStorable, listed
from limpet.codec.library_types.libraries import imported
from limpet.codec.python_types.zones import build_zone, lower_zone
from limpet.errors import ValueNotReadable

_FREQUENCY: Final = re.compile(r"-?[0-9]{0,9}[A-Za-z]{1,6}(?:-[A-Za-z]{3})?")
_MISSING: Final = {"nan", "NA"}
MAX_UNUSED: Final = 1 << 20


def damaged(why: str) -> ValueNotReadable:
    """The error for parts that are not what is written of a value of pandas."""
    return ValueNotReadable("pandas", f"its bytes are damaged ({why})")


def values_of(column: Any) -> Any:
    """The numpy array or the array of pandas that is under a series or an index."""
    return column.to_numpy() if isinstance(column.dtype, imported("numpy").dtype) else column.array


def lower_column(values: Any, lower: Lower) -> Any:
    """The parts of what is under a series or an index. Raises NotStorable that names the dtype."""
    pandas, numpy = imported("pandas"), imported("numpy")
    cls: type = values.__class__
    if cls is numpy.ndarray:
        return ["objects", lower(list(values))] if values.dtype == object else ["numpy", lower(values)]
    if type(values.dtype) is pandas.StringDtype:
        return _lower_strings(values, lower)
    for name, lower_array in _LOWER.items():
        if cls is getattr(pandas.arrays, name):
            return lower_array(values, lower)
    raise NotStorable(cls, f"has the dtype {values.dtype}, which could not be rebuilt exactly")


def _lower_strings(values: Any, lower: Lower) -> Any:
    missing = "NA" if values.dtype.na_value is imported("pandas").NA else "nan"
    return ["strings", values.dtype.storage, missing, lower(values.to_numpy(object, na_value=None).tolist())]


def _lower_datetimes(values: Any, lower: Lower) -> Any:
    moments = values if values.tz is None else values.tz_convert(None)
    return ["datetimes", lower(imported("numpy").asarray(moments)), lower_zone(values.tz, lower)]


def _lower_timedeltas(values: Any, lower: Lower) -> Any:
    return ["timedeltas", lower(imported("numpy").asarray(values))]


def _lower_periods(values: Any, lower: Lower) -> Any:
    return ["periods", lower(values.asi8), lower_frequency(values.freq)]


def _lower_intervals(values: Any, lower: Lower) -> Any:
    # As columns: an index may be a range, which is short to write and long to build.
    bounds = [lower_column(values_of(bound), lower) for bound in (values.left, values.right)]
    return ["intervals", *bounds, values.closed]


def _lower_categories(values: Any, lower: Lower) -> Any:
    require_short_range(values.categories, len(values))
    return ["categories", lower(imported("numpy").asarray(values.codes)), lower(values.categories), values.ordered]


def _lower_masked(values: Any, lower: Lower) -> Any:
    # What stands under the mask is left over from some calculation, and no part of the value.
    content, mask = values._data.copy(), values._mask
    content[mask] = 0
    return ["masked", lower(content), lower(mask)]


_LOWER: Final[dict[str, Callable[[Any, Lower], Any]]] = {
    "DatetimeArray": _lower_datetimes,
    "TimedeltaArray": _lower_timedeltas,
    "PeriodArray": _lower_periods,
    "IntervalArray": _lower_intervals,
    "Categorical": _lower_categories,
    "IntegerArray": _lower_masked,
    "FloatingArray": _lower_masked,
    "BooleanArray": _lower_masked,
}


def build_column(pandas: Any, parts: Any) -> Any:
    """A numpy array or an array of pandas from its parts."""
    match parts:
        case ["objects", items]:
            return _objects(listed(items))
        case ["numpy", content]:
            return _array(content, "biufcmM")
        case ["strings", str(storage), str(missing), items] if missing in _MISSING:
            return _build_strings(pandas, storage, missing, listed(items))
        case ["datetimes", content, zone]:
            return build_datetimes(pandas, _array(content, "M"), zone).array
        case ["timedeltas", content]:
            return pandas.TimedeltaIndex(_array(content, "m")).array
        case ["periods", content, frequency]:
            return pandas.arrays.PeriodArray(_array(content, "i"), dtype=pandas.PeriodDtype(build_frequency(frequency)))
        case ["intervals", left, right, str(closed)]:
            return _build_intervals(pandas, left, right, closed)
        case ["categories", codes, categories, bool(is_ordered)] if isinstance(categories, pandas.Index):
            return _build_categories(pandas, _array(codes, "i"), categories, is_ordered)
        case ["masked", content, mask]:
            return _build_masked(pandas, content, mask)
        case _:
            raise damaged("a column is not what is written of one")


def _array(content: Any, kinds: str) -> Any:
    if type(content) is not imported("numpy").ndarray or content.ndim != 1 or content.dtype.kind not in kinds:
        raise damaged("a column has another content than its dtype says")
    return content


def _objects(items: list[Any]) -> Any:
    array = imported("numpy").empty(len(items), object)
    for number, item in enumerate(items):
        array[number] = item  # One by one: from a list of lists numpy would make an array of two dimensions.
    return array


def _build_strings(pandas: Any, storage: str, missing: str, items: list[Any]) -> Any:
    if not all(item is None or isinstance(item, str) for item in items):
        raise damaged("a column of text has something else in it")
    dtype = pandas.StringDtype(storage, na_value=pandas.NA if missing == "NA" else imported("numpy").nan)
    return pandas.array(_objects(items), dtype=dtype)


def build_datetimes(pandas: Any, moments: Any, zone: Any) -> Any:
    """An index of datetimes: naive ones, or moments of UTC in a zone."""
    index = pandas.DatetimeIndex(moments)
    found = build_zone(zone)
    return index if found is None else index.tz_localize("UTC").tz_convert(found)


def _build_intervals(pandas: Any, left: Any, right: Any, closed: str) -> Any:
    bounds = [
        pandas.Index(values, dtype=values.dtype) for values in (build_column(pandas, left), build_column(pandas, right))
    ]
    dtype = pandas.IntervalDtype(bounds[0].dtype, closed)
    return pandas.arrays.IntervalArray.from_arrays(*bounds, closed, dtype=dtype)


def _build_categories(pandas: Any, codes: Any, categories: Any, is_ordered: bool) -> Any:
    try:
        require_short_range(categories, len(codes))
    except NotStorable as error:
        raise damaged(f"it {error.why}") from error
    return pandas.Categorical.from_codes(codes, dtype=pandas.CategoricalDtype(categories, is_ordered))


def require_short_range(index: Any, length: int) -> None:
    """Raise NotStorable for categories or levels that are a range far longer than what uses them.

    pandas writes such a range out in memory. Its bytes in data are few, so that they could claim any length.
    """
    if type(index) is imported("pandas").RangeIndex and len(index) > max(MAX_UNUSED, length):
        raise NotStorable(
            index.__class__, f"is a range of more than {MAX_UNUSED} categories or levels, and most are not used"
        )


def _build_masked(pandas: Any, content: Any, mask: Any) -> Any:
    values, hidden = _array(content, "iufb"), _array(mask, "b")
    if len(values) != len(hidden) or not values.dtype.isnative or values.dtype.char == "e":
        raise damaged("a column has a mask that does not fit")
    kinds = {"b": pandas.arrays.BooleanArray, "f": pandas.arrays.FloatingArray}
    return kinds.get(values.dtype.kind, pandas.arrays.IntegerArray)(values, hidden)


def lower_frequency(frequency: Any) -> str | None:
    """The text of a frequency. Raises NotStorable for one that its text does not name."""
    if frequency is None:
        return None
    text = frequency.freqstr
    try:
        is_named = build_frequency(text) == frequency
    except (ValueNotReadable, ValueError):
        is_named = False
    if not is_named:
        raise NotStorable(frequency.__class__, f"is a frequency that its name {text!r} does not stand for")
    return text


def build_frequency(text: object) -> Any:
    """The frequency of that text."""
    if type(text) is not str or not _FREQUENCY.fullmatch(text):
        raise damaged("it has a frequency without a name")
    return imported("pandas").tseries.frequencies.to_offset(text)
