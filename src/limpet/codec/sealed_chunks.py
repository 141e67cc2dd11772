"""Content of any size to sealed content and back, piece by piece, in bounded memory.

    content = "LPSEALED", version, pieces       version = 1 byte: 1
    piece   = length, sealed                    length  = 4 bytes, big-endian: how many bytes of ``sealed`` follow
    sealed  = as in ``codec/encryption.py``, of a flag and up to 1 MiB of the content; there is always one piece
    flag    = 1 byte: 0 the bytes as they are, 1 compressed with zstd, where that saves a tenth or more

The place that a piece is sealed for is "artifact", its index (8 bytes, big-endian), whether it is the last (1 byte),
and the tag of the piece before it (16 bytes; zeros for the first). So a piece that is dropped, swapped, repeated, cut
off or taken from another content does not open. What was given before a bad piece is right as far as it goes.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator

from limpet.codec.encryption import CHANGED, OVERHEAD, Cipher, Key
from limpet.errors import NotEncrypted, UnsupportedVersion, WrongKey
from limpet.model.artifacts import CHUNK

MAGIC = b"LPSEALED"
VERSION = 1

_RAW = b"\x00"
_COMPRESSED = b"\x01"
_LENGTH = struct.Struct(">I")
_LONGEST = OVERHEAD + 1 + CHUNK
_TAG_SIZE = 16
_NO_TAG = bytes(_TAG_SIZE)


def seal_chunks(sealer: Cipher | Key, chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Sealed content in chunks of at most CHUNK. The same content under the same key gives the same bytes.

    Who seals a content twice and needs the same bytes gives the key: that of a cipher changes with a rotation.
    """
    # A rotation on the way must not make two keys of one content.
    key = sealer if isinstance(sealer, Key) else sealer.sealing_key()
    reader = _Reader(chunks)
    yield MAGIC + bytes([VERSION])
    index, tag, piece = 0, _NO_TAG, reader.take(CHUNK)
    while True:
        following = reader.take(CHUNK)
        sealed = key.seal(_packed(piece), _place(index, not following, tag))
        framed = _LENGTH.pack(len(sealed)) + sealed
        yield from (framed[start : start + CHUNK] for start in range(0, len(framed), CHUNK))
        if not following:
            return
        index, tag, piece = index + 1, sealed[-_TAG_SIZE:], following


def open_chunks(cipher: Cipher, chunks: Iterable[bytes], what: str) -> Iterator[bytes]:
    """The content of sealed content, in chunks of at most CHUNK. ``what`` names it in errors.

    Raises WrongKey, UnsupportedVersion, or, where the content is not sealed and must be, NotEncrypted.
    """
    reader = _Reader(chunks)
    magic = reader.take(len(MAGIC))
    if magic != MAGIC:
        if not cipher.accept_plain:
            raise NotEncrypted(what)
        yield from reader.rest(magic)
        return
    version = reader.take(1)
    if not version:
        raise WrongKey(what, CHANGED)
    if version[0] != VERSION:
        raise UnsupportedVersion(what, version[0], VERSION)
    yield from _opened(cipher, reader, what)


def _opened(cipher: Cipher, reader: _Reader, what: str) -> Iterator[bytes]:
    index, tag, sealed = 0, _NO_TAG, _next_sealed(reader, what)
    if sealed is None:
        raise WrongKey(what, CHANGED)
    while sealed is not None:
        following = _next_sealed(reader, what)
        piece = _unpacked(cipher.open(sealed, _place(index, following is None, tag), what), what)
        if piece:
            yield piece
        index, tag, sealed = index + 1, sealed[-_TAG_SIZE:], following


def _next_sealed(reader: _Reader, what: str) -> bytes | None:
    head = reader.take(_LENGTH.size)
    if not head:
        return None
    length: int = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else 0
    # A length that nobody wrote must not make us read, and keep, whatever follows.
    sealed = reader.take(length) if length <= _LONGEST else b""
    if not length or len(sealed) != length:
        raise WrongKey(what, CHANGED)
    return sealed


def _place(index: int, is_last: bool, tag: bytes) -> bytes:
    return struct.pack(">8sQ?", b"artifact", index, is_last) + tag


def _packed(piece: bytes) -> bytes:
    compressed = _zstd_compressed(piece)
    return _COMPRESSED + compressed if 10 * len(compressed) <= 9 * len(piece) else _RAW + piece


def _unpacked(packed: bytes, what: str) -> bytes:
    flag, body = packed[:1], packed[1:]
    if flag == _RAW:
        return body
    piece = _zstd_decompressed(body) if flag == _COMPRESSED else None
    if piece is None:
        raise WrongKey(what, "a piece of it is sealed rightly and yet makes no sense")
    return piece


def _zstd_compressed(piece: bytes) -> bytes:
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd.compress(piece)


def _zstd_decompressed(body: bytes) -> bytes | None:
    """What was compressed, or None where that is no single zstd frame, or is longer than a piece may be."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    decompressor = zstd.ZstdDecompressor()
    try:
        piece = decompressor.decompress(body, CHUNK + 1)
    except zstd.ZstdError:
        return None
    return piece if decompressor.eof and not decompressor.unused_data and len(piece) <= CHUNK else None


class _Reader:
    """Takes as many bytes as are wanted from chunks of any size."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._left = memoryview(b"")

    def take(self, size: int) -> bytes:
        """The next bytes, fewer only where the content ends."""
        taken = bytearray()
        while len(taken) < size:
            if not self._left:
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._left = memoryview(chunk)
            part = self._left[: size - len(taken)]
            taken += part
            self._left = self._left[len(part) :]
        return bytes(taken)

    def rest(self, taken: bytes) -> Iterator[bytes]:
        """What was taken and all that follows."""
        while taken:
            yield taken
            taken = self.take(CHUNK)
