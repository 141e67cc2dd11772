"""The kinds of polars' frames and series, as columns of plain values with a dtype. polars is never imported here."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower, NotStorable, listed
from limpet.codec.library_types.libraries import imported, required
from limpet.codec.library_types.polars_dtypes import are_fitting, build_dtype, damaged, description


def _lower_column(series: Any, lower: Lower) -> list[Any]:
    polars = imported("polars")
    cls: type = series.__class__
    described = description(polars, series.dtype)
    if described is None:
        raise NotStorable(cls, f"has the dtype {series.dtype}, which could not be rebuilt exactly")
    try:
        with _calm(lambda error: NotStorable(cls, f"cannot be read ({error})")):
            values = series.cast(build_dtype(polars, described, is_physical=True)).to_list()
            is_whole = are_fitting(values, described)
    except polars.exceptions.PolarsError as error:
        raise NotStorable(cls, f"cannot be read ({error})") from error
    if not is_whole:
        raise NotStorable(cls, f"has values of the dtype {series.dtype} that could not be rebuilt")
    return [series.name, lower(described), lower(values)]


def _lower_series(value: Any, lower: Lower) -> Any:
    return ["series", len(value), *_lower_column(value, lower)]


def _lower_frame(value: Any, lower: Lower) -> Any:
    return ["frame", value.height, [_lower_column(column, lower) for column in value.get_columns()]]


def _build(parts: Any) -> Any:
    polars = required("polars", "polars:DataFrame")
    with _calm(lambda error: damaged(f"polars cannot build it: {error}")):
        match parts:
            case ["series", int(length), name, written, values] if length == len(listed(values)):
                return _build_column(polars, name, written, values)
            case ["frame", int(height), columns] if height >= 0:
                return _build_frame(polars, height, listed(columns)) if columns else polars.DataFrame(height=height)
            case _:
                raise damaged("it is not what is written of a value of polars")


def _build_frame(polars: Any, height: int, columns: list[Any]) -> Any:
    # By their names: polars would give a column whose name is empty another one.
    series: dict[str, Any] = {}
    for name, written, values in columns:
        if len(listed(values)) != height or name in series:
            raise damaged("its columns are not equally long, or two have one name")
        series[name] = _build_column(polars, name, written, values)
    return polars.DataFrame(series)


def _build_column(polars: Any, name: object, written: Any, values: list[Any]) -> Any:
    logical = build_dtype(polars, written, is_physical=False)
    physical = build_dtype(polars, written, is_physical=True)
    if type(name) is not str or not are_fitting(values, written):
        raise damaged("a column has values that do not fit its dtype")
    series = polars.Series(name, values, dtype=physical, strict=True)
    return series if physical == logical else series.cast(logical)


@contextmanager
def _calm(translate: Callable[[BaseException], Exception]) -> Generator[None]:
    """A panic inside polars is no Exception, and must not pass for an interrupt."""
    try:
        yield
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise translate(error) from error


POLARS: Final = Kind(35, _lower_frame, _build)
_SERIES: Final = Kind(35, _lower_series, _build)


def polars_kind(cls: type) -> Kind:
    """The kind of a class of polars. Raises NotStorable where it has none."""
    polars = imported("polars")
    if cls is polars.DataFrame:
        return POLARS
    if cls is polars.Series:
        return _SERIES
    if issubclass(cls, polars.LazyFrame):
        raise NotStorable(cls, "is a plan and not data; `collect()` it first")
    raise NotStorable(cls, "is not one of polars' values that can be rebuilt exactly")


def parts_with_places(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """The columns of a frame, and how a person gets to them."""
    if isinstance(value, imported("polars").DataFrame):
        yield from ((column, f"{place}[{column.name!r}]") for column in value.get_columns())
