"""How frames, series and indexes of pandas and polars differ: in columns, dtypes and rows. Imports neither of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from limpet.codec.comparison.arrays import array_of, dtype_texts, first_of, unequal_elements, unequal_objects
from limpet.codec.comparison.findings import Pair, Place, Steps, added, became, changed, removed
from limpet.codec.comparison.keys import by_identity, order_difference
from limpet.codec.comparison.leaves import encoded
from limpet.codec.comparison.walk import Walk
from limpet.codec.library_types.libraries import imported
from limpet.codec.library_types.pandas_arrays import values_of

_Row = Callable[[int], str]
"""How a row is got, after the place of its column."""


def _iloc(number: int) -> str:
    return f".iloc[{number}]"


def _item(number: int) -> str:
    return f"[{number}]"


def pandas_frame_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two frames of pandas."""
    before, after, place = array_of(pair.before), array_of(pair.after), pair.place
    yield from _heights(before, after, place)
    yield from _columns(_pandas_columns(before), _pandas_columns(after), place, walk, _iloc)
    if list(map(str, before.columns)) == list(map(str, after.columns)):
        yield Pair(before.columns, after.columns, place.step(".columns"))
    yield from _around(before, after, place)


def _pandas_columns(frame: Any) -> list[tuple[object, Any]]:
    labels = list(frame.columns) if frame.columns.is_unique else range(frame.shape[1])
    return [(label, frame.iloc[:, number]) for number, label in enumerate(labels)]


def pandas_series_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two series of pandas."""
    before, after, place = array_of(pair.before), array_of(pair.after), pair.place
    yield from _heights(before, after, place)
    yield from _column(before, after, place, walk, _iloc)
    yield Pair(before.name, after.name, place.step(".name"))
    yield from _around(before, after, place)


def _around(before: Any, after: Any, place: Place) -> Steps:
    """What stands around the columns: the index, and the notes that pandas keeps."""
    if len(before) == len(after):
        yield Pair(before.index, after.index, place.step(".index"))
    yield Pair(dict(before.attrs), dict(after.attrs), place.step(".attrs"))
    one, other = (each.flags.allows_duplicate_labels for each in (before, after))
    yield Pair(one, other, place.step(".flags.allows_duplicate_labels"))


def index_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two indexes of pandas."""
    before, after, place = array_of(pair.before), array_of(pair.after), pair.place
    if before.__class__ is imported("pandas").RangeIndex:
        if encoded(before) != encoded(after):
            yield changed(pair)
        return
    yield from _heights(before, after, place)
    yield from _column(before, after, place, walk, _item)
    yield Pair(list(before.names), list(after.names), place.step(".names"))
    if before.dtype.kind in "mM":
        yield Pair(getattr(before, "freq", None), getattr(after, "freq", None), place.step(".freq"))


def polars_frame_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two frames of polars."""
    before, after = ([(each.name, each) for each in array_of(value).get_columns()] for value in pair[:2])
    yield from _heights(pair.before, pair.after, pair.place)
    yield from _columns(before, after, pair.place, walk, _item)


def polars_series_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two series of polars."""
    before, after, place = array_of(pair.before), array_of(pair.after), pair.place
    yield from _heights(before, after, place)
    yield from _column(before, after, place, walk, _item)
    yield Pair(before.name, after.name, place.step(".name"))


def _heights(before: Any, after: Any, place: Place) -> Steps:
    if len(before) != len(after):
        yield became(place.step(" (rows)"), str(len(before)), str(len(after)))


def _columns(
    before: Sequence[tuple[object, Any]], after: Sequence[tuple[object, Any]], place: Place, walk: Walk, row: _Row
) -> Steps:
    one, other = by_identity(before), by_identity(after)
    for name, (label, column) in one.items():
        if name in other:
            yield from _column(column, other[name][1], place.item(label), walk, row)
        else:
            yield removed(place.item(label), column)
    yield from (added(place.item(label), column) for name, (label, column) in other.items() if name not in one)
    yield from order_difference(one, other, place.step(" (order of columns)"))


def _column(before: Any, after: Any, place: Place, walk: Walk, row: _Row) -> Steps:
    """What differs in the content of two columns; of rows, in those that both have."""
    one, other = _content(before), _content(after)
    bytes_before, bytes_after = encoded(one), encoded(other)
    if bytes_before is not None and bytes_before == bytes_after:
        return
    if before.dtype != after.dtype or repr(before.dtype) != repr(after.dtype):
        yield became(place.step(".dtype"), *dtype_texts(before, after))
        return
    length = min(len(before), len(after))
    rows = _unequal_rows(one[:length], other[:length], walk)
    if rows:
        yield first_of(Pair(one[rows[0]], other[rows[0]], place.step(row(rows[0]))), len(rows), "row")
    elif len(before) == len(after) and bytes_before is not None and not walk.tolerance:
        yield changed(Pair(before, after, place))  # Something besides its rows, such as levels that are not used.


def _content(column: Any) -> Any:
    """What is compared of a column: without the index that all columns of a frame share, and the name."""
    if column.__class__.__module__.partition(".")[0] == "polars":
        return column.alias("")
    return column if column.__class__.__name__ == "MultiIndex" else values_of(column)


def _unequal_rows(before: Any, after: Any, walk: Walk) -> list[int]:
    if before.__class__.__module__ == "numpy" and before.dtype != object:
        return list(map(int, imported("numpy").flatnonzero(unequal_elements(before, after, walk.tolerance))))
    return unequal_objects(before, after, walk)


FRAME_RULES: Final[dict[tuple[str, str], Callable[[Pair, Walk], Steps]]] = {
    ("pandas", "DataFrame"): pandas_frame_rule,
    ("pandas", "Series"): pandas_series_rule,
    **{
        ("pandas", name): index_rule
        for name in (
            *("Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "IntervalIndex"),
            "CategoricalIndex",
        )
    },
    ("polars", "DataFrame"): polars_frame_rule,
    ("polars", "Series"): polars_series_rule,
}
"""By the library and the name of the class."""
