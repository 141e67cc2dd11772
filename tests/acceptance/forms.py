"""Values with every type written out, so that forms are equal only where values and types are.

A form is made of types, texts, lists and tuples. It keeps what ``==`` forgets: nan, -0.0, the order of a dict, the fold
of a datetime, the layout of an array, the notes on an exception.
"""

from __future__ import annotations

import traceback
from collections import defaultdict, deque
from dataclasses import fields, is_dataclass
from datetime import datetime, time
from enum import Enum
from typing import Any

import attrs
import msgspec
import numpy as np
import pandas as pd
import polars as pl
from pydantic import BaseModel

SCALARS = frozenset({type(None), bool, int, float, str, bytes})
NOTED = frozenset({"recorded_traceback", "_limpet_address"})
"""What Limpet itself notes on an exception."""

MEMBERS_OF_ERRORS: dict[type[BaseException], tuple[str, ...]] = {
    OSError: ("errno", "strerror", "filename", "filename2"),
    ImportError: ("msg", "name", "path"),
    AttributeError: ("name",),
    BaseExceptionGroup: ("message", "exceptions"),
}


def form(value: Any) -> Any:
    """The form of any value that can be stored."""
    kind = type(value)
    if kind in SCALARS:
        return kind, repr(value)
    match value:
        case Enum():
            return kind, value._name_, value._value_
        case BaseException():
            return form_of_error(value)
        case np.generic() | np.ndarray():
            return form_of_array(value)
        case pl.Series() | pl.DataFrame():
            return form_of_polars(value)
        case pd.Series() | pd.DataFrame() | pd.Index():
            return form_of_pandas(value)
        case datetime() | time():
            return kind, repr(value), getattr(value, "fold", None), getattr(value, "unit", None)
        case pd.Timedelta():
            return kind, repr(value), value.unit
        case BaseModel():
            parts = (value.__dict__, value.__pydantic_extra__, value.__pydantic_fields_set__)
            return kind, [form(part) for part in parts]
        case _ if is_dataclass(kind) or attrs.has(kind) or isinstance(value, msgspec.Struct):
            return kind, form(attributes(value))
        case _:
            return form_of_container(value)


def form_of_container(value: Any) -> Any:
    kind = type(value)
    match value:
        case dict():
            more = value.default_factory if isinstance(value, defaultdict) else None
            return kind, more, [(form(key), form(item)) for key, item in value.items()]
        case set() | frozenset():
            return kind, sorted((form(item) for item in value), key=repr)
        case list() | tuple():
            return kind, [form(item) for item in value]
        case deque():
            return kind, value.maxlen, [form(item) for item in value]
        case pd.arrays.IntervalArray() | pd.Categorical():
            return kind, str(value.dtype), [form(item) for item in value]
        case _:
            return kind, repr(value)


def attributes(value: Any) -> dict[str, Any]:
    """All that an instance carries."""
    kind = type(value)
    if isinstance(value, msgspec.Struct):
        names = value.__struct_fields__
    else:
        names = tuple(each.name for each in (attrs.fields(kind) if attrs.has(kind) else fields(value)))
    # typing notes how a generic instance was made; that is no part of its value.
    others = {name: item for name, item in getattr(value, "__dict__", {}).items() if name != "__orig_class__"}
    return {name: getattr(value, name) for name in names} | others


def form_of_error(error: BaseException, *, with_traceback: bool = True) -> Any:
    """The form of an exception with its cause; the traceback as text, whether it is one or was recorded as one."""
    others = {key: item for key, item in vars(error).items() if key not in NOTED}
    members = [
        (name, form(getattr(error, name)))
        for cls, names in MEMBERS_OF_ERRORS.items()
        if isinstance(error, cls)
        for name in names
    ]
    cause = None if error.__cause__ is None else form_of_error(error.__cause__, with_traceback=with_traceback)
    text = traceback_text(error) if with_traceback else None
    return type(error), form(list(error.args)), form(others), members, cause, error.__suppress_context__, text


def traceback_text(error: BaseException) -> str | None:
    """Where an exception was raised: its own traceback, or what was recorded of it."""
    if error.__traceback__ is None:
        return getattr(error, "recorded_traceback", None)
    return "".join(traceback.format_tb(error.__traceback__))


def form_of_array(value: Any) -> Any:
    dtype = value.dtype
    # Not their bytes: those of a long double, and of a structure, are partly what happened to be in memory.
    items = [repr(item) for item in np.asarray(value).reshape(-1, order="A")] if dtype.itemsize else []
    items = [repr(value)] if isinstance(value, np.generic) else items
    is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
    return type(value), repr(dtype), dtype.char, dtype.isalignedstruct, value.shape, is_fortran, items


def form_of_polars(value: Any) -> Any:
    if isinstance(value, pl.DataFrame):
        return type(value), value.height, [form_of_polars(column) for column in value.get_columns()]
    return type(value), value.name, repr(value.dtype), form(value.to_list())


def form_of_pandas(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, pd.DataFrame):
        columns = [form_of_pandas(value.iloc[:, number]) for number in range(value.shape[1])]
        return kind, form(value.columns), form(value.index), columns, form(dict(value.attrs)), repr(value.flags)
    if isinstance(value, pd.MultiIndex):
        levels = [form(level) for level in value.levels]
        return kind, levels, [form(np.asarray(codes)) for codes in value.codes], form(list(value.names))
    about = [repr(value.dtype), form(value.name), form(list(value))]
    if isinstance(value.dtype, pd.CategoricalDtype):
        about += [form(value.dtype.categories), value.dtype.ordered]
    if isinstance(value, pd.Series):
        return kind, about, form(value.index), form(dict(value.attrs)), repr(value.flags)
    return kind, about, repr(getattr(value, "freq", None))
