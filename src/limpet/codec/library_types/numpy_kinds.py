"""The kinds of numpy's arrays and scalars: a dtype, a shape and the raw bytes. numpy is never imported here."""

from __future__ import annotations

import math
from typing import Any, Final

from limpet.codec.kinds import Kind, Lower, NotStorable
from limpet.codec.library_types.libraries import imported, required
from limpet.codec.library_types.numpy_dtypes import build_dtype, checked_shape, description, padding
from limpet.errors import ValueNotReadable

_TEXT: Final = "text"
_BYTES: Final = "bytes"
"""Text and bytes are written as such: in an array they would lose the NULs that they end with."""


def _described(value: Any, lower: Lower) -> Any:
    described = description(imported("numpy"), value.dtype)
    if described is None:
        reason = "which could not be built again"
        if value.dtype.hasobject:
            reason = "whose items are objects"
        elif value.dtype.metadata:
            reason = "whose metadata would be lost"
        raise NotStorable(value.__class__, f"has the dtype {value.dtype}, {reason}")
    return lower(described)


def _raw(array: Any, order: str) -> bytes:
    numpy = imported("numpy")
    data = array.tobytes(order)
    unused = padding(numpy, array.dtype) if data else None
    if unused is None:
        return data
    # Equal arrays have equal bytes, also where something of the memory was left between their fields.
    items = numpy.frombuffer(bytearray(data), numpy.uint8).reshape(-1, array.dtype.itemsize)
    items[:, unused] = 0
    return items.tobytes()


def _lower_array(value: Any, lower: Lower) -> Any:
    order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
    return [_described(value, lower), list(value.shape), order, _raw(value, order)]


def _build_array(parts: Any) -> Any:
    numpy = required("numpy", "numpy:ndarray")
    described, shape, order, data = parts
    return _array(numpy, build_dtype(numpy, described), checked_shape(shape), order, data)


def _array(numpy: Any, dtype: Any, shape: tuple[int, ...], order: str, data: Any) -> Any:
    if dtype.subdtype is not None or order not in ("C", "F") or type(data) is not bytes:
        raise ValueNotReadable("numpy:ndarray", "its bytes are damaged (it is not what is written of an array)")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise ValueNotReadable("numpy:ndarray", "its bytes are damaged (its shape does not fit its content)")
    # Filled as bytes: numpy would copy field by field, and fields may overlap as often as data says.
    array = numpy.ndarray(shape, dtype, order=order)
    if data:
        array.reshape(-1, order=order).view(numpy.uint8)[:] = numpy.frombuffer(data, numpy.uint8)
    return array


def _lower_scalar(value: Any, lower: Lower) -> Any:
    if isinstance(value, str):
        return [_TEXT, lower(value[:])]
    if isinstance(value, bytes):
        return [_BYTES, value[:]]
    array = imported("numpy").asarray(value)
    return [_described(array, lower), _raw(array, "C")]


def _build_scalar(parts: Any) -> Any:
    numpy = required("numpy", "numpy:generic")
    described, data = parts
    if described == _TEXT and type(data) is str:
        return numpy.str_(data)
    if described == _BYTES and type(data) is bytes:
        return numpy.bytes_(data)
    return _array(numpy, build_dtype(numpy, described), (), "C", data)[()]


NUMPY_ARRAY: Final = Kind(32, _lower_array, _build_array)
NUMPY_SCALAR: Final = Kind(33, _lower_scalar, _build_scalar)


def numpy_kind(cls: type) -> Kind:
    """The kind of a class of numpy. Raises NotStorable where it has none."""
    numpy = imported("numpy")
    if cls is numpy.ndarray:
        return NUMPY_ARRAY
    if issubclass(cls, numpy.ndarray):
        raise NotStorable(cls, "is another kind of array than numpy.ndarray; store its plain arrays (numpy.asarray)")
    if cls in set(numpy.sctypeDict.values()) - {numpy.object_}:
        return NUMPY_SCALAR
    raise NotStorable(cls)
