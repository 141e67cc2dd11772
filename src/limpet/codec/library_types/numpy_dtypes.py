"""The dtypes of numpy in stored data: described by their structure, and never one that holds objects.

A description is the text that numpy has for a simple dtype (``<f8``), or a list that begins with a word. It is checked
before numpy sees it, since numpy would take many other texts too.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, cast

from limpet.codec.kinds import listed
from limpet.errors import ValueNotReadable

_SIMPLE: Final = re.compile(
    r"[<>|](?:b1|[iu][1248]|f(?:2|4|8|12|16)|c(?:8|16|24|32)|[SUV](?P<length>[0-9]{1,10})"
    r"|[mM]8(?:\[[0-9]{0,10}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
_SAME_SIZE: Final = frozenset("bBhHiIlLqQpPnNdgDG")
"""Types of C that may be as large as another one, so that the text of a dtype does not tell them apart."""
MAX_DIMENSIONS: Final = 64
MAX_ITEM_SIZE: Final = (1 << 31) - 1
_EXTENDED_MANTISSA: Final = 63
_EXTENDED_SIZE: Final = 10
"""A long double on x86 has ten bytes of content, and whatever was in memory after them."""


def description(numpy: Any, dtype: Any) -> Any:
    """What a dtype is made of; None where it could not be built again from that."""
    described = _described(numpy, dtype)
    if described is None:
        return None
    try:
        built = build_dtype(numpy, described)
    except (ValueNotReadable, ValueError, TypeError):
        return None
    is_same = built == dtype and type(built) is type(dtype) and _described(numpy, built) == described
    return described if is_same else None


def _described(numpy: Any, dtype: Any) -> Any:
    if dtype.hasobject or dtype.metadata is not None:
        return None
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        inner = _described(numpy, base)
        return None if inner is None else ["array", inner, list(shape)]
    if dtype.names is not None:
        fields = [_described_field(numpy, name, *dtype.fields[name]) for name in dtype.names]
        is_whole = dtype.type is numpy.void and all(field[3] is not None for field in fields)
        return ["fields", fields, dtype.itemsize, dtype.isalignedstruct] if is_whole else None
    if dtype.char in "gG":
        return ["long double", dtype.str, dtype.char, _mantissa(numpy)]
    return dtype.str if numpy.dtype(dtype.str).char == dtype.char else ["as", dtype.str, dtype.char]


def _described_field(numpy: Any, name: str, dtype: Any, offset: int, title: object = None) -> list[Any]:
    return [name, title, offset, _described(numpy, dtype)]


def _mantissa(numpy: Any) -> int:
    return int(numpy.finfo(numpy.longdouble).nmant)


def build_dtype(numpy: Any, written: Any) -> Any:
    """The dtype of a description. Raises ValueNotReadable, ValueError or TypeError, and allocates nothing."""
    match written:
        case str():
            return numpy.dtype(_checked(written))
        case ["array", inner, shape]:
            return _build_subarray(numpy, build_dtype(numpy, inner), checked_shape(shape))
        case ["fields", fields, int(size), bool(is_aligned)]:
            return _build_structure(numpy, listed(fields), size, is_aligned)
        case ["as", str(text), str(char)]:
            return _same_size(numpy, text, char)
        case ["long double", str(text), str(char), int(mantissa)]:
            if mantissa != _mantissa(numpy):
                raise ValueNotReadable("numpy:longdouble", "this machine has another kind of long double")
            return _same_size(numpy, text, char)
        case _:
            raise _damaged("its dtype is not one that is written")


def _build_structure(numpy: Any, fields: list[Any], size: int, is_aligned: bool) -> Any:
    if not 0 <= size <= MAX_ITEM_SIZE:
        raise _damaged("its dtype has items that are too large")
    names: list[str] = []
    titles: list[str | None] = []
    offsets: list[int] = []
    formats: list[Any] = []
    for name, title, offset, inner in fields:
        if type(name) is not str or (title is not None and type(title) is not str) or type(offset) is not int:
            raise _damaged("its dtype has a field without a name or an offset")
        names.append(name)
        titles.append(title)
        offsets.append(offset)
        formats.append(build_dtype(numpy, inner))
        # numpy adds these up in 32 bits, and would read beyond the end of an item.
        if offset < 0 or offset + formats[-1].itemsize > size:
            raise _damaged("its dtype has a field outside of its items")
    structure: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    if any(title is not None for title in titles):
        structure["titles"] = titles
    return numpy.dtype(structure, align=is_aligned)


def _build_subarray(numpy: Any, base: Any, shape: tuple[int, ...]) -> Any:
    if math.prod(shape) * base.itemsize > MAX_ITEM_SIZE:
        raise _damaged("its dtype has items that are too large")
    return numpy.dtype((base, shape))


def _same_size(numpy: Any, text: str, char: str) -> Any:
    if char not in _SAME_SIZE:
        raise _damaged("its dtype is not one that is written")
    dtype = numpy.dtype(_checked(text)[0] + char)
    if dtype.str != text:
        raise ValueNotReadable("numpy:dtype", f"the type {char!r} of C has another size on this machine")
    return dtype


def _checked(text: str) -> str:
    found = _SIMPLE.fullmatch(text)
    if found is None or int(found["length"] or 0) * (4 if text[1] == "U" else 1) > MAX_ITEM_SIZE:
        raise _damaged("its dtype is not one that is written")
    return text


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The shape, if it is one. Raises ValueNotReadable."""
    lengths = listed(shape)
    if len(lengths) > MAX_DIMENSIONS or not all(type(each) is int and each >= 0 for each in lengths):
        raise _damaged("its shape is none")
    return tuple(cast("list[int]", lengths))


def _damaged(why: str) -> ValueNotReadable:
    return ValueNotReadable("numpy:ndarray", f"its bytes are damaged ({why})")


def padding(numpy: Any, dtype: Any) -> Any:
    """Which bytes of an item mean nothing, as an array of bools; None where all of them mean something."""
    if dtype.names is None and dtype.char not in "gG":
        return None
    meaning = _meaning(numpy, dtype)
    return None if meaning.all() else ~meaning


def _meaning(numpy: Any, dtype: Any) -> Any:
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return numpy.tile(_meaning(numpy, base), math.prod(shape))
    meaning = numpy.zeros(dtype.itemsize, bool)
    if dtype.names is not None:
        for name in dtype.names:
            field, offset, *_ = dtype.fields[name]
            meaning[offset : offset + field.itemsize] |= _meaning(numpy, field)
    elif dtype.char in "gG" and _mantissa(numpy) == _EXTENDED_MANTISSA:
        parts = meaning.reshape(1 if dtype.char == "g" else 2, -1)
        parts[:, slice(_EXTENDED_SIZE) if dtype.isnative else slice(-_EXTENDED_SIZE, None)] = True
    else:
        meaning[:] = True
    return meaning
