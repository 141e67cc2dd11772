"""How arrays and scalars of numpy differ: in dtype, shape or elements. numpy is never imported here."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from limpet.codec.comparison.findings import Found, Pair, Place, Steps, became
from limpet.codec.comparison.shown import cut, shown
from limpet.codec.comparison.walk import Walk
from limpet.codec.library_types.libraries import imported
from limpet.codec.library_types.numpy_dtypes import description, padding


def array_rule(pair: Pair, walk: Walk) -> Steps:
    """What differs between two arrays: the dtype, else the shape, else elements and the order in memory."""
    before, after, place = array_of(pair.before), array_of(pair.after), pair.place
    if not has_same_dtype(before, after):
        yield became(place.step(".dtype"), *dtype_texts(before, after))
    elif before.shape != after.shape:
        yield became(place.step(".shape"), str(before.shape), str(after.shape))
    else:
        yield from _elements(before, after, place, walk)
        if _order(before) != _order(after):
            yield became(place.step(" (order in memory)"), _order(before), _order(after))


def array_of(value: object) -> Any:
    """A value that is known to be an array, typed as what it is here: anything."""
    return value


def index_text(index: tuple[int, ...]) -> str:
    """How an element is got: ``[1, 2]``."""
    return f"[{', '.join(map(str, index)) or '()'}]"


def has_same_dtype(before: Any, after: Any) -> bool:
    """Whether two arrays have the same dtype, also where a machine has several types of one size."""
    one, other = before.dtype, after.dtype
    numpy = imported("numpy")
    return bool(one == other) and description(numpy, one) == description(numpy, other)


def dtype_texts(before: Any, after: Any) -> tuple[str, str]:
    """The texts of the dtypes of two arrays or columns, longer where the short ones are the same."""
    texts = str(before.dtype), str(after.dtype)
    if texts[0] == texts[1]:
        texts = repr(before.dtype), repr(after.dtype)
    if texts[0] == texts[1] and hasattr(before.dtype, "char"):
        texts = tuple(f"{each.dtype} of the type {each.dtype.char!r} of C" for each in (before, after))
    return cut(texts[0]), cut(texts[1])


def _order(array: Any) -> str:
    return "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"


def _elements(before: Any, after: Any, place: Place, walk: Walk) -> Steps:
    if before.dtype == object:
        unequal = unequal_objects(before.flat, after.flat, walk)
    else:
        unequal = list(imported("numpy").flatnonzero(unequal_elements(before, after, walk.tolerance)))
    if unequal:
        index = tuple(map(int, imported("numpy").unravel_index(unequal[0], before.shape)))
        yield first_of(Pair(before[index], after[index], place.step(index_text(index))), len(unequal), "element")


def unequal_objects(before: Iterable[object], after: Iterable[object], walk: Walk) -> list[int]:
    """The numbers of those items that are not the same."""
    pairs = enumerate(zip(before, after, strict=True))
    return [number for number, (one, other) in pairs if not walk.is_same(one, other)]


def first_of(pair: Pair, count: int, word: str) -> Pair | Found:
    """The first of several elements or rows that differ, and how many more do; one alone is looked into."""
    before, after, place = pair
    if count == 1 and not (is_numpy_scalar(before) or is_numpy_scalar(after)):
        return pair
    more = f" (and {count - 1} more {word}{'s' * (count > 2)})" if count > 1 else ""
    texts = [element_text(before), element_text(after)]
    if texts[0] == texts[1]:
        texts[1] += " (of other bytes)"
    return became(place.step(more), *texts)


def is_numpy_scalar(value: object) -> bool:
    """Whether a value is one of numpy's scalars."""
    numpy: Any = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def element_text(element: Any) -> str:
    """The text of an element, without the name of its type: that is known from the dtype."""
    if not is_numpy_scalar(element):
        return shown(element)
    return cut(repr(element.item()) if element.dtype.kind in "SUV" else str(element))


def unequal_elements(before: Any, after: Any, tolerance: float) -> Any:
    """For each element of two arrays of one dtype and shape whether its bytes differ, and by more than is tolerated."""
    numpy = imported("numpy")
    if not before.size or not before.dtype.itemsize:
        return numpy.zeros(before.size, bool)
    one, other = (numpy.frombuffer(each.tobytes(), numpy.uint8).reshape(before.size, -1) for each in (before, after))
    unequal = one != other
    unused = padding(numpy, before.dtype)
    if unused is not None:
        unequal = unequal[:, ~unused]
    is_unequal = unequal.any(axis=1)
    if tolerance and before.dtype.kind in "iufc":
        is_unequal &= ~_are_close(numpy, before.reshape(-1), after.reshape(-1), tolerance)
    return is_unequal


def _are_close(numpy: Any, before: Any, after: Any, tolerance: float) -> Any:
    # The widest type: it has integers of 64 bits exactly, and their difference does not wrap around.
    widest = numpy.clongdouble if before.dtype.kind == "c" else numpy.longdouble
    one, other = before.astype(widest), after.astype(widest)
    with numpy.errstate(all="ignore"):
        scale = numpy.maximum(numpy.maximum(abs(one), abs(other)), 1)
        is_near = (abs(one - other) <= tolerance * scale) & numpy.isfinite(one) & numpy.isfinite(other)
    return is_near | (one == other) | (numpy.isnan(one) & numpy.isnan(other))


def is_close_scalar(before: object, after: object, tolerance: float) -> bool:
    """Whether two scalars of numpy are nearly the same number; False for anything else."""
    if not is_numpy_scalar(before) or not is_numpy_scalar(after):
        return False
    one, other = (imported("numpy").asarray(each) for each in (before, after))
    return has_same_dtype(one, other) and not unequal_elements(one, other, tolerance).any()
