"""The kinds of classes: those of the user's families first, then those of numpy, pandas and polars.

None of these libraries is imported here. A class belongs to one of them if it, or a class that it derives from, was
declared there, and then the program has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from limpet.codec.kinds import Kind, NotStorable
from limpet.codec.left_out import stand_ins_of
from limpet.codec.library_types import pandas_kinds, polars_kinds
from limpet.codec.library_types.numpy_kinds import NUMPY_ARRAY, NUMPY_SCALAR, numpy_kind
from limpet.codec.library_types.pandas_kinds import PANDAS, pandas_kind
from limpet.codec.library_types.polars_kinds import POLARS, polars_kind
from limpet.codec.user_types.classes import family_of, kind_of_class, parts_of

OPTIONAL_KINDS: Final = (NUMPY_ARRAY, NUMPY_SCALAR, PANDAS, POLARS)

_LIBRARIES: Final[dict[str, Callable[[type], Kind]]] = {
    "numpy": numpy_kind,
    "pandas": pandas_kind,
    "polars": polars_kind,
}


def kind_of(cls: type) -> Kind:
    """The kind of a class that is not one of Python's own. Raises NotStorable where it has none."""
    try:
        return kind_of_class(cls)
    except NotStorable:
        if family_of(cls) is not None:
            raise
        declared_in = {base.__module__.partition(".")[0] for base in cls.__mro__}
        for name, library_kind in _LIBRARIES.items():
            if name in declared_in and name in sys.modules:
                return library_kind(cls)
        raise


def parts_with_places(value: Any, place: str) -> Iterator[tuple[object, str]]:
    """The parts of an instance and their places. Raises NotStorable where its class has no kind."""
    kind = kind_of(value.__class__)
    if kind.tag == PANDAS.tag:
        yield from pandas_kinds.parts_with_places(value, place)
    elif kind.tag == POLARS.tag:
        yield from polars_kinds.parts_with_places(value, place)
    elif kind not in OPTIONAL_KINDS:
        left_out = {f"{place}.{name}" for name in stand_ins_of(value.__class__).notes}
        yield from ((part, at) for part, at in parts_of(value, place) if at not in left_out)
