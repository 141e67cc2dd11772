"""Sealed content comes back whole and in order, or not at all; and memory does not grow with its size."""

from __future__ import annotations

import hashlib
import random
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limpet.codec.encryption import OVERHEAD, Key
from limpet.codec.sealed_chunks import MAGIC, VERSION, open_chunks, seal_chunks
from limpet.errors import LimpetError, NotEncrypted, UnsupportedVersion, WrongKey
from limpet.keys import Encryption
from limpet.model.artifacts import CHUNK

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

MASTER = bytes(range(32))
CIPHER = Encryption(MASTER)
LENIENT = Encryption(MASTER, accept_plain=True)
NOISE = random.Random(1).randbytes(3 * CHUNK + 7)
HEADER = MAGIC + bytes([VERSION])
SIZES = [0, 1, 2, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7]


def sealed(content: bytes, cipher: Encryption = CIPHER) -> bytes:
    return b"".join(seal_chunks(cipher, [content]))


def opened(stored: bytes, cipher: Encryption = CIPHER) -> bytes:
    return b"".join(open_chunks(cipher, [stored], "The artifact sha256:…"))


def in_chunks(content: bytes, size: int) -> Iterator[bytes]:
    return (content[start : start + size] for start in range(0, len(content), size))


def pieces(stored: bytes) -> list[bytes]:
    """The sealed pieces of sealed content, each with its length."""
    found: list[bytes] = []
    place = len(HEADER)
    while place < len(stored):
        (length,) = struct.unpack_from(">I", stored, place)
        found.append(stored[place : place + 4 + length])
        place += 4 + length
    return found


def joined(parts: Iterable[bytes]) -> bytes:
    return HEADER + b"".join(parts)


def forged(*packed: bytes) -> bytes:
    """Sealed content as somebody with the key could have made it, of flags and bodies."""
    tag, parts = bytes(16), list[bytes]()
    for index, each in enumerate(packed):
        piece = Key(MASTER).seal(each, struct.pack(">8sQ?", b"artifact", index, index == len(packed) - 1) + tag)
        parts.append(struct.pack(">I", len(piece)) + piece)
        tag = piece[-16:]
    return joined(parts)


