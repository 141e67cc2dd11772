"""Compresses content where it pays, and unpacks it without ever giving more than was recorded. Opens no file.

Zstandard is imported when it is first used: most programs store nothing that is compressed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from limpet.model.artifacts import CHUNK

if TYPE_CHECKING:
    from backports.zstd import ZstdCompressor

LEVEL = 3

WORTH_TRYING = 1024
"""Content of at most this many bytes is kept as it is."""

MOST_KEPT = 0.9
"""What is compressed is kept only if it takes at most this part of the room."""

_SAMPLE = 1 << 16

# Level 3 never asks for a window of more than 2 MiB; a forged frame may, and would have it allocated.
_WINDOW_LOG_MAX = 23

# Making a compressor costs more than compressing a few kilobytes. One that is in use is not in here, so no two threads
# ever have the same one, nor two contents that one thread is in the middle of.
_idle: list[ZstdCompressor] = []
_MOST_IDLE = 4


class DamagedFrame(ValueError):
    """The compressed bytes cannot be unpacked to what they are said to be; says why."""


def compressed_where_it_pays(size: int, pieces: Iterator[bytes]) -> tuple[bool, Iterator[bytes]]:
    """Whether content of this size is better kept compressed, and the pieces to keep. Its beginning decides."""
    if size <= WORTH_TRYING:
        return False, pieces
    sample: list[bytes] = []
    taken = 0
    for piece in pieces:
        sample.append(piece)
        taken += len(piece)
        if taken >= _SAMPLE:
            break
    compressor = _take_compressor(size)
    is_whole = taken == size
    begun = [compressor.compress(piece) for piece in sample]
    begun.append(compressor.flush(compressor.FLUSH_FRAME if is_whole else compressor.FLUSH_BLOCK))
    if is_whole:
        _give_back(compressor)
    if sum(map(len, begun)) > MOST_KEPT * taken:
        return False, chain(sample, pieces)
    return True, filter(None, chain(begun, pieces if is_whole else _rest(compressor, pieces)))


def decompressed(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The content of one frame, in pieces of at most CHUNK, never more than the size. Raises DamagedFrame."""
    zstd = _zstd()
    decompressor = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _WINDOW_LOG_MAX})
    left = size + 1
    try:
        for piece in pieces:
            if decompressor.eof:
                raise DamagedFrame("something stands behind its end")
            waiting = piece
            while True:
                given = decompressor.decompress(waiting, min(CHUNK, left))
                waiting = b""
                left -= len(given)
                if not left:
                    raise DamagedFrame("it unpacks to more than its size")
                if given:
                    yield given
                if decompressor.needs_input or decompressor.eof:
                    break
    except zstd.ZstdError as error:
        raise DamagedFrame(f"it cannot be unpacked ({error})") from error
    if not decompressor.eof:
        raise DamagedFrame("its end is missing")
    if decompressor.unused_data:
        raise DamagedFrame("something stands behind its end")


def _rest(compressor: ZstdCompressor, pieces: Iterator[bytes]) -> Iterator[bytes]:
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()
    _give_back(compressor)


def _take_compressor(size: int) -> ZstdCompressor:
    try:
        compressor = _idle.pop()
    except IndexError:
        compressor = _zstd().ZstdCompressor(level=LEVEL)
    # A frame that knows its size is packed with tables that fit it.
    compressor.set_pledged_input_size(size)
    return compressor


def _give_back(compressor: ZstdCompressor) -> None:
    """Keep a compressor whose frame is finished. One that was left in the middle of a frame is not given back."""
    if len(_idle) < _MOST_IDLE:
        _idle.append(compressor)


@cache
def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
