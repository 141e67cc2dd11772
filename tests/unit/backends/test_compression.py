"""Compression where it pays, and unpacking that gives no more than was recorded."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from limpet.backends import compression
from limpet.backends.compression import DamagedFrame, compressed_where_it_pays, decompressed
from limpet.model.artifacts import CHUNK, content_of

NOISE = random.Random(0).randbytes(3 * CHUNK)
PROSE = b"what is held stays; " * 200_000


def _packed(data: bytes) -> tuple[bool, bytes]:
    is_compressed, pieces = compressed_where_it_pays(len(data), content_of(data).chunks())
    return is_compressed, b"".join(pieces)


@pytest.mark.parametrize("size", [1025, 5000, 1 << 16, (1 << 16) + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_what_gets_shorter_is_compressed_and_comes_back(size: int) -> None:
    data = PROSE[:size]
    is_compressed, body = _packed(data)
    assert is_compressed
    assert len(body) < size / 5
    assert data == b"".join(decompressed([body], size))
    assert data == b"".join(decompressed([body[at : at + 1] for at in range(len(body))], size))


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 70_000, 3 * CHUNK])
def test_what_does_not_get_shorter_is_kept_as_it_is(size: int) -> None:
    assert (False, NOISE[:size]) == _packed(NOISE[:size])


def test_what_is_short_is_kept_as_it_is() -> None:
    assert (False, PROSE[:1024]) == _packed(PROSE[:1024])


def test_saving_less_than_a_tenth_does_not_pay() -> None:
    barely = NOISE[:9600] + bytes(400)
    enough = NOISE[:8000] + bytes(2000)
    assert (False, barely) == _packed(barely)
    assert _packed(enough)[0]


def test_the_beginning_decides_also_if_it_comes_in_small_pieces() -> None:
    def pieces() -> Iterator[bytes]:
        yield NOISE[:128]
        for at in range(128, len(PROSE), 5000):
            yield PROSE[at : at + 5000]

    is_compressed, packed = compressed_where_it_pays(len(PROSE), pieces())
    body = b"".join(packed)
    assert is_compressed
    assert NOISE[:128] + PROSE[128:] == b"".join(decompressed([body], len(PROSE)))


def test_threads_that_compress_at_once_do_not_meet() -> None:
    def work(number: int) -> bool:
        data = PROSE[number : number + 300_000 + number * 100_000]
        return all(data == b"".join(decompressed([_packed(data)[1]], len(data))) for _ in range(5))

    with ThreadPoolExecutor(8) as threads:
        assert [True] * 8 == list(threads.map(work, range(8)))


def test_contents_that_one_thread_is_in_the_middle_of_do_not_meet() -> None:
    first, second = PROSE[: 2 * CHUNK], PROSE[7 : 7 + 2 * CHUNK]
    streams = [compressed_where_it_pays(len(data), content_of(data).chunks())[1] for data in (first, second)]
    bodies = [b"", b""]
    for pair in zip(*streams, strict=True):
        bodies = [body + piece for body, piece in zip(bodies, pair, strict=True)]
    assert [first, second] == [b"".join(decompressed([body], 2 * CHUNK)) for body in bodies]


def test_content_that_fails_in_the_middle_does_not_spoil_the_next() -> None:
    def pieces() -> Iterator[bytes]:
        yield PROSE[:CHUNK]
        raise OSError("gone")

    for _ in range(10):
        _, packed = compressed_where_it_pays(2 * CHUNK, pieces())
        with pytest.raises(OSError, match="gone"):
            list(packed)
    assert PROSE == b"".join(decompressed([_packed(PROSE)[1]], len(PROSE)))


def test_only_a_few_compressors_are_kept() -> None:
    streams = [compressed_where_it_pays(2 * CHUNK, content_of(PROSE[: 2 * CHUNK]).chunks())[1] for _ in range(10)]
    for stream in streams:
        list(stream)
    assert len(compression._idle) <= 4


def test_a_frame_never_unpacks_to_more_than_its_size() -> None:
    _, bomb = _packed(bytes(50 * CHUNK))
    assert len(bomb) < 10_000
    given: list[bytes] = []
    with pytest.raises(DamagedFrame, match="more than its size"):
        given.extend(decompressed([bomb], 2 * CHUNK))
    assert sum(map(len, given)) <= 2 * CHUNK


def test_unpacked_pieces_are_at_most_a_megabyte() -> None:
    _, body = _packed(bytes(5 * CHUNK))
    assert CHUNK == max(map(len, decompressed([body], 5 * CHUNK)))


def test_a_frame_that_wants_a_huge_window_is_refused() -> None:
    # One frame with a window of 1 GiB and an empty last block.
    huge = bytes.fromhex("28b52ffd 00 a0 010000")
    with pytest.raises(DamagedFrame):
        list(decompressed([huge], 10))


@pytest.mark.parametrize("behind", [b"x", b"\x28\xb5\x2f\xfd"])
def test_what_stands_behind_a_frame_is_refused(behind: bytes) -> None:
    _, body = _packed(PROSE[:5000])
    for pieces in ([body + behind], [body, behind]):
        with pytest.raises(DamagedFrame, match="behind its end"):
            list(decompressed(pieces, 5000))


def test_a_frame_that_is_cut_short_is_refused() -> None:
    _, body = _packed(PROSE[:5000])
    for length in range(len(body)):
        with pytest.raises(DamagedFrame):
            list(decompressed([body[:length]], 5000))
