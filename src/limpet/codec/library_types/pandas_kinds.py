"""The kinds of pandas: frames, series, indexes, arrays and scalars, column by column. pandas is never imported here.

The parts of each begin with a word for what it is. ``parts_with_places`` names what is inside, for errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower, NotStorable, listed
from limpet.codec.library_types.libraries import imported, required
from limpet.codec.library_types.pandas_arrays import (
    build_column,
    build_datetimes,
    build_frequency,
    damaged,
    lower_column,
    lower_frequency,
    require_short_range,
    values_of,
)
from limpet.codec.python_types.zones import lower_zone

_UNITS: Final = frozenset({"s", "ms", "us", "ns"})


def _lower_frame(value: Any, lower: Lower) -> Any:
    columns = [lower_column(values_of(value.iloc[:, number]), lower) for number in range(value.shape[1])]
    return ["frame", len(value), lower(value.columns), lower(value.index), columns, *_lower_notes(value, lower)]


def _build_frame(pandas: Any, height: Any, columns: Any, index: Any, contents: Any, *notes: Any) -> Any:
    _require_index(pandas, columns, len(contents))
    _require_index(pandas, index, height)
    # Under their numbers, since names may occur twice, and without an index, so that nothing is aligned.
    series = {number: _series(pandas, build_column(pandas, content)) for number, content in enumerate(listed(contents))}
    if any(len(each) != height for each in series.values()):
        raise damaged("its columns are not equally long")
    frame = pandas.DataFrame(series) if series else pandas.DataFrame(index=index)
    frame.index = index
    frame.columns = columns
    return _with_notes(frame, *notes)


def _lower_series(value: Any, lower: Lower) -> Any:
    content = lower_column(values_of(value), lower)
    return ["series", len(value), content, lower(value.index), lower(value.name), *_lower_notes(value, lower)]


def _build_series(pandas: Any, length: Any, content: Any, index: Any, name: Any, *notes: Any) -> Any:
    _require_index(pandas, index, length)
    series = _series(pandas, build_column(pandas, content))
    series.index = index
    series.name = name
    return _with_notes(series, *notes)


def _series(pandas: Any, values: Any) -> Any:
    return pandas.Series(values, dtype=values.dtype)


def _require_index(pandas: Any, index: Any, length: Any) -> None:
    if type(length) is not int or not isinstance(index, pandas.Index) or len(index) != length:
        raise damaged("its index does not fit it")


def _lower_notes(value: Any, lower: Lower) -> list[Any]:
    return [lower(dict(value.attrs)), value.flags.allows_duplicate_labels]


def _with_notes(value: Any, attrs: Any, allows_duplicates: Any) -> Any:
    if type(attrs) is not dict or type(allows_duplicates) is not bool:
        raise damaged("it has no attrs")
    if attrs:
        value.attrs = attrs
    value.flags.allows_duplicate_labels = allows_duplicates
    return value


def _lower_index(value: Any, lower: Lower) -> Any:
    frequency = getattr(value, "freq", None) if value.dtype.kind in "mM" else None
    return ["index", len(value), lower_column(values_of(value), lower), lower(value.name), lower_frequency(frequency)]


def _build_index(pandas: Any, length: Any, content: Any, name: Any, frequency: Any) -> Any:
    values = build_column(pandas, content)
    index = pandas.Index(values, dtype=values.dtype, name=name, tupleize_cols=False)
    if index.dtype != values.dtype or len(index) != length:
        raise damaged(f"an index cannot have the dtype {values.dtype}")
    if frequency is not None:
        index.freq = build_frequency(frequency)
    return index


def _lower_range_index(value: Any, lower: Lower) -> Any:
    return ["range", value.start, value.stop, value.step, lower(value.name)]


def _build_range_index(pandas: Any, start: Any, stop: Any, step: Any, name: Any) -> Any:
    if not all(type(number) is int and abs(number) < 1 << 63 for number in (start, stop, step)):
        raise damaged("an index has no bounds")
    return pandas.RangeIndex(start, stop, step, name=name)


def _lower_multi_index(value: Any, lower: Lower) -> Any:
    for level in value.levels:
        require_short_range(level, len(value))
    codes = [lower(imported("numpy").asarray(each)) for each in value.codes]
    return ["levels", len(value), lower(list(value.levels)), codes, lower(list(value.names)), value.sortorder]


def _build_multi_index(pandas: Any, length: Any, levels: Any, codes: Any, names: Any, sortorder: Any) -> Any:
    array = imported("numpy").ndarray
    if not all(isinstance(level, pandas.Index) for level in listed(levels)):
        raise damaged("an index has no levels")
    if not all(type(each) is array and each.shape == (length,) and each.dtype.kind == "i" for each in listed(codes)):
        raise damaged("an index has no codes")
    try:
        for level in levels:
            require_short_range(level, length)
    except NotStorable as error:
        raise damaged(f"it {error.why}") from error
    index = pandas.MultiIndex(levels=levels, codes=codes, names=listed(names), sortorder=sortorder)
    _require_index(pandas, index, length)
    return index


def _lower_array(value: Any, lower: Lower) -> Any:
    return ["array", len(value), lower_column(value, lower)]


def _build_array(pandas: Any, length: Any, content: Any) -> Any:
    values = build_column(pandas, content)
    if not isinstance(values, pandas.api.extensions.ExtensionArray) or len(values) != length:
        raise damaged("it is no array of pandas")
    return values


def _lower_timestamp(value: Any, lower: Lower) -> Any:
    return ["timestamp", int(value.asm8.view("i8")), value.unit, lower_zone(value.tzinfo, lower), value.fold]


def _build_timestamp(pandas: Any, number: Any, unit: Any, zone: Any, fold: Any) -> Any:
    moment = imported("numpy").array([number], _dtype("M", number, unit))
    found = build_datetimes(pandas, moment, zone)[0]
    if found is pandas.NaT or fold not in (0, 1):
        raise damaged("a moment is none")
    return found if found.fold == fold else found.replace(fold=fold)


def _dtype(kind: str, number: object, unit: object) -> str:
    if type(number) is not int or unit not in _UNITS:
        raise damaged("a moment is none")
    return f"{kind}8[{unit}]"


def _lower_timedelta(value: Any, _: Lower) -> Any:
    return ["timedelta", int(value.asm8.view("i8")), value.unit]


def _build_timedelta(pandas: Any, number: Any, unit: Any) -> Any:
    found = pandas.TimedeltaIndex(imported("numpy").array([number], _dtype("m", number, unit)))[0]
    if found is pandas.NaT:
        raise damaged("a duration is none")
    return found


def _lower_period(value: Any, _: Lower) -> Any:
    return ["period", value.ordinal, lower_frequency(value.freq)]


def _build_period(pandas: Any, ordinal: Any, frequency: Any) -> Any:
    found = pandas.Period(ordinal=ordinal, freq=build_frequency(frequency)) if type(ordinal) is int else pandas.NaT
    if found is pandas.NaT:
        raise damaged("a period is none")
    return found


def _lower_interval(value: Any, lower: Lower) -> Any:
    return ["interval", lower(value.left), lower(value.right), value.closed]


def _build_interval(pandas: Any, left: Any, right: Any, closed: Any) -> Any:
    return pandas.Interval(left, right, closed)


_BUILD: Final[dict[str, Callable[..., Any]]] = {
    "frame": _build_frame,
    "series": _build_series,
    "index": _build_index,
    "range": _build_range_index,
    "levels": _build_multi_index,
    "array": _build_array,
    "timestamp": _build_timestamp,
    "timedelta": _build_timedelta,
    "period": _build_period,
    "interval": _build_interval,
    "NaT": lambda *_: imported("pandas").NaT,
    "NA": lambda *_: imported("pandas").NA,
}
_INDEXES: Final = ("Index", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "IntervalIndex", "CategoricalIndex")
_ARRAYS: Final = (
    *("DatetimeArray", "TimedeltaArray", "PeriodArray", "IntervalArray", "Categorical", "StringArray"),
    *("IntegerArray", "FloatingArray", "BooleanArray", "ArrowStringArray"),
)
_LOWER: Final[dict[str, Callable[[Any, Lower], Any]]] = {
    "DataFrame": _lower_frame,
    "Series": _lower_series,
    "RangeIndex": _lower_range_index,
    "MultiIndex": _lower_multi_index,
    **dict.fromkeys(_INDEXES, _lower_index),
    "Timestamp": _lower_timestamp,
    "Timedelta": _lower_timedelta,
    "Period": _lower_period,
    "Interval": _lower_interval,
}


def _build(parts: Any) -> Any:
    pandas = required("pandas", "pandas:DataFrame")
    word, *others = parts
    if word not in _BUILD:
        raise damaged("it is not what is written of a value of pandas")
    return _BUILD[word](pandas, *others)


def _kind(lower: Callable[[Any, Lower], Any]) -> Kind:
    return Kind(34, lower, _build)


PANDAS: Final = _kind(_lower_frame)


def pandas_kind(cls: type) -> Kind:
    """The kind of a class of pandas. Raises NotStorable where it has none."""
    pandas = imported("pandas")
    for name, lower in _LOWER.items():
        if cls is getattr(pandas, name):
            return _kind(lower)
    if cls is type(pandas.NaT) or cls is type(pandas.NA):
        return _kind(lambda value, _: ["NaT" if value is pandas.NaT else "NA"])
    if any(cls is getattr(pandas.arrays, name, None) for name in _ARRAYS):
        return _kind(_lower_array)
    raise NotStorable(cls, "is not one of the kinds of pandas' values that can be rebuilt exactly")


def parts_with_places(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """What is inside a frame, a series or an index, and how a person gets there."""
    pandas = imported("pandas")
    if isinstance(value, (pandas.DataFrame, pandas.Series)):
        yield dict(value.attrs), f"{place}.attrs"
        yield value.index, f"{place}.index"
    if isinstance(value, pandas.DataFrame):
        yield value.columns, f"{place}.columns"
        for number, name in enumerate(value.columns):
            yield value.iloc[:, number], f"{place}[{name!r}]"
    elif isinstance(value, pandas.MultiIndex):
        yield list(value.names), f"{place}.names"
        yield list(value.levels), f"{place}.levels"
    elif isinstance(value, (pandas.Series, pandas.Index)):
        yield value.name, f"{place}.name"
        yield from _items_with_places(pandas, value, place)
    elif isinstance(value, pandas.Interval):
        yield from ((value.left, f"{place}.left"), (value.right, f"{place}.right"))


def _items_with_places(pandas: Any, column: Any, place: str) -> Iterator[tuple[object, str]]:
    if column.dtype == object:
        yield from ((item, f"{place}[{number}]") for number, item in enumerate(column))
    elif isinstance(column.dtype, pandas.CategoricalDtype):
        yield column.dtype.categories, f"{place}.{'cat.' if isinstance(column, pandas.Series) else ''}categories"
