"""The adapter for numpy arrays: the ``.npy`` format, as ``numpy.load`` reads it. numpy is never imported here."""

from __future__ import annotations

import io
import itertools
import sys
from collections.abc import Iterator
from typing import Any

from limpet.artifacts.adapters import ArtifactAdapter, Source
from limpet.errors import ValueNotReadable
from limpet.model.artifacts import CHUNK, Content

_LONGEST_HEADER = 64 * 1024


class NpyAdapter(ArtifactAdapter):
    """Arrays of every dtype without objects that the format can describe."""

    name = "npy"
    type_names = ("numpy:ndarray",)

    def accepts(self, value: Any) -> bool:
        dtype = value.dtype
        if dtype.hasobject or dtype.metadata is not None or not dtype.itemsize:
            return False
        form = _numpy().lib.format
        described = form.dtype_to_descr(dtype)
        if not repr(described).isascii() or len(repr(described)) > _LONGEST_HEADER // 2:
            return False
        again = form.descr_to_dtype(described)
        return again == dtype and again.char == dtype.char and again.isalignedstruct == dtype.isalignedstruct

    def size(self, value: Any) -> int:
        return value.nbytes

    def content(self, value: Any) -> Content:
        numpy = _numpy()
        is_fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = numpy.ascontiguousarray(value.T if is_fortran else value).reshape(-1).view(numpy.uint8)
        header = io.BytesIO()
        shape = tuple(map(int, value.shape))
        described = {"descr": numpy.lib.format.dtype_to_descr(value.dtype), "fortran_order": is_fortran, "shape": shape}
        numpy.lib.format.write_array_header_2_0(header, described)

        def chunks() -> Iterator[bytes]:
            yield header.getvalue()
            for start in range(0, flat.nbytes, CHUNK):
                yield flat[start : start + CHUNK].tobytes()

        return Content(len(header.getvalue()) + flat.nbytes, chunks)

    def read(self, source: Source) -> Any:
        numpy = sys.modules.get("numpy")
        if numpy is None:
            raise ValueNotReadable("numpy:ndarray", "module 'numpy' is not imported in this program")
        pieces = source.chunks()
        start = next(pieces, b"")
        head = io.BytesIO(start[:_LONGEST_HEADER])
        numpy.lib.format.read_magic(head)
        shape, is_fortran, dtype = numpy.lib.format.read_array_header_2_0(head, max_header_size=_LONGEST_HEADER)
        size = source.reference.size - head.tell()
        if dtype.hasobject or size != _count(shape) * dtype.itemsize:
            raise ValueNotReadable("numpy:ndarray", "its header does not fit its content")
        flat = numpy.empty(size, numpy.uint8)
        at = 0
        for piece in itertools.chain((start[head.tell() :],), pieces):
            flat[at : at + len(piece)] = numpy.frombuffer(piece, numpy.uint8)
            at += len(piece)
        if at != size:
            raise ValueNotReadable("numpy:ndarray", "its content is shorter than its header says")
        array = flat.view(dtype)
        return array.reshape(shape[::-1]).T if is_fortran else array.reshape(shape)

    def preview(self, value: Any) -> str:
        return f"{value.dtype} {' × '.join(f'{length:,}' for length in value.shape)}"


def _numpy() -> Any:
    return sys.modules["numpy"]


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for length in shape:
        count *= length
    return count


NPY = NpyAdapter()