@pytest.mark.parametrize("size", SIZES)
def test_content_of_any_size_comes_back(size: int) -> None:
    for content in (NOISE[:size], b"kelp" * (size // 4) + b"!" * (size % 4)):
        stored = sealed(content)
        assert content == opened(stored)
        assert max(1, -(-size // CHUNK)) == len(pieces(stored))


@pytest.mark.parametrize("size", [1, 7, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 10 * CHUNK])
def test_it_does_not_matter_in_which_chunks_content_comes(size: int) -> None:
    content = NOISE[: 1000 * size]
    chunks = list(seal_chunks(CIPHER, in_chunks(content, size)))
    assert sealed(content) == b"".join(chunks)
    assert CHUNK >= max(len(chunk) for chunk in chunks)
    given_again = list(open_chunks(CIPHER, in_chunks(b"".join(chunks), size), "It"))
    assert content == b"".join(given_again)
    assert CHUNK >= max(len(chunk) for chunk in given_again)


def test_empty_chunks_are_no_end() -> None:
    assert sealed(b"kelp") == b"".join(seal_chunks(CIPHER, [b"", b"ke", b"", b"", b"lp", b""]))
    stored = sealed(b"kelp")
    assert b"kelp" == b"".join(open_chunks(CIPHER, [b"", stored[:30], b"", stored[30:], b""], "It"))


@settings(deadline=None)
@given(st.lists(st.binary(max_size=3000), max_size=8))
def test_any_content_comes_back(chunks: list[bytes]) -> None:
    assert b"".join(chunks) == opened(b"".join(seal_chunks(CIPHER, chunks)))


def test_the_format_is_as_it_is_written_down() -> None:
    content = NOISE[: CHUNK + 5]
    assert forged(b"\x00" + content[:CHUNK], b"\x00" + content[CHUNK:]) == sealed(content)
    assert forged(b"\x00") == sealed(b"")
    assert HEADER == sealed(b"")[:9] == b"LPSEALED\x01"


def test_what_compresses_is_compressed_and_what_does_not_is_left() -> None:
    text = b"The storm takes everything that is loose; what is held stays. " * 50_000
    assert len(text) // 20 > len(sealed(text))
    assert forged(b"\x01" + zstd.compress(text[:1000])) == sealed(text[:1000])
    assert len(NOISE) + len(HEADER) + 4 * (4 + OVERHEAD + 1) == len(sealed(NOISE))
    # Nine tenths of noise and a tenth of nothing: not quite a tenth is saved.
    assert forged(b"\x00" + NOISE[:900] + bytes(100)) == sealed(NOISE[:900] + bytes(100))


def test_the_same_content_is_sealed_to_the_same_bytes_in_every_process() -> None:
    program = (
        "import hashlib; from limpet.keys import Encryption; from limpet.codec.sealed_chunks import seal_chunks; "
        "chunks = (b'kelp %d ' % number * 9000 for number in range(40)); "
        "print(hashlib.sha256(b''.join(seal_chunks(Encryption(bytes(range(32))), chunks))).hexdigest())"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    here = sealed(b"".join(b"kelp %d " % number * 9000 for number in range(40)))
    assert hashlib.sha256(here).hexdigest() == told.stdout.strip()


def test_a_piece_that_is_dropped_swapped_repeated_or_cut_off_is_noticed() -> None:
    whole = pieces(sealed(NOISE))
    assert 4 == len(whole)
    for order in ([0, 1, 2], [0, 1, 3], [1, 2, 3], [3], [0], [0, 2, 1, 3], [0, 0, 1, 2, 3], [0, 1, 2, 3, 3], []):
        with pytest.raises(WrongKey, match="The artifact sha256:… cannot be decrypted: it was changed"):
            opened(joined(whole[place] for place in order))


def test_a_piece_of_another_content_is_noticed() -> None:
    one, other = pieces(sealed(NOISE)), pieces(sealed(b"!" + NOISE[1:]))
    assert one[1] != other[1]
    for mixed in ([one[0], *other[1:]], [other[0], *one[1:]], [*one[:3], other[3]]):
        with pytest.raises(WrongKey):
            opened(joined(mixed))


def test_a_piece_of_sealed_content_is_no_record_and_a_record_no_piece() -> None:
    record = CIPHER.seal(b"\x00kelp", b"record" + b"s" + bytes(8))
    with pytest.raises(WrongKey):
        opened(joined([struct.pack(">I", len(record)) + record]))


def test_every_flipped_bit_is_noticed() -> None:
    stored = sealed(b"kelp" * 30)
    for place in range(len(stored)):
        for bit in range(8):
            damaged = bytearray(stored)
            damaged[place] ^= 1 << bit
            with pytest.raises((WrongKey, NotEncrypted, UnsupportedVersion)):
                opened(bytes(damaged))
            if place >= len(MAGIC):
                with pytest.raises((WrongKey, UnsupportedVersion)):
                    opened(bytes(damaged), LENIENT)


def test_every_cut_and_every_addition_is_noticed() -> None:
    stored = sealed(b"kelp" * 30)
    for length in range(len(stored)):
        with pytest.raises((WrongKey, NotEncrypted)):
            opened(stored[:length])
    for more in (b"\x00", b"\x00" * 4, b"\xff" * 4, b"kelp" * 100, stored):
        with pytest.raises(WrongKey):
            opened(stored + more)


def test_a_huge_length_is_refused_without_reading_on() -> None:
    def endless() -> Iterator[bytes]:
        yield HEADER + b"\xff\xff\xff\xff"
        raise AssertionError("more was read than can be right")

    with pytest.raises(WrongKey):
        list(open_chunks(CIPHER, endless(), "It"))


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"\x02kelp",
        b"\x01kelp",
        b"\x01",
        b"\x01" + zstd.compress(b"kelp" * 100)[:-1],
        b"\x01" + zstd.compress(b"kelp" * 100) + b"\x00",
        b"\x01" + zstd.compress(bytes(CHUNK + 1)),
        b"\x01" + zstd.compress(bytes(200 * CHUNK)),
    ],
    ids=["nothing", "flag", "no zstd", "empty", "cut", "more", "too long", "bomb"],
)
def test_a_piece_that_makes_no_sense_is_refused_in_bounded_memory(packed: bytes) -> None:
    stored = forged(packed)
    tracemalloc.start()
    try:
        with pytest.raises(WrongKey, match="makes no sense"):
            opened(stored)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 8 * CHUNK > peak


def test_memory_does_not_grow_with_the_content() -> None:
    def stored() -> Iterator[bytes]:
        return seal_chunks(CIPHER, (NOISE[:CHUNK] for _ in range(48)))

    tracemalloc.start()
    try:
        size = sum(len(chunk) for chunk in open_chunks(CIPHER, stored(), "It"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 48 * CHUNK == size
    assert 16 * CHUNK > peak


@pytest.mark.parametrize("content", [b"", b"kelp", MAGIC[:-1], NOISE])
def test_content_that_is_not_sealed_is_refused_unless_it_is_accepted(content: bytes) -> None:
    with pytest.raises(NotEncrypted, match="The artifact sha256:… is not encrypted although a key is given"):
        opened(content)
    assert content == opened(content, LENIENT)
    assert CHUNK >= max((len(chunk) for chunk in open_chunks(LENIENT, [content], "It")), default=0)


def test_content_that_looks_sealed_is_sealed_again_and_comes_back() -> None:
    assert sealed(b"kelp") == opened(sealed(sealed(b"kelp")))
    assert HEADER == opened(sealed(HEADER))


def test_a_newer_version_is_refused_clearly() -> None:
    with pytest.raises(UnsupportedVersion) as caught:
        opened(MAGIC + b"\x02" + sealed(b"kelp")[9:])
    assert ("The artifact sha256:…", 2, 1) == caught.value.args


def test_content_is_not_opened_with_another_key() -> None:
    with pytest.raises(WrongKey, match="it needs the key with the id"):
        opened(sealed(NOISE), Encryption(bytes(32)))


def test_content_opens_after_a_rotation() -> None:
    rotated = Encryption([bytes(32), MASTER])
    assert NOISE == opened(sealed(NOISE), rotated)
    assert sealed(NOISE) != sealed(NOISE, rotated)
    assert NOISE == opened(sealed(NOISE, rotated), rotated)


def test_a_rotation_on_the_way_does_not_change_the_key_of_a_content() -> None:
    keys = [MASTER]
    cipher = Encryption(lambda: list(keys))
    sealing = seal_chunks(cipher, [NOISE])
    begun = [next(sealing), next(sealing)]
    keys.insert(0, bytes(32))
    with pytest.raises(WrongKey):
        cipher.open(bytes(64), b"", "It")
    assert sealed(NOISE) == b"".join([*begun, *sealing])
    assert sealed(NOISE) != sealed(NOISE, cipher)


def test_a_content_can_be_sealed_twice_with_one_key_whatever_is_rotated() -> None:
    keys = [MASTER]
    cipher = Encryption(lambda: list(keys))
    key = cipher.sealing_key()
    keys.insert(0, bytes(32))
    with pytest.raises(WrongKey):
        cipher.open(bytes(64), b"", "It")
    assert sealed(b"kelp") == b"".join(seal_chunks(key, [b"kelp"])) != sealed(b"kelp", cipher)


def test_what_the_source_raises_is_raised() -> None:
    class Gone(LimpetError):
        pass

    def broken() -> Iterator[bytes]:
        yield sealed(NOISE)[:CHUNK]
        raise Gone

    with pytest.raises(Gone):
        list(open_chunks(CIPHER, broken(), "It"))
    with pytest.raises(Gone):
        list(seal_chunks(CIPHER, broken()))
