"""The files that a journal consists of: finds, reads, packs and removes them. Does not look at lines.

A segment that is packed is written beside the plain one first and made durable, and only then takes its place. So the
plain one counts wherever both are there.
"""

from __future__ import annotations

import gzip
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from limpet.backends.compression import DamagedFrame, decompressed
from limpet.backends.files.states.layout import NEW, SUFFIXES, Segment, segment_name, segment_of
from limpet.backends.files.states.small_files import read_file, remove_file, replace_file

_STEP = 1 << 16
_MOST_UNPACKED = 1 << 24
"""A longer segment is kept plain. So a packed one that would be longer is damaged, and does not fill the memory."""


def segments_in(folder: int) -> list[Segment]:
    """The segments of a journal in their order."""
    found: dict[int, Segment] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            segment = segment_of(entry.name)
            if segment is None or not entry.is_file(follow_symlinks=False):
                continue
            if segment.first not in found or not segment.suffix:
                found[segment.first] = segment
    return [found[first] for first in sorted(found)]


def doubled_in(folder: int) -> Iterator[str]:
    """The files that count for nothing: packed segments beside plain ones, and what was about to replace another."""
    names = set(os.listdir(folder))
    for name in sorted(names):
        segment = segment_of(name)
        if name.endswith(NEW) or (segment and segment.suffix and segment_name(segment.first) in names):
            yield name


def read_segment(folder: int, segment: Segment, offset: int = 0) -> bytes | None:
    """The text of a segment from an offset on; None if it is gone or shorter.

    Of a packed one that is damaged, what can be unpacked: the lines show what is missing.
    """
    if not segment.suffix:
        return read_file(folder, segment.name, offset)
    packed = read_file(folder, segment.name)
    if packed is None:
        return None
    text = _unpacked(packed, segment.suffix)
    return text[offset:] if len(text) >= offset else None


def is_packed_badly(folder: int, segment: Segment) -> bool:
    """Whether a packed segment cannot be unpacked to its end."""
    packed = read_file(folder, segment.name) or b""
    try:
        for _ in _unpacking(packed, segment.suffix):
            pass
    except (DamagedFrame, zlib.error):
        return True
    return False


def pack_segment(folder: int, first: int, compression: str) -> None:
    """Keep a segment packed that nobody appends to any more."""
    name = segment_name(first)
    text = read_file(folder, name)
    if text is None or len(text) > _MOST_UNPACKED:
        return
    # Durable in any case, since the plain one is removed: that may reach the disk before this does.
    replace_file(folder, name + SUFFIXES[compression], packed_text(text, compression), is_synced=True)
    os.unlink(name, dir_fd=folder)


def unpack_segment(folder: int, segment: Segment, text: bytes) -> None:
    """Keep a segment plain that was packed."""
    replace_file(folder, segment_name(segment.first), text, is_synced=True)
    remove_file(folder, segment.name)


def packed_text(text: bytes, compression: str) -> bytes:
    return gzip.compress(text, mtime=0) if compression == "gzip" else _zstd().compress(text)


def _unpacked(packed: bytes, suffix: str) -> bytes:
    """What can be unpacked, up to where it is damaged."""
    pieces: list[bytes] = []
    with suppress(DamagedFrame, zlib.error):
        for piece in _unpacking(packed, suffix):
            pieces.append(piece)  # noqa: PERF402  # What came before an error counts.
    return b"".join(pieces)


def _unpacking(packed: bytes, suffix: str) -> Iterator[bytes]:
    return _ungzipped(packed) if suffix == SUFFIXES["gzip"] else decompressed([packed], _MOST_UNPACKED)


def _ungzipped(packed: bytes) -> Iterator[bytes]:
    unpacker = zlib.decompressobj(wbits=31)
    given = 0
    for start in range(0, len(packed), _STEP):
        piece = unpacker.decompress(packed[start : start + _STEP], _MOST_UNPACKED - given)
        given += len(piece)
        yield piece
        if given >= _MOST_UNPACKED:
            return
    if not unpacker.eof:
        raise DamagedFrame("its end is missing")


@cache
def _zstd() -> Any:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd
